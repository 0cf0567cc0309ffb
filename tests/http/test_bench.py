"""`berth bench`: what it counts against servers whose answers are known, what it refuses, and what it reports."""

import contextlib
import csv
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
import xml.dom.minidom

import pytest
import servers
from hdrh.histogram import HdrHistogram
from wire import eventually

BUILD = next(p for p in servers.binary().parents if (p / "build.ninja").exists())
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
USAGE, FAULT, CHECK_FAILED = 2, 1, 3


def wrapped(*words):
    return [*shlex.split(os.environ.get("BERTH_WRAPPER", "")), *map(str, words)]


def bench(url, *options):
    """Runs it, without a warm-up unless one is asked for."""
    return subprocess.run(wrapped(servers.binary(), "bench", url, "--warmup", "0", *options), capture_output=True,
                          text=True, timeout=120)


def measured(url, *options, code=0):
    done = bench(url, "--json", "-", *options)
    assert done.returncode == code, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def refused(code, url, *options):
    done = bench(url, *options)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert re.fullmatch(r"berth: bench: [^\n]+\n", done.stderr), done.stderr
    return done.stderr


class Trivial:
    """trivial_server.c."""

    def __init__(self, **settings):
        words = [f"{k}={v}" for k, v in settings.items()]
        self.process = subprocess.Popen(wrapped(BUILD / "bench" / "client" / "trivial_server", *words),
                                        stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().split()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


class Scripted:
    """Gives each request to `answer(n, request)`: the bytes to send, or None to close; n counts from 0.

    After `last` requests it stops listening too."""

    def __init__(self, answer, last=None):
        self.answer, self.last, self.requests, self.lock = answer, last, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.open.add(connection)
                threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection):
        rest = b""
        with connection, contextlib.suppress(OSError):
            while True:
                request, rest = self.read(connection, rest)
                if request is None:
                    break
                with self.lock:
                    n = len(self.requests)
                    self.requests.append(request)
                data = self.answer(n, request)
                if data:
                    connection.sendall(data)
                if data is None or not data.startswith(b"HTTP"):
                    break
                if self.last is not None and n + 1 >= self.last:
                    self.stop()
                    break
        self.open.discard(connection)

    @staticmethod
    def read(connection, rest):
        while b"\r\n\r\n" not in rest:
            data = connection.recv(65536)
            if not data:
                return None, b""
            rest += data
        head, rest = rest.split(b"\r\n\r\n", 1)
        length = re.search(rb"Content-Length: (\d+)", head)
        length = int(length.group(1)) if length else 0
        while len(rest) < length:
            rest += connection.recv(65536)
        return (head, rest[:length]), rest[length:]


@pytest.fixture(scope="module")
def trivial():
    with Trivial(timing=1) as server:
        yield server


def test_closed_loop_sends_what_was_asked(trivial):
    result = measured(trivial.url, "--connections", 3, "--requests", 500)
    assert result["due"] == result["answered"] == result["latency_ms"]["count"] == 500
    assert result["failed_requests"] == 0 and result["errors"] == {} and not result["partial"]
    assert result["throughput_per_s"] == pytest.approx(500 / result["window_s"], rel=1e-6)
    assert result["offered_per_s"] is None


@pytest.mark.parametrize("threads", [1, 3])
def test_open_loop_keeps_its_schedule(trivial, threads):
    result = measured(trivial.url, "--rate", "200:0.5,0:0.5,100-300:1", "--arrivals", "constant", "--threads", threads)
    assert result["due"] == result["answered"] == 300
    assert result["window_s"] == pytest.approx(2)
    assert result["send_delay_us"]["count"] == 300


def test_requests_end_an_open_loop(trivial):
    result = measured(trivial.url, "--rate", 500, "--requests", 100)
    assert result["answered"] == 100


def test_warm_up_is_not_counted(trivial):
    with Scripted(lambda n, request: OK) as server:
        result = measured(server.url, "--rate", 100, "--arrivals", "constant", "--warmup", "0.5", "--duration", "0.5",
                          "--no-probe")
        assert result["answered"] == 50
        assert len(server.requests) == 100


