"""Fixtures. `server` runs a test on both programs; the others are started for one test, as it wants them."""

import os
import pathlib
import tempfile

import pytest
import servers

# What the programs measure at start is kept for this run, and not in the user's folder.
CACHE = tempfile.TemporaryDirectory(prefix="berth-cache-")
os.environ["XDG_CACHE_HOME"] = CACHE.name


def model_dir():
    if os.environ.get("BERTH_MODEL"):
        return pathlib.Path(os.environ["BERTH_MODEL"])
    models = servers.ROOT / "tests" / "golden" / "models"
    found = sorted(p.parent for p in models.glob("*/config.json"))
    assert found, f"no model in {models}"
    return next((p for p in found if p.name == "base"), found[0])


@pytest.fixture(scope="session")
def shared_slow():
    server = servers.SlowServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_berth():
    server = servers.Berth(model_dir())
    yield server
    server.stop()


@pytest.fixture(params=["slow", "berth"])
def server(request):
    return request.getfixturevalue(f"shared_{request.param}")


@pytest.fixture
def start_slow():
    """start_slow(setting=value, ...) -> a SlowServer; stopped, if it still runs, after the test."""
    started = []

    def start(**settings):
        started.append(servers.SlowServer(**settings))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def start_berth():
    started = []

    def start(*options):
        started.append(servers.Berth(model_dir(), *options))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def serve():
    """Starts berth on a model; every one is stopped at the end."""
    started = []

    def start(model, *options):
        started.append(servers.Berth(model, *options))
        return started[-1]

    yield start
    for server in started:
        server.stop()
