"""Starts the engines, holds their outputs against transformers', and gives them their turns."""
import contextlib
import json
import math
import os
import random
import statistics
import time

import numpy as np
from tokenizers import Tokenizer

import figures
from driver import Driver, EngineFailed, find_program
from install import DEMO, HERE, PYTHON, ROOT, WORK, WORKLOAD, say

PEERS = {"fp32": ("onnxruntime", "openvino", "ctranslate2", "torch", "torch-compile"),
         "int8": ("onnxruntime", "openvino", "ctranslate2", "torch"),
         "bf16": ("openvino", "ctranslate2", "torch", "torch-compile")}
OURS, FIRST = figures.OURS, figures.OURS_FIRST
SEED, CLS, SEP, MAX_TOKENS = 20261130, 101, 102, 512
LONG_ROUND_S = 12  # a shape whose turns take longer than this together gets --long-rounds
PACKED_ROWS = 256
ONCE = ", fifo"  # ways so slow that the first round is enough
# Each output is held against transformers': rows of the last hidden state. What int8 makes of made-up ids on a CPU
# whose sums of int8 pairs saturate is far from fp32; noise or another layer would be farther.
MAX_DIFFERENCE_FP32, MIN_COSINE = 1e-3, {"int8": 0.7, "bf16": 0.95}


def write_sequences(path, seqs):
    lens = np.array([len(s) for s in seqs], np.int32)
    np.concatenate([np.array([len(seqs)], np.int32), lens, *(np.array(s, np.int32) for s in seqs)]).tofile(path)


def made_up_batch(batch, length):
    rng = random.Random(f"{SEED} {batch}x{length}")
    return [[CLS, *(rng.randrange(1000, 30000) for _ in range(length - 2)), SEP] for _ in range(batch)]


