"""`berth tune` and what it eats: recorded traces, /debug/lengths; what it says of loads that are odd."""

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import http.server

import pytest
import servers
from test_cli import BASE, berth, refused
from wire import eventually, get, post

COST = ("--cost", "400,110,0.045")
SMALL = (*COST, "--lengths", "chat", "--rate", "150", "--count", "400")


def tune(*arguments):
    """Its table. That other programs had the cores while the model was measured may be told beside it."""
    result = berth("tune", *arguments)
    told = [line for line in result.stderr.decode().splitlines() if '"event":"cost_sweep"' not in line]
    assert (result.returncode, told) == (0, []), result.stderr.decode()
    return result.stdout.decode()


def settings(path):
    return json.loads(re.sub(r"(?m)^//.*$", "", path.read_text()))["batching"]


def rows(out):
    """The table's lines by name, as numbers; of classes without inputs nothing."""
    found = re.findall(r"(?m)^(before|proposal|as configured|padded FIFO|padded DP|packed FIFO) +([0-9.%\- ]+)$", out)
    return {name: [float(x.rstrip("%")) for x in text.split() if x != "-"] for name, text in found}


def p99(row):
    return row[-4]


def trace_of(path, lines):
    path.write_text("at_ms,tokens,priority,key\n" + "".join(f"{at:.3f},{n},normal,0\n" for at, n in lines))
    return path


# the proposal


@pytest.mark.parametrize("mode", ["bucketed", "packed", "padded"])
def test_settings_read_back(tmp_path, mode):
    file = tmp_path / "tuned.jsonc"
    out = tune(*SMALL, "--mode", mode, "--out", file)
    assert str(file) in out
    own = settings(file)
    assert own["mode"] == mode
    printed = json.loads(berth("serve", "--config", file, "--print-config").stdout)["batching"]
    assert {key: printed[key] for key in own} == own
    assert berth("serve", "--config", file, "--check-config").stdout == b"OK\n"
    assert ("buckets" in own) == (mode != "padded")
    before, proposal = rows(out)["before"], rows(out)["proposal"]
    assert before == proposal or p99(proposal) < p99(before) or proposal[-3] > before[-3]
    # what is written is what was tried: the same load with these settings gives the proposal's line
    again = rows(tune(*SMALL, "--config", file, "--simulate"))["as configured"]
    assert again == proposal


def test_same_words_same_answer():
    assert tune(*SMALL, "--mode", "bucketed") == tune(*SMALL, "--mode", "bucketed")
    assert tune(*SMALL, "--simulate", "--seed", "2") != tune(*SMALL, "--simulate", "--seed", "3")


def test_settings_on_standard_output(tmp_path):
    out = tune(*SMALL)
    file = tmp_path / "copied.jsonc"
    file.write_text(out[out.index("// Proposed by berth tune"):])
    assert berth("serve", "--config", file, "--check-config").stdout == b"OK\n"


def test_simulate_compares_schedulers():
    table = rows(tune(*SMALL, "--simulate"))
    assert set(table) == {"padded FIFO", "padded DP", "packed FIFO", "as configured"}
    assert table["padded FIFO"][-2] > 0 and table["packed FIFO"][-2] == 0  # padding


def test_slo_that_can_be_held_and_one_that_cannot():
    easy = tune(*SMALL, "--slo", "p99=2s")
    assert "cannot be held" not in easy
    hard = tune(*SMALL, "--slo", "p99=0.001ms")
    assert re.search(r"p99=0.001ms cannot be held.*The nearest: p99 [0-9.]+ ms", hard)
    assert re.search(r"--slo p99=\d+ms", hard)


def test_more_load_than_can_be_served():
    out = tune(*COST, "--lengths", "documents", "--rate", "1000", "--count", "400")
    assert re.search(r"The load, [0-9.]+/s, is more than the [0-9.]+/s that can be served", out)


# loads


