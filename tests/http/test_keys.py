"""API keys: who comes in, where, at what rate; and that no secret is ever told."""

import json
import os
import signal

import pytest

from wire import eventually, get, post

WEB, OPS, SLOW = "web-3f1c9a77d2b04e58", "ops-b7720f4419cd6a31", "slow-55aa0f7c1e9b2d46"
KEYS = {
    "keys": [
        {"name": "web", "key": WEB, "weight": 2},
        {"name": "ops", "key": OPS, "admin": True, "priority": "high"},
        {"name": "slow", "key": SLOW, "requests_per_second": 0.05, "burst": 3},
    ]
}
TEXT = json.dumps({"inputs": "a berth for the night"})


def write_keys(path, keys=KEYS, mode=0o600):
    path.write_text(keys if isinstance(keys, str) else json.dumps(keys))
    path.chmod(mode)
    return path


@pytest.fixture
def keys_file(tmp_path):
    return write_keys(tmp_path / "keys.jsonc")


@pytest.fixture
def server(start_berth, keys_file):
    return start_berth("--keys_file", keys_file, "--log.requests")


def bearer(key):
    return f"Authorization: Bearer {key}"


def predict(server, *headers):
    return server.ask(post("/predict", TEXT, *headers))


def put_buckets(body, *headers):
    return post("/debug/buckets", json.dumps(body), *headers).replace(b"POST", b"PUT", 1)


def test_both_headers_are_taken(server):
    assert predict(server, bearer(WEB)).status == 200
    assert predict(server, f"X-API-Key: {WEB}").status == 200
    assert predict(server, f"authorization: bearer {WEB}").status == 200
    assert server.ask(get("/info", bearer(WEB))).status == 200
    assert server.ask(post("/tokenize", TEXT, bearer(WEB))).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (bearer("wrong"),),
        (bearer(WEB[:-1]),),
        (bearer(WEB + "x"),),
        (bearer(""),),
        (f"Authorization: Basic {WEB}",),
        (f"Authorization: {WEB}",),
        ("X-API-Key: web",),
        (bearer(WEB), f"X-API-Key: {OPS}"),
    ],
)
def test_without_a_key_nothing(server, headers):
    for request in (post("/predict", TEXT, *headers), get("/info", *headers), get("/metrics", *headers)):
        response = server.ask(request).check_error(401)
        assert response.header("WWW-Authenticate").startswith("Bearer")
        assert response.json()["error_type"] == "Unauthorized"


def test_two_keys_in_one_header_are_no_request(server):
    predict(server, bearer(WEB), bearer(WEB)).check_error(400, "Authorization")
    predict(server, f"X-API-Key: {WEB}", f"X-API-Key: {WEB}").check_error(400, "X-API-Key")


def test_it_is_said_before_the_body(server):
    with server.connect() as c:
        c.send(post("/predict", b"{", length=1000, content_type="text/plain")).read().check_error(401)
        assert c.is_closed()
    with server.connect() as c:
        c.send(post("/predict", b"", length=1 << 40)).read().check_error(401)
    assert server.ask(get("/metrics", bearer(WEB))).status == 200


def test_health_is_open(server):
    for path in ("/health", "/health/live", "/ping", "/"):
        assert server.ask(get(path)).status == 200
        assert server.ask(get(path, bearer("wrong"))).status == 200


def test_debug_is_for_admins(server):
    for request in (get, lambda path, *h: put_buckets({}, *h)):
        server.ask(request("/debug/buckets")).check_error(401)
        server.ask(request("/debug/buckets", bearer(WEB))).check_error(403, "admin")
        assert server.ask(request("/debug/buckets", bearer(OPS))).status == 200
    queues = server.ask(get("/debug/queues", bearer(OPS))).json()
    assert [(k["name"], k["weight"]) for k in queues["keys"]] == [("web", 2), ("ops", 1), ("slow", 1)]


def test_metrics_may_be_open(start_berth, keys_file):
    server = start_berth("--keys_file", keys_file, "--open_metrics")
    assert server.ask(get("/metrics")).status == 200
    predict(server).check_error(401)


