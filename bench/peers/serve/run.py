#!/usr/bin/env python3
"""Serves one model with Berth and with other servers, and loads each in turn with the same texts.

  python3 bench/peers/serve/run.py [--peers WORDS] [--rounds N] [--requests N] [--url NAME=URL] [--prepare]

Every server is started once, from an environment of its own, and stopped outside its turns. A turn is `berth bench`,
closed loop, with the first texts of bench/workload.py, the same for everybody; rounds are interleaved, in an order
drawn anew. What a server answers is compared before it is timed. --url adds a server that runs already (its options
follow with commas: field=inputs,path=/predict). Writes bench/results/peers-serve-DATE.csv, .md. Exit code 0: measured;
1: a goal was not reached (with --check); 2: nothing could be measured.
"""
import argparse
import contextlib
import csv
import datetime
import json
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, BENCH]

import ratios  # noqa: E402
from peers import MODELS, OURS, PEERS, ROOT, Peer, prepare  # noqa: E402
from server import BERTH, commit, machine  # noqa: E402
from serving import Serving, ServerFailed  # noqa: E402

WORK = os.path.join(ROOT, "build", "peers-serve")
WORKLOAD = os.path.join(ROOT, "build", "bench", "workload.txt")
SEED, N_CHECKED = 20261130, 20
MAX_SCORE_ERROR = {"fp32": 1e-3, "int8": 0.2}
MAX_TURN_S = 300


def say(words):
    print("peers-serve:", words, flush=True)


class Bench:
    def __init__(self, args):
        self.args, self.samples, self.notes = args, [], []
        self.cores = sorted(os.sched_getaffinity(0))
        self.rng = random.Random(SEED)
        with open(WORKLOAD, encoding="utf-8") as f:
            self.texts = f.read().splitlines()

    def note(self, words):
        words = words.replace(ROOT + os.sep, "")  # results name no machine's folders
        say(words)
        self.notes.append(words)

    def start(self, stack, peer):
        log = os.path.join(WORK, "".join(c if c.isalnum() else "-" for c in peer.name) + ".log")
        try:
            return stack.enter_context(Serving(peer, self.cores, log))
        except (ServerFailed, OSError) as fault:
            self.note(f"left out: {fault}")
            return None

    def answers(self, serving):
        with serving.turn():
            return [serving.ask(text) for text in self.texts[:N_CHECKED]]

    def is_right(self, serving, want):
        """Labels and scores are held against ours in fp32; embeddings against being all the same."""
        peer = serving.peer
        got = self.answers(serving)
        if peer.answers == "embeddings":
            good = len({length for length, _ in got}) == 1 and len({first for _, first in got}) > N_CHECKED // 2
            wrong = "its embeddings are all alike"
        else:
            # A label may flip where both scores are near a half.
            far = max(abs(g[1] - w[1]) if g[0] == w[0] else abs(g[1] + w[1] - 1) for g, w in zip(got, want))
            good, wrong = far <= MAX_SCORE_ERROR[peer.precision], f"its scores are up to {far:.4f} off"
        if not good:
            self.note(f"left out: {peer.name}: {wrong}")
        return good

    def check(self, servers):
        reference = next((s for s in servers if s.peer is OURS[0]), None)
        want = self.answers(reference) if reference else None
        good = []
        for s in servers:
            try:
                if want is None or self.is_right(s, want):
                    good.append(s)
            except ServerFailed as fault:
                self.note(f"left out: {fault}")
        return good

    def load(self, serving):
        peer = serving.peer
        words = [BERTH, "bench", serving.url + peer.path, "--field", peer.field, "--texts", WORKLOAD, "--connections",
                 str(self.args.connections), "--requests", str(self.args.requests), "--duration", str(MAX_TURN_S), "--warmup",
                 str(self.args.warmup), "--timeout", "60", "--json", "-", "--quiet"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=MAX_TURN_S + 200)
        if done.returncode:
            raise ServerFailed(f"{peer.name}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def turn(self, serving, round_index):
        with serving.turn():
            result = self.load(serving)
        latency = result["latency_ms"]
        self.samples.append({"server": serving.peer.name, "round": round_index + 1, "requests": result["answered"],
                             "requests_per_s": result["throughput_per_s"], "p50_ms": latency["p50"], "p99_ms": latency["p99"],
                             "failed": result["failed_requests"]})
        say(f"round {round_index + 1}: {serving.peer.name}: {result['throughput_per_s']:.1f}/s, p50 {latency['p50']:.0f} ms, "
            f"p99 {latency['p99']:.0f} ms, {result['failed_requests']} failed")

    def run(self, peers):
        with contextlib.ExitStack() as stack:
            servers = self.check([s for s in (self.start(stack, p) for p in peers) if s])
            for round_index in range(self.args.rounds):
                self.rng.shuffle(servers)
                for serving in list(servers):
                    try:
                        self.turn(serving, round_index)
                    except (ServerFailed, subprocess.TimeoutExpired) as fault:
                        self.note(f"left out from round {round_index + 1} on: {fault}")
                        servers.remove(serving)
        failed = {s["server"] for s in self.samples if s["failed"]}
        for name in sorted(failed):
            self.note(f"{name}: {sum(s['failed'] for s in self.samples if s['server'] == name)} requests failed")


def parse_url(text):
    """NAME=URL[,field=F][,path=P]"""
    name, _, rest = text.partition("=")
    url, *options = rest.split(",")
    known = dict(o.partition("=")[::2] for o in options)
    if not name or not url.startswith("http://") or not known.keys() <= {"field", "path", "health"}:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=http://HOST:PORT[,field=F][,path=P]")
    return Peer(name, "url", [], url=url.rstrip("/"), **known)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default="", help="only those whose names hold one of these words, with commas between; "
                        "ours are always there")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1000, help="of a turn (1000)")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--warmup", type=float, default=3, help="seconds, of a turn (3)")
    parser.add_argument("--url", type=parse_url, action="append", default=[])
    parser.add_argument("--prepare", action="store_true", help="install everything, no more")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a goal is not reached")
    parser.add_argument("--out", default=os.path.join(ROOT, "bench", "results"))
    args = parser.parse_args()
    if min(args.rounds, args.requests, args.connections) < 1 or args.warmup < 0:
        parser.error("--rounds, --requests and --connections from 1 on")
    return args


