"""Memory: nothing of ours is taken from the heap between accept and response, and what is resident stays bounded."""

import json
import os
import signal

import pytest
import servers
from conftest import model_dir
from wire import eventually, post

COUNTER = next((p for p in (servers.binary().parent / "tests" / "http").glob("libcount_malloc.so")), None)
N_REQUESTS = 40
BODIES = (
    {"inputs": "the food was good"},
    {"inputs": [["the food was good"], ["it was not"], ["a third text, longer than the others"]], "truncate": True},
)


@pytest.fixture
def counted(tmp_path, monkeypatch):
    if COUNTER is None or os.environ.get("BERTH_WRAPPER"):
        pytest.skip("no count_malloc in this build: it does not go with a sanitizer")
    monkeypatch.setenv("LD_PRELOAD", str(COUNTER))
    monkeypatch.setenv("COUNT_MALLOC_FILE", str(tmp_path / "counts"))
    server = servers.Berth(model_dir())
    monkeypatch.delenv("LD_PRELOAD")
    yield server, tmp_path / "counts"
    server.stop()


def counts(server, path):
    before = path.read_text().count("\n") if path.exists() else 0
    os.kill(server.process.pid, signal.SIGUSR1)
    eventually(lambda: path.exists() and path.read_text().count("\n") > before)
    return [int(n) for n in path.read_text().split("\n")[before].split()]


@pytest.mark.parametrize("profile", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_a_request_allocates_nothing_of_ours(counted, body, profile):
    server, path = counted
    headers = ("Berth-Profile: 1",) if profile else ()

    def ask(connection, n):
        for _ in range(n):
            answer = connection.send(post("/predict", json.dumps(body).encode(), *headers)).read()
            assert answer.status == 200

    with server.connect() as connection:
        ask(connection, 5)  # the first of everything
        ours, libs = counts(server, path)
        ask(connection, N_REQUESTS)
        ours_after, libs_after = counts(server, path)
    assert ours > 0  # the start was counted, so the counter counts
    assert ours_after == ours
    assert libs_after - libs >= N_REQUESTS  # libmicrohttpd's responses and their headers
