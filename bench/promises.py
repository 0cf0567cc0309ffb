#!/usr/bin/env python3
"""Holds a real server to what is promised of its scheduling.

  build/venv/bin/python bench/promises.py [--full] [--only NAMES] [--rounds N] [--model DIR] [--label WORD]

  overload   open loop at 3 x capacity, deadlines of 1 s: goodput, refusals, recovery, nothing in vain
  hang-ups   half of the clients hang up while they wait: compute spent on them, how soon it is noticed
  beside     texts of 8 tokens at 20/s beside 512-token texts at 80 % load, with and without batching.interrupt,
             beside the same by arrival
  mixed      Poisson at 50, 80 and 95 % of capacity (there five rounds at least): the scheduler beside packed batches in
             order of arrival
  padded     80 % and 150 % of what padded batches can do: packed beside padded

With --full the runs are as long as promised of (60 s of overload), some 11 minutes in all; without, a tenth of that, to
see that everything works: tails of such short runs mean little. Ratios are medians over interleaved rounds, each with
fresh servers. Client and server share the machine, so what the client takes of it is the server's loss; a refusal costs
the client as much as an answer. Writes bench/results/promises-DATE.md and .csv. Exit status 1 when a bound is missed.
Options that are not known here go to the server.
"""
import argparse
import csv
import datetime
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from server import BERTH, MODEL, ROOT, Server, commit, machine

DEADLINE_MS = 1000
SHORT_SCALE, LEAST_S = 0.1, 4
SHORT_TOKENS, LONG_TOKENS = 32, 256
CAPACITY_CONNECTIONS, N_IMPATIENT, PROMPT_MS = 32, 128, 50
ALWAYS_WORK = 128  # connections in a closed loop that leave no batch short of texts
FIFO = ["--rank_cost_factor", "0", "--max_batch_ms", "0"]
INTERRUPT = ["--interrupt"]
PADDED = ["--mode", "padded", "--padded_max_batch_requests", "32", "--padded_max_wait_ms", "5"]
UNHURRIED = ["--request_timeout_ms", "600000", "--max_concurrent_requests", "4096", "--max_queued_jobs", "4096",
             "--max_queued_tokens", "100000000"]


class Results:
    def __init__(self):
        self.rows = []

    def add(self, promise, what, value, unit, bound=None, holds=None):
        """bound: a text such as "<= 5"; holds says whether it is kept. Without one the figure is only told."""
        verdict = "" if bound is None else "pass" if holds else "FAIL"
        self.rows.append({"promise": promise, "figure": what, "value": round(value, 4), "unit": unit,
                          "bound": bound or "", "verdict": verdict})
        print(f"{promise:9} {what:58} {value:10.3f} {unit:5} {bound or '':12} {verdict}", flush=True)

    def at_most(self, promise, what, value, most, unit=""):
        self.add(promise, what, value, unit, f"<= {most:g}", value <= most)

    def at_least(self, promise, what, value, least, unit=""):
        self.add(promise, what, value, unit, f">= {least:g}", value >= least)


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


