"""A server that has turns: started once, stopped (SIGSTOP) outside its turns with all of its processes, so that nobody
spins or looks around in another's turn."""
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

from driver import begin_child
from peers import HERE, venv_of
from server import BERTH, free_port

START_S, END_S = 180, 20


class ServerFailed(Exception):
    """It did not start, or ended, or did not answer as it should; with its last words."""


def last_words(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        lines = [line.strip() for line in f if line.strip()]
    return " / ".join(lines[-2:])[-300:] if lines else "no word in its log"


class Serving:
    """with Serving(peer, threads, log) as s, s.turn(): ...; s.ask("a text")"""

    def __init__(self, peer, cores, log_path):
        self.peer, self.log_path, self.process = peer, log_path, None
        self.cores = cores
        self.url = peer.url or f"http://127.0.0.1:{free_port()}"

    def words(self):
        values = {"port": self.url.rsplit(":", 1)[1].split("/")[0], "threads": str(len(self.cores)), "berth": BERTH}
        command = [word.format(**values) for word in self.peer.command]
        program = os.path.join(venv_of(self.peer.kind), "bin", command[0])
        env = dict(os.environ, TOKENIZERS_PARALLELISM="false", PYTHONPATH=HERE, OMP_NUM_THREADS=values["threads"],
                   MKL_NUM_THREADS=values["threads"], **{k: v.format(**values) for k, v in self.peer.env.items()})
        return [program if os.path.exists(program) else command[0], *command[1:]], env

    def __enter__(self):
        if self.peer.url:
            return self
        command, env = self.words()
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.peer.folder,
                                            start_new_session=True, preexec_fn=lambda: begin_child(self.cores))
        try:
            self.wait_for_ready()
            self.signal(signal.SIGSTOP)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def signal(self, number):
        if self.process:
            try:
                os.killpg(self.process.pid, number)  # its own session, made above
            except ProcessLookupError:
                pass

    def stop(self):
        if not self.process:
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            pass
        self.signal(signal.SIGKILL)  # workers that outlived it, too
        self.process.wait()

    def wait_for_ready(self):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + self.peer.health, timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.2)
        raise ServerFailed(f"{self.peer.name}: not ready: {last_words(self.log_path)}")

    def turn(self):
        return Turn(self)

    def ask(self, text):
        """What it answers to one text: its best label and score, or an embedding's length and first number."""
        name = self.peer.field.removesuffix("[]")
        body = json.dumps({name: [text] if self.peer.field.endswith("[]") else text}).encode()
        request = urllib.request.Request(self.url + self.peer.path, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return read_answer(json.load(answer))
        except (OSError, ValueError, KeyError, IndexError, TypeError) as fault:
            raise ServerFailed(f"{self.peer.name}: {fault}") from None


class Turn:
    def __init__(self, serving):
        self.serving = serving

    def __enter__(self):
        self.serving.signal(signal.SIGCONT)

    def __exit__(self, *_):
        self.serving.signal(signal.SIGSTOP)


def read_answer(value):
    """(label, score) of whatever shape: a list, a list of lists, or either under "data"."""
    while isinstance(value, dict) and "data" in value:
        value = value["data"]
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    first = value[0] if isinstance(value, list) else value
    if "embedding" in first:
        return len(first["embedding"]), float(first["embedding"][0])
    best = max(value, key=lambda item: item["score"])
    return best["label"], float(best["score"])
