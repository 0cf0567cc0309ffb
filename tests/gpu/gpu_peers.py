#!/usr/bin/env python3
"""The forward grid's shapes by other engines on the same GPU, beside the grid's own figures.

  gpu_peers.py --out FOLDER [--device cuda] [--rows N,N] [--lengths N,N] [--models NAME,NAME]

torch: transformers' BertModel in bfloat16 with SDPA, no mask where nothing is padded; as it is, and replayed as a CUDA
graph where the grid has graphs. onnxruntime: the fused graph of its transformer optimizer in float16, inputs and output
bound to the device. What is not installed, or has no kernels for the device, is left out and named. Both stop at the
last hidden state of every row, on the device; Berth's pass includes its classifier and both copies.
Reads FOLDER/figures.csv (tests/gpu/grid.py) and FOLDER's models; writes peers.csv and peers.md after every figure.
Exit status 77: there is nothing to compare with; 1: one failed.
"""
import argparse
import csv
import importlib
import importlib.util
import os
import pathlib
import statistics
import sys
import time

from grid import GOALS, GRAPH_ROWS, LENGTHS, MIXED, ROWS, numbers
from shapes import MODELS, make_models, mixed_lengths

ROOT = pathlib.Path(__file__).parents[2]
FIELDS = ["model", "what", "sequences", "rows", "length", "engine", "ms", "tokens_per_s", "berth_ms", "times_as_fast"]
WARM_UP, MAX_CALLS = 3, 200


class Missing(Exception):
    """An engine that is not here."""


def need(module):
    try:
        return importlib.import_module(module)
    except ImportError as fault:
        raise Missing(f"{fault.name or module} is not installed") from None


class Torch:
    name = "torch"

    def __init__(self, folder, device):
        self.torch, transformers = need("torch"), need("transformers")
        if device == "cuda" and not self.torch.cuda.is_available():
            raise Missing("torch sees no GPU")
        self.device = device
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa", add_pooling_layer=False,
                                                            dtype=self.torch.bfloat16).eval().to(device)

    def call_of(self, ids, mask):
        ids = self.torch.from_numpy(ids).to(self.device)
        mask = None if mask is None else self.torch.from_numpy(mask).to(self.device)

        def call():
            with self.torch.inference_mode():
                return self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return call

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()


class TorchGraph(Torch):
    name = "torch, CUDA graph"

    def __init__(self, folder, device):
        if device != "cuda":
            raise Missing("a graph needs CUDA")
        super().__init__(folder, device)

    def call_of(self, ids, mask):
        call, cuda = super().call_of(ids, mask), self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(WARM_UP):
                call()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            call()
        return graph.replay


class Onnxruntime:
    name = "onnxruntime"

    def __init__(self, folder, device):
        self.ort, self.device = need("onnxruntime"), device
        provider = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}[device]
        if provider not in self.ort.get_available_providers():
            raise Missing(f"this onnxruntime has no {provider}")
        path = folder / "fused-fp16.onnx"
        if not path.exists():
            make_fused(folder, path)
        self.session = self.ort.InferenceSession(str(path), providers=[provider])

    def call_of(self, ids, mask):
        inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1 if mask is None else mask, "token_type_ids": ids * 0}
        binding = self.session.io_binding()
        for key, value in inputs.items():
            binding.bind_ortvalue_input(key, self.ort.OrtValue.ortvalue_from_numpy(value, self.device, 0))
        binding.bind_output("last_hidden_state", self.device)
        return lambda: self.session.run_with_iobinding(binding)

    def wait(self):
        """Not needed: a call comes back when the device is done."""


ENGINES = (Torch, TorchGraph, Onnxruntime)


def make_fused(folder, path):
    for module in ("torch", "transformers", "onnx"):
        need(module)
    from onnxruntime.transformers import optimizer
    spec = importlib.util.spec_from_file_location("peers_models", ROOT / "bench" / "peers" / "models.py")
    peers_models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers_models)
    plain, part = folder / "plain.onnx", path.with_suffix(".part")
    peers_models.make_onnx(str(folder), str(plain))
    _, hidden, heads, _ = MODELS[folder.name]
    fused = optimizer.optimize_model(str(plain), model_type="bert", num_heads=heads, hidden_size=hidden, opt_level=0)
    fused.convert_float_to_float16(keep_io_types=False)
    fused.save_model_to_file(str(part))
    part.rename(path)


def batch_of(lengths):
    """ids [n, longest] int64, and the mask, None where nothing is padded."""
    np = need("numpy")
    lengths = np.array(lengths)
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    ids = np.random.default_rng(1).integers(1000, 30000, mask.shape) * mask
    return ids, None if mask.all() else mask