def test_odd_traces(tmp_path):
    one = trace_of(tmp_path / "one.csv", [(0, 12)])
    out = tune(*COST, "--trace", one)
    assert "1 arrivals" in out and rows(out)["before"][-4] > 0
    out = tune(*COST, "--trace", one, "--mode", "bucketed", "--out", tmp_path / "one.jsonc")
    assert [b["up_to"] for b in settings(tmp_path / "one.jsonc")["buckets"]][-1] == 512
    same = trace_of(tmp_path / "same.csv", [(0, 12)] * 50)  # all at once: no rate
    assert "50 arrivals" in tune(*COST, "--trace", same)
    empty = trace_of(tmp_path / "empty.csv", [])
    assert "no arrivals" in refused_run(*COST, "--trace", empty)
    (tmp_path / "bad.csv").write_text("at_ms,tokens\n1,2\n0.5,3\n")
    assert "bad.csv:3" in refused_run(*COST, "--trace", tmp_path / "bad.csv")
    assert "none.csv" in refused_run(*COST, "--trace", tmp_path / "none.csv")


def refused_run(*arguments):
    """Refused for what was read, not for a word; on one line."""
    result = berth("tune", *arguments)
    assert result.returncode == 1
    err = result.stderr.decode()
    assert re.fullmatch(r"berth: tune: [^\n]+\n", err), err
    return err


def test_longer_than_the_limit(tmp_path):
    trace = trace_of(tmp_path / "long.csv", [(i * 20, 600 if i % 4 == 0 else 10) for i in range(100)])
    assert "25 of them are longer than 512 tokens and cut" in tune(*COST, "--trace", trace)
    out = tune(*COST, "--trace", trace, "--auto_truncate=false")
    assert "25 longer than 512 tokens are left out" in out
    trace = trace_of(tmp_path / "longer.csv", [(0, 600)])
    assert "refuse them all" in refused_run(*COST, "--trace", trace, "--auto_truncate=false")
    # MODEL_DIR's own limit, 64 here, counts
    out = tune(BASE, *COST, "--lengths", "chat", "--rate", "100", "--count", "200", "--out", tmp_path / "t.jsonc")
    assert "1 to 32 tokens" in out and "33 to 64 tokens" in out


def test_more_buckets_than_lengths(tmp_path):
    (tmp_path / "lengths").write_text("10\n20\n")
    out = tune(*COST, "--lengths", tmp_path / "lengths", "--rate", "100", "--count", "300", "--mode", "bucketed", "--out",
               tmp_path / "t.jsonc")
    bounds = [b["up_to"] for b in settings(tmp_path / "t.jsonc")["buckets"]]
    assert bounds[-1] == 512 and set(bounds) <= {10, 20, 512}, out


def test_lengths_of_a_file(tmp_path):
    file = tmp_path / "lengths.json"
    file.write_text('{"inputs_per_s": 50, "lengths": {"10": 3, "200": 1}}')
    assert "200 poisson arrivals at 50/s" in tune(*COST, "--lengths", file, "--count", "200", "--simulate")
    out = tune(*COST, "--lengths", file, "--rate", "70", "--arrivals", "bursts", "--count", "200", "--simulate")
    assert "200 bursts arrivals at 70/s" in out
    file.write_text('{"lengths": {"10": 3, "x": 1}}')
    assert 'lengths["x"]' in refused_run(*COST, "--lengths", file, "--rate", "5")
    file.write_text("10\nten\n")
    assert "lengths.json:2" in refused_run(*COST, "--lengths", file, "--rate", "5")
    assert "--rate" in refused_run(*COST, "--lengths", "chat")
    assert "bimodal" in refused_run(*COST, "--lengths", "caht", "--rate", "5")


# words


