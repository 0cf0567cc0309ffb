"""Instructions, counted by valgrind's callgrind: the same on a busy machine as on an idle one. One thread, fixed work,
the AVX2 kernels (valgrind knows no AVX-512). A program is counted once: what two commits build alike, byte for byte, has
one count."""
import hashlib
import json
import os
import re
import shutil
import subprocess

from builds import WORK, mark_of
from measures import MODEL, TINY_MODEL, WORKLOAD

MARGIN = 0.005  # of the same work; two runs of one build differ by less than a thousandth of that
ISA = "avx2"
COLLECTED = re.compile(r"Collected : (\d+)")
TIMEOUT_S = 900


def write_sequences(path, lengths, vocabulary):
    from array import array
    ids = [5 + i % (vocabulary - 5) for n in lengths for i in range(n)]
    with open(path, "wb") as f:
        array("i", [len(lengths), *lengths, *ids]).tofile(f)
    return path


def count(program, words, commands="", inside=None):
    """Of all the program does, or of what happens inside one function."""
    out = os.path.join(WORK, "callgrind.out")
    toggle = [f"--toggle-collect={inside}"] if inside else []
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *toggle, program, *words],
                          input=commands, capture_output=True, text=True, timeout=TIMEOUT_S,
                          env=dict(os.environ, BERTH_CPU_ISA=ISA, PLANT_COUNTED="1"))
    found = COLLECTED.search(done.stderr)
    if done.returncode or not found or found.group(1) == "0" or "error" in done.stdout:
        raise RuntimeError(f"valgrind {os.path.basename(program)}: {(done.stdout + done.stderr).strip()[-300:]}")
    return int(found.group(1))


def count_forward(build, model, lengths, vocabulary):
    path = write_sequences(os.path.join(WORK, "counted.bin"), lengths, vocabulary)
    return count(build.program("bench/forward/bench_forward"), [model, "--commands", "--threads", "1"],
                 f"load\t{path}\nrows\tall\noutput\t{os.devnull}\n", "encoder_hidden")


def count_tokenizer(build):
    return count(build.program("bench/tokenizer/bench_tokenizer"), [MODEL], f"load\t{WORKLOAD}\noutput\t{os.devnull}\n",
                 "tokenizer_encode")


COUNTS = {  # name -> the program it needs, what counts it
    "GEMM and its dispatch, 1x16": ("bench/forward/bench_forward", lambda b: count_forward(b, MODEL, [16], 30000)),
    "GEMM dispatch, hidden 32": ("bench/forward/bench_forward",
                                 lambda b: count_forward(b, TINY_MODEL, [3, 9, 17, 30, 12, 24], 200)),
    "tokenizer": ("bench/tokenizer/bench_tokenizer", count_tokenizer),
    "queue": ("bench/schedule/bench_schedule", lambda b: count(b.program("bench/schedule/bench_schedule"), [])),
    "HTTP gate, body, reply": ("bench/regress/bench_exchange",
                               lambda b: count(b.program("bench/regress/bench_exchange"), [WORKLOAD])),
}


def missing_tool():
    return None if shutil.which("valgrind") else "valgrind is not installed; this installs it: deploy/packages.sh install bench"


class Kept:
    """Counts by the programs' bytes, in a file."""

    def __init__(self, folder=WORK):
        self.path = os.path.join(folder, f"counts-{mark_of('counts.py')}.json")
        self.counts = {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                self.counts = json.load(f)

    def get(self, name, program, make):
        with open(program, "rb") as f:
            key = f"{name} {hashlib.sha256(f.read()).hexdigest()}"
        if key not in self.counts:
            self.counts[key] = make()
            with open(self.path + ".new", "w", encoding="utf-8") as f:
                json.dump(self.counts, f)
            os.replace(self.path + ".new", self.path)
        return self.counts[key]


def counts_of(build, say, kept=None):
    kept, counts = kept or Kept(), {}
    for name, (target, counter) in COUNTS.items():
        def make(name=name, counter=counter):
            say(f"counting instructions: {build.name}: {name}")
            return counter(build)
        if build.program(target):
            counts[name] = kept.get(name, build.program(target), make)
    return counts


def compare(base, head):
    """(name, base, head, change, flagged) of what both have."""
    return [(name, base[name], head[name], head[name] / base[name] - 1, head[name] / base[name] - 1 > MARGIN)
            for name in COUNTS if name in base and name in head]
