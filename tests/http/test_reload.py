"""Settings that change while the server runs: by SIGHUP and by PUT /debug/buckets; nothing is lost, nothing half done."""

import json
import signal
import threading
import time

import pytest

from wire import eventually, get, post

BUCKETS = [{"up_to": 16, "max_batch_tokens": 64}, {"up_to": 64, "max_batch_requests": 8, "max_wait_ms": 0}]


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "berth.jsonc"

    def write(text):
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


def predict(server, text="a berth for the night"):
    return server.ask(post("/predict", json.dumps({"inputs": text})))


def put(server, body):
    data = body if isinstance(body, (str, bytes)) else json.dumps(body)
    return server.ask(post("/debug/buckets", data).replace(b"POST", b"PUT", 1))


def buckets(server):
    response = server.ask(get("/debug/buckets"))
    assert response.status == 200, response.body
    return response.json()


def bounds(server):
    return [b["up_to"] for b in buckets(server)["buckets"]]


def hup(server, event="reload"):
    n = sum(e["event"] in ("reload", "reload_failed") for e in server.events())
    server.process.send_signal(signal.SIGHUP)
    done = lambda: [e for e in server.events() if e["event"] in ("reload", "reload_failed")][n:]
    assert eventually(done)
    assert [e["event"] for e in done()] == [event]
    return done()[0]


def test_what_is_shown(start_berth):
    server = start_berth("--batching.buckets", json.dumps(BUCKETS))
    for text in ("a", "a b c", "night " * 30):
        assert predict(server, text).status == 200
    shown = buckets(server)
    assert shown["mode"] == "packed"
    short, long = shown["buckets"]
    assert (short["up_to"], short["max_batch_tokens"], long["max_batch_requests"]) == (16, 64, 8)
    assert (short["jobs"], long["jobs"]) == (2, 1) and short["batches"] == 2
    for b in (short, long):
        assert b["queued"] == b["queued_tokens"] == b["oldest_wait_ms"] == 0
        assert b["padding_ratio"] == 0 and 0 < b["fill"] <= 1 and b["rows"] == b["tokens"]
        assert set(b["wait_ms"]) == {"p50", "p95", "p99"} and b["wait_ms"]["p99"] >= b["wait_ms"]["p50"] >= 0
        assert sum(b["release"].values()) == b["batches"]
    assert abs(short["fill"] - short["rows"] / (2 * 64)) < 1e-6


def test_what_waits_is_shown(start_berth):
    server = start_berth("--compute.device", "reference", "--batching.max_batch_requests", "1")
    many = json.dumps({"inputs": [["night " * 500]] * 32, "truncate": True})
    clients = [server.connect().send(post("/predict", many)) for _ in range(4)]
    assert eventually(lambda: buckets(server)["buckets"][-1]["queued"] > 0)
    last = buckets(server)["buckets"][-1]
    assert last["oldest_wait_ms"] > 0 and last["queued_tokens"] >= last["queued"]
    queues = server.ask(get("/debug/queues")).json()
    assert queues["jobs"] > 0 and queues["keys"] == [] and queues["requests"] >= 1
    assert [c.read().status for c in clients] == [200] * 4


def test_put_changes_what_is_in_force(start_berth):
    server = start_berth("--batching.buckets", json.dumps(BUCKETS))
    assert predict(server, "a b c").status == 200
    answer = put(server, {"buckets": [{"up_to": 8}, {"up_to": 32}, {"up_to": 64}], "max_batch_requests": 5})
    assert answer.status == 200, answer.body
    assert [b["up_to"] for b in answer.json()["buckets"]] == bounds(server) == [8, 32, 64]
    assert [b["max_batch_requests"] for b in buckets(server)["buckets"]] == [5, 5, 5]
    assert predict(server, "a b c").status == 200
    info = server.ask(get("/info")).json()["berth"]
    assert [b["up_to"] for b in info["buckets"]] == [8, 32, 64]
    text = server.ask(get("/metrics")).body.decode()
    for bound, n in ((16, 1), (8, 1), (32, 0)):  # the old bound's count stays its own
        assert server.value(text, rf'berth_bucket_jobs_total\{{bucket="{bound}"\}}') == n
    assert put(server, {"mode": "bucketed"}).json()["mode"] == "bucketed"  # the rest stays
    assert bounds(server) == [8, 32, 64]
    put(server, {"buckets": BUCKETS})
    assert predict(server, "a b c").status == 200
    text = server.ask(get("/metrics")).body.decode()
    assert server.value(text, r'berth_bucket_jobs_total\{bucket="16"\}') == 2  # and goes on when it is back