@pytest.mark.parametrize("words, why", [
    ((), "no load"),
    (("--trace", "a", "--lengths", "chat"), "two loads"),
    (("--trace", "a", "--rate", "5"), "--lengths"),
    (("--lengths", "chat", "--rate", "5"), "MODEL_DIR"),
    ((*COST, "--lengths", "chat", "--rate", "0"), "--rate"),
    ((*COST, "--lengths", "chat", "--rate", "nan"), "--rate"),
    ((*COST, "--lengths", "chat", "--rate", "-1"), "--rate"),
    ((*COST, "--lengths", "chat", "--rate", "5", "--count", "5.5"), "an integer"),
    ((*COST, "--lengths", "chat", "--rate", "5", "--arrivals", "even"), "poisson"),
    ((*COST, "--lengths", "chat", "--rate", "5", "--slo", "p95=5ms"), "p99=50ms"),
    ((*COST, "--lengths", "chat", "--rate", "5", "--slo", "p99=5"), "p99=50ms"),
    ((*COST, "--lengths", "chat", "--rate", "5", "--slo", "p99=0ms"), "p99=50ms"),
    (("--cost", "1,2", "--lengths", "chat", "--rate", "5"), "A,B,C"),
    (("--cost", "1,2,3,4", "--lengths", "chat", "--rate", "5"), "A,B,C"),
    (("--cost", "0,0,0", "--lengths", "chat", "--rate", "5"), "A,B,C"),
    (("--cost", "a,b,c", "--lengths", "chat", "--rate", "5"), "A,B,C"),
    ((*SMALL, "--confirm", "5"), "--url"),
    ((*SMALL, "--keep"), "--url"),
    ((*SMALL, "--url", "http://127.0.0.1:1", "--confirm", "-1"), "--confirm"),
    ((*SMALL, "--url", "http://127.0.0.1:1", "--confirm", "0", "--keep"), "--confirm 0"),
    ((*SMALL, "--url", "http://127.0.0.1:1", "--simulate", "--confirm", "5"), "--simulate"),
    (("--trcae", "a"), "--trace"),
    ((*SMALL, "DIR", "another"), "too many"),
])
def test_wrong_words(words, why):
    assert why in refused(2, "tune", *words)


def test_nothing_to_tune():
    assert "mode none" in refused_run(*SMALL, "--mode", "none")
    assert "--out: /no/such/dir/x" in refused_run(*SMALL, "--out", "/no/such/dir/x")


def test_help_names_its_options():
    out = berth("tune", "--help").stdout.decode()
    for option in ("--trace FILE", "--lengths FILE|NAME", "--slo p99=TIME", "--simulate\n", "--keep\n", "--batching.mode"):
        assert option in out
    assert "usage: berth tune [MODEL_DIR]" in out


# what the server records


def predict(server, text):
    return server.ask(post("/predict", json.dumps({"inputs": text}).encode()))


def test_debug_lengths(start_berth):
    server = start_berth()
    assert server.ask(get("/debug/lengths")).json()["lengths"] == {}
    for text in ("good", "good", "a good film", [["good"], ["a good film"]]):
        assert predict(server, text).status == 200
    told = server.ask(get("/debug/lengths")).json()
    assert told["lengths"] == {"3": 3, "5": 2}
    assert (told["inputs"], told["tokens"]) == (5, 19)
    assert told["inputs_per_s"] > 0 and (told["recorded"], told["not_recorded"]) == (0, 0)


def test_record_and_tune(start_berth, tmp_path):
    trace = tmp_path / "trace.csv"
    server = start_berth("--record", trace)
    for i in range(40):
        assert predict(server, "good " * (1 + i % 7)).status == 200
    server.terminate()
    server.finish()
    [stop] = [e for e in server.events() if e["event"] == "record_stop"]
    assert (stop["arrivals"], stop["dropped"]) == (40, 0)
    header, *lines = trace.read_text().splitlines()
    assert header == "at_ms,tokens,priority,key"
    assert [int(line.split(",")[1]) for line in lines] == [3 + i % 7 for i in range(40)]
    assert "good" not in trace.read_text()
    times = [float(line.split(",")[0]) for line in lines]
    assert times[0] == 0 and times == sorted(times)
    # the model itself is measured, when no cost is given
    out = tune(BASE, "--trace", trace, "--mode", "bucketed", "--out", tmp_path / "tuned.jsonc")
    assert "40 arrivals" in out and "measured: base" in out
    assert berth("serve", BASE, "--config", tmp_path / "tuned.jsonc", "--check-config").returncode == 0
    tuned = start_berth("--config", tmp_path / "tuned.jsonc")
    assert predict(tuned, "good").status == 200