class Load:
    """One run of `berth bench`, with every request as a sample."""

    def __init__(self, server, *words, timeout_s=900):
        self.command = [BERTH, "bench", server.url, "--quiet", *map(str, words)]
        self.timeout_s = timeout_s
        self.process = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.json, self.csv = (os.path.join(self.folder.name, name) for name in ("run.json", "run.csv"))
        self.process = subprocess.Popen([*self.command, "--json", self.json, "--samples", self.csv],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        self.process.stderr.close()
        self.folder.cleanup()

    def wait(self):
        _, said = self.process.communicate(timeout=self.timeout_s)
        if self.process.returncode:
            raise RuntimeError(f"{' '.join(self.command)}: exit {self.process.returncode}: {said.strip()}")
        with open(self.json, encoding="utf-8") as f:
            self.result = json.load(f)
        with open(self.csv, newline="", encoding="utf-8") as f:
            self.samples = list(csv.DictReader(f))
        return self

    def of(self, status, field="latency_ms"):
        return [float(s[field]) for s in self.samples if s["status"] == status]


def drive(server, *words):
    with Load(server, *words) as load:
        return load.wait()


def latencies(load, at_least=0, at_most=1 << 30):
    """Of answered requests, by their number of tokens: a word is a token, and two are special."""
    return [float(s["latency_ms"]) for s in load.samples
            if s["status"] == "200" and at_least <= int(s["words"]) + 2 <= at_most]


def capacity(args, options, *words, seconds=10, connections=CAPACITY_CONNECTIONS):
    """Requests a second in a closed loop."""
    with Server([*args.server, *options], args.log, model=args.model) as server:
        run = drive(server, "--connections", connections, "--warmup", 2, "--duration", args.s(seconds), *words)
    return run.result["throughput_per_s"]


def delta(before, after, name):
    return after.get(name, 0) - before.get(name, 0)


def wasted_share(before, after):
    busy = delta(before, after, "berth_batch_seconds_sum")
    return delta(before, after, "berth_wasted_seconds_total") / busy if busy else 0.0


def goodput(load):
    """Answers within the deadline, a second, as due within the measured time."""
    return sum(ms <= DEADLINE_MS for ms in load.of("200")) / load.result["window_s"]


def is_prompt(server):
    """Whether a short text is answered as on an idle server."""
    asked = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("POST", "/predict", json.dumps({"inputs": "good"}), {"Content-Type": "application/json"})
        return connection.getresponse().status == 200 and (time.monotonic() - asked) * 1e3 <= PROMPT_MS
    finally:
        connection.close()


def recovery_s(server, since):
    """From `since` until the first of five prompt answers in a row."""
    prompt, first = 0, since
    while prompt < 5:
        at = time.monotonic()
        if at - since > 60:
            return float("inf")
        if not is_prompt(server):
            prompt = 0
            continue
        first = at if prompt == 0 else first
        prompt += 1
        time.sleep(0.02)
    return first - since


def overload(args, results):
    """Goodput counts requests, so every text has one length: else the mean cost of those that are let in differs
    between the loads and a ratio says nothing. Its peak is the best of open loops around capacity."""
    words = ("--lengths", "fixed:64")
    closed = capacity(args, [], *words)
    warm = ("--warmup", 3, "--header", f"Berth-Deadline-Ms: {DEADLINE_MS}", "--max-connections", 4096, "--spin-us", 0)
    with Server(args.server, args.log, model=args.model) as server:
        curve = {share: goodput(drive(server, "--rate", f"{share * closed:.2f}", "--duration", args.s(12), *words, *warm))
                 for share in (0.9, 1, 1.25)}
        before, seconds = server.counters(), args.s(60)
        with Load(server, "--rate", f"{3 * closed:.2f}", "--duration", seconds, *words, *warm) as run:
            time.sleep(3 + seconds)
            recovered_s = recovery_s(server, time.monotonic())
            run.wait()
        after = server.counters()
    peak = max(curve.values())
    refused = run.of("429", "service_ms")
    results.add("overload", "capacity, closed loop, 64 tokens a text", closed, "/s")
    for share, good in curve.items():
        results.add("overload", f"goodput at {share:g} x capacity", good, "/s")
    results.add("overload", "offered", len(run.samples) / run.result["window_s"], "/s")
    results.add("overload", "goodput", goodput(run), "/s")
    results.at_least("overload", "goodput by its peak", goodput(run) / peak, 0.95)
    results.add("overload", "goodput by the closed loop's rate", goodput(run) / closed, "")
    results.add("overload", "refused", len(refused) / len(run.samples), "share")
    if refused:
        results.add("overload", "refusals, p50", quantile(refused, 0.5), "ms")
        results.at_most("overload", "refusals, p99", quantile(refused, 0.99), 5, "ms")
        results.add("overload", "refusals, p99 within the server", quantile(
            [float(s["server_total_ms"]) for s in run.samples if s["status"] == "429" and s["server_total_ms"]], 0.99),
            "ms")
    results.at_most("overload", "until texts are answered as before", recovered_s, 2, "s")
    results.add("overload", "answered 504", len(run.of("504")) / len(run.samples), "share")
    results.add("overload", "answered 200, too late by the client's clock",
                sum(ms > DEADLINE_MS for ms in run.of("200")) / len(run.samples), "share")
    results.add("overload", "answered 200, done just in time and sent after it, by the server's clock",
                sum(ms > DEADLINE_MS for ms in run.of("200", "server_total_ms")) / len(run.samples), "share")
    results.at_most("overload", "compute for what became too late in its pass", wasted_share(before, after), 0.01, "share")


def hang_ups(args, results):
    """Closed loop of impatient clients: each second request is hung up on at a random moment of what others wait."""
    stop, counts, lock = threading.Event(), {"asked": 0, "hung_up": 0, "wait_s": 0.2}, threading.Lock()
    noticed_ms = []

    def client(port, seed):
        rng = random.Random(seed)
        while not stop.is_set():
            text = " ".join(["good"] * rng.choice((6, 14, 30, 62, 126)))
            body = json.dumps({"inputs": text}).encode()
            with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
                s.sendall(b"POST /predict HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: "
                          + str(len(body)).encode() + b"\r\n\r\n" + body)
                asked, leaves = time.monotonic(), rng.random() < 0.5
                if leaves:
                    time.sleep(rng.random() * counts["wait_s"])
                else:
                    s.recv(65536)
            with lock:
                if not leaves:
                    counts["wait_s"] += 0.02 * (time.monotonic() - asked - counts["wait_s"])
                counts["asked"] += 1
                counts["hung_up"] += leaves

    with Server([*args.server, "--log.requests"], args.log, model=args.model) as server:
        before = server.counters()
        threads = [threading.Thread(target=client, args=(server.port, i)) for i in range(N_IMPATIENT)]
        for thread in threads:
            thread.start()
        time.sleep(args.s(25))
        stop.set()
        for thread in threads:
            thread.join()
        time.sleep(0.5)
        after = server.counters()
        noticed_ms = [notice_ms(server) for _ in range(20)]
    results.add("hang-ups", "requests", counts["asked"], "")
    results.add("hang-ups", "hung up", counts["hung_up"] / counts["asked"], "share")
    results.add("hang-ups", "wait of those who stay", counts["wait_s"] * 1e3, "ms")
    results.add("hang-ups", "taken out of the queue in time", delta(before, after, "berth_requests_cancelled_total"), "")
    results.at_most("hang-ups", "compute for nobody", wasted_share(before, after), 0.05, "share")
    results.at_most("hang-ups", "until a hang-up is noticed, longest of 20", max(noticed_ms), 50, "ms")


def notice_ms(server):
    """From closing the socket of a text that waits behind others until the server counts it as cancelled."""
    body = json.dumps({"inputs": [[" ".join(["good"] * 500)]] * 8}).encode()
    head = (b"POST /predict HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: "
            + str(len(body)).encode() + b"\r\n\r\n")
    first, second = (socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(2))
    first.sendall(head + body)
    second.sendall(head + body)
    time.sleep(0.03)
    jobs = server.get("/debug/queues")
    waiting = json.loads(jobs)["jobs"]
    assert waiting > 10, f"both requests should wait, of 16 texts {waiting} do"
    start = time.monotonic()
    second.close()
    while json.loads(server.get("/debug/queues"))["jobs"] > waiting - 5: # at once: one by one they take 100 ms
        assert time.monotonic() - start < 10, "the hang-up was not noticed"
    took_ms = (time.monotonic() - start) * 1e3
    first.recv(65536)
    first.close()
    return took_ms


def beside(args, results):
    long_rate = 0.8 * capacity(args, [], "--lengths", "fixed:512")
    ways = {"ours": [], "interrupt": INTERRUPT, "arrival": FIFO}
    seen = {way: [] for way in ways}
    for index in range(args.rounds):
        for way, options in ways.items():
            with Server([*args.server, *options], args.log, model=args.model) as server:
                common = ("--duration", args.s(30), "--seed", index + 1)
                with Load(server, "--rate", f"{long_rate:.3f}", "--lengths", "fixed:512", *common) as long_load:
                    short = drive(server, "--rate", 20, "--lengths", "fixed:8", *common)
                    long_load.wait()
            seen[way].append({"short": quantile(latencies(short), 0.99), "long": quantile(latencies(long_load), 0.99),
                              "batch": statistics.median(long_load.of("200", "infer_ms")),
                              "own": statistics.median(short.of("200", "infer_ms"))})
    longest = statistics.median(r["batch"] for r in seen["arrival"]) # a text of 512 tokens rides alone
    median = {way: {k: statistics.median(r[k] for r in runs) for k in ("short", "long")} for way, runs in seen.items()}
    results.add("beside", "512-token texts, 80 % of what the server can do", long_rate, "/s")
    results.add("beside", "longest batch (one 512-token text)", longest, "ms")
    for way in ways:
        results.add("beside", f"short p99, {way}", median[way]["short"], "ms")
        results.add("beside", f"long p99, {way}", median[way]["long"], "ms")
    own = statistics.median(r["own"] for r in seen["ours"])
    results.at_most("beside", "short p99 by the longest batch and its own time", median["ours"]["short"] / (longest + own),
                    2)
    results.at_most("beside", "short p99 by the longest batch, interrupt", median["interrupt"]["short"] / longest, 0.5)
    for way in ("ours", "interrupt"):
        results.at_most("beside", f"long p99 by that of arrival order, {way}", statistics.median(
            a["long"] / b["long"] for a, b in zip(seen[way], seen["arrival"])), 1.2)


CLASSES = {"all": (0, 1 << 30), "short": (0, SHORT_TOKENS), "long": (LONG_TOKENS, 1 << 30)}
MIXED = {0.5: ("ours", "arrival"), 0.8: ("ours", "interrupt", "arrival"), 0.95: ("ours", "arrival")}
NEAR_FULL, NEAR_FULL_ROUNDS = 0.9, 5 # a p99 there doubles when the machine is 6 % slower for that run: a median is needed


def mixed_at(args, results, rate, share):
    """p99 of each class by that of arrival order, medians over rounds: {way: {class: ratio}}."""
    options = {"ours": [], "interrupt": INTERRUPT, "arrival": FIFO}
    seen = {way: [] for way in MIXED[share]}
    for index in range(max(args.rounds, NEAR_FULL_ROUNDS if share > NEAR_FULL else 1)):
        for way, runs in seen.items():
            with Server([*args.server, *options[way]], args.log, model=args.model) as server:
                run = drive(server, "--rate", f"{share * rate:.2f}", "--duration", args.s(60 if share == 0.8 else 20),
                            "--seed", index + 1, "--max-connections", 2048)
                error = server.counters()["berth_cost_error_ratio"]
            runs.append({name: quantile(latencies(run, *c), 0.99) for name, c in CLASSES.items()})
    for way, runs in seen.items():
        for name in CLASSES:
            results.add("mixed", f"p99 at {share:.0%}, {name}, {way}", statistics.median(r[name] for r in runs), "ms")
    if share == 0.8:
        results.add("mixed", f"median error of the cost model, {way}", error, "share")
    return {way: {name: statistics.median(a[name] / b[name] for a, b in zip(runs, seen["arrival"])) for name in CLASSES}
            for way, runs in seen.items()}


def mixed(args, results):
    rate = capacity(args, FIFO, connections=ALWAYS_WORK)
    results.add("mixed", "capacity of packed batches in order of arrival", rate, "/s")
    ratios = {share: mixed_at(args, results, rate, share) for share in MIXED}
    for share, by_way in ratios.items():
        results.at_most("mixed", f"p99 of all at {share:.0%} by that of arrival order", by_way["ours"]["all"], 1)
    at_80 = ratios[0.8]
    results.at_most("mixed", "p99 of short ones at 80%", at_80["ours"]["short"], 0.55)
    results.at_most("mixed", "p99 of long ones at 80%", at_80["ours"]["long"], 2)
    results.at_most("mixed", "p99 of short ones at 80%, interrupt", at_80["interrupt"]["short"], 0.35)


def padded(args, results):
    peak = capacity(args, PADDED, seconds=20) # a batch may take a second
    results.add("padded", "capacity of padded batches of 32, 5 ms wait, closed loop", peak, "/s")
    for share, seconds, most in ((0.8, 25, 0.75), (1.5, 60, 1 / 3)):
        ratios = []
        for index in range(args.rounds):
            p99 = {}
            for way, options in (("packed", []), ("padded", PADDED)):
                with Server([*args.server, *UNHURRIED, *options], args.log, model=args.model) as server:
                    run = drive(server, "--rate", f"{share * peak:.2f}", "--duration", args.s(seconds), "--seed", index + 1,
                                "--max-connections", 4096, "--timeout", 600)
                p99[way] = quantile(latencies(run), 0.99)
            ratios.append(p99["packed"] / p99["padded"])
            results.add("padded", f"p99 at {share:g} x, packed; padded: {p99['padded']:.0f}", p99["packed"], "ms")
        results.at_most("padded", f"p99 at {share:g} x by padded's", statistics.median(ratios), most)


PROMISES = {"overload": overload, "hang-ups": hang_ups, "beside": beside, "mixed": mixed, "padded": padded}


def report(rows, args, date):
    table = [f"| {r['promise']} | {r['figure']} | {r['value']:g} {r['unit']} | {r['bound']} | {r['verdict']} |"
             for r in rows]
    missed = sum(r["verdict"] == "FAIL" for r in rows)
    return "\n".join([
        f"# Promises of the scheduler, {date}", "",
        f"- Machine: {machine()}", f"- Commit: {commit()}", f"- Command: `bench/promises.py {' '.join(sys.argv[1:])}`",
        f"- Model: {'the demo model' if args.model == MODEL else os.path.basename(args.model)}, server and client on the "
        "same machine",
        f"- {'Full length' if args.full else 'A tenth of the full length, which says little'}, {args.rounds} interleaved "
        f"rounds; bounds missed: {missed}", "",
        "| promise | figure | value | bound | |", "|---|---|---|---|---|", *table, ""])


def write(rows, args):
    date = datetime.date.today().isoformat()
    stem = os.path.join(ROOT, "bench", "results", f"promises-{date}" + (f"-{args.label}" if args.label else ""))
    os.makedirs(os.path.dirname(stem), exist_ok=True)
    with open(stem + ".csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with open(stem + ".md", "w", encoding="utf-8") as f:
        f.write(report(rows, args, date))


def hold(args, results, name):
    """One promise; what stops it is a bound missed, and the others are still looked at."""
    try:
        PROMISES[name](args, results)
    except (OSError, RuntimeError, AssertionError, ArithmeticError, subprocess.SubprocessError, http.client.HTTPException) as e:
        results.add(name, f"stopped: {e}".replace("|", " ")[:200], float("nan"), "", "none", False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="as long as promised of; else a tenth")
    parser.add_argument("--only", default=",".join(PROMISES), help="names with commas between")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--label", default="", help="in the names of the results")
    parser.add_argument("--no-results", action="store_true", help="print only")
    args, args.server = parser.parse_known_args()
    args.s = lambda seconds: seconds if args.full else max(LEAST_S, round(seconds * SHORT_SCALE))
    args.log = os.path.join(ROOT, "build", "promises-server.log")
    names = args.only.split(",")
    for name in names:
        if name not in PROMISES:
            sys.exit(f"promises: there is no \"{name}\"; there are: {', '.join(PROMISES)}")
    for path, remedy in ((BERTH, "deploy/quickstart.sh --once"), (args.model, "deploy/demo-model/fetch.py")):
        if not os.path.exists(path):
            sys.exit(f"promises: {path} is not there; this makes it: {remedy}")
    results = Results()
    with tempfile.TemporaryDirectory() as cache: # what is measured at start is this run's own
        os.environ["XDG_CACHE_HOME"] = cache
        try:
            for name in names:
                hold(args, results, name)
        finally:
            if results.rows and not args.no_results:
                write(results.rows, args)
    sys.exit(any(r["verdict"] == "FAIL" for r in results.rows))


if __name__ == "__main__":
    main()