def test_batches_may_grow_to_what_there_is_room_for(start_berth):
    server = start_berth("--max_batch_tokens", "100", "--max_batch_requests", "5")
    assert put(server, {"max_batch_tokens": 400, "max_batch_requests": 20}).status == 200
    put(server, {"max_batch_tokens": 401}).check_error(422, "max_batch_tokens is 401", "400")
    put(server, {"max_batch_requests": 21}).check_error(422, "max_batch_requests is 21", "20")
    server = start_berth("--max_batch_tokens", "100", "--reload_max_batch_tokens", "100")
    put(server, {"max_batch_tokens": 101}).check_error(422, "max_batch_tokens is 101", "100")


BAD = {
    "descending": ({"buckets": [{"up_to": 32}, {"up_to": 16}, {"up_to": 64}]}, ["buckets[1]", "rising"]),
    "overlapping": ({"buckets": [{"up_to": 64}, {"up_to": 64}]}, ["buckets[1]", "rising"]),
    "zero cap": ({"buckets": [{"up_to": 64, "max_batch_tokens": 0}]}, ["buckets[0].max_batch_tokens: 0", "1 to"]),
    "too short": ({"buckets": [{"up_to": 32}]}, ["64"]),
    "above the model": ({"buckets": [{"up_to": 64}, {"up_to": 5000}]}, ["5000", "{\"up_to\": 64}"]),
    "empty": ({"buckets": []}, ["empty"]),
    "unknown": ({"bukets": []}, ["batching.bukets", "batching.buckets"]),
    "unknown inside": ({"buckets": [{"upto": 64}]}, ["upto", "up_to"]),
    "type": ({"mode": 5}, ["batching.mode"]),
    "mode": ({"mode": "fast"}, ["packed"]),
    "a list": ([], ["batching"]),
    "needs a restart": ({"max_queued_jobs": 100}, ["batching.max_queued_jobs"]),
    "larger than any batch may be": ({"max_batch_tokens": 1000000}, ["max_batch_tokens"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_put_changes_nothing(start_berth, name):
    server = start_berth("--batching.buckets", json.dumps(BUCKETS))
    before = buckets(server)
    body, words = BAD[name]
    put(server, body).check_error(422, *words)
    assert buckets(server) == before
    assert predict(server).status == 200


@pytest.mark.parametrize("body", [b"", b"{", b'{"mode": "packed"}}', b'{}, "server": {"port": 1}', b'{"mode": "none", "mode": "none"}'])
def test_a_put_that_is_no_json(start_berth, body):
    server = start_berth()
    put(server, body).check_error(400)


def test_other_methods(start_berth):
    server = start_berth()
    response = server.ask(post("/debug/buckets", "{}")).check_error(405)
    assert response.header("Allow") == "GET, HEAD, PUT"


def test_sighup_reads_the_file_again(start_berth, config):
    path = config({"batching": {"buckets": BUCKETS}, "log": {"level": "info"}})
    server = start_berth("--config", path)
    assert bounds(server) == [16, 64]
    config({"batching": {"buckets": [{"up_to": 8}, {"up_to": 64}], "mode": "bucketed"}})
    hup(server)
    assert bounds(server) == [8, 64] and buckets(server)["mode"] == "bucketed"
    put(server, {"buckets": BUCKETS})
    hup(server)
    assert bounds(server) == [8, 64]  # the file counts
    assert predict(server).status == 200


def test_options_go_before_the_file_as_at_start(start_berth, config):
    path = config({"batching": {"mode": "padded"}})
    server = start_berth("--mode", "packed", "--config", path)
    config({"batching": {"mode": "bucketed", "max_batch_requests": 7}})
    hup(server)
    shown = buckets(server)
    assert shown["mode"] == "packed" and shown["buckets"][0]["max_batch_requests"] == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"batching": {"buckets": [\n{"up_to": 64},\n{"up_to": 32}]}}', [":3:", "rising"]),
        ('{"batching": {"buckets": [{"up_to": 64, "max_batch_tokens": 0}]}}', [":1:", "max_batch_tokens"]),
        ('{"batching": {"buckets": [{"up_to": 32},\n{"up_to": 5000}]}}', [":2:", "5000", '{"up_to": 64}']),
        ('{"batching": {"buckets": [{"up_to": 16},\n{"up_to": 32}]}}', [":2:", "32", '{"up_to": 64}']),
        ('{"batching": {"mode": "packed",}}', [":1:"]),
        ('{"server": {"prot": 1}}', ["server.port"]),
        (None, ["No such file"]),
    ],
)
def test_a_reload_that_fails_keeps_the_old(start_berth, config, text, words):
    path = config({"batching": {"buckets": BUCKETS}})
    server = start_berth("--config", path)
    before = buckets(server)
    path.unlink() if text is None else config(text)
    reason = hup(server, "reload_failed")["reason"]
    for word in [str(path), *words]:
        assert word in reason
    assert buckets(server) == before and predict(server).status == 200