def test_record_has_a_limit(start_berth, tmp_path):
    trace = tmp_path / "trace.csv"
    server = start_berth("--record", trace, "--record_max_bytes", "4096")
    for _ in range(12):
        assert predict(server, [["good"]] * 32).status == 200
    server.terminate()
    server.finish()
    assert trace.stat().st_size <= 4096
    [full] = [e for e in server.events() if e["event"] == "record_full"]
    [stop] = [e for e in server.events() if e["event"] == "record_stop"]
    assert stop["arrivals"] == full["arrivals"] and stop["arrivals"] + stop["dropped"] == 12 * 32
    assert f"{stop['arrivals']} arrivals" in tune(*COST, "--trace", trace, "--simulate")


def test_record_where_nothing_can_be_written(tmp_path):
    result = berth("serve", BASE, "--port", "0", "--record", tmp_path / "none" / "trace.csv")
    assert result.returncode == 1
    assert "batching.record" in result.stderr.decode().splitlines()[-1]


# a running server


class Told(http.server.BaseHTTPRequestHandler):
    pages = {"/info": {"max_input_length": 128, "berth": {"workers": 2}},
             "/debug/cost": {"coefficients": {"batch_ns": 4e5, "row_ns": 1.1e5, "token_pair_ns": 45}},
             "/debug/lengths": {"inputs_per_s": 40, "lengths": {"10": 9, "100": 1}}}
    seen = []

    def do_GET(self):
        self.seen.append(self.headers.get("Authorization"))
        body = json.dumps(self.pages.get(self.path, {"error": "no such page"})).encode()
        self.send_response(200 if self.path in self.pages else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def told():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Told) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_url_gives_cost_and_load(told, monkeypatch):
    monkeypatch.setenv("BERTH_ADMIN_KEY", "open-sesame")
    Told.seen.clear()
    out = tune("--url", told, "--count", "300", "--simulate")
    assert "400.0 us + 110.000 us a row + 0.04500 us" in out and f"learnt by {told}" in out
    assert "300 poisson arrivals at 40/s" in out and "2 workers" in out and "33 to 128 tokens" in out
    assert set(Told.seen) == {"Bearer open-sesame"}


def test_url_of_berth_itself(start_berth):
    server = start_berth()
    for text in ("good", "a good film"):
        assert predict(server, text).status == 200
    out = tune("--url", f"http://127.0.0.1:{server.port}", "--rate", "50", "--count", "200", "--simulate")
    assert "learnt by" in out and "200 poisson arrivals at 50/s" in out and "33 to 64 tokens" in out


def test_url_that_does_not_help(told, start_berth, monkeypatch):
    monkeypatch.setitem(Told.pages, "/info", {"x": 1})
    assert "is this a Berth server?" in refused_run("--url", told, "--simulate")
    monkeypatch.delitem(Told.pages, "/info")
    assert "status 404" in refused_run("--url", told, "--simulate")
    assert "http://" in refused_run("--url", "localhost:1", "--simulate")
    assert "without a path" in refused_run("--url", told + "/x", "--simulate")
    assert "refused" in refused_run("--url", "http://127.0.0.1:1", "--simulate")


# confirmed on a running server

IN_FORCE = ("mode", "max_batch_ms", "rank_cost_factor", "interrupt", "buckets")
LIMITS = ("up_to", "max_batch_tokens", "max_batch_requests", "max_wait_ms")


def in_force(server):
    told = {key: value for key, value in server.ask(get("/debug/buckets")).json().items() if key in IN_FORCE}
    told["buckets"] = [{key: bucket[key] for key in LIMITS} for bucket in told["buckets"]]
    return told


