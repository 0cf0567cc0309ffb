"""The whole program on a tiny model: bodies of every kind, the headers of an answer, and hang-ups under load."""

import json
import math
import re
import time

import pytest

from wire import eventually, get, post

TEXT = "a berth for the night"
STAGES = ["read", "parse", "tokenize", "queue", "form", "infer", "post", "write", "total"]


def predict(server, body, *headers):
    return server.ask(post("/predict", body if isinstance(body, bytes) else json.dumps(body), *headers))


def check_labels(labels):
    assert labels == sorted(labels, key=lambda l: -l["score"]) and len(labels) > 0
    for label in labels:
        assert set(label) == {"score", "label"} and math.isfinite(label["score"])


def test_one_text(shared_berth):
    response = predict(shared_berth, {"inputs": TEXT})
    assert response.status == 200 and response.header("Content-Type") == "application/json"
    check_labels(response.json())


def test_a_pair_a_single_and_a_mixed_batch(shared_berth):
    check_labels(predict(shared_berth, {"inputs": [TEXT, "second"]}).json())
    check_labels(predict(shared_berth, {"inputs": [TEXT]}).json())
    batch = predict(shared_berth, {"inputs": [[TEXT], [TEXT, "second"], [TEXT]]}).json()
    assert len(batch) == 3
    for labels in batch:
        check_labels(labels)
    assert batch[0] == batch[2]


def test_the_stages_add_up(shared_berth):
    response = predict(shared_berth, {"inputs": [[TEXT], [TEXT + " " + TEXT]]})
    stages = re.findall(r"(\w+);dur=(\d+\.\d{3})(?:, |$)", response.header("Server-Timing"))
    assert [name for name, _ in stages] == STAGES
    ms = {name: float(value) for name, value in stages}
    assert abs(sum(ms[s] for s in STAGES[:-1]) - ms["total"]) < 1e-6
    assert ms["infer"] > 0
    batch = dict(re.findall(r"(\w+)=([\w.]+)", response.header("Berth-Batch")))
    assert int(batch["jobs"]) >= 2 and batch["mode"] == "packed" and float(batch["padding"]) == 0


def test_the_profile_is_asked_for_and_allowed(start_berth, shared_berth):
    """Where the setting says no, the header is not heeded."""
    server = start_berth("--server.profile_header=false")
    for asked, profile in ((shared_berth, True), (server, False)):
        plain = predict(asked, {"inputs": TEXT}).header("Server-Timing")
        timing = predict(asked, {"inputs": TEXT}, "Berth-Profile: 1").header("Server-Timing")
        assert "attention" not in plain and ("attention;dur=" in timing) == profile