def test_a_rate_is_kept_and_told(server):
    answers = [predict(server, bearer(SLOW)) for _ in range(5)]
    assert [r.status for r in answers] == [200, 200, 200, 429, 429]
    refused = answers[3].check_error(429, "slow", "requests_per_second")
    ms = int(refused.header("Retry-After-Ms"))
    assert 15000 < ms <= 20000
    assert int(refused.header("Retry-After")) == -(-ms // 1000)
    assert predict(server, bearer(WEB)).status == 200  # of no concern to others
    text = server.ask(get("/metrics", bearer(OPS))).body.decode()
    assert server.value(text, 'berth_limited_total{limit="rate"}'.replace("{", r"\{").replace("}", r"\}")) == 2
    assert 'berth_key_requests_total{key="slow",outcome="limited"} 2' in text
    assert eventually(
        lambda: 'berth_key_requests_total{key="slow",outcome="answered"} 3'
        in server.ask(get("/metrics", bearer(OPS))).body.decode()
    )


def test_no_secret_is_told(server):
    predict(server, bearer(WEB), "X-Request-Id: seen")
    predict(server, bearer("a-wrong-secret-1234"))
    text = server.ask(get("/metrics", bearer(OPS))).body.decode()
    assert eventually(lambda: any(e.get("id") == "seen" for e in server.events()))
    assert [e["key"] for e in server.events() if e.get("id") == "seen"] == ["web"]
    server.terminate()
    everything = "".join(server.finish()) + text
    for secret in (WEB, OPS, SLOW, "a-wrong-secret-1234"):
        assert secret not in everything


def test_keys_are_read_again_on_sighup(server, keys_file):
    write_keys(keys_file, {"keys": [{"name": "new", "key": "n" * 20}, {**KEYS["keys"][1], "key": OPS}]})
    server.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: predict(server, bearer("n" * 20)).status == 200)
    predict(server, bearer(WEB)).check_error(401)
    assert server.ask(get("/debug/buckets", bearer(OPS))).status == 200


@pytest.mark.parametrize(
    ("keys", "mode", "words"),
    [
        ('{"keys": []}', 0o600, ["a list of keys"]),
        ('{"keys": [{"name": "web", "key": "hidden-hidden"},\n  {"name": "web", "key": "other"}]}', 0o600, [":2:", "twice"]),
        ('{"keys": [{"name": "web", "key": "hidden-hidden", "wieght": 2}]}', 0o600, ["known: name"]),
        ('{"keys": [{"name": "web", "key": "hidden-hidden"', 0o600, ["not JSON"]),
        (KEYS, 0o644, ["chmod 600"]),
    ],
)
def test_a_bad_file_keeps_the_server_from_starting(start_berth, tmp_path, keys, mode, words):
    path = write_keys(tmp_path / "keys.jsonc", keys, mode)
    with pytest.raises(AssertionError) as told:
        start_berth("--keys_file", path)
    for word in [str(path), *words]:
        assert word in str(told.value)
    assert "hidden-hidden" not in str(told.value) and WEB not in str(told.value)


@pytest.mark.parametrize("break_it", ["bad", "gone", "open"])
def test_a_bad_file_on_sighup_changes_nothing(server, keys_file, break_it):
    if break_it == "bad":
        write_keys(keys_file, '{"keys": [{"name": "x", "key": "hidden-hidden", "weight": 0}]}')
    elif break_it == "gone":
        os.unlink(keys_file)
    else:
        keys_file.chmod(0o644)
    server.process.send_signal(signal.SIGHUP)
    failed = lambda: [e for e in server.events() if e["event"] == "reload_failed"]
    assert eventually(failed)
    assert str(keys_file) in failed()[0]["reason"] and "hidden" not in failed()[0]["reason"]
    assert predict(server, bearer(WEB)).status == 200
    assert "berth_reloads_failed_total 1" in server.ask(get("/metrics", bearer(OPS))).body.decode()


def test_a_short_key_is_warned_of(start_berth, tmp_path):
    server = start_berth("--keys_file", write_keys(tmp_path / "k", {"keys": [{"name": "a", "key": "b"}]}))
    assert [e["name"] for e in server.events() if e["event"] == "weak_key"] == ["a"]


def test_open_elsewhere_has_to_be_asked_for(start_berth, keys_file):
    with pytest.raises(AssertionError) as told:
        start_berth("--host", "0.0.0.0")
    assert "auth.keys_file" in str(told.value) and "auth.allow_open" in str(told.value)
    server = start_berth("--host", "0.0.0.0", "--keys_file", keys_file)
    assert predict(server, bearer(WEB)).status == 200
    assert [e for e in server.events() if e["event"] == "exposed"]
    server = start_berth("--host", "0.0.0.0", "--auth.allow_open")
    assert predict(server).status == 200
    assert server.ask(get("/debug/buckets")).status == 200  # from this machine
