"""The comparison of servers: its arithmetic, how it reads answers, and one made-up server from start to table."""
import json
import os
import pathlib
import sys
import textwrap
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "peers" / "serve"), str(ROOT / "bench")]

import peers  # noqa: E402
import ratios  # noqa: E402
from peers import Peer  # noqa: E402
from serving import Serving, ServerFailed, read_answer  # noqa: E402

SERVER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({"status": "ready"})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply([{"label": "A", "score": 0.25}, {"label": body["input"][0], "score": 0.75}])
    def reply(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def sample(server, index, rate, p99):
    return {"server": server, "round": index, "requests_per_s": rate, "p50_ms": p99 / 2, "p99_ms": p99, "failed": 0}


OURS = [Peer("ours", "berth", []), Peer("ours8", "berth", [], precision="int8")]
OTHERS = [Peer("single", "x", []), Peer("batching", "x", [], batches=True)]
SAMPLES = [s for i, drift in ((1, 1.0), (2, 0.5), (3, 1.0)) for s in (
    sample("ours", i, 150 * drift, 400 / drift), sample("ours8", i, 300 * drift, 200 / drift),
    sample("single", i, 100 * drift, 1000 / drift), sample("batching", i, 50 * drift, 2000 / drift))]


def test_ratios_are_the_rounds_own():
    assert ratios.ratio(SAMPLES, "ours", "single", "requests_per_s") == pytest.approx(1.5)
    assert ratios.best(SAMPLES, OTHERS) == "single"
    assert ratios.best(SAMPLES, OTHERS, lambda p: p.batches) == "batching"
    assert ratios.best([], OTHERS) is None


def test_goals_are_those_of_the_best():
    found = ratios.goals(SAMPLES, OURS, OTHERS)
    assert [(round(value, 3), wanted, reached) for _, value, wanted, reached in found] == [
        (1.5, 1.25, True), (0.4, 0.5, True), (3.0, 2.3, True), (3.0, 1.8, True)]
    assert [reached for *_, reached in ratios.goals(SAMPLES[:1] + SAMPLES[2:3], OURS, OTHERS)] == [True, True]
    assert "NOT reached" in ratios.goal_lines([("requests/s", 1.0, 1.25, False)])[0]


def test_table_has_who_was_measured():
    lines = ratios.table(SAMPLES, [*OURS, *OTHERS, Peer("absent", "x", [])], "ours")
    assert len(lines) == 2 + 4
    assert lines[4].split(" | ")[-2:] == ["1.50", "0.40 |"]


@pytest.mark.parametrize("value", [
    [{"label": "A", "score": 0.1}, {"label": "B", "score": 0.9}], [[{"label": "B", "score": 0.9}, {"label": "A", "score": 0.1}]],
    {"object": "classify", "data": [[{"score": 0.1, "label": "A"}, {"score": 0.9, "label": "B"}]]}])
def test_answers_of_any_shape(value):
    assert read_answer(value) == ("B", 0.9)


def test_an_embedding_is_an_answer():
    assert read_answer({"data": [{"embedding": [0.5, 1, 2]}]}) == (3, 0.5)


@pytest.fixture
def made_up(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(textwrap.dedent(SERVER))
    return Peer("made up", "none", [sys.executable, str(script), "{port}"], field="input[]", folder=str(tmp_path))


def is_stopped(pid):
    """A signal takes its time on a busy machine."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T":
            return True
        time.sleep(0.01)
    return False


def test_a_server_is_stopped_outside_its_turn(made_up, tmp_path):
    with Serving(made_up, sorted(os.sched_getaffinity(0)), str(tmp_path / "log")) as serving:
        assert is_stopped(serving.process.pid)
        with serving.turn():
            assert serving.ask("a text") == ("a text", 0.75)
        assert is_stopped(serving.process.pid)
    assert serving.process.returncode is not None


def test_a_server_that_ends_is_told(tmp_path):
    peer = Peer("broken", "none", [sys.executable, "-c", "raise SystemExit('no model')"], folder=str(tmp_path))
    with pytest.raises(ServerFailed, match="broken: not ready: no model"):
        Serving(peer, sorted(os.sched_getaffinity(0)), str(tmp_path / "log")).__enter__()


def test_a_wrong_answer_is_told(made_up, tmp_path):
    made_up.path, made_up.field = "/predict", "wrong"
    with Serving(made_up, sorted(os.sched_getaffinity(0)), str(tmp_path / "log")) as serving, serving.turn():
        with pytest.raises(ServerFailed, match="made up"):
            serving.ask("a text")


def test_every_peer_is_pinned():
    for kind in {p.kind for p in peers.PEERS}:
        lines = [line for line in peers.read(ROOT / "bench" / "peers" / "serve" / f"requirements-{kind}.txt").splitlines()
                 if line and line[0] != "#"]
        assert lines and all("==" in line for line in lines)
    assert json.dumps([p.command for p in peers.OURS]).count("{port}") == len(peers.OURS)