def chosen(args):
    words = [w for w in args.peers.lower().split(",") if w]
    return [p for p in PEERS if not words or any(w in p.name.lower() for w in words)] + args.url


def need_inputs():
    """The model's ONNX form and the texts come from bench/peers."""
    if not os.path.exists(BERTH):
        sys.exit(f"peers-serve: {BERTH} is not there; this makes it: deploy/quickstart.sh --once")
    if not os.path.exists(os.path.join(MODELS, "classifier.onnx.done")):
        subprocess.run([sys.executable, os.path.join(BENCH, "peers", "run.py"), "--prepare", "--models", "demo"], check=True)
    os.makedirs(WORK, exist_ok=True)


def report(bench, args, date, found, minutes, peers):
    command = " ".join(["bench/peers/serve/run.py", *sys.argv[1:]])
    return "\n".join([
        f"# Servers side by side, {date}", "", f"- Machine: {machine()}; servers and client share it", f"- Commit: {commit()}",
        f"- Command: `{command}`", "- Model: the demo model", f"- Load: the first {args.requests} texts of bench/workload.py, "
        f"closed loop, {args.connections} connections, `berth bench`", f"- Medians of {args.rounds} interleaved rounds; a ratio "
        "is the median of the rounds' own ratios", f"- Took {minutes:.1f} minutes", "",
        *ratios.table(bench.samples, [*OURS, *peers], OURS[0].name), "", *ratios.goal_lines(found), "",
        *(f"- {n}" for n in bench.notes)]).rstrip("\n") + "\n"


def write_csv(path, samples):
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, samples[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 3) if isinstance(v, float) else v for k, v in s.items()} for s in samples)


def main():
    args = parse_args()
    need_inputs()
    start = time.monotonic()
    bench = Bench(args)
    peers = prepare(chosen(args), bench.note)
    if args.prepare:
        return 0
    bench.run([*OURS, *peers])
    if not bench.samples:
        say("nothing was measured")
        return 2
    date = datetime.date.today().isoformat()
    found = ratios.goals(bench.samples, OURS, peers)
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, f"peers-serve-{date}")
    write_csv(stem + ".csv", bench.samples)
    text = report(bench, args, date, found, (time.monotonic() - start) / 60, peers)
    with open(stem + ".md", "w", encoding="utf-8") as f:
        f.write(text)
    print("\n" + text)
    return 1 if args.check and not all(reached for *_, reached in found) else 0


if __name__ == "__main__":
    sys.exit(main())
