#!/usr/bin/env python3
"""Times berth's forward pass in turn with onnxruntime, OpenVINO, CTranslate2 and torch: same models, ids, threads.

  python3 bench/peers/run.py [--models demo,bert-base] [--shapes 1x16,8x128] [--precisions fp32,int8,bf16]
                             [--peers onnxruntime,torch] [--rounds N] [--threads N] [--mix no] [--out FOLDER]

The first run installs the peers from PyPI into build/peers-venv and makes the models under build/peers (minutes, some
8 GB of disk); torch.compile compiles each shape once and keeps that. Needs bench_forward (build-release or build) and
the demo model. Writes peers-DATE.csv and .md. What is compared and why that is fair: docs/BENCHMARKS.md.
"""
import argparse
import csv
import datetime
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import install  # noqa: E402  (after the path)

MODELS = ("demo", "bert-base")
PRECISIONS = ("fp32", "int8", "bf16")
PEERS = ("onnxruntime", "openvino", "ctranslate2", "torch", "torch-compile")
SHAPES = "1x16,1x128,8x128,32x32,32x128,8x512"
BF16_FLAGS = {"avx512_bf16", "amx_bf16"}
COLUMNS = ("kind", "model", "precision", "case", "engine", "round", "ms", "calls")


def versions():
    from importlib.metadata import version
    names = ("onnxruntime", "openvino", "nncf", "ctranslate2", "torch", "transformers")
    return ", ".join(f"{name} {version(name)}" for name in names)


def write_csv(path, samples):
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**s, "ms": round(s["ms"], 4)} for s in samples)


def report(bench, args, date, minutes):
    from server import commit, machine
    command = " ".join(["bench/peers/run.py", *sys.argv[1:]])
    peak = f"; multiply-add peak in this run {statistics.median(bench.peaks):.1f} GFLOP/s" if bench.peaks else ""
    return "\n".join([
        f"# Forward pass beside its peers, {date}", "",
        f"- Machine: {machine()}; {args.threads} threads for everybody{peak}",
        f"- Commit: {commit()}", f"- Command: `{command}`", f"- Peers: {versions()}",
        "- Work: token ids in, last hidden state of every row out; `classifier`: logits out, of the last layer one row a "
        "sequence",
        f"- Medians of up to {args.rounds} interleaved rounds, turns of {args.seconds} s; a ratio is the median of the "
        "rounds' own ratios",
        f"- Took {minutes:.1f} minutes", "",
        *bench.sections, "## Outputs beside those of transformers", "", *bench.check_table(), "",
        *(f"- {note}" for note in bench.notes)]).rstrip("\n") + "\n"


def among(known):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r}: expected some of {','.join(known)}")
        return words
    return parse


def parse_shapes(text):
    try:
        shapes = [tuple(int(n) for n in word.split("x")) for word in text.split(",")]
        if all(len(s) == 2 and s[0] >= 1 and s[1] >= 2 for s in shapes):
            return shapes
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}: expected BATCHxLENGTH, such as 8x128,1x16; two tokens at least")


def parse_args():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=among(MODELS), default=list(MODELS))
    parser.add_argument("--shapes", type=parse_shapes, default=parse_shapes(SHAPES))
    parser.add_argument("--precisions", type=among(PRECISIONS), default=list(PRECISIONS))
    parser.add_argument("--peers", type=among(PEERS), default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long-rounds", type=int, default=3, help="of shapes whose round takes more than 12 s (3)")
    parser.add_argument("--mix-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn; at least one call (0.3)")
    parser.add_argument("--texts", type=int, default=1000, help="of the mix (1000)")
    parser.add_argument("--threads", type=int, default=cores, help=f"of every engine (all cores: {cores})")
    parser.add_argument("--mix", choices=("yes", "no", "only"), default="yes", help="mixed lengths, demo model, fp32")
    parser.add_argument("--prepare", action="store_true", help="install and make the models, no more")
    parser.add_argument("--out", default=os.path.join(install.ROOT, "bench", "results"))
    args = parser.parse_args()
    if not 1 <= args.threads <= cores or min(args.rounds, args.long_rounds, args.mix_rounds, args.texts) < 1:
        parser.error(f"--threads from 1 to {cores}; rounds and texts from 1 on")
    return args


def cpu_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((set(line.split(":")[1].split()) for line in f if line.startswith("flags")), set())


def run(bench, args):
    for precision in args.precisions if args.mix != "only" else ():
        if precision == "bf16" and not BF16_FLAGS & cpu_flags():
            bench.note("bf16: this CPU has neither AMX nor AVX512-BF16; not measured")
            continue
        for model in args.models:
            bench.run_shapes(model, precision)
    if args.mix != "no" and "demo" in args.models and "fp32" in args.precisions:
        bench.run_mix("demo")


def main():
    args = parse_args()
    install.ensure_venv(os.path.abspath(__file__))
    install.make_models(args.models)
    if args.prepare:
        return
    from measure import Bench
    bench, start = Bench(args), time.monotonic()
    run(bench, args)
    if not bench.samples:
        sys.exit("peers: nothing was measured")
    date = datetime.date.today().isoformat()
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, f"peers-{date}")
    write_csv(stem + ".csv", bench.samples)
    with open(stem + ".md", "w", encoding="utf-8") as f:
        f.write(report(bench, args, date, (time.monotonic() - start) / 60))
    print(f"written: {stem}.csv, {stem}.md")


if __name__ == "__main__":
    main()
