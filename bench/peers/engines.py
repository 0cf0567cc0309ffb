#!/usr/bin/env python3
"""One peer as a process that stays and is driven in turn with others, by the commands of bench/forward/serve.c.

  engines.py ENGINE PRECISION MODEL_FOLDER THREADS     (the process may use as many cores as THREADS says)

  load FILE     sequences: int32 n, n lengths, then their token ids; answers how many
  time SECONDS  the loaded sequences as one padded batch, again and again: milliseconds of each call
  mix WAY       all of them once: "one" by one on all threads, "streams" of one thread each, one by one, "sorted" by
                length in batches of 32, "fifo": in batches of 32 as they come; milliseconds, batches
  output FILE   one call; the real rows' last hidden state as floats into FILE
  logits FILE   (torch alone) the classifier's logits
Words are parted by tabs; answers are a line that begins with "ok" or "error". Inputs are made before the clock starts.
"""
import concurrent.futures
import os
import sys
import time

import numpy as np

BATCH = 32
WARM_UP_MS, MAX_CALLS = 250, 2000  # as in bench/common/timed.h and bench/forward/serve.c
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def pad(seqs):
    """ids [batch, longest] int64 and lengths."""
    lens = np.array([len(s) for s in seqs])
    ids = np.zeros((len(seqs), lens.max()), np.int64)
    for row, seq in zip(ids, seqs):
        row[:len(seq)] = seq
    return ids, lens


def mask_of(ids, lens):
    return (np.arange(ids.shape[1]) < lens[:, None]).astype(np.int64)


class Engine:
    """prepare() makes one call of a padded batch; the call gives [batch, longest, hidden]."""
    ways = ("one", "streams", "sorted", "fifo")

    def __init__(self, folder, precision, threads):
        self.folder, self.precision, self.threads = folder, precision, threads
        self.open()

    def file(self, name):
        return os.path.join(self.folder, name)

    def prepare_stream(self, ids, lens):
        """As prepare(), for one of several streams that have a thread each."""
        raise NotImplementedError

    def run_streams(self, calls):
        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(lambda call: call(), calls):
                pass