def workload_sequences(n):
    tokenizer = Tokenizer.from_file(os.path.join(DEMO, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    with open(WORKLOAD, encoding="utf-8") as f:
        texts = f.read().splitlines()[:n]
    return [e.ids for e in tokenizer.encode_batch(texts)]


def hf_folder(model):
    return os.path.join(WORK, "models", model, "hf")


def read_config(model):
    with open(os.path.join(hf_folder(model), "config.json"), encoding="utf-8") as f:
        return json.load(f)


def read_output(engine, command, width):
    path = os.path.join(WORK, "output.bin")
    engine.ask(command, path)
    return np.fromfile(path, np.float32).reshape(-1, width)


class Bench:
    """samples: what figures.py takes; checks: outputs beside transformers'; notes: what was left out and why."""

    def __init__(self, args):
        self.args, self.samples, self.checks, self.notes, self.sections, self.peaks = args, [], [], [], [], []
        self.cores = sorted(os.sched_getaffinity(0))[:args.threads]
        self.binary = find_program("forward", "bench_forward")
        self.rng = random.Random(SEED)

    def note(self, words):
        words = words.replace(ROOT + os.sep, "")  # results name no machine's folders
        say(words)
        self.notes.append(words)

    def add_section(self, title, lines):
        self.sections += [f"## {title}", "", *lines, ""]
        print("\n".join(["", f"## {title}", *lines, ""]), flush=True)

    def command(self, name, model, precision, workers):
        if name == OURS:
            precision_words = ["--precision", {"fp32": "float32", "bf16": "bfloat16"}.get(precision, precision)]
            return [self.binary, hf_folder(model), "--commands", "--threads", str(self.args.threads // workers),
                    "--workers", str(workers), *precision_words]
        return [PYTHON, os.path.join(HERE, "engines.py"), name, precision, os.path.dirname(hf_folder(model)),
                str(self.args.threads)]

    def start(self, stack, name, model, precision, workers=1):
        """A driver, or None and a note: an engine that does not work is left out, the others go on."""
        log = os.path.join(WORK, f"{name}-{model}-{precision}-{workers}.log")
        try:
            return stack.enter_context(Driver(name, self.command(name, model, precision, workers), self.cores, log))
        except EngineFailed as fault:
            self.note(f"{model}, {precision}: left out: {fault}")
            return None

    def sample(self, kind, model, precision, case, engine, round_index, ms, calls):
        self.samples.append({"kind": kind, "model": model, "precision": precision, "case": case, "engine": engine,
                             "round": round_index + 1, "ms": ms, "calls": calls})

    def samples_of(self, **wanted):
        return [s for s in self.samples if all(s[k] == v for k, v in wanted.items())]

    # Outputs: nobody is timed computing something else.

    def add_check(self, model, precision, case, engine, got, want):
        """Whether an output may pass for transformers'. Logits are two numbers; a cosine of them says nothing."""
        cosine = math.nan
        if engine != FIRST:
            cosine = float(((got * want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(want, axis=1)).min())
        difference = float(np.abs(got - want).max())
        self.checks.append({"model": model, "precision": precision, "case": case, "engine": engine,
                            "difference": difference, "cosine": cosine})
        good = difference <= MAX_DIFFERENCE_FP32 if precision == "fp32" else not cosine < MIN_COSINE[precision]
        if not good:
            self.note(f"{model}, {precision}, {case}: {engine} is {difference:.2g} away from transformers, least cosine "
                      f"{cosine:.4f}; its figures are left out")
        return good

    def check_engine(self, engine, model, precision, case, path, want):
        config = read_config(model)
        engine.ask("load", path)
        if engine.name == OURS:
            engine.ask("rows", "first")
            logits = read_output(engine, "output", want["logits"].shape[1])
            engine.ask("rows", "all")
            if not self.add_check(model, precision, case, FIRST, logits, want["logits"]):
                return False
        hidden = read_output(engine, "output", config["hidden_size"])
        return self.add_check(model, precision, case, engine.name, hidden, want["hidden"])

    def check(self, engines, reference, model, precision, case, path):
        """The engines whose outputs are right."""
        reference.ask("load", path)
        n_seqs = int(case.split("x")[0])
        want = {"hidden": read_output(reference, "output", read_config(model)["hidden_size"])}
        logits = read_output(reference, "logits", 1)
        want["logits"] = logits.reshape(n_seqs, -1)
        good = {}
        for name, engine in engines.items():
            try:
                if self.check_engine(engine, model, precision, case, path, want):
                    good[name] = engine
            except EngineFailed as fault:
                self.note(f"{model}, {precision}, {case}: left out: {fault}")
        return good

    # Shapes.

    def turn(self, engine, label, path):
        """Milliseconds of each call. Ours has two turns a round: every row, and the classifier's."""
        if engine.name == OURS:
            self.peaks.append(float(engine.ask("peak")))
            engine.ask("rows", "first" if label == FIRST else "all")
        engine.ask("load", path)
        return [float(t) for t in engine.ask("time", self.args.seconds).split()]

    def run_shape(self, engines, model, precision, case, path):
        labels = [(name, name) for name in engines] + [(OURS, FIRST)] * (OURS in engines)
        for round_index in range(self.args.rounds):
            start = time.monotonic()
            self.rng.shuffle(labels)
            for name, label in list(labels):
                try:
                    ms = self.turn(engines[name], label, path)
                    self.sample("shape", model, precision, case, label, round_index, statistics.median(ms), len(ms))
                except EngineFailed as fault:
                    self.note(f"{model}, {precision}, {case}: left out: {fault}")
                    labels = [known for known in labels if known[0] != name]
            if time.monotonic() - start > LONG_ROUND_S and round_index + 1 >= self.args.long_rounds:
                break

    def run_shapes(self, model, precision):
        with contextlib.ExitStack() as stack:
            names = [OURS, *(p for p in PEERS[precision] if p in self.args.peers)]
            engines = {name: self.start(stack, name, model, precision) for name in names}
            engines = {name: engine for name, engine in engines.items() if engine}
            reference = engines.get("torch") if precision == "fp32" else None
            reference = reference or self.start(stack, "torch", model, "fp32")
            if not reference:
                return
            for batch, length in self.args.shapes:
                case, path = f"{batch}x{length}", os.path.join(WORK, f"{batch}x{length}.bin")
                write_sequences(path, made_up_batch(batch, length))
                good = self.check(engines, reference, model, precision, case, path)
                self.run_shape(good, model, precision, case, path)
                self.print_shape(model, precision, case)
        samples = self.samples_of(kind="shape", model=model, precision=precision)
        peers = [name for name in engines if name != OURS]
        self.add_section(f"{model}, {precision}: median ms (GFLOP/s)",
                         figures.shape_table(samples, read_config(model), self.args.shapes, peers))

    def print_shape(self, model, precision, case):
        here = self.samples_of(kind="shape", model=model, precision=precision, case=case)
        names = sorted({s["engine"] for s in here}, key=lambda n: figures.median(here, n))
        say(f"{model}, {precision}, {case}:", "; ".join(f"{n} {figures.median(here, n):.2f}" for n in names), "ms")

    # Texts of many lengths, fp32: ours packed, each peer in each of its ways.

    def ways_of_ours(self, stack, model):
        for workers in sorted({1, self.args.threads}):
            engine = self.start(stack, OURS, model, "fp32", workers)
            if engine:
                shape = f"packed by {PACKED_ROWS}, {workers} x {self.args.threads // workers}"
                yield engine, f"{OURS}, {shape}", PACKED_ROWS, "all"
                yield engine, f"{FIRST}, {shape}", PACKED_ROWS, "first"

    def ways_of_peers(self, stack, model):
        for name in PEERS["fp32"]:
            engine = self.start(stack, name, model, "fp32") if name in self.args.peers else None
            ways = ["one", "sorted"] + ["streams"] * (name != "torch-compile") + ["fifo"] * (name == "onnxruntime")
            for way in ways if engine else ():
                yield engine, f"{name}, {way}", way, None

    def run_mix(self, model):
        seqs = workload_sequences(self.args.texts)
        path = os.path.join(WORK, "workload.bin")
        write_sequences(path, seqs)
        with contextlib.ExitStack() as stack:
            ways = [*self.ways_of_ours(stack, model), *self.ways_of_peers(stack, model)]
            for round_index in range(self.args.mix_rounds):
                self.rng.shuffle(ways)
                for engine, label, way, rows in list(ways):
                    if round_index and label.endswith(ONCE):
                        continue
                    try:
                        self.run_way(engine, model, label, way, rows, path, round_index, len(seqs))
                    except EngineFailed as fault:
                        self.note(f"{model}, mixed lengths: left out: {label}: {fault}")
                        ways = [known for known in ways if known[1] != label]
        n_tokens = sum(map(len, seqs))
        self.add_section(f"{model}, fp32, mixed lengths: {len(seqs)} texts, {n_tokens} tokens",
                         figures.mix_table(self.samples_of(kind="mix", model=model), len(seqs), n_tokens))

    def run_way(self, engine, model, label, way, rows, path, round_index, n_seqs):
        engine.ask("load", path)
        if rows:
            engine.ask("rows", rows)
        ms, batches = engine.ask("mix", way).split()
        self.sample("mix", model, "fp32", "mix", label, round_index, float(ms), int(batches))
        say(f"mix, round {round_index + 1}: {label}: {n_seqs / float(ms) * 1e3:.1f} texts/s")

    def check_table(self):
        lines = [figures.row(["model", "precision", "engine", "largest difference", "least cosine of a row"]),
                 figures.row(["---"] * 5)]
        groups = {}
        for c in self.checks:
            groups.setdefault((c["model"], c["precision"], c["engine"]), []).append(c)
        for names, cs in groups.items():
            cosine = min(c["cosine"] for c in cs)
            lines.append(figures.row([*names, f"{max(c['difference'] for c in cs):.2g}",
                                      "(logits)" if math.isnan(cosine) else f"{cosine:.5f}"]))
        return lines
