"""What the server knows of its own speed: the cost model, the tuning cache, and how cores are shared out."""

import json
import os

import pytest
from test_cli import BASE, berth, lines
from test_metrics_text import predict, scrape, value
from wire import get

SPLITS = [(1, 1), (1, 2), (2, 1), (2, 2)]


def cost(server):
    response = server.ask(get("/debug/cost"))
    assert response.status == 200, response.body
    return response.json()


def milliseconds(coefficients, sequences, tokens):
    rows = sequences * tokens
    ns = coefficients["batch_ns"] + coefficients["row_ns"] * rows + coefficients["token_pair_ns"] * rows * tokens
    return ns / 1e6


def test_cost_is_told_and_corrected(start_berth):
    server = start_berth("--workers", "1", "--threads", "1")
    before = cost(server)
    assert before["backend"] == "cpu" and before["precision"] == "float32" and before["mode"] == "packed"
    assert before["started_from"] in ("sweep", "cache")
    assert before["n_updates"] == 0 and before["error_median"] == 0
    assert all(v >= 0 for v in before["coefficients"].values()) and any(before["coefficients"].values())
    for p in before["predicted"]:
        expected = milliseconds(before["coefficients"], p["sequences"], p["tokens_each"])
        assert p["ms"] == pytest.approx(expected, rel=1e-3, abs=1e-5)
    for _ in range(5):
        predict(server, "a film that was not bad")
    after = cost(server)
    assert after["n_updates"] == 5 and after["error_median"] > 0
    assert after["coefficients"] != before["coefficients"]
    families = scrape(server)
    for term, unit in (("batch", "batch_ns"), ("row", "row_ns"), ("token_pair", "token_pair_ns")):
        seconds = value(families, "berth_cost_seconds", term=term)
        assert seconds == pytest.approx(after["coefficients"][unit] / 1e9, rel=1e-3, abs=2e-12)
    assert value(families, "berth_cost_updates") == 5
    assert value(families, "berth_cost_error_ratio") == pytest.approx(after["error_median"], rel=1e-3, abs=2e-6)


def test_a_second_start_measures_nothing(start_berth, tmp_path):
    cache = tmp_path / "tuning.json"
    first = start_berth("--tuning-cache", cache, "--threads", "1")
    assert cost(first)["started_from"] == "sweep"
    if not cache.exists():
        pytest.skip("others use this machine's cores: what was measured is not kept")
    assert json.loads(cache.read_text())["berth_tuning"] == 1
    second = start_berth("--tuning-cache", cache, "--threads", "1")
    assert cost(second)["started_from"] == "cache"
    assert cost(second)["coefficients"] == pytest.approx(cost(first)["coefficients"], rel=1e-6)
    other = start_berth("--tuning-cache", cache, "--threads", "1", "--mode", "padded")
    assert cost(other)["started_from"] == "sweep"


def faults(server):
    return [e["fault"] for e in server.events() if e["event"] == "tuning_cache"]


def test_a_cache_that_is_no_cache_does_no_harm(start_berth, tmp_path):
    broken, foreign = tmp_path / "broken.json", tmp_path / "foreign.json"
    broken.write_text('{"berth_tuning": 1, "entries": {"cost')
    foreign.write_text('{"other": true}')
    assert faults(start_berth("--tuning-cache", broken, "--threads", "1")) == ["broken"]
    assert faults(start_berth("--tuning-cache", foreign, "--threads", "1")) == ["foreign"]
    assert foreign.read_text() == '{"other": true}'
    assert faults(start_berth("--tuning-cache", tmp_path, "--threads", "1")) == ["unreadable"]
    assert faults(start_berth("--tuning-cache", "off", "--threads", "1")) == []
    assert sorted(os.listdir(tmp_path)) in (["broken.json", "foreign.json"],)


def trials(server):
    return [e for e in server.events() if e["event"] == "split_trial"]


def test_cores_are_shared_out_by_measuring(start_berth):
    server = start_berth("--tuning-cache", "off")
    ready = server.events()[-1]
    n_cores = len(os.sched_getaffinity(0))
    if n_cores == 1:
        assert (ready["workers"], ready["threads"]) == (1, 1) and not trials(server)
    else:
        assert ready["workers"] * ready["threads"] <= n_cores
        assert all(t["rows_per_s"] > 0 for t in trials(server)) and trials(server)
    predict(server, "a film")


def test_deterministic_measures_no_split(start_berth):
    server = start_berth("--tuning-cache", "off", "--deterministic")
    ready = server.events()[-1]
    assert ready["workers"] == 1 and ready["threads"] == min(len(os.sched_getaffinity(0)), 16)
    assert not trials(server)


def test_no_split_changes_a_bit():
    texts = ["a film", "so very long " * 12, "not bad at all", "bad"] * 8
    stdin = "\n".join(texts).encode()
    answers = [lines(berth("classify", BASE, "--workers", w, "--threads", t, stdin=stdin)) for w, t in SPLITS]
    assert len(answers[0]) == len(texts)
    assert all(a == answers[0] for a in answers)
    assert lines(berth("classify", BASE, "--deterministic", stdin=stdin)) == answers[0]


def test_classify_measures_nothing(tmp_path):
    cache = tmp_path / "tuning.json"
    done = berth("classify", BASE, "good", "--tuning-cache", cache)
    assert done.returncode == 0 and not cache.exists()
    assert b"split_trial" not in done.stderr