def time_ms(engine, lengths, seconds):
    """Of one call: the mean of as many as `seconds` hold, after a few that do not count."""
    call = engine.call_of(*batch_of(lengths))

    def timed(n):
        engine.wait()
        start = time.perf_counter()
        for _ in range(n):
            call()
        engine.wait()
        return (time.perf_counter() - start) * 1e3 / n
    timed(WARM_UP)
    return timed(max(1, min(MAX_CALLS, int(seconds * 1e3 / timed(1)))))


def cases(args):
    """(what, lengths, a graph in the grid); what has a goal first."""
    first = {(rows, length) for _, rows, length, *_ in GOALS}
    shapes = [(rows, length) for rows in args.rows for length in args.lengths if rows % length == 0]
    shapes.sort(key=lambda shape: shape not in first)
    mixed = mixed_lengths(args.mixed, max(args.lengths))
    return [*(("grid", [length] * (rows // length), rows <= GRAPH_ROWS) for rows, length in shapes),
            ("mixed padded", mixed, False)]


def berths(out):
    """{(model, what, rows, length): the least ms}; what peers pad stands beside our packed pass."""
    found = {}
    path = out / "figures.csv"
    for row in csv.DictReader(path.open(newline="")) if path.exists() else ():
        what = {"mixed packed": "mixed padded", "mixed padded": None}.get(row["what"], row["what"])
        size = (int(row["rows"]), int(row["length"])) if what == "grid" else ()
        key, ms = (row["model"], what, *size), float(row["ms"])
        found[key] = min(ms, found.get(key, ms))
    return found


class Report:
    def __init__(self, out):
        self.out, self.ours, self.rows, self.notes = out, berths(out), [], []

    def add(self, model, what, lengths, engine, ms):
        rows, longest = sum(lengths), max(lengths)
        ours = self.ours.get((model, what, rows, longest) if what == "grid" else (model, what))
        self.rows.append({"model": model, "what": what, "sequences": len(lengths), "rows": rows, "length": longest,
                          "engine": engine, "ms": ms, "tokens_per_s": rows / ms * 1e3, "berth_ms": ours,
                          "times_as_fast": ours and ms / ours})
        print(f"{model} {what} {len(lengths)}x{longest} {engine}: {ms:.4g} ms", flush=True)
        self.write()

    def note(self, words):
        self.notes.append(words)
        print(words, flush=True)
        self.write()

    def write(self):
        with (self.out / "peers.csv").open("w", newline="") as f:
            writer = csv.DictWriter(f, FIELDS)
            writer.writeheader()
            writer.writerows(self.rows)
        lines = ["## Beside other engines", "", "Berth's time is the grid's, of a run of its own just before", "",
                 "| model | case | engine | ms | berth ms | times as fast |", "|---|---|---|---|---|---|"]
        for r in self.rows:
            ours = (f"{r['berth_ms']:.4g}", f"{r['times_as_fast']:.2f}") if r["berth_ms"] else ("-", "-")
            lines.append(f"| {r['model']} | {r['what']} {r['sequences']}x{r['length']} | {r['engine']} | {r['ms']:.4g} | "
                         f"{ours[0]} | {ours[1]} |")
        (self.out / "peers.md").write_text("\n".join([*lines, "", *(f"- {n}" for n in self.notes), ""]))


def run_engine(args, report, make, model):
    """False: one of its shapes failed."""
    good = True
    engine = make(args.out / model, args.device)
    for what, lengths, has_graph in cases(args):
        if make is TorchGraph and not has_graph:
            continue
        try:
            report.add(model, what, lengths, make.name,
                       statistics.median(time_ms(engine, lengths, args.seconds) for _ in range(args.rounds)))
        except Exception as fault:  # whatever a foreign engine throws: the next shape may work
            report.note(f"{model}, {what} of {sum(lengths)} rows, {make.name}: {type(fault).__name__}: "
                        f"{str(fault).strip()[:300]}")
            good = False
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try this script")
    p.add_argument("--rows", type=numbers, default=ROWS), p.add_argument("--lengths", type=numbers, default=LENGTHS)
    p.add_argument("--models", type=lambda s: s.split(","), default=list(MODELS), help=",".join(MODELS))
    p.add_argument("--mixed", type=int, default=MIXED), p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.3, help="of a round")
    args = p.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    make_models(args.out, args.models)
    report, good = Report(args.out), True
    for make in ENGINES:
        for model in args.models:
            try:
                good = run_engine(args, report, make, model) and good
            except Missing as fault:
                report.note(f"{make.name}: left out: {fault}")
                break
    if good and not report.rows:
        print("; ".join(report.notes))
        return 77
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