def test_what_is_sent():
    """Head, body and framing; texts in turn, escaped."""
    with Scripted(lambda n, request: OK) as server:
        text = 'a "quoted" \\ film é'
        path = servers.ROOT / "build" / "bench-texts.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"first\n{text}\n", encoding="utf-8")
        measured(server.url + "/ignored", "--connections", 1, "--requests", 4, "--texts", path, "--path", "/v1/x?y=z",
                 "--field", "input", "--header", "Authorization: Bearer k", "--no-probe")
        path.unlink()
        heads = [head.decode() for head, _ in server.requests]
        assert [json.loads(body) for _, body in server.requests] == [{"input": "first"}, {"input": text}] * 2
    lines = heads[0].split("\r\n")
    assert lines[0] == "POST /v1/x?y=z HTTP/1.1"
    assert lines.count("Authorization: Bearer k") == 1
    assert "Content-Type: application/json" in lines
    assert f"Host: {server.url[7:]}" in lines


def test_a_field_may_be_a_list():
    with Scripted(lambda n, request: OK) as server:
        measured(server.url, "--connections", 1, "--requests", 2, "--lengths", "fixed:9", "--field", "input[]", "--no-probe")
        bodies = [json.loads(body) for _, body in server.requests]
    assert [list(b) for b in bodies] == [["input"]] * 2
    assert all(len(b["input"]) == 1 and isinstance(b["input"][0], str) for b in bodies)


def test_get_sends_no_body():
    with Scripted(lambda n, request: OK) as server:
        measured(server.url + "/health", "--connections", 1, "--requests", 2, "--method", "GET")
        assert all(head.startswith(b"GET /health HTTP/1.1") and b"Content" not in head for head, _ in server.requests)


def test_same_seed_same_texts(trivial):
    bodies = []
    for threads in (1, 2):
        with Scripted(lambda n, request: OK) as server:
            measured(server.url, "--rate", 200, "--arrivals", "constant", "--requests", 60, "--seed", 9, "--no-probe",
                     "--lengths", "lognormal:24:1", "--threads", threads)
            bodies.append(sorted(body for _, body in server.requests))
    assert bodies[0] == bodies[1] and len(set(bodies[0])) > 50


def test_latency_counts_from_the_intended_send():
    """One connection, 50 ms an answer, 40 requests a second due: the queue is in the client, and must show."""
    with Trivial(delay_us=50000) as server:
        result = measured(server.url, "--rate", 40, "--arrivals", "constant", "--requests", 40, "--max-connections", 1)
    assert result["answered"] == 40 and result["waited_for_connection"] >= 30
    # The last was due at 975 ms and cannot have been answered before 40 * 50 ms.
    assert result["latency_ms"]["max"] >= 1000
    assert result["service_ms"]["p50"] < result["latency_ms"]["p50"]


def test_a_connection_that_is_closed_is_opened_again():
    close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]"
    with Scripted(lambda n, request: close) as server:
        result = measured(server.url, "--connections", 2, "--requests", 20)
    assert result["answered"] == 20 and result["connections_opened"] == 20


def test_errors_by_kind():
    answers = {
        0: b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 100\r\nContent-Length: 4\r\n\r\nbusy",
        1: b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n",
        2: b"HTTP/1.1 504 Late\r\nContent-Length: 0\r\n\r\n",
        3: b"HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n",
        4: b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
        5: b"SSH-2.0-something\r\n",
        6: None,
        7: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]extra",
        8: OK,
        9: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
    }
    with Scripted(lambda n, request: answers[n % 10]) as server:
        result = measured(server.url, "--connections", 1, "--requests", 20, "--no-probe")
    counts = {kind: e["count"] for kind, e in result["errors"].items()}
    assert counts == {"429": 2, "503": 2, "504": 2, "4xx": 2, "5xx": 2, "protocol": 4, "closed": 2}
    assert result["answered"] == 4 and result["error_rate"] == pytest.approx(0.8)
    assert "busy" in result["errors"]["429"]["first"]


def test_timeouts_are_errors_and_count_as_latency():
    def answer(n, request):
        if n % 2:
            time.sleep(1)
        return OK

    with Scripted(answer) as server:
        result = measured(server.url, "--connections", 1, "--requests", 4, "--timeout", "200ms", "--no-probe")
    assert result["errors"]["timeout"]["count"] == 2 and result["answered"] == 2
    assert result["latency_ms"]["count"] == 4 and result["latency_ms"]["max"] >= 200