def confirm(server, tmp_path, *words, code=0):
    """A load whose lengths the default bounds fit badly, so that there is a better proposal."""
    trace = trace_of(tmp_path / "load.csv", [(i * 20, 33 if i % 2 else 60) for i in range(100)])
    result = berth("tune", "--url", f"http://127.0.0.1:{server.port}", "--trace", trace, "--cost", "400,400,0.1",
                   "--confirm", "1", *words)
    assert result.returncode == code, result.stderr.decode()
    return result.stdout.decode(), result.stderr.decode()


def start_confirm(server, tmp_path):
    trace = trace_of(tmp_path / "load.csv", [(i * 20, 33 if i % 2 else 60) for i in range(200)])
    words = ["--url", f"http://127.0.0.1:{server.port}", "--trace", trace, "--cost", "400,400,0.1", "--confirm", "2",
             "--budget-s", "20"]
    command = [*shlex.split(os.environ.get("BERTH_WRAPPER", "")), servers.binary(), "tune", *words]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def measured(out):
    """Lines of the second table: predicted p50 and p99, measured p50 and p99, answers/s, failed."""
    table = out[out.index("confirming on"):]
    found = re.findall(r"(?m)^(before|proposal) +([0-9. ]+)$", table)
    return {name: [float(x) for x in text.split()] for name, text in found}


def test_confirm_puts_the_old_settings_back(start_berth, tmp_path):
    server = start_berth("--mode", "bucketed", "--max_batch_ms", "70", "--rank_cost_factor", "3.5")
    before = in_force(server)
    out, _ = confirm(server, tmp_path, "--out", tmp_path / "tuned.jsonc")
    assert "70 ms a batch" in out and "rank factor 3.5" in out  # it begins with what is in force there
    assert "50 arrivals" in out and "2 times with each" in out and "has its old settings again" in out
    assert re.search(r"proposal's p99 is [\d.]+ times that of before \(the 2 rounds' own: [\d.]+ to [\d.]+", out)
    trials = measured(out)
    assert set(trials) == {"before", "proposal"}
    for predicted_p50, predicted_p99, p50, p99, answers_per_s, failed in trials.values():
        assert 0 < predicted_p50 <= predicted_p99 and 0 < p50 <= p99
        assert answers_per_s > 0 and failed == 0
    assert in_force(server) == before
    changes = [e for e in server.events() if e["event"] == "batching_changed"]
    assert [e["buckets"] for e in changes] == [len(settings(tmp_path / "tuned.jsonc")["buckets"]), len(before["buckets"])]


@pytest.mark.parametrize("mode", ["bucketed", "padded"])
def test_confirm_keeps_the_proposal(start_berth, tmp_path, mode):
    server = start_berth("--mode", mode)
    before = in_force(server)
    out, _ = confirm(server, tmp_path, "--keep", "--out", tmp_path / "tuned.jsonc")
    kept = in_force(server)
    if "Nothing was changed on the server" in out:
        assert kept == before
        return
    assert "The server keeps it" in out
    # a start with the file that was written has the same in force
    assert kept == in_force(start_berth("--config", tmp_path / "tuned.jsonc"))


def test_confirm_says_whether_the_goal_is_held(start_berth, tmp_path):
    assert "Measured, p99=20000ms is held." in confirm(start_berth(), tmp_path, "--slo", "p99=20s")[0]


def test_confirm_can_be_left_out(start_berth):
    server = start_berth("--mode", "bucketed")
    before = in_force(server)
    out = tune("--url", f"http://127.0.0.1:{server.port}", *SMALL, "--confirm", "0")
    assert "confirming" not in out and in_force(server) == before
    assert not [e for e in server.events() if e["event"] == "batching_changed"]


def test_confirm_needs_a_berth(told, tmp_path):
    trace = trace_of(tmp_path / "load.csv", [(0, 5), (10, 9)])
    assert "/debug/buckets: status 404" in refused_run("--url", told, "--trace", trace)


