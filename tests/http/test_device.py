"""What becomes of a server whose GPU is missing, too small, at fault or lost: with a plugin (fake_cuda.c) that is."""

import json
import re
import shutil
import signal
import subprocess

import pytest
import servers
from conftest import model_dir
from wire import eventually, get, post


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Puts the fake where the server looks, and tells it its faults; arm() lets them begin."""
    build = next(p for p in servers.binary().parents if (p / "build.ninja").exists())
    shutil.copy(build / "tests" / "http" / "berth_cuda_fake.so", tmp_path / "berth_cuda.so")
    monkeypatch.setenv("BERTH_PLUGIN_DIR", str(tmp_path))
    armed = tmp_path / "armed"
    monkeypatch.setenv("BERTH_FAKE_ARMED", str(armed))

    def begin(faults=""):
        monkeypatch.setenv("BERTH_FAKE_CUDA", faults)
        return armed.touch

    return begin


def start(*options):
    return servers.Berth(model_dir(), *options)


def predict(server):
    return server.ask(post("/predict", json.dumps({"inputs": "a b c"})))


def refused(*options):
    """What a start says that has to fail."""
    done = subprocess.run([servers.binary(), "serve", model_dir(), "--port", "0", *options], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


def info(server):
    return server.ask(get("/info")).json()


def event(server, name):
    return next((e for e in server.events() if e["event"] == name), None)


def test_no_plugin(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTH_PLUGIN_DIR", str(tmp_path))
    assert "compute.device is cuda: there is no " in refused("--device", "cuda")
    server = start("--device", "auto")
    try:
        why = event(server, "device")
        assert why["used"] == "cpu" and "berth_cuda.so" in why["no_gpu_because"]
        assert predict(server).status == 200
    finally:
        server.stop()


def test_a_plugin_of_another_build(plugin):
    plugin("abi=1")
    assert "is of another build of Berth: it has ABI 1" in refused("--device", "cuda")


def test_a_file_that_is_no_plugin(plugin, tmp_path):
    plugin()
    (tmp_path / "berth_cuda.so").write_text("nothing")
    assert "does not load" in refused("--device", "cuda")


def test_a_device_that_is_not_there(plugin):
    plugin("devices=2")
    assert "there is no device 2: 2 are there" in refused("--device", "cuda:2")


@pytest.mark.parametrize("word", ["gpu", "cuda:", "cuda:x", "cuda:1x", "cuda1"])
def test_words_that_are_no_device(word):
    assert "compute.device" in refused("--device", word)


@pytest.mark.parametrize("device, workers", [("auto", 3), ("cuda", 3), ("cuda:1", 1)])
def test_a_worker_for_each_device(plugin, device, workers):
    plugin("devices=3")
    server = start("--device", device)
    try:
        ready = event(server, "ready")
        assert ready["backend"] == "cuda" and ready["workers"] == workers
        assert predict(server).status == 200
        text = server.ask(get("/metrics")).body.decode()
        assert server.value(text, "berth_device_launches_total") >= 1
    finally:
        server.stop()


def test_batches_are_larger_where_nothing_is_said(plugin, tmp_path):
    plugin()
    path = tmp_path / "c.jsonc"
    path.write_text('{"batching": {"max_wait_ms": 0}}')
    server = start("--device", "cuda", "--config", path)
    try:
        said = event(server, "batch_size")
        assert (said["max_batch_tokens"], said["default_of"]) == (8192, "gpu")
        assert info(server)["max_batch_tokens"] == 8192
        path.write_text('{"batching": {"max_wait_ms": 1}}')
        server.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: event(server, "reload"))
        assert info(server)["max_batch_tokens"] == 8192
    finally:
        server.stop()


def test_too_little_memory_halves_the_batches_once(plugin):
    plugin("rows=600")
    server = start("--device", "cuda", "--max-batch-tokens", "256", "--reload-max-batch-tokens", "1000")
    try:
        assert event(server, "batches_halved")["rows_were"] == 1000
        assert info(server)["max_batch_tokens"] == 128
        assert predict(server).status == 200
    finally:
        server.stop()
    assert "no room for 1000 rows" in refused("--device", "cuda", "--max-batch-tokens", "256",
                                               "--reload-max-batch-tokens", "2000")


@pytest.fixture
def simulated(monkeypatch):
    build = next(p for p in servers.binary().parents if (p / "build.ninja").exists())
    if not (build / "berth_simt.so").exists():
        pytest.skip("berth_simt.so was not built")
    monkeypatch.setenv("BERTH_PLUGIN_DIR", str(build))


def test_algorithms_are_timed_once(simulated, tmp_path):
    cache = tmp_path / "tuning.json"

    def algorithms():
        server = start("--device", "simt", "--max-batch-tokens", "32", "--reload-max-batch-tokens", "32",
                       "--tuning-cache", str(cache))
        try:
            assert predict(server).status == 200
            faults = [e["fault"] for e in server.events() if e["event"] == "tuning_cache"]
            e = event(server, "algorithms")
            return e["known"], e["timed"], e["stale"], e["level"], faults
        finally:
            server.stop()

    known, n, stale, _, faults = algorithms()
    assert (known, stale, faults) == (0, 0, []) and n > 0
    assert algorithms() == (n, 0, 0, "info", [])
    tuned = json.loads(cache.read_text())
    keys = [k for k in tuned["entries"] if k.startswith("algorithm; a simulated device")]
    assert len(keys) == n
    tuned["entries"][keys[0]] = [1, 2]  # of another build of the library
    tuned["entries"][keys[1]] = [1]
    cache.write_text(json.dumps(tuned))
    assert algorithms() == (n - 2, 2, 2, "warn", [])
    assert algorithms() == (n, 0, 0, "info", [])
    cache.write_text(cache.read_text()[:-20])
    assert algorithms() == (0, n, 0, "info", ["broken"])
    assert algorithms() == (n, 0, 0, "info", [])


def test_every_size_of_batch_has_its_graph(simulated):
    """From the first request on: a graph that had still to be made would be launched call by call."""
    server = start("--device", "simt", "--max-batch-tokens", "32", "--reload-max-batch-tokens", "32", "--tuning-cache",
                   "off", "--graph-max-rows", "32")
    try:
        def counted(name):
            found = re.findall(rf"^{name}(?:{{.*}})? (\d+)$", server.ask(get("/metrics")).body.decode(), re.M)
            return sum(int(n) for n in found)

        for n in (1, 3, 8, 2, 5, 10, 1):
            for words in (1, 4):
                answer = server.ask(post("/predict", json.dumps({"inputs": [["a " * words]] * n})))
                assert answer.status == 200
        assert counted("berth_batches_total") >= 14
        assert counted("berth_device_launches_total") == counted("berth_batches_total")
    finally:
        server.stop()


# 88 for 12 layers are 18 for two, and in fp32 GELU is a kernel of its own
@pytest.mark.parametrize("graph_max_rows, launches", [(0, 20), (16, 1)])
def test_launches_and_times_of_kernels(simulated, graph_max_rows, launches):
    server = start("--device", "simt", "--max-batch-tokens", "16", "--reload-max-batch-tokens", "16", "--tuning-cache",
                   "off", "--graph-max-rows", str(graph_max_rows))
    try:
        asked = post("/predict", json.dumps({"inputs": "a b c"}), "Berth-Profile: 1")
        before = server.ask(get("/metrics")).body.decode()
        answers = [server.ask(asked) for _ in range(3)]
        after = server.ask(get("/metrics")).body.decode()
        batch = dict(re.findall(r"(\w+)=([\w.]+)", answers[-1].header("Berth-Batch")))
        assert int(batch["launches"]) == launches
        grown = sum(server.value(t, "berth_device_launches_total") * sign for t, sign in ((after, 1), (before, -1)))
        assert grown >= 3 * launches
        times = dict(re.findall(r"(\w+);dur=([\d.]+)", answers[-1].header("Server-Timing")))
        kernels = ["qkv", "attention", "attention_out", "attention_norm", "intermediate", "output", "output_norm"]
        assert {f"layer{i}_{k}" for i in range(2) for k in kernels} <= times.keys()  # none is there without time
        total = dict(re.findall(r'^berth_kernel_seconds_total{kernel="(\w+)"} ([\d.e-]+)$', after, re.M))
        assert all(float(total[k]) > 0 for k in [*kernels, "embed", "pool", "head"])
        assert "launches" not in predict(server).header("Berth-Batch")
    finally:
        server.stop()


def test_a_fault_costs_its_batch_alone(plugin):
    arm = plugin("fail=2")
    server = start("--device", "cuda")
    try:
        arm()
        answers = [predict(server) for _ in range(6)]
        assert sorted(a.status for a in answers) == [200] * 3 + [503] * 3
        bad = next(a for a in answers if a.status == 503)
        assert int(bad.header("Retry-After")) >= 1
        assert server.ask(get("/health")).status == 200
    finally:
        server.stop()


def test_a_lost_device_ends_the_process(plugin):
    arm = plugin("lost=1")
    server = start("--device", "cuda")
    arm()
    answer = predict(server)
    assert answer.status == 503 and answer.header("Retry-After")
    assert server.process.wait(30) != 0
    assert event(server, "device_lost")["then"] == "exit"


def test_a_lost_device_may_stay(plugin):
    arm = plugin("lost=1")
    server = start("--device", "cuda", "--on-device-loss", "stay")
    try:
        arm()
        assert predict(server).status == 503
        assert eventually(lambda: server.ask(get("/health")).status == 503)
        assert predict(server).status == 503
        text = server.ask(get("/metrics")).body.decode()
        assert server.value(text, "berth_device_lost") == 1
    finally:
        server.terminate()
        server.process.wait(30)


def metric(server, name):
    return server.value(server.ask(get("/metrics")).body.decode(), name)


def what_computes(server):
    """Backend, precision and workers, as all that tell of them say."""
    told = info(server)
    backend, dtype = told["berth"]["backend"], told["model_dtype"]
    labels = f'berth_backend_info{{backend="{backend}",dtype="{dtype}"}} 1'
    assert labels in server.ask(get("/metrics")).body.decode()
    cost = server.ask(get("/debug/cost")).json()
    assert (cost["backend"], cost["precision"]) == (backend, dtype)
    assert cost["backend_detail"] == told["berth"]["backend_detail"]
    return backend, dtype, told["berth"]["workers"]


def ends_at_fault(server):
    server.terminate()
    return server.process.wait(30) != 0


def test_the_cpu_takes_over_from_a_lost_device(plugin):
    arm = plugin("lost=1")
    server = start("--device", "cuda", "--on-device-loss", "cpu", "--max-batch-tokens", "1000")
    try:
        before = predict(server).json()
        assert what_computes(server)[0] == "cuda"
        arm()
        answer = predict(server)
        assert answer.status == 503 and int(answer.header("Retry-After")) >= 1
        after = predict(server)  # it may have to wait for the weights
        assert after.status == 200
        assert [x["label"] for x in after.json()] == [x["label"] for x in before]
        assert after.json()[0]["score"] == pytest.approx(before[0]["score"], abs=1e-4)
        assert server.ask(get("/health")).status == 200
        assert event(server, "device_lost")["then"] == "cpu"
        told = event(server, "device_fallback")
        assert told["used"] == "cpu" and told["dtype"] == "float32"
        assert (metric(server, "berth_device_lost"), metric(server, "berth_device_fallbacks_total")) == (1, 1)
        assert info(server)["max_batch_tokens"] == 256
        assert what_computes(server) == ("cpu", "float32", 1)
    finally:
        assert ends_at_fault(server)


def test_a_reload_leaves_batches_as_the_cpu_likes_them(plugin, tmp_path):
    arm = plugin("lost=1")
    settings = tmp_path / "berth.jsonc"
    settings.write_text(json.dumps({"batching": {"max_batch_tokens": 900}}))
    server = start("--config", str(settings), "--device", "cuda", "--on-device-loss", "cpu")
    try:
        assert info(server)["max_batch_tokens"] == 900
        arm()
        assert predict(server).status == 503
        assert predict(server).status == 200
        settings.write_text(json.dumps({"batching": {"max_batch_tokens": 800}}))
        server.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: event(server, "reload"))
        assert info(server)["max_batch_tokens"] == 256
    finally:
        assert ends_at_fault(server)


def test_the_cpu_takes_over_from_a_simulated_device(simulated, monkeypatch):
    """The whole backend, with an error that CUDA keeps for ever."""
    monkeypatch.setenv("BERTH_SIMT", "sticky=3000")  # the start has about 1000 launches
    server = start("--device", "simt", "--on-device-loss", "cpu", "--max-batch-tokens", "16",
                   "--reload-max-batch-tokens", "16", "--tuning-cache", "off", "--graph-max-rows", "0")
    try:
        while (status := predict(server).status) == 200:
            pass
        assert status == 503
        assert [predict(server).status for _ in range(5)] == [200] * 5
        assert event(server, "device_fallback")["used"] == "cpu"
    finally:
        assert ends_at_fault(server)


@pytest.mark.parametrize("then, after", [("exit", None), ("cpu", 200)])
def test_a_device_that_hangs_does_not_hold_up_the_end(simulated, monkeypatch, then, after):
    """Freeing memory of the simulated device waits for its work, as on a real one."""
    monkeypatch.setenv("BERTH_SIMT", "hang=3000")
    server = start("--device", "simt", "--on-device-loss", then, "--max-batch-tokens", "16", "--reload-max-batch-tokens",
                   "16", "--tuning-cache", "off", "--graph-max-rows", "0", "--pass-timeout-ms", "300")
    try:
        while (status := predict(server).status) == 200:
            pass
        assert status == 503
        assert eventually(lambda: event(server, "device_lost"))["then"] == then
        if after:
            assert predict(server).status == after
            server.terminate()
        assert server.process.wait(30) == 1
        assert event(server, "stop")
    finally:
        server.process.kill()


def test_another_device_goes_on_alone(plugin):
    arm = plugin("devices=2,lost=1,spared=1")
    server = start("--device", "cuda", "--on-device-loss", "cpu")
    try:
        assert what_computes(server)[::2] == ("cuda", 2)
        arm()
        assert eventually(lambda: predict(server).status == 503)  # the other's passes work
        assert eventually(lambda: event(server, "device_fallback"))
        assert event(server, "device_fallback")["used"] == "other workers"
        assert [predict(server).status for _ in range(5)] == [200] * 5
        assert server.ask(get("/health")).status == 200
        assert metric(server, "berth_device_fallbacks_total") == 0
        assert what_computes(server)[::2] == ("cuda", 1)
    finally:
        assert ends_at_fault(server)


def test_without_its_checkpoint_the_cpu_cannot_take_over(plugin, tmp_path):
    arm = plugin("lost=1")
    copy = tmp_path / "model"
    shutil.copytree(model_dir(), copy)
    server = servers.Berth(copy, "--device", "cuda", "--on-device-loss", "cpu")
    (copy / "model.safetensors").unlink()
    arm()
    assert predict(server).status == 503
    assert server.process.wait(30) != 0
    told = event(server, "device_fallback")
    assert told["used"] == "nothing" and "model.safetensors" in told["reason"]