def test_stages_buckets_and_padding(trivial):
    result = measured(trivial.url, "--connections", 1, "--requests", 50)
    stages = {s["name"]: s for s in result["stages"]}
    assert stages["queue"]["share"] == pytest.approx(0.75) and stages["queue"]["over_20_percent"]
    assert stages["infer"]["share"] == pytest.approx(0.25)
    assert result["server_total_mean_ms"] == pytest.approx(4)
    assert [(b["bucket"], b["count"]) for b in result["buckets"]] == [(32, 50)]
    assert result["padding"]["ratio"] == pytest.approx(0.25) and result["padding"]["batches"] == pytest.approx(25)
    assert sum(s["due"] for s in result["series"]) == 50


def test_malformed_timing_headers_are_told_and_left_out():
    def answer(n, request):
        value = b"queue;dur=1, total;dur=2" if n % 2 else b"queue;dur=soon"
        return b"HTTP/1.1 200 OK\r\nServer-Timing: " + value + b"\r\nContent-Length: 0\r\n\r\n"

    with Scripted(answer) as server:
        result = measured(server.url, "--connections", 1, "--requests", 10, "--no-probe")
        assert result["answered"] == 10 and result["malformed_timing_headers"] == 5
        assert result["stages"][0]["mean_ms"] == pytest.approx(1)
        text = bench(server.url, "--connections", 1, "--requests", 10, "--no-probe").stdout
    assert "malformed Server-Timing" in text


def test_a_server_that_stops_leaves_partial_results():
    with Scripted(lambda n, request: OK, last=60) as server:
        began = time.monotonic()
        result = measured(server.url, "--rate", 200, "--duration", "20", "--give-up", "300ms", code=FAULT)
    assert time.monotonic() - began < 15
    assert result["partial"] and result["partial_reason"]
    assert 50 <= result["answered"] <= len(server.requests) < 4000
    assert result["window_s"] < 15


