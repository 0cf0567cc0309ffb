"""What the driver tells of the GPUs, in /metrics: with a stub of its library (stub_nvml.c) and a plugin that has devices."""

import prometheus_client.parser
import pytest
import servers
from test_device import event, plugin, predict, start  # noqa: F401 (plugin is a fixture)
from wire import eventually, get


@pytest.fixture
def driver(monkeypatch):
    build = next(p for p in servers.binary().parents if (p / "build.ninja").exists())

    def begin(words=""):
        monkeypatch.setenv("LD_LIBRARY_PATH", str(build / "tests" / "http"))
        monkeypatch.setenv("BERTH_STUB_NVML", words)

    return begin


def gauges(server):
    """(name, labels) -> value of all that is told of GPUs; the text has to be well-formed."""
    text = server.ask(get("/metrics")).body.decode()
    families = [f for f in prometheus_client.parser.text_string_to_metric_families(text) if f.name.startswith("berth_gpu_")]
    assert len({f.name for f in families}) == len(families)
    assert all(f.type == "gauge" and f.documentation and f.samples for f in families)
    return {(s.name.removeprefix("berth_gpu_"), *sorted(s.labels.values())): s.value for f in families for s in f.samples}


def serve(*options):
    return start("--device", "cuda", *options)


def test_every_figure_of_every_gpu(plugin, driver):  # noqa: F811
    plugin("devices=2")
    driver()
    server = serve()
    try:
        told = eventually(lambda: gauges(server))
        assert {k: v for k, v in told.items() if k[0] != "throttled"} == {
            ("sm_utilization_ratio", "0"): 0.87,
            ("memory_utilization_ratio", "0"): 0.41,
            ("memory_used_bytes", "0"): 1e9,
            ("memory_used_bytes", "1"): 5,
            ("memory_total_bytes", "0"): 150e9,
            ("memory_total_bytes", "1"): 150e9,
            ("pcie_bytes_per_second", "0", "sent"): 1.2e6,
            ("pcie_bytes_per_second", "0", "received"): 2.5e6,
            ("pcie_capacity_bytes_per_second", "0"): 16 * 3938461538,
            ("clock_hertz", "0", "sm"): 1980e6,
            ("clock_hertz", "0", "memory"): 3201e6,
        }
        throttled = {k[2]: v for k, v in told.items() if k[0] == "throttled"}
        assert len(throttled) == 9
        assert {reason for reason, v in throttled.items() if v} == {"power_cap", "thermal"}
    finally:
        server.stop()


def test_the_number_is_the_devices(plugin, driver):  # noqa: F811
    plugin("devices=2")
    driver()
    server = start("--device", "cuda:1")
    try:
        told = eventually(lambda: gauges(server))
        assert told == {("memory_used_bytes", "1"): 5, ("memory_total_bytes", "1"): 150e9}
    finally:
        server.stop()


@pytest.mark.parametrize("words, options", [(None, []), ("no_init", []), ("no_gpu", []),
                                            ("", ["--gpu-sample-ms", "0"])])
def test_absent_without_complaint(plugin, driver, words, options):  # noqa: F811
    plugin()
    if words is not None:
        driver(words)
    server = serve(*options)
    try:
        assert predict(server).status == 200
        assert gauges(server) == {}
        assert not [e for e in server.events() if e["level"] in ("warn", "error")]
    finally:
        server.stop()


def test_no_gpu_no_figures(driver):
    driver()
    server = start("--device", "cpu")
    try:
        assert gauges(server) == {}
    finally:
        server.stop()


def test_a_driver_that_hangs_holds_nothing_up(plugin, driver):  # noqa: F811
    plugin()
    driver("hang")
    server = serve("--gpu-sample-ms", "1")
    try:
        told = eventually(lambda: gauges(server))
        assert predict(server).status == 200
        assert gauges(server) == told  # the latest that there were
    finally:
        server.stop()  # within its time, and clean


def test_the_log_says_why_when_it_is_asked(plugin, driver):  # noqa: F811
    plugin()
    driver("no_init")
    server = serve("--log.level", "debug")
    try:
        assert eventually(lambda: event(server, "gpu_metrics"))["none_because"] == "NVML's start failed: 9"
    finally:
        server.stop()
