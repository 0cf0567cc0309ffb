"""The two programs under test as objects: started on a free port, asked for their counters, stopped."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile

from wire import Connection, eventually, get

ROOT = pathlib.Path(__file__).parents[2]
START_S = 30  # under a sanitizer on a busy machine


def binary():
    for name in ("BERTH_BINARY", "BERTH"):
        if os.environ.get(name):
            return pathlib.Path(os.environ[name])
    return ROOT / "build" / "berth"


def slow_binary():
    if os.environ.get("BERTH_SLOW_SERVER"):
        return pathlib.Path(os.environ["BERTH_SLOW_SERVER"])
    build = next(p for p in binary().parents if (p / "build.ninja").exists())
    return build / "tests" / "http" / "slow_server"


class Server:
    """Anything that listens. `counters()` are the counts of accepted requests and how they ended."""

    ENDS = ("answered", "refused", "cancelled", "expired")

    def __init__(self, arguments):
        wrapper = shlex.split(os.environ.get("BERTH_WRAPPER", ""))
        # Files, not pipes: a log that nobody reads must not stop a server in a test either.
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen([*wrapper, *map(str, arguments)], stdout=self.out, stderr=self.err)
        eventually(lambda: self._find_port() or self.process.poll() is not None, START_S)
        self.port = self._find_port()
        assert self.port, self.printed()

    def printed(self):
        """What it has written so far: standard output, then standard error."""
        texts = []
        for file in (self.out, self.err):
            texts.append(os.pread(file.fileno(), 1 << 24, 0).decode())
        return texts

    def connect(self):
        return Connection(self.port)

    def ask(self, data):
        with self.connect() as c:
            return c.send(data).read()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def finish(self):
        """Waits for the end, which has to be a clean one; what was printed."""
        self.process.wait(30)
        out, err = self.printed()
        assert self.process.returncode == 0, (self.process.returncode, err[-8000:])
        return out, err

    def stop(self):
        if self.process.returncode is None:
            self.terminate()
            self.finish()

    def check_sum(self, counters):
        """Nothing is lost: what was accepted has ended in exactly one way, or is in flight."""
        assert counters["accepted"] == sum(counters[e] for e in self.ENDS) + counters["slots_used"], counters


class SlowServer(Server):
    """slow_server.c: the front end alone, before a batcher whose times are in the request."""

    def __init__(self, **settings):
        super().__init__([slow_binary(), *(f"{k}={int(v)}" for k, v in settings.items())])

    def _find_port(self):
        found = re.match(r"port (\d+)\n", self.printed()[0])
        return found and int(found.group(1))

    def counters(self):
        return self.ask(get("/metrics")).json()

    def last_counters(self):
        return json.loads(self.finish()[0].splitlines()[-1])


class Berth(Server):
    """The real program on a tiny model."""

    def __init__(self, model, *options):
        super().__init__([binary(), "serve", model, "--port", "0", *options])

    def events(self):
        lines = "".join(self.printed()).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def _find_port(self):
        return next((e["port"] for e in self.events() if e["event"] == "ready"), None)

    def counters(self):
        text = self.ask(get("/metrics")).body.decode()
        totals = {name: self.value(text, f"berth_requests_{name}_total") for name in ("accepted", *self.ENDS)}
        totals["slots_used"] = self.value(text, "berth_slots_used")
        return totals

    @staticmethod
    def value(text, name):
        found = re.search(rf"^{name} ([0-9.e+]+)$", text, re.M)
        assert found, f"{name} is not in /metrics"
        return int(float(found.group(1)))
