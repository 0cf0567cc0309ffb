#!/usr/bin/env python3
"""Compares the four batching modes on the mixed load, round by round.

  build/venv/bin/python bench/modes.py [--rounds N] [--seconds N] [--connections N]

In every round each way of serving gets a fresh server, a short warm-up, and wrk with the same texts in the same
order, begun at another place each round. What the table quotes are medians over the rounds; a ratio is the median
of the rounds' own ratios, since a machine that others share drifts more between rounds than within one. Because
a fast mode sends more of the texts than a slow one in the same time, tokens a second stand beside requests a
second. Writes bench/results/modes-DATE.csv and .md. Takes about rounds x 6 x (seconds + 5) s.
"""
import argparse
import csv
import datetime
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys

from server import BERTH, MODEL, ROOT, Server, commit, machine

WAYS = {  # name -> options; `none` and `packed` with both ways to share two cores, 1 x 2 being the default
    "none, 1 worker x 2": ["--mode", "none", "--workers", "1", "--threads", "2"],
    "none, 2 workers x 1": ["--mode", "none", "--workers", "2", "--threads", "1"],
    "padded": ["--mode", "padded"],
    "bucketed": ["--mode", "bucketed"],
    "packed": ["--mode", "packed"],
    "packed, 2 workers x 1": ["--mode", "packed", "--workers", "2", "--threads", "1"],
}
WORKLOAD = os.path.join(ROOT, "build", "bench", "workload.txt")
WARM_UP_S = 2
STEP = 397  # texts between the places where rounds begin
FIGURES = ("requests_per_s", "tokens_per_s", "p50_ms", "p95_ms", "p99_ms", "padding")


def drive(server, seconds, connections, first):
    done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s", "-s",
                           os.path.join(ROOT, "bench", "wrk.lua"), server.url, "--", WORKLOAD, str(first)],
                          check=True, capture_output=True, text=True, timeout=seconds + 90)
    return json.loads(done.stdout.splitlines()[-1])


def measure(options, seconds, connections, first):
    with Server(options, os.path.join(ROOT, "build", "bench", "server.log")) as server:
        drive(server, WARM_UP_S, connections, first)
        before = server.counters()
        wrk = drive(server, seconds, connections, first)
        after = server.counters()
    if not wrk["requests"]:
        sys.exit(f"modes: no request came to its end in {seconds} s with {' '.join(options)}; say --seconds more")
    if wrk["socket_errors"] + wrk["timeouts"] + wrk["not_2xx"]:
        sys.exit(f"modes: requests failed with {' '.join(options)}: {wrk}")
    tokens = after["berth_tokens_total"] - before["berth_tokens_total"]
    rows = after["berth_rows_total"] - before["berth_rows_total"]
    return {"requests": wrk["requests"], "requests_per_s": wrk["requests"] / wrk["seconds"],
            "tokens_per_s": tokens / wrk["seconds"], "p50_ms": wrk["p50_ms"], "p95_ms": wrk["p95_ms"],
            "p99_ms": wrk["p99_ms"], "padding": 1 - tokens / rows}


def run(args):
    rows = []
    for round_index in range(args.rounds):
        for way, options in WAYS.items():
            figures = measure(options, args.seconds, args.connections, round_index * STEP)
            rows.append({"round": round_index + 1, "way": way, **figures})
            print(f"round {round_index + 1}, {way}: {figures['requests_per_s']:.1f} requests/s, "
                  f"p99 {figures['p99_ms']:.0f} ms, padding {figures['padding']:.3f}", flush=True)
    return rows


def of(rows, way, figure):
    return [row[figure] for row in rows if row["way"] == way]


def ratio(rows, way, other, figure):
    return statistics.median(a / b for a, b in zip(of(rows, way, figure), of(rows, other, figure)))


def table(rows):
    lines = ["| mode | requests/s | tokens/s | p50 ms | p95 ms | p99 ms | padding | requests/s to `padded` |",
             "|---|---|---|---|---|---|---|---|"]
    for way in WAYS:
        m = {figure: statistics.median(of(rows, way, figure)) for figure in FIGURES}
        lines.append(f"| {way} | {m['requests_per_s']:.1f} | {m['tokens_per_s']:.0f} | {m['p50_ms']:.0f} | "
                     f"{m['p95_ms']:.0f} | {m['p99_ms']:.0f} | {m['padding']:.3f} | "
                     f"{ratio(rows, way, 'padded', 'requests_per_s'):.2f} |")
    return lines


def report(rows, args, date):
    with open(WORKLOAD, "rb") as f:
        sha256 = hashlib.sha256(f.read()).hexdigest()
    best_none = max((way for way in WAYS if way.startswith("none")),
                    key=lambda way: statistics.median(of(rows, way, "requests_per_s")))
    compared = [f"- `{way}` to `padded`: {ratio(rows, way, 'padded', 'requests_per_s'):.2f} times the requests/s, "
                f"{ratio(rows, way, 'padded', 'tokens_per_s'):.2f} times the tokens/s; to `{best_none}`: "
                f"{ratio(rows, way, best_none, 'requests_per_s'):.2f} and "
                f"{ratio(rows, way, best_none, 'tokens_per_s'):.2f}."
                for way in WAYS if way.startswith("packed")]
    return "\n".join([
        f"# Batching modes, {date}", "",
        f"- Machine: {machine()}", f"- Commit: {commit()}",
        f"- Command: `bench/modes.py --rounds {args.rounds} --seconds {args.seconds} --connections {args.connections}`",
        "- Model: the demo model, fp32",
        f"- Load: `bench/workload.py`, sha256 {sha256[:16]}; closed loop, wrk, on the same machine",
        f"- Medians of {args.rounds} interleaved rounds; ratios are medians of the rounds' ratios", "",
        *table(rows), "", *compared, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=32)
    args = parser.parse_args()
    for path, remedy in ((BERTH, "deploy/quickstart.sh --once"), (MODEL, "deploy/demo-model/fetch.py"),
                         (WORKLOAD, "build/venv/bin/python bench/workload.py")):
        if not os.path.exists(path):
            sys.exit(f"modes: {path} is not there; this makes it: {remedy}")
    if not shutil.which("wrk"):
        sys.exit("modes: wrk is not installed; this installs it: deploy/packages.sh install bench")
    rows = run(args)
    date = datetime.date.today().isoformat()
    results = os.path.join(ROOT, "bench", "results")
    os.makedirs(results, exist_ok=True)
    stem = os.path.join(results, f"modes-{date}")
    with open(stem + ".csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    text = report(rows, args, date)
    with open(stem + ".md", "w", encoding="utf-8") as f:
        f.write(text)
    print("\n" + text)


if __name__ == "__main__":
    main()
