#!/usr/bin/env python3
"""What `berth tune` gains on five mixes of lengths, by simulation, told on arrivals that it has not seen.

  build/venv/bin/python bench/tuner.py [--cost A,B,C] [--share S] [--count N] [--seeds N]

For each mix (chat, reviews, queries, documents, bimodal) and each of the modes `bucketed` and `packed`: the load is
S of what the default configuration can do (Poisson); `berth tune` gets one draw of it and the goal of a p99 that is
a tenth below the default's; then the default and the proposal are simulated on N other draws (other seeds for arrivals,
lengths and the noise of passes). What the table quotes are medians over those. --cost is what a pass takes, in
microseconds: A + B * rows + C * sum(len^2); without it the demo model is measured, which wants a quiet machine.
Writes bench/results/tuner-DATE.csv and .md.
"""
import argparse
import csv
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from server import BERTH, MODEL, ROOT, commit, machine

MIXES = ("chat", "reviews", "queries", "documents", "bimodal")
MODES = ("bucketed", "packed")
TUNE_SEED, FIRST_SEED = 1, 1001
GOAL = 0.9


def berth(*words):
    done = subprocess.run([BERTH, "tune", *map(str, words)], capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        sys.exit(f"tuner: berth tune {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def simulate(args, mix, mode, rate, seed, config=None):
    """The line of the configuration in force: its p50, p99, inputs/s at most, padding."""
    words = [*args.device, "--lengths", mix, "--rate", rate, "--count", args.count, "--seed", seed, "--simulate"]
    out = berth(*words, *(["--config", config] if config else ["--mode", mode]))
    fields = next(line for line in out.splitlines() if line.startswith("as configured")).split()
    return {"p50_ms": float(fields[-6]), "p99_ms": float(fields[-4]), "inputs_per_s": float(fields[-3]),
            "padding": float(fields[-2])}


def medians(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def compare(args, mix, mode, folder):
    config = os.path.join(folder, f"{mix}-{mode}.jsonc")
    rate = args.share * simulate(args, mix, mode, 1, TUNE_SEED)["inputs_per_s"]
    goal = GOAL * simulate(args, mix, mode, rate, TUNE_SEED)["p99_ms"]
    berth(*args.device, "--lengths", mix, "--rate", rate, "--count", args.count, "--mode", mode, "--seed", TUNE_SEED,
          "--slo", f"p99={goal:.3f}ms", "--budget-s", 600, "--out", config)
    seeds = range(FIRST_SEED, FIRST_SEED + args.seeds)
    before = medians([simulate(args, mix, mode, rate, seed) for seed in seeds])
    after = medians([simulate(args, mix, mode, rate, seed, config) for seed in seeds])
    with open(config, encoding="utf-8") as f:
        settings = json.loads(re.sub(r"(?m)^//.*$", "", f.read()))["batching"]
    bounds = " ".join(str(b["up_to"]) for b in settings["buckets"])
    text = (f"{bounds if mode == 'bucketed' else 'as before'}; {settings['max_batch_tokens']} tokens, "
            f"{settings['max_batch_requests']} inputs, {settings['max_batch_ms']} ms, wait {settings['max_wait_ms']} ms, "
            f"rank {settings['rank_cost_factor']}")
    return {"mix": mix, "mode": mode, "rate": rate, **{f"before_{k}": v for k, v in before.items()},
            **{f"after_{k}": v for k, v in after.items()}, "settings": text}


def table(rows):
    lines = ["| mix | mode | load/s | p50 ms | p99 ms | inputs/s at most | padding | p99 x | inputs/s x |",
             "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(
            f"| {r['mix']} | {r['mode']} | {r['rate']:.1f} | {r['before_p50_ms']:.1f} → {r['after_p50_ms']:.1f} | "
            f"{r['before_p99_ms']:.1f} → {r['after_p99_ms']:.1f} | {r['before_inputs_per_s']:.1f} → "
            f"{r['after_inputs_per_s']:.1f} | {r['before_padding']:.3f} → {r['after_padding']:.3f} | "
            f"{r['after_p99_ms'] / r['before_p99_ms']:.2f} | "
            f"{r['after_inputs_per_s'] / r['before_inputs_per_s']:.2f} |")
    return lines


def report(rows, args, date, cost):
    no_gain = [f"{r['mix']} ({r['mode']})" for r in rows
               if r["after_p99_ms"] >= r["before_p99_ms"] and r["after_inputs_per_s"] <= r["before_inputs_per_s"]]
    return "\n".join([
        f"# berth tune on five mixes, {date}", "",
        f"- Machine: {machine()}", f"- Commit: {commit()}",
        f"- Command: `bench/tuner.py {' '.join(sys.argv[1:])}`",
        f"- {cost[0].upper()}{cost[1:]}",
        f"- Load: Poisson, {args.share:g} of what the default can do, {args.count} arrivals; goal: p99 {GOAL:g} of the "
        "default's, then the most throughput",
        f"- Default → proposal, both simulated on {args.seeds} draws that the search has not seen: medians", "",
        *table(rows), "",
        f"- Better in neither p99 nor throughput: {', '.join(no_gain) if no_gain else 'none'}.", "",
        *(f"- {r['mix']}, {r['mode']}: {r['settings']}." for r in rows), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cost")
    parser.add_argument("--share", type=float, default=0.8)
    parser.add_argument("--count", type=int, default=60000)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    if not args.cost and not os.path.exists(MODEL):
        sys.exit(f"tuner: {MODEL} is not there; this makes it: deploy/demo-model/fetch.py")
    first = berth(*(["--cost", args.cost] if args.cost else [MODEL]), "--lengths", "chat", "--rate", 1, "--count", 100,
                  "--simulate")
    cost = next(line for line in first.splitlines() if line.startswith("cost"))[len("cost  "):]
    # The same numbers for every run: a second measurement would differ.
    numbers = re.match(r"a pass takes ([0-9.]+) us \+ ([0-9.]+) us a row \+ ([0-9.]+) us", cost).groups()
    args.device = ["--cost", ",".join(numbers)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for mix in MIXES:
            for mode in MODES:
                rows.append(compare(args, mix, mode, folder))
                print(table(rows)[-1], flush=True)
    date = datetime.date.today().isoformat()
    stem = os.path.join(ROOT, "bench", "results", f"tuner-{date}")
    with open(stem + ".csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    text = report(rows, args, date, cost)
    with open(stem + ".md", "w", encoding="utf-8") as f:
        f.write(text)
    print("\n" + text)


if __name__ == "__main__":
    main()