class OnnxRuntime(Engine):
    def make_session(self, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        file = {"fp32": "fused.onnx", "int8": "fused-int8.onnx"}[self.precision]
        return onnxruntime.InferenceSession(self.file(file), options, providers=["CPUExecutionProvider"])

    def open(self):
        self.session, self.stream_session = self.make_session(self.threads), None
        self.hidden = self.session.get_outputs()[0].shape[-1]

    def bind(self, session, ids, lens):
        binding, held = session.io_binding(), []
        values = dict(zip(INPUTS, (ids, mask_of(ids, lens), np.zeros_like(ids))))
        for wanted in session.get_inputs():
            held.append(values[wanted.name].astype(np.int32 if "int32" in wanted.type else np.int64))
            binding.bind_cpu_input(wanted.name, held[-1])
        out = np.empty((*ids.shape, self.hidden), np.float32)
        binding.bind_output(session.get_outputs()[0].name, "cpu", 0, np.float32, out.shape, out.ctypes.data)

        def call():
            session.run_with_iobinding(binding)
            return out
        call.held = held
        return call

    def prepare(self, ids, lens):
        return self.bind(self.session, ids, lens)

    def prepare_stream(self, ids, lens):
        if self.stream_session is None:
            self.stream_session = self.make_session(1)
        return self.bind(self.stream_session, ids, lens)


class OpenVino(Engine):
    def compile(self, options):
        import openvino
        file = "openvino-int8.xml" if self.precision == "int8" else "openvino.xml"
        hint = "bf16" if self.precision == "bf16" else "f32"  # its own default may be less than fp32
        return openvino.Core().compile_model(self.file(file), "CPU", {
            "INFERENCE_NUM_THREADS": self.threads, "INFERENCE_PRECISION_HINT": hint, **options})

    def open(self):
        self.request = self.compile({"PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
        self.queue = None

    def feed(self, ids, lens):
        return dict(zip(INPUTS, (ids, mask_of(ids, lens), np.zeros_like(ids))))

    def prepare(self, ids, lens):
        feed = self.feed(ids, lens)
        return lambda: self.request.infer(feed, share_inputs=True, share_outputs=True)[0]

    def prepare_stream(self, ids, lens):
        return self.feed(ids, lens)

    def run_streams(self, calls):
        import openvino
        if self.queue is None:
            streams = self.compile({"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": self.threads})
            self.queue = openvino.AsyncInferQueue(streams, self.threads)
        for feed in calls:
            self.queue.start_async(feed, share_inputs=True)
        self.queue.wait_all()


class CTranslate2(Engine):
    def make_encoder(self, inter, intra):
        import ctranslate2
        compute = {"fp32": "float32", "int8": "int8", "bf16": "bfloat16"}[self.precision]
        return ctranslate2.Encoder(self.file("ct2"), device="cpu", compute_type=compute, inter_threads=inter,
                                   intra_threads=intra)

    def open(self):
        self.encoder, self.streams = self.make_encoder(1, self.threads), None

    def bind(self, encoder, ids, lens):
        import ctranslate2
        held = ids.astype(np.int32), lens.astype(np.int32)
        views = [ctranslate2.StorageView.from_array(a) for a in held]

        def call():
            return encoder.forward_batch(views[0], views[1]).last_hidden_state
        call.held = held
        return call

    def prepare(self, ids, lens):
        return self.bind(self.encoder, ids, lens)

    def prepare_stream(self, ids, lens):
        if self.streams is None:
            self.streams = self.make_encoder(self.threads, 1)
        return self.bind(self.streams, ids, lens)


class Torch(Engine):
    """Eager, SDPA attention. A batch without padding goes without a mask, which SDPA likes best."""

    def open(self):
        import torch
        from transformers import AutoModelForSequenceClassification
        self.torch = torch
        torch.set_num_threads(self.threads)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            self.file("hf"), attn_implementation="sdpa").eval().float()
        if self.precision == "int8":
            self.model = torch.ao.quantization.quantize_dynamic(self.model, {torch.nn.Linear}, dtype=torch.qint8)
        elif self.precision == "bf16":
            self.model = self.model.to(torch.bfloat16)
        self.model.base_model.pooler = None  # the hidden states are asked for, not what reads them
        self.encoder = self.model.base_model

    def feed(self, ids, lens, masked=False):
        is_full = lens.min() == ids.shape[1] and not masked
        mask = None if is_full else self.torch.from_numpy(mask_of(ids, lens))
        return {"input_ids": self.torch.from_numpy(ids), "attention_mask": mask,
                "token_type_ids": self.torch.zeros(ids.shape, dtype=self.torch.int64)}

    def bind(self, encoder, ids, lens, masked=False):
        feed = self.feed(ids, lens, masked)

        def call():
            with self.torch.inference_mode():
                return encoder(**feed).last_hidden_state
        return call

    def prepare(self, ids, lens):
        return self.bind(self.encoder, ids, lens)

    prepare_stream = prepare

    def run_streams(self, calls):
        def start():
            self.torch.set_num_threads(1)
        with concurrent.futures.ThreadPoolExecutor(self.threads, initializer=start) as pool:
            for _ in pool.map(lambda call: call(), calls):
                pass
        self.torch.set_num_threads(self.threads)

    def logits(self, ids, lens):
        from transformers import AutoModelForSequenceClassification
        whole = AutoModelForSequenceClassification.from_pretrained(self.file("hf")).eval().float()
        with self.torch.inference_mode():
            return whole(**self.feed(ids, lens)).logits.numpy()


class TorchCompile(Torch):
    """Inductor with frozen, prepacked weights: compiled for each shape of `time`, once for any shape of `mix`."""
    ways = ("one", "sorted", "fifo")

    def open(self):
        super().open()
        import torch._dynamo
        import torch._inductor.config
        torch._inductor.config.freezing = True
        torch._dynamo.config.recompile_limit = 64
        self.any_shape = None
        self.encoder = self.torch.compile(self.encoder, dynamic=False)

    def prepare_any(self, ids, lens):
        if self.any_shape is None:
            self.any_shape = self.torch.compile(self.model.base_model, dynamic=True)
        return self.bind(self.any_shape, ids, lens, masked=len(lens) > 1)  # two graphs, warm before the clock starts


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "ctranslate2": CTranslate2, "torch": Torch,
           "torch-compile": TorchCompile}


class Session:
    def __init__(self, engine):
        self.engine, self.seqs, self.path, self.calls = engine, [], None, {}

    def load(self, path):
        raw = np.fromfile(path, np.int32)
        n = int(raw[0])
        ends = np.cumsum(raw[1:1 + n])
        self.seqs = np.split(raw[1 + n:], ends[:-1])
        self.path = path
        return f"{n} sequences, {ends[-1]} tokens"

    def call(self):
        """Made once for each file, so that a turn does not begin with it."""
        if self.path not in self.calls:
            self.calls[self.path] = self.engine.prepare(*pad(self.seqs))
        return self.calls[self.path]

    def time(self, seconds):
        call, ms = self.call(), []

        def timed():
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e3
        first = timed()
        if first >= WARM_UP_MS:
            ms.append(first)
        end = time.perf_counter() + float(seconds)
        while len(ms) < MAX_CALLS and (not ms or time.perf_counter() < end):
            ms.append(timed())
        return " ".join(f"{t:.5f}" for t in ms)

    def batches(self, way):
        if way in ("one", "streams"):
            return [[s] for s in self.seqs]
        seqs = sorted(self.seqs, key=len) if way == "sorted" else self.seqs
        return [seqs[i:i + BATCH] for i in range(0, len(seqs), BATCH)]

    def mix(self, way):
        if way not in self.engine.ways:
            raise ValueError(f"this engine has {', '.join(self.engine.ways)}")
        batches = self.batches(way)
        prepare = self.engine.prepare_stream if way == "streams" else getattr(self.engine, "prepare_any",
                                                                               self.engine.prepare)
        calls = [prepare(*pad(batch)) for batch in batches]
        if way == "streams":
            self.engine.run_streams(calls[:8])
        else:
            calls[0]()
            calls[-1]()
        start = time.perf_counter()
        if way == "streams":
            self.engine.run_streams(calls)
        else:
            for call in calls:
                call()
        return f"{(time.perf_counter() - start) * 1e3:.3f} {len(batches)}"

    def real_rows(self, hidden):
        return np.concatenate([row[:len(seq)] for row, seq in zip(hidden, self.seqs)])

    def output(self, path):
        hidden = self.call()()
        hidden = np.asarray(hidden.float() if hasattr(hidden, "float") else hidden, np.float32)
        rows = self.real_rows(hidden)
        rows.tofile(path)
        return f"{rows.size} floats"

    def logits(self, path):
        logits = self.engine.logits(*pad(self.seqs))
        logits.tofile(path)
        return f"{logits.size} floats"


def serve(session, answers):
    commands = {"load": session.load, "time": session.time, "mix": session.mix, "output": session.output,
                "logits": session.logits}
    for line in sys.stdin:
        word, *rest = line.rstrip("\n").split("\t")
        try:
            answer = "ok " + commands[word](*rest)
        except Exception as fault:  # whatever an engine throws is its answer
            answer = f"error {type(fault).__name__}: {' '.join(str(fault).split())[:300]}"
        answers.write(answer + "\n")
        answers.flush()


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ENGINES:
        sys.exit(__doc__)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log
    name, precision, folder, threads = sys.argv[1:]
    session = Session(ENGINES[name](folder, precision, int(threads)))
    answers.write("ok\n")
    answers.flush()
    serve(session, answers)


if __name__ == "__main__":
    main()
