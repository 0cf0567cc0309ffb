#!/usr/bin/env python3
"""What our HTTP front end costs: a health request of berth beside a bare libmicrohttpd server's same answer.

  build/venv/bin/python bench/http_floor/run.py [--rounds N] [--seconds S] [--threads N]

Both have as many HTTP threads (--threads); `berth bench` loads them in turn, closed loop, 32 connections, in an order
drawn anew each round. Prints the medians and the median of the rounds' ratios, of which 0.9 is wanted.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from driver import find_program  # noqa: E402
from server import BERTH, ROOT, Server, commit, machine  # noqa: E402

TINY_MODEL = os.path.join(ROOT, "tests", "golden", "models", "base")
CONNECTIONS, WANTED = 32, 0.9


class Bare:
    def __init__(self, threads):
        self.command = [find_program("http_floor", "bench_http_floor"), str(threads)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().split()[1]}"
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


def rate(server, seconds):
    done = subprocess.run([BERTH, "bench", server.url, "--method", "GET", "--path", "/health", "--connections", str(CONNECTIONS),
                           "--duration", str(seconds), "--warmup", "0.3", "--json", "-", "--quiet"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"http_floor: {done.stderr.strip()}")
    return json.loads(done.stdout)["throughput_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if not os.path.exists(BERTH):
        sys.exit(f"http_floor: {BERTH} is not there; this makes it: deploy/quickstart.sh --once")
    seen = {"berth": [], "bare": []}
    with Server(["--http-threads", str(args.threads)], model=TINY_MODEL) as berth, Bare(args.threads) as bare:
        servers = {"berth": berth, "bare": bare}
        for _ in range(args.rounds):
            for name in random.sample(sorted(servers), 2):
                seen[name].append(rate(servers[name], args.seconds))
    ratio = statistics.median(a / b for a, b in zip(seen["berth"], seen["bare"]))
    print(f"{machine()}; commit {commit()}; {args.rounds} rounds of {args.seconds:g} s, {args.threads} HTTP threads each")
    print(f"berth {statistics.median(seen['berth']):.0f}/s, bare libmicrohttpd {statistics.median(seen['bare']):.0f}/s, "
          f"ratio {ratio:.3f}; wanted {WANTED:g}: {'reached' if ratio >= WANTED else 'NOT reached'}")
    return 0 if ratio >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