NOT_JSON = {
    "nothing": b"",
    "cut": b'{"inputs":"a',
    "trailing bytes": b'{"inputs":"a"}x',
    "two values": b'{"inputs":"a"}{"inputs":"b"}',
    "bare word": b"nullx",
    "single quotes": b"{'inputs':'a'}",
    "trailing comma": b'{"inputs":"a",}',
    "raw NUL": b'{"inputs":"a\0b"}',
    "escaped NUL": b'{"inputs":"a\\u0000b"}',
    "raw control character": b'{"inputs":"a\nb"}',
    "bad escape": b'{"inputs":"a\\xb"}',
    "lone high surrogate": b'{"inputs":"a\\ud83d"}',
    "lone low surrogate": b'{"inputs":"\\ude00a"}',
    "surrogates in the wrong order": b'{"inputs":"\\ude00\\ud83d"}',
    "surrogate in UTF-8": b'{"inputs":"\xed\xa0\x80"}',
    "overlong UTF-8": b'{"inputs":"\xc0\xaf"}',
    "cut UTF-8": b'{"inputs":"\xe2\x82"}',
    "latin-1": b'{"inputs":"caf\xe9"}',
    "beyond Unicode": b'{"inputs":"\xf4\x90\x80\x80"}',
    "byte order mark": b'\xef\xbb\xbf{"inputs":"a"}',
    "UTF-16": '{"inputs":"a"}'.encode("utf-16"),
    "duplicate key": b'{"inputs":"a","inputs":"b"}',
    "deep arrays": b"[" * 2000 + b"]" * 2000,
    "deep objects": b'{"inputs":' * 2000 + b"1" + b"}" * 2000,
    "deep and open": b"[" * 100000,
    "leading zero": b'{"inputs":"a","top":01}',
    "not a number": b'{"inputs":NaN}',
    "number too large": b'{"inputs":1e999}',
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_what_is_not_json(shared_berth, name):
    error = predict(shared_berth, NOT_JSON[name]).check_error(400).json()
    assert "byte" in error["error"]


WRONG_SHAPE = {
    "no inputs": {},
    "null": {"inputs": None},
    "number": {"inputs": 1},
    "object": {"inputs": {"text": "a"}},
    "three strings": {"inputs": ["a", "b", "c"]},
    "three in one": {"inputs": [["a", "b", "c"]]},
    "number in a batch": {"inputs": [["a"], [1]]},
    "too deep": {"inputs": [[["a"]]]},
    "truncate is no flag": {"inputs": "a", "truncate": "yes"},
    "raw_scores is no flag": {"inputs": "a", "raw_scores": 1},
    "unknown direction": {"inputs": "a", "truncation_direction": "up"},
    "not an object": ["a"],
}


@pytest.mark.parametrize("name", WRONG_SHAPE)
def test_wrong_shape(shared_berth, name):
    predict(shared_berth, WRONG_SHAPE[name]).check_error(422)


@pytest.mark.parametrize("inputs", ["", [], [[]], [""], [["a"], [""]]])
def test_empty(shared_berth, inputs):
    predict(shared_berth, {"inputs": inputs}).check_error(400)


def test_too_long_is_told_with_counts(shared_berth):
    error = predict(shared_berth, {"inputs": "night " * 5000, "truncate": False}).check_error(422).json()
    assert len(re.findall(r"\d+", error["error"])) >= 2
    check_labels(predict(shared_berth, {"inputs": "night " * 5000, "truncate": True}).json())


def test_too_many_inputs(shared_berth):
    predict(shared_berth, {"inputs": [["a"]] * 5000}).check_error(422)


def test_one_long_word(shared_berth):
    check_labels(predict(shared_berth, {"inputs": "x" * 1_000_000, "truncate": True}).json())


def test_text_of_all_planes(shared_berth):
    text = "".join(chr(c) for c in range(1, 0x110000, 997) if not 0xD800 <= c < 0xE000)
    check_labels(predict(shared_berth, {"inputs": text, "truncate": True}).json())


def test_tokenize_gives_back_the_text(shared_berth):
    response = shared_berth.ask(post("/tokenize", json.dumps({"inputs": TEXT})))
    assert response.status == 200
    for token in response.json()[0]:
        if token["start"] is not None:
            assert TEXT.encode()[token["start"] : token["stop"]].decode() == token["text"]


def test_an_answer_over_the_memory_of_a_request_is_refused(start_berth):
    server = start_berth("--max_body_bytes", "1000000", "--max_request_memory_bytes", "8000000")
    large = server.ask(post("/tokenize", json.dumps({"inputs": "a " * 200_000})))
    assert large.status == 413 and "memory" in large.json()["error"]
    assert server.ask(post("/tokenize", json.dumps({"inputs": "a " * 2000}))).status == 200


def test_the_operators_pages(shared_berth):
    assert shared_berth.ask(get("/health")).status == 200
    assert shared_berth.ask(get("/health/live")).status == 200
    assert shared_berth.ask(get("/info")).json()["model_type"]
    metrics = shared_berth.ask(get("/metrics"))
    assert metrics.header("Content-Type").startswith("text/plain")


def test_the_log_has_a_line_a_request_and_no_text(start_berth):
    server = start_berth("--log.requests")
    secret = "ventriloquist"
    predict(server, {"inputs": secret}, "X-Request-Id: seen-1")
    lines = lambda: [e for e in server.events() if e["event"] == "request" and e["id"] == "seen-1"]
    assert eventually(lambda: len(lines()) == 1)
    line = lines()[0]
    assert line["status"] == 200 and line["jobs"] == 1 and line["tokens"] > 2 and line["ms"] > 0
    assert secret not in "".join(server.printed())


def test_hang_ups_are_counted_and_nothing_is_lost(start_berth):
    """A slow device and many inputs: most still wait when their clients leave."""
    server = start_berth("--compute.workers", "1", "--compute.device", "reference", "--request_timeout_ms", "600000")
    many = json.dumps({"inputs": [["night " * 500]] * 16, "truncate": True})
    clients = [server.connect().send(post("/predict", many)) for _ in range(16)]
    assert eventually(lambda: server.counters()["accepted"] == 16)
    for c in clients[::2]:
        c.reset()
    assert [c.read().status for c in clients[1::2]] == [200] * 8
    assert eventually(lambda: server.counters()["slots_used"] == 0)
    counters = server.counters()
    server.check_sum(counters)
    assert counters["answered"] >= 8 and counters["cancelled"] > 0 and counters["refused"] == counters["expired"] == 0
    assert counters["answered"] + counters["cancelled"] == 16


def test_the_queue_has_an_end(start_berth):
    server = start_berth(
        "--batching.max_queued_jobs", "4", "--server.max_client_batch_size", "4", "--compute.device", "reference"
    )
    body = json.dumps({"inputs": [["night " * 500]] * 4, "truncate": True})
    clients = [server.connect() for _ in range(24)]
    for c in clients:
        c.send(post("/predict", body))
    answers = [c.read() for c in clients]
    assert {r.status for r in answers} == {200, 429}
    refused = next(r for r in answers if r.status == 429).check_error(429, "queue")
    assert int(refused.header("Retry-After")) > 0 and refused.header("Connection") != "close"
    check_labels(predict(server, {"inputs": TEXT}).json())
    server.check_sum(server.counters())


def test_health_while_the_model_loads_and_ready_after(start_berth):
    server = start_berth()
    stages = [e["stage"] for e in server.events() if e["event"] == "cold_start"]
    assert stages[0] == "listen" and len(stages) > 2
    begin = time.monotonic()
    server.terminate()
    server.finish()
    assert time.monotonic() - begin < 3