def test_an_interrupted_run_is_partial(trivial):
    process = subprocess.Popen(wrapped(servers.binary(), "bench", trivial.url, "--rate", 100, "--duration", 60, "--json",
                                       "-", "--warmup", 0), stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    result = json.loads(out)
    assert process.returncode == FAULT
    assert result["partial"] and result["partial_reason"] == "interrupted" and result["answered"] > 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_no_server():
    url = f"http://127.0.0.1:{free_port()}"
    assert "Connection refused; is the server running" in refused(FAULT, url, "--rate", 10)
    result = measured(url, "--rate", 100, "--no-probe", "--duration", 5, "--give-up", "200ms", code=FAULT)
    assert result["partial"] and result["answered"] == 0 and result["errors"]["connect"]["count"] > 0


def test_wrong_path_and_wrong_server():
    with Trivial(status=404) as server:
        assert "answered HTTP 404" in refused(FAULT, server.url, "--rate", 10)
    with Scripted(lambda n, request: b"SSH-2.0-x\r\n") as server:
        assert "is this an HTTP server" in refused(FAULT, server.url, "--rate", 10)


@pytest.mark.parametrize("words, what", [
    (["--rate", "fast"], "--rate"),
    (["--rate", "10", "--connections", "2"], "exclude each other"),
    (["--connections", "10001"], "1 to 10000"),
    (["--duration", "1y"], "a time in seconds"),
    (["--threads", "0"], "--threads"),
    (["--header", "no colon"], "--header"),
    (["--header", "Content-Length: 5"], "the client's own"),
    (["--header", "A: b\r\nC: d"], "control character"),
    (["--field", 'a"b'], "--field"),
    (["--path", "no-slash"], "--path"),
    (["--dialect", "grpc"], "native or tei"),
    (["--arrivals", "often"], "poisson"),
    (["--lengths", "gauss:3"], "lognormal"),
    (["--fail-if", "p99>20"], "--fail-if"),
    (["--find-rate", "p99"], "--find-rate"),
    (["--find-rate", "p99=5ms", "--connections", "3"], "--find-rate"),
    (["--ratee", "5"], "the nearest known one is --rate"),
    (["--method", "PUT"], "POST or GET"),
    (["more"], "one word too many"),
])
def test_wrong_options(words, what):
    assert what in refused(USAGE, "http://127.0.0.1:9", *words)


@pytest.mark.parametrize("url", ["127.0.0.1:80", "https://127.0.0.1", "http://", "http://host:port/", "http://a b/"])
def test_wrong_url(url):
    assert "http://HOST:PORT/PATH" in refused(USAGE, url)


def test_more_connections_than_files():
    words = wrapped(servers.binary(), "bench", "http://127.0.0.1:9", "--connections", 900)
    done = subprocess.run(["sh", "-c", 'ulimit -n 500; exec "$@"', "sh", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == USAGE and "ulimit -n" in done.stderr


def test_no_url_and_help():
    done = subprocess.run(wrapped(servers.binary(), "bench"), capture_output=True, text=True, timeout=60)
    assert done.returncode == USAGE and "no URL" in done.stderr
    done = subprocess.run(wrapped(servers.binary(), "bench", "--help"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    for option in ("--rate", "--find-rate", "--fail-if", "--html", "--until-stable"):
        assert f"  {option} " in done.stdout or f"  {option}\n" in done.stdout


def test_wrong_files(tmp_path, trivial):
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    assert "no text in it" in refused(USAGE, trivial.url, "--texts", empty)
    assert "No such file" in refused(FAULT, trivial.url, "--texts", tmp_path / "none")
    assert "--json" in refused(FAULT, trivial.url, "--rate", 10, "--json", tmp_path / "no" / "folder.json")
    trace = tmp_path / "trace.csv"
    trace.write_text("at_ms,tokens\n0.000,5\nx,5\n")
    assert "trace.csv" in refused(USAGE, trivial.url, "--trace", trace)


def test_fail_if(trivial):
    run = ["--connections", 1, "--requests", 20]
    result = measured(trivial.url, *run, "--fail-if", "p99>60s", "--fail-if", "errors>0", "--fail-if", "throughput<0.1")
    assert not result["failed"] and [c["failed"] for c in result["checks"]] == [False] * 3
    result = measured(trivial.url, *run, "--fail-if", "p99>60s", "--fail-if", "padding>20%", code=CHECK_FAILED)
    assert result["failed"] and [c["failed"] for c in result["checks"]] == [False, True]


def test_trace_replay(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("at_ms,tokens,priority,key\n0.000,5,normal,0\n100.000,40,normal,0\n400.000,12,high,1\n")
    with Scripted(lambda n, request: OK) as server:
        result = measured(server.url, "--trace", trace, "--speed", 2, "--no-probe")
        words = [len(json.loads(body)["inputs"].split()) for _, body in server.requests]
    assert words == [3, 38, 10]
    assert result["answered"] == 3 and result["window_s"] == pytest.approx(0.2, abs=0.01)


def test_until_stable_prints_its_interval(trivial):
    result = measured(trivial.url, "--rate", 200, "--arrivals", "constant", "--duration", "0.2", "--until-stable",
                      "--max-rounds", 4)
    rounds = result["rounds"]
    assert 3 <= rounds["n"] <= 4 and rounds["confidence"] == 0.95
    assert result["answered"] == 40 * rounds["n"]
    assert rounds["throughput_per_s"]["half_width"] >= 0
    assert result["series"][-1]["at_s"] > 0.2


def test_find_rate():
    """2 connections of 20 ms hold 100 requests a second and not many more."""
    with Trivial(delay_us=20000) as server:
        result = measured(server.url, "--rate", 20, "--find-rate", "p90=300ms", "--max-connections", 2, "--duration", "2",
                          "--arrivals", "constant", "--precision", "0.2")
        assert 30 <= result["find_rate"]["rate_per_s"] <= 150
        assert any(not t["holds"] for t in result["find_rate"]["tries"])
        result = measured(server.url, "--rate", 1, "--find-rate", "p50=1ms", "--duration", "0.5", code=CHECK_FAILED)
        assert result["find_rate"]["rate_per_s"] is None


def test_reports_agree(tmp_path, trivial):
    paths = {kind: tmp_path / f"result.{kind}" for kind in ("json", "csv", "samples", "html")}
    options = [word for kind, path in paths.items() for word in (f"--{kind}", path)]
    done = bench(trivial.url, "--rate", 300, "--duration", 1, "--title", 'a "run", <b>', *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(paths["json"].read_text())
    assert f"{result['answered']} answered" in done.stdout
    assert f"p99 {result['latency_ms']['p99']:.3f}" in done.stdout
    [row] = csv.DictReader(paths["csv"].open())
    assert row["title"] == 'a "run", <b>' and int(row["answered"]) == result["answered"]
    assert float(row["p99_ms"]) == pytest.approx(result["latency_ms"]["p99"], abs=1e-3)
    samples = list(csv.DictReader(paths["samples"].open()))
    assert len(samples) == result["answered"] and {s["outcome"] for s in samples} == {"ok"}
    slowest = max(float(s["latency_ms"]) for s in samples)
    assert slowest == pytest.approx(result["latency_ms"]["max"], rel=1e-3)
    assert {float(s["queue_ms"]) for s in samples} == {3.0}


def test_html_stands_alone(tmp_path, trivial):
    path = tmp_path / "result.html"
    bench(trivial.url, "--rate", 300, "--duration", 1, "--title", "<script>x", "--html", path)
    page = path.read_text()
    assert "<script" not in page and "src=" not in page and "@import" not in page and "url(" not in page
    assert "&lt;script&gt;x" in page
    figures = re.findall(r"<svg viewBox.*?</svg>", page, re.S)
    assert len(figures) == 6
    for figure in figures:
        xml.dom.minidom.parseString(figure)
        assert "nan" not in figure and "inf" not in figure
    for words in ("Latency by percentile", "Throughput over time", "Queue over time", "Batches by padding", "over 20 %",
                  "By length", "Errors"):
        assert words in page


def test_tei_dialect():
    head = b"HTTP/1.1 200 OK\r\nx-queue-time: 3\r\nx-inference-time: 5\r\nx-total-time: 10\r\nContent-Length: 0\r\n\r\n"
    with Scripted(lambda n, request: head) as server:
        result = measured(server.url, "--connections", 1, "--requests", 5, "--dialect", "tei")
    assert {s["name"]: s["share"] for s in result["stages"]} == {"queue": pytest.approx(0.3), "infer": pytest.approx(0.5)}


def test_against_berth(shared_berth):
    """The counters of the server and of the client are the same, and so are their stages."""
    before = shared_berth.counters()
    result = measured(f"http://127.0.0.1:{shared_berth.port}", "--connections", 4, "--requests", 60, "--lengths",
                      "lognormal:12:0.8", "--max-tokens", 30, "--no-probe")
    assert result["answered"] == 60 and result["errors"] == {}
    assert eventually(lambda: shared_berth.counters()["answered"] - before["answered"] >= 60)
    names = [s["name"] for s in result["stages"]]
    assert names == ["read", "parse", "tokenize", "queue", "form", "infer", "post", "write"]
    assert sum(s["share"] for s in result["stages"]) == pytest.approx(1, abs=0.01)
    assert sum(b["count"] for b in result["buckets"]) == 60
    assert result["padding"]["ratio"] == 0 and result["malformed_timing_headers"] == 0


@pytest.mark.parametrize("law", ["lognormal", "small", "wide"])
def test_histogram_against_hdrhistogram(law):
    rng = random.Random(law)
    draw = {"lognormal": lambda: int(rng.lognormvariate(15, 1.5)), "small": lambda: rng.randrange(3000),
            "wide": lambda: int(10 ** rng.uniform(0, 11.9))}[law]
    values = [max(1, draw()) for _ in range(30000)]
    quantiles = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1]
    tool = BUILD / "tests" / "unit" / "bench" / "hist_quantiles"
    done = subprocess.run(wrapped(tool, *quantiles), input="\n".join(map(str, values)), capture_output=True, text=True,
                          timeout=60, check=True)
    lines = done.stdout.split()
    other = HdrHistogram(1, 1 << 40, 3)
    for value in values:
        other.record_value(value)
    assert int(lines[0]) == other.get_total_count() == 30000
    assert int(lines[1]) == min(values) and int(lines[2]) == max(values)
    assert float(lines[3]) == pytest.approx(sum(values) / len(values))
    for q, own in zip(quantiles, map(int, lines[4:])):
        theirs = min(other.get_value_at_percentile(100 * q), max(values))  # theirs is a bin's edge, also at the end
        assert own == theirs, (law, q)
