#!/usr/bin/env python3
"""Memory of a server under load: what is resident when it is ready, while 64 connections ask, and after.

  build/venv/bin/python bench/memory.py [--connections N] [--seconds S] [--model DIR] [OPTION...]

OPTIONs go to the server. Prints one line of Markdown a moment: VmRSS with its parts, and the bound it is held to,
1.6 x the bytes of the checkpoint's weights + 64 MiB (of an fp32 checkpoint). Exits 1 when a moment exceeds it.
Texts are of many lengths and words, so that the embedding's pages are touched as in service.
"""
import argparse
import http.client
import json
import os
import random
import struct
import sys
import threading
import time

import server as servers

FIELDS = ("VmRSS", "RssAnon", "RssFile", "VmHWM")
WORDS = 20000


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        found = dict(line.split(":", 1) for line in f if line.startswith(FIELDS))
    return {name: int(found[name].split()[0]) * 1024 for name in FIELDS}


def weight_bytes(model):
    with open(os.path.join(model, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return sum(t["data_offsets"][1] - t["data_offsets"][0] for name, t in header.items() if name != "__metadata__")


def words_of(model):
    with open(os.path.join(model, "tokenizer.json"), encoding="utf-8") as f:
        vocabulary = json.load(f)["model"]["vocab"]
    return [w for w in sorted(vocabulary) if w.isascii() and w.isalpha()][:WORDS]


def ask(port, words, seed, until, counts):
    draw = random.Random(seed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while time.monotonic() < until:
        text = " ".join(draw.choice(words) for _ in range(min(400, 1 + int(draw.expovariate(1 / 40)))))
        connection.request("POST", "/predict", json.dumps({"inputs": text, "truncate": True}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        counts[seed] += 1
    connection.close()


def load(port, words, n_connections, seconds):
    counts, until = [0] * n_connections, time.monotonic() + seconds
    threads = [threading.Thread(target=ask, args=(port, words, i, until, counts)) for i in range(n_connections)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()
    if min(counts) == 0:
        sys.exit("memory: a connection got no answer at all")
    print(f"\n{sum(counts)} answers on {n_connections} connections in {seconds:g} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--model", default=servers.MODEL)
    args, options = parser.parse_known_args()
    servers.MODEL = args.model
    weights, words = weight_bytes(args.model), words_of(args.model)
    bound = 1.6 * weights + (64 << 20)
    print(f"{servers.machine()}; commit {servers.commit()}; weights {weights / 1e6:.1f} MB, bound {bound / 1e6:.1f} MB\n")
    print("| moment | " + " | ".join(f"{name}, MB" for name in FIELDS) + " | of the bound |")
    print("|---|" + "---:|" * (len(FIELDS) + 1))
    exceeded = False

    def show(moment):
        nonlocal exceeded
        now = resident(server.process.pid)
        exceeded = exceeded or now["VmRSS"] > bound
        print(f"| {moment} | " + " | ".join(f"{now[name] / 1e6:.1f}" for name in FIELDS)
              + f" | {100 * now['VmRSS'] / bound:.0f} % |", flush=True)

    with servers.Server(options) as server:
        show("ready")
        running = load(server.port, words, args.connections, args.seconds)
        next(running)
        time.sleep(args.seconds * 0.8)
        show(f"{args.connections} connections asking")
        next(running, None)
        show("after")
    sys.exit(exceeded)


if __name__ == "__main__":
    main()
