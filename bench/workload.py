#!/usr/bin/env python3
"""Makes the mixed-length load that the server benchmarks send.

  build/venv/bin/python bench/workload.py [--out FOLDER] [--sdist FILE]

2,000 texts whose lengths in tokens follow a lognormal law (median 24, 99th percentile 350, at least 3, cut at
512), out of words that people wrote: the rated sentences in the PyPI sdist vaderSentiment==3.3.2, shuffled
with a fixed seed and strung together, so that no text comes twice. Writes FOLDER/workload.txt (a text a line)
and FOLDER/workload-lengths.txt (its tokens, [CLS] and [SEP] counted, likewise); FOLDER is build/bench. The same
seed, sdist and tokenizer give the same bytes; the sha256 is printed and stands in every result.
"""
import argparse
import hashlib
import io
import math
import os
import random
import subprocess
import sys
import tarfile
import tempfile

from tokenizers import Tokenizer

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEED = 20261130
N_TEXTS, MEDIAN, P99, SHORTEST, LONGEST = 2000, 24, 350, 3, 512
Z_OF_P99 = 2.3263478740408408  # the standard normal's 99th percentile
N_SPECIAL = 2  # [CLS] and [SEP]
PACKAGE = "vaderSentiment==3.3.2"
SDIST_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
INNER = "hutto_ICWSM_2014.tar.gz"
RATED = "_GroundTruth.txt"  # lines of: id or mean rating, tab, ..., tab, sentence


def fetch_sdist(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                    "--disable-pip-version-check", "--dest", folder, PACKAGE], check=True)
    return os.path.join(folder, os.listdir(folder)[0])


def read_sentences(sdist):
    with open(sdist, "rb") as f:
        data = f.read()
    if hashlib.sha256(data).hexdigest() != SDIST_SHA256:
        sys.exit(f"workload: {sdist} is not the {PACKAGE} that this load is made of")
    with tarfile.open(fileobj=io.BytesIO(data)) as outer:
        inner_name = next(n for n in outer.getnames() if n.endswith(INNER))
        inner_data = outer.extractfile(inner_name).read()
    sentences = []
    with tarfile.open(fileobj=io.BytesIO(inner_data)) as inner:
        names = (n for n in inner.getnames() if n.endswith(RATED) and not os.path.basename(n).startswith("."))
        for name in sorted(names):
            for line in inner.extractfile(name).read().decode("latin-1").split("\n"):
                fields = line.split("\t", 2)
                if len(fields) == 3:
                    sentences.append(" ".join(fields[2].split()))
    return sentences


def draw_lengths(rng):
    sigma = math.log(P99 / MEDIAN) / Z_OF_P99
    return [min(LONGEST, max(SHORTEST, round(rng.lognormvariate(math.log(MEDIAN), sigma)))) for _ in range(N_TEXTS)]


def compose(words, costs, lengths):
    """Takes words in order until the next would pass the wanted length; at least one a text."""
    texts, at = [], 0
    for wanted in lengths:
        first, n_tokens = at, N_SPECIAL
        while at == first or n_tokens + costs[at] <= wanted:
            n_tokens += costs[at]
            at += 1
        texts.append(" ".join(words[first:at]))
    return texts


def describe(lengths):
    ordered, n = sorted(lengths), len(lengths)
    groups = [lengths[i:i + 32] for i in range(0, n, 32)]
    padded = sum(max(g) * len(g) for g in groups)
    return (f"{n} texts, {sum(lengths)} tokens: mean {sum(lengths) / n:.1f}, median {ordered[n // 2]}, "
            f"p90 {ordered[n * 9 // 10]}, p99 {ordered[n * 99 // 100]}, longest {ordered[-1]}; "
            f"padded 32 by 32 as they come: {1 - sum(lengths) / padded:.3f} of the rows are padding")


def make(folder, sdist):
    tokenizer = Tokenizer.from_file(os.path.join(ROOT, "build", "demo-model", "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rng = random.Random(SEED)
    sentences = read_sentences(sdist)
    rng.shuffle(sentences)
    words = " ".join(sentences).split()
    costs = [len(e.ids) for e in tokenizer.encode_batch(words, add_special_tokens=False)]
    texts = compose(words, costs, draw_lengths(rng))
    lengths = [min(LONGEST, len(e.ids)) for e in tokenizer.encode_batch(texts)]
    os.makedirs(folder, exist_ok=True)
    content = "".join(text + "\n" for text in texts).encode()
    with open(os.path.join(folder, "workload.txt"), "wb") as f:
        f.write(content)
    with open(os.path.join(folder, "workload-lengths.txt"), "w", encoding="ascii") as f:
        f.writelines(f"{n}\n" for n in lengths)
    print(f"workload: {describe(lengths)}; sha256 {hashlib.sha256(content).hexdigest()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--sdist")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        make(args.out, args.sdist or fetch_sdist(scratch))


if __name__ == "__main__":
    main()