@pytest.mark.parametrize("answers, said", [
    ([422], "status 422"),
    ([200, 500, 500, 500, 503], "the server may still have the proposal in force"),
    ([500, 200], "status 500"),  # whatever came of the first, the old settings are put in force
])
def test_confirm_when_the_server_refuses(told, tmp_path, monkeypatch, answers, said):
    bodies, left = [], list(answers)
    bucket = {"up_to": 128, "max_batch_tokens": 256, "max_batch_requests": 64, "max_wait_ms": 0}
    monkeypatch.setitem(Told.pages, "/debug/buckets",
                        {"mode": "bucketed", "max_batch_ms": 100, "rank_cost_factor": 4.5, "interrupt": False,
                         "priority_ms": {"normal": 0, "high": -100, "low": 100}, "buckets": [bucket]})

    def answer(handler, status):
        handler.rfile.read(int(handler.headers["Content-Length"]))
        handler.send_response(status)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    def put(handler):
        bodies.append(handler.path)
        answer(handler, left.pop(0))

    monkeypatch.setattr(Told, "do_PUT", put, raising=False)
    monkeypatch.setattr(Told, "do_POST", lambda handler: answer(handler, 200), raising=False)
    trace = trace_of(tmp_path / "load.csv", [(i * 20, 33 if i % 2 else 60) for i in range(100)])
    assert said in refused_run("--url", told, "--trace", trace, "--cost", "400,400,0.1", "--confirm", "1")
    assert bodies == ["/debug/buckets"] * len(answers)


def test_confirm_takes_turns_and_asks_again(told, tmp_path, monkeypatch):
    """Before, proposal, proposal, before, before, proposal: so settings change three times, and are put back, also when
    the server does not answer at once."""
    seen, left = [], [200, 200, 200, 500, 200]
    bucket = {"up_to": 128, "max_batch_tokens": 256, "max_batch_requests": 64, "max_wait_ms": 0}
    monkeypatch.setitem(Told.pages, "/debug/buckets",
                        {"mode": "bucketed", "max_batch_ms": 100, "rank_cost_factor": 4.5, "interrupt": False,
                         "priority_ms": {"normal": 0, "high": -100, "low": 100}, "buckets": [bucket]})

    def answer(handler, status, kind):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if kind == "put":
            seen.append(len(json.loads(body)["buckets"]) if status == 200 else "failed")
        elif not seen or seen[-1] != "load":
            seen.append("load")
        handler.send_response(status)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    monkeypatch.setattr(Told, "do_PUT", lambda handler: answer(handler, left.pop(0), "put"), raising=False)
    monkeypatch.setattr(Told, "do_POST", lambda handler: answer(handler, 200, "load"), raising=False)
    trace = trace_of(tmp_path / "load.csv", [(i * 20, 33 if i % 2 else 60) for i in range(100)])
    out = tune("--url", told, "--trace", trace, "--cost", "400,400,0.1", "--confirm", "0.2", "--confirm-rounds", "3")
    assert "3 times with each" in out and "has its old settings again" in out
    puts = [s for s in seen if s != "load"]
    tuned = puts[0]
    assert tuned > 1 and puts == [tuned, 1, tuned, "failed", 1] and not left
    assert seen == ["load", tuned, "load", 1, "load", tuned, "load", "failed", 1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_confirm_that_is_interrupted_puts_the_old_settings_back(start_berth, tmp_path, number):
    server = start_berth("--mode", "bucketed")
    before = in_force(server)
    process = start_confirm(server, tmp_path)
    assert eventually(lambda: in_force(server) != before, 120)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (1, -number)
    assert in_force(server) == before


def test_confirm_when_the_server_goes_away(start_berth, tmp_path):
    server = start_berth("--mode", "bucketed")
    before = in_force(server)
    process = start_confirm(server, tmp_path)
    assert eventually(lambda: in_force(server) != before, 120)
    eventually(lambda: False, 1)  # into the proposal's turn
    server.process.kill()
    server.process.wait(30)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "confirming: no answer for" in err or "confirming: nothing was answered" in err # as it fell, mid-turn or before
    assert "may still have the proposal in force" in err and "refused" in err
