"""Starts a berth server for a benchmark, asks it things, and stops it again: by its pid, whatever happens."""
import os
import platform
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BERTH = os.path.join(ROOT, "build-release", "berth")
MODEL = os.environ.get("BERTH_DEMO_MODEL") or os.path.join(ROOT, "build", "demo-model")
READY_TIMEOUT_S, STOP_TIMEOUT_S, POLL_S = 30, 30, 0.002
SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? (\S+)$", re.M)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """with Server(["--mode", "packed"]) as server: server.get("/metrics")"""

    def __init__(self, options, log_path=os.devnull, berth=BERTH, model=None, env=None):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path, self.env = log_path, env
        self.command = [berth, "serve", model or MODEL, "--port", str(self.port), *options]

    def __enter__(self):
        with open(self.log_path, "ab") as log:
            start = time.monotonic()
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)
        try:
            self.wait_for_ready()
        except BaseException:
            self.stop()
            raise
        self.ready_s = time.monotonic() - start
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_for_ready(self):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.get("/health")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(POLL_S)
        raise RuntimeError(f"not ready: {' '.join(self.command)}; log: {self.log_path}")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def counters(self):
        """Every metric, summed over its labels."""
        sums = {}
        for name, value in SAMPLE.findall(self.get("/metrics")):
            sums[name] = sums.get(name, 0.0) + float(value)
        return sums


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"model name\s*: (.*)", f.read())
    name = model.group(1) if model else platform.machine()
    return f"{name}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release().split('-')[0]}"


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no") # new results are no change
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (" with changes" if changed else "")
