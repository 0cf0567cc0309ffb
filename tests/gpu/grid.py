#!/usr/bin/env python3
"""The forward grid on a GPU: passes of many shapes, with graphs and without, packed and padded, in one CSV.

  grid.py --berth PROGRAM --out FOLDER [--device cuda] [--precision bfloat16] [--peak 989e12] [--rows N,N] [--lengths N,N]

Models of two shapes (base, MiniLM-L6) are made of random weights: what a pass takes does not depend on their values.
Times are `berth profile`'s, of whole passes from the batch to the logits. MFU is the share of --peak (a dense H200's
bf16) that a pass's products and attention are, by kernels/work.h. Exit status 77: there is no such device.
"""
import argparse
import array
import csv
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys

MODELS = {  # layers, hidden, heads, intermediate
    "base": (12, 768, 12, 3072),
    "minilm-l6": (6, 384, 12, 1536),
}
ROWS, LENGTHS = (128, 1024, 8192, 16384, 32768), (32, 128, 512)
GRAPH_ROWS = 4096  # up to which a pass may be a graph
MIXED = 256  # sequences of the mixed batch
ROUNDS, SECONDS = 3, 1.0
# What issue and design ask for: model, rows, length -> at most so many ms, or at least this MFU.
GOALS = [("base", 16384, 128, "mfu", 0.60), ("base", 8192, 128, "mfu", 0.55), ("minilm-l6", 16384, 128, "mfu", 0.45),
         ("base", 128, 128, "ms", 0.45), ("minilm-l6", 128, 128, "ms", 0.20)]
PACKED_GOAL = 2.3
FIELDS = ["model", "what", "sequences", "rows", "length", "graphs", "ms", "ms_min", "ms_max", "tokens_per_s", "tflops",
          "mfu", "gemm_ms", "attention_ms", "other_ms"]


def tensors_of(layers, hidden, intermediate, vocab=30522, positions=512):
    yield "bert.embeddings.word_embeddings.weight", (vocab, hidden)
    yield "bert.embeddings.position_embeddings.weight", (positions, hidden)
    yield "bert.embeddings.token_type_embeddings.weight", (2, hidden)

    def pair(name, *shape):
        yield name + ".weight", shape
        yield name + ".bias", shape[:1]

    yield from pair("bert.embeddings.LayerNorm", hidden)
    for i in range(layers):
        layer = f"bert.encoder.layer.{i}."
        for name in ("query", "key", "value"):
            yield from pair(layer + "attention.self." + name, hidden, hidden)
        yield from pair(layer + "attention.output.dense", hidden, hidden)
        yield from pair(layer + "attention.output.LayerNorm", hidden)
        yield from pair(layer + "intermediate.dense", intermediate, hidden)
        yield from pair(layer + "output.dense", hidden, intermediate)
        yield from pair(layer + "output.LayerNorm", hidden)
    yield from pair("bert.pooler.dense", hidden, hidden)
    yield from pair("classifier", 2, hidden)


def make_model(folder, layers, hidden, heads, intermediate):
    """Random weights of the spread that BERT begins with; one block of them, again and again."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.safetensors"
    if file.exists():
        return
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 30522,
        "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": heads, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "pad_token_id": 0}))
    header, at = {}, 0
    for name, shape in tensors_of(layers, hidden, intermediate):
        n = 4
        for size in shape:
            n *= size
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = random.Random(1)
    block = array.array("f", [generator.gauss(0, 0.02) for _ in range(1 << 18)]).tobytes()
    partial = file.with_suffix(".part")
    with partial.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for left in range(at, 0, -len(block)):
            out.write(block[:left])
    partial.rename(file)


class NoDevice(Exception):
    pass


def profile(args, model, batch, graphs):
    command = [args.berth, "profile", model, *batch, "--seconds", args.seconds, "--json", "--device", args.device,
               "--precision", args.precision, "--graph-max-rows", GRAPH_ROWS if graphs else 0]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if "compute.device is" in done.stderr:
        raise NoDevice(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def kind_of(op):
    return {"qkv": "gemm", "attention_out": "gemm", "intermediate": "gemm", "output": "gemm",
            "attention": "attention"}.get(op, "other")


def measure(args, name, model, what, batch, length, graphs):
    """The median of a few runs, and their range."""
    runs = [profile(args, model, batch, graphs) for _ in range(args.rounds)]
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


def grid(args, models):
    for name, model in models.items():
        for rows in args.rows:
            for length in args.lengths:
                if rows % length == 0:
                    for graphs in ((True, False) if rows <= GRAPH_ROWS else (False,)):
                        yield measure(args, name, model, "grid", ["--shape", f"{rows // length}x{length}"], length,
                                      graphs)


def mixed(args, models):
    """Lengths as texts have them, many short and a few long; packed, and padded to the longest."""
    generator = random.Random(2)
    longest = max(args.lengths)
    lengths = [max(4, min(longest, int(generator.lognormvariate(3.6, 0.9)))) for _ in range(args.mixed - 1)] + [longest]
    for name, model in models.items():
        packed = ["--lengths", ",".join(map(str, lengths))]
        yield measure(args, name, model, "mixed packed", packed, longest, False)
        yield measure(args, name, model, "mixed padded", ["--shape", f"{len(lengths)}x{longest}"], longest, False)


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


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--berth", required=True), p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--device", default="cuda"), p.add_argument("--precision", default="bfloat16")
    p.add_argument("--peak", type=float, default=989e12), p.add_argument("--rows", type=numbers, default=ROWS)
    p.add_argument("--lengths", type=numbers, default=LENGTHS), p.add_argument("--mixed", type=int, default=MIXED)
    p.add_argument("--rounds", type=int, default=ROUNDS), p.add_argument("--seconds", type=float, default=SECONDS)
    args = p.parse_args()
    models = {name: args.out / name for name in MODELS}
    for name, shape in MODELS.items():
        make_model(models[name], *shape)
    try:
        rows = [*grid(args, models), *mixed(args, models)]
    except NoDevice as e:
        print(e)
        return 77
    with (args.out / "figures.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    summary = "\n".join(["| Case | Goal | Measured | Reached |", "|---|---|---|---|", *judge(rows), ""])
    (args.out / "summary.md").write_text(summary)
    print(summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
