#!/usr/bin/env python3
"""The forward grid on a GPU: passes of many shapes, with graphs and without, packed and padded, in one CSV.

  grid.py --berth PROGRAM --out FOLDER [--device cuda] [--precision bfloat16] [--peak 989e12] [--rows N,N] [--lengths N,N]

Models of two shapes (base, MiniLM-L6) are made of random weights: what a pass takes does not depend on their values.
Times are `berth profile`'s, of whole passes from the batch to the logits. MFU is the share of --peak (a dense H200's
bf16) that a pass's products and attention are, by kernels/work.h. What has a goal is measured first, and FOLDER has each
figure (figures.csv, grid.md) as soon as it is there. A shape that fails or hangs is named, and costs no other.
Exit status 77: there is no such device; 1: a shape failed.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys

from shapes import MODELS, make_models, mixed_lengths

ROWS, LENGTHS = (128, 1024, 8192, 16384, 32768), (32, 128, 512)
GRAPH_ROWS = 4096  # up to which a pass may be a graph
MIXED = 256  # sequences of the mixed batch
ROUNDS, SECONDS = 3, 1.0
LIMIT_S = 60  # of one run, start included
# What issue and design ask for: model, rows, length -> at most so many ms, or at least this MFU.
GOALS = [("base", 16384, 128, "mfu", 0.60), ("base", 8192, 128, "mfu", 0.55), ("minilm-l6", 16384, 128, "mfu", 0.45),
         ("base", 128, 128, "ms", 0.45), ("minilm-l6", 128, 128, "ms", 0.20)]
PACKED_GOAL = 2.3
FIELDS = ["model", "what", "sequences", "rows", "length", "graphs", "ms", "ms_min", "ms_max", "tokens_per_s", "tflops",
          "mfu", "gemm_ms", "attention_ms", "other_ms"]


class NoDevice(Exception):
    pass


class Failed(Exception):
    pass


def profile(args, model, batch, graphs):
    command = [args.berth, "profile", model, *batch, "--seconds", args.seconds, "--json", "--device", args.device,
               "--precision", args.precision, "--graph-max-rows", GRAPH_ROWS if graphs else 0]
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=args.limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end after {args.limit:g} s") from None
    if "compute.device is" in done.stderr:
        raise NoDevice(done.stderr.strip())
    if done.returncode:
        raise Failed(f"exit status {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def kind_of(op):
    return {"qkv": "gemm", "attention_out": "gemm", "intermediate": "gemm", "output": "gemm",
            "attention": "attention"}.get(op, "other")


def measure(args, case):
    """The median of a few runs, and their range."""
    name, what, batch, length, graphs = case
    runs = [profile(args, args.out / name, batch, graphs) for _ in range(args.rounds)]
    times = sorted(r["ms"] / r["passes"] for r in runs)
    ms, run = statistics.median(times), runs[0]
    flops = sum(o["flops"] for o in run["ops"] if kind_of(o["op"]) != "other") / run["passes"]
    row = {"model": name, "what": what, "sequences": run["sequences"], "rows": run["tokens"], "length": length,
           "graphs": int(graphs), "ms": ms, "ms_min": times[0], "ms_max": times[-1],
           "tokens_per_s": run["tokens"] / ms * 1e3, "tflops": flops / ms / 1e9, "mfu": flops / ms * 1e3 / args.peak}
    for kind in ("gemm", "attention", "other"):
        row[kind + "_ms"] = sum(o["ms"] for o in run["ops"] if kind_of(o["op"]) == kind) / run["passes"]
    print(f"{name} {what} {row['sequences']}x{length} graphs {int(graphs)}: {ms:.4g} ms, MFU {row['mfu']:.3f}",
          flush=True)
    return row


def cases(args):
    """(model, what, options of `berth profile`, length, graphs); what has a goal comes first."""
    longest = max(args.lengths)
    lengths = mixed_lengths(args.mixed, longest)
    grid = [(name, "grid", ["--shape", f"{rows // length}x{length}"], length, graphs, rows)
            for name in args.models for rows in args.rows for length in args.lengths if rows % length == 0
            for graphs in ((True, False) if rows <= GRAPH_ROWS else (False,))]
    first = {goal[:3] for goal in GOALS}
    wanted = [c[:5] for c in grid if (c[0], c[5], c[3]) in first]
    mixed = [(name, what, batch, longest, False) for name in args.models for what, batch in (
        ("mixed packed", ["--lengths", ",".join(map(str, lengths))]),
        ("mixed padded", ["--shape", f"{len(lengths)}x{longest}"]))]
    return [*wanted, *mixed, *(c[:5] for c in grid if c[:5] not in wanted)]


def judge(rows):
    """Lines of the summary: each goal, and what was measured."""
    def find(model, n, length, what="grid"):
        found = [r for r in rows if (r["model"], r["what"]) == (model, what) and
                 (what != "grid" or (r["rows"], r["length"]) == (n, length))]
        return min(found, key=lambda r: r["ms"]) if found else None

    for model, n, length, field, goal in GOALS:
        row = find(model, n, length)
        if row:
            good = row[field] >= goal if field == "mfu" else row[field] <= goal
            yield f"| {model}, {n} rows of {length} | {field} {goal} | {row[field]:.3g} | {'yes' if good else 'NO'} |"
    for model in MODELS:
        packed, padded = (find(model, 0, 0, f"mixed {w}") for w in ("packed", "padded"))
        if packed and padded:
            gain = padded["ms"] / packed["ms"]
            yield f"| {model}, mixed lengths | packed {PACKED_GOAL} x padded | {gain:.3g} | " \
                  f"{'yes' if gain >= PACKED_GOAL else 'NO'} |"


def summary(rows, faults):
    return "\n".join(["## The forward grid", "", f"{len(rows)} shapes, all in `figures.csv`", "",
                      "| Case | Goal | Measured | Reached |", "|---|---|---|---|", *judge(rows), "",
                      *(f"- {fault}" for fault in faults), ""])


def measure_all(args):
    """Rows and faults; both files are whole after every shape."""
    rows, faults = [], []
    with (args.out / "figures.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        for case in cases(args):
            try:
                rows.append(measure(args, case))
                writer.writerow(rows[-1])
                out.flush()
            except Failed as fault:
                faults.append(f"{case[0]}, {case[1]}, {' '.join(case[2])[:60]}, graphs {int(case[4])}: {fault}")
                print("FAILED", faults[-1], flush=True)
            (args.out / "grid.md").write_text(summary(rows, faults))
    return rows, faults


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--berth", required=True), p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--device", default="cuda"), p.add_argument("--precision", default="bfloat16")
    p.add_argument("--peak", type=float, default=989e12), p.add_argument("--rows", type=numbers, default=ROWS)
    p.add_argument("--lengths", type=numbers, default=LENGTHS), p.add_argument("--mixed", type=int, default=MIXED)
    p.add_argument("--rounds", type=int, default=ROUNDS), p.add_argument("--seconds", type=float, default=SECONDS)
    p.add_argument("--models", type=lambda s: s.split(","), default=list(MODELS), help=",".join(MODELS))
    p.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of one run")
    args = p.parse_args()
    make_models(args.out, args.models)
    try:
        rows, faults = measure_all(args)
    except NoDevice as e:
        print(e)
        return 77
    print(summary(rows, faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