@pytest.mark.parametrize("bounds", ["5000", "8}, {\"up_to\": 5000"])
def test_a_bucket_above_the_model_keeps_the_server_from_starting(start_berth, config, bounds):
    path = config('{"batching": {"buckets": [\n{"up_to": %s}]}}' % bounds)
    with pytest.raises(AssertionError) as told:
        start_berth("--config", path)
    assert f'{path}:2: batching.buckets[{bounds.count("up_to")}] takes inputs of up to 5000 tokens' in str(told.value)


def test_an_admin_is_answered_when_all_slots_are_taken(start_berth):
    server = start_berth("--compute.device", "reference", "--max_concurrent_requests", "1")
    many = json.dumps({"inputs": [["night " * 500]] * 32, "truncate": True})
    with server.connect() as busy:
        busy.send(post("/predict", many))
        assert eventually(lambda: server.counters()["slots_used"] == 1)
        predict(server).check_error(429, "max_concurrent_requests")
        assert put(server, {"max_batch_requests": 3}).status == 200
        assert busy.read().status == 200


def test_what_needs_a_restart_is_named(start_berth, config):
    path = config({"server": {"max_connections": 100}})
    server = start_berth("--config", path)
    config({"server": {"max_connections": 200, "idle_timeout_s": 9}, "batching": {"max_queued_jobs": 500, "mode": "none"}})
    hup(server)
    named = lambda: [e["settings"] for e in server.events() if e["event"] == "reload_needs_restart"]
    assert eventually(named)
    assert named() == ["server.max_connections, server.idle_timeout_s, batching.max_queued_jobs"]
    assert buckets(server)["mode"] == "none"


def test_the_log_level_changes(start_berth, config):
    path = config({"log": {"level": "info"}})
    server = start_berth("--config", path)
    config({"log": {"level": "error"}})
    server.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: "berth_reloads_total 1" in server.ask(get("/metrics")).body.decode())
    server.terminate()
    assert '"stop"' not in "".join(server.finish())


def test_no_job_is_lost_while_buckets_change(start_berth):
    server = start_berth("--compute.device", "reference", "--max_client_batch_size", "64")
    texts = ["a", "a b c d e f g h", "night " * 20, "night " * 500]
    body = json.dumps({"inputs": [[t] for t in texts * 4], "truncate": True})
    stop, results = threading.Event(), []

    def client():
        with server.connect() as c:
            while not stop.is_set():
                results.append(c.send(post("/predict", body)).read())

    clients = [threading.Thread(target=client) for _ in range(6)]
    for c in clients:
        c.start()
    n_changes, end = 0, time.monotonic() + 2
    lists = [BUCKETS, [{"up_to": 64}], [{"up_to": 4}, {"up_to": 12}, {"up_to": 40}, {"up_to": 64}]]
    while time.monotonic() < end:
        answer = put(server, {"buckets": lists[n_changes % 3], "mode": ["packed", "bucketed"][n_changes % 2]})
        assert answer.status == 200, answer.body
        n_changes += 1
    stop.set()
    for c in clients:
        c.join(30)
        assert not c.is_alive()
    assert n_changes > 10 and len(results) > 6
    answers = {json.dumps(r.json()) for r in results if r.status == 200}
    assert {r.status for r in results} == {200} and len(answers) == 1
    assert eventually(lambda: server.counters()["slots_used"] == 0)
    server.check_sum(server.counters())
    text = server.ask(get("/metrics")).body.decode()
    done = server.value(text, r'berth_jobs_total\{outcome="done"\}')
    assert done == 16 * len(results)
    counts = [int(line.split()[-1]) for line in text.splitlines() if line.startswith("berth_bucket_jobs_total{")]
    assert sum(counts) == done
