"""A process that is timed in turn with others. Outside its turn it is stopped (SIGSTOP), so that threads which spin
after their work, as those of OpenMP and onnxruntime do, take nothing from the next one's turn."""
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
START_S, ANSWER_S, END_S = 180, 900, 10
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def find_program(*path):
    """bench/PATH of build-release or build, whichever was built last."""
    found = [os.path.join(ROOT, build, "bench", *path) for build in ("build-release", "build")]
    found = [program for program in found if os.path.exists(program)]
    if not found:
        sys.exit(f"bench: {path[-1]} is not built; this builds it: meson setup build && ninja -C build")
    return max(found, key=os.path.getmtime)


class EngineFailed(Exception):
    """What the engine said, or that it ended or did not answer."""


def begin_child(cores):
    """Runs in the new process. Whoever is killed cannot clean up, and a stopped child would stay for ever."""
    os.sched_setaffinity(0, cores)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Driver:
    """with Driver("openvino", command, cores, log) as engine: engine.ask("time", 0.3)"""

    def __init__(self, name, command, cores, log_path):
        self.name, self.buffer = name, b""
        self.log_path = log_path
        env = dict(os.environ, OMP_NUM_THREADS=str(len(cores)), MKL_NUM_THREADS=str(len(cores)),
                   TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore",
                   TORCHINDUCTOR_CACHE_DIR=os.path.join(os.path.dirname(log_path), "inductor"))
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env,
                                            start_new_session=True, preexec_fn=lambda: begin_child(cores))
        try:
            self.greeting = self.read_answer(START_S)
            self.signal(signal.SIGSTOP)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def signal(self, number):
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)  # its own session, made above

    def close(self):
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.close()
            self.process.wait(END_S)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.signal(signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()

    def last_words(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            lines = [line.strip() for line in f if line.strip()]
        return " / ".join(lines[-2:])[-300:] if lines else "no word in its log"

    def read_answer(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                self.signal(signal.SIGKILL)
                raise EngineFailed(f"{self.name}: no answer in {seconds} s")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise EngineFailed(f"{self.name}: ended: {self.last_words()}")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        word, _, rest = line.decode().partition(" ")
        if word != "ok":
            raise EngineFailed(f"{self.name}: {rest}")
        return rest

    def ask(self, *words):
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.write(("\t".join(str(w) for w in words) + "\n").encode())
            self.process.stdin.flush()
            return self.read_answer(ANSWER_S)
        except BrokenPipeError:
            raise EngineFailed(f"{self.name}: ended: {self.last_words()}") from None
        finally:
            self.signal(signal.SIGSTOP)
