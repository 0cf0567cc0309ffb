#!/usr/bin/env python3
"""Times a 10-token text on an idle server, one request after another on one connection.

  build/venv/bin/python bench/latency.py [--requests N] [--pause-ms N] [OPTION...]

OPTIONs go to the server. Prints median, p99 and longest of what the client saw, from the first byte sent to the
last byte read, and the server's own medians by stage from Server-Timing; and how long the server took to be
ready, five starts in all.
"""
import argparse
import http.client
import json
import re
import statistics
import time

from server import Server, commit, machine

TEXT = "the food was good and quickly there too"
N_TOKENS = 10  # of TEXT, [CLS] and [SEP] counted; held to the Berth-Batch header
N_STARTS = 5
WARM_UP = 20


def stages_of(header):
    return {name: float(ms) for name, ms in re.findall(r"(\w+);dur=([\d.]+)", header)}


def ask(connection, body):
    start = time.perf_counter()
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    seconds = time.perf_counter() - start
    assert answer.status == 200, answer.status
    assert f"tokens={N_TOKENS}," in answer.headers["Berth-Batch"], answer.headers["Berth-Batch"]
    return seconds * 1e3, stages_of(answer.headers["Server-Timing"])


def measure(server, n_requests, pause_s):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    body = json.dumps({"inputs": TEXT})
    samples = []
    for _ in range(WARM_UP + n_requests):
        samples.append(ask(connection, body))
        time.sleep(pause_s)
    connection.close()
    return samples[WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--pause-ms", type=float, default=5, help="between an answer and the next request")
    args, options = parser.parse_known_args()
    starts = []
    for _ in range(N_STARTS - 1):
        with Server(options) as server:
            starts.append(server.ready_s)
    with Server(options) as server:
        starts.append(server.ready_s)
        samples = measure(server, args.requests, args.pause_ms / 1e3)
    times = sorted(ms for ms, _ in samples)
    print(f"{machine()}; commit {commit()}; {args.requests} requests of {N_TOKENS} tokens, {args.pause_ms:g} ms apart")
    print(f"latency: median {statistics.median(times):.2f} ms, p99 {times[len(times) * 99 // 100]:.2f} ms, "
          f"longest {times[-1]:.2f} ms")
    stages = samples[0][1]
    print("stages (medians, ms): " + ", ".join(
        f"{name} {statistics.median(s[name] for _, s in samples):.3f}" for name in stages))
    print(f"ready after {statistics.median(starts):.2f} s (median of {N_STARTS} starts, longest {max(starts):.2f} s)")


if __name__ == "__main__":
    main()
