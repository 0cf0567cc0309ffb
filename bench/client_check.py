#!/usr/bin/env python3
"""Holds the load client to wrk and h2load on a server of constant time, and measures the client itself.

  build/venv/bin/python bench/client_check.py [--rounds N] [--seconds S] [--part NAME] [--build FOLDER]

Rounds are interleaved: in each, `berth bench`, wrk and h2load load the same trivial server (closed loop; at once,
and with a fixed delay), in turn. Prints the medians over the rounds, the client's deviation from each of the others,
requests a second of client time on a core, and the scheduling error at 5,000 a second; and whether rates and p99
of the server with a delay are within 5 %, a core sends 50,000, and the error is at most 50 us at p99 (exit code 1: not
all). A minute; each part is 25 s at most. Needs the packages wrk and nghttp2-client.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

from server import ROOT, commit, machine

CONNECTIONS, DELAY_US, RATE, H2LOAD_WARM_UP_S = 32, 5000, 5000, 1
APART, CORE_RATE, SEND_DELAY_US = 0.05, 50000, 50
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def run(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True, timeout=120).stdout


def ms(text):
    number, unit = re.match(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * UNITS[unit]


def berth(build, url, seconds, *options):
    return json.loads(run(os.path.join(build, "berth"), "bench", url, "--method", "GET", "--duration", seconds, "--warmup",
                          "0.5", "--json", "-", "--no-probe", *options))


def by_berth(build, url, seconds):
    result = berth(build, url, seconds, "--connections", CONNECTIONS)
    return result["throughput_per_s"], result["latency_ms"]["p99"], result


def by_wrk(url, seconds):
    out = run("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", url)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), ms(re.search(r"99%\s+(\S+)", out).group(1))


def by_h2load(url, seconds, log):
    """Its own summary has no p99, so that is worked out from its log: start and duration in microseconds; the warm-up's
    lines are left out."""
    if os.path.exists(log):
        os.remove(log)
    out = run("h2load", "--h1", "-t1", f"-c{CONNECTIONS}", f"-D{seconds}", f"--warm-up-time={H2LOAD_WARM_UP_S}", f"--log-file={log}", url)
    with open(log, encoding="ascii") as f:
        lines = [[int(word) for word in line.split("\t")] for line in f]
    begin = min(start for start, _, _ in lines) + H2LOAD_WARM_UP_S * 1e6
    times = sorted(duration for start, _, duration in lines if start >= begin)
    rate = float(re.search(r"finished in .*?, ([\d.]+) req/s", out).group(1))
    return rate, times[len(times) * 99 // 100] / 1e3


class Trivial:
    def __init__(self, build, delay_us):
        self.process = subprocess.Popen([os.path.join(build, "bench", "client", "trivial_server"), f"delay_us={delay_us}"],
                                        stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().split()[1]}/"

    def __enter__(self):
        return self.url

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


def compare(build, delay_us, rounds, seconds):
    """Prints the table; the largest of the deviations of rate and p99, and requests a second of client CPU."""
    seen = {"berth bench": [], "wrk": [], "h2load --h1": []}
    core_rates = []
    log = os.path.join(build, "h2load.log")
    with Trivial(build, delay_us) as url:
        for _ in range(rounds):
            rate, p99, result = by_berth(build, url, seconds)
            seen["berth bench"].append((rate, p99))
            core_rates.append(rate / result["client_cores"])
            seen["wrk"].append(by_wrk(url, seconds))
            seen["h2load --h1"].append(by_h2load(url, seconds, log))
    own_rate, own_p99 = (statistics.median(x) for x in zip(*seen["berth bench"]))
    print(f"\n{CONNECTIONS} connections, answers after {delay_us / 1e3:g} ms, medians of {rounds} rounds of {seconds} s")
    apart = []
    for name, values in seen.items():
        rate, p99 = (statistics.median(x) for x in zip(*values))
        apart += [own_rate / rate - 1, own_p99 / p99 - 1]
        print(f"  {name:12} {rate:10.1f}/s  p99 {p99:8.3f} ms; berth bench: rate {apart[-2]:+.1%}, p99 {apart[-1]:+.1%}")
    print(f"  berth bench sends {statistics.median(core_rates):.0f} requests a second of its CPU time")
    return max(map(abs, apart)), statistics.median(core_rates)


def at_once(args):
    """How fast each is says how much of the machine each leaves the server, so that nothing is wanted of the distance."""
    _, core_rate = compare(args.build, 0, args.rounds, args.seconds)
    return [(f"{core_rate:.0f} requests a second of client CPU, {CORE_RATE} wanted", core_rate >= CORE_RATE)]


def delayed(args):
    apart, _ = compare(args.build, DELAY_US, args.rounds, args.seconds)
    return [(f"rates and p99 within {apart:.1%} of the others', {APART:.0%} allowed", apart <= APART)]


def schedule(args):
    with Trivial(args.build, 0) as url:
        delays = [berth(args.build, url, args.seconds, "--rate", RATE, "--arrivals", "constant")["send_delay_us"]
                  for _ in range(args.rounds)]
    p99 = statistics.median(d["p99"] for d in delays)
    print(f"\nscheduling error at {RATE} a second, {args.rounds} rounds: p50 {statistics.median(d['p50'] for d in delays):.1f} us, "
          f"p99 median {p99:.1f} us, least {min(d['p99'] for d in delays):.1f} us")
    return [(f"scheduling error {p99:.1f} us at p99, {SEND_DELAY_US} us allowed", p99 <= SEND_DELAY_US)]


PARTS = {"at-once": at_once, "delayed": delayed, "schedule": schedule}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--part", choices=PARTS, action="append", help="may be repeated; default: all")
    parser.add_argument("--build", default=os.path.join(ROOT, "build-release"))
    args = parser.parse_args()
    missing = [name for name in ("wrk", "h2load") if not shutil.which(name)]
    if missing:
        sys.exit(f"client_check: {' and '.join(missing)} missing; this installs them: deploy/packages.sh install bench")
    print(f"{machine()}; commit {commit()}; load average {os.getloadavg()[0]:.1f}")
    verdicts = [v for name in args.part or PARTS for v in PARTS[name](args)]
    print()
    for words, holds in verdicts:
        print(f"{'holds' if holds else 'FAILS'}: {words}")
    return 0 if all(holds for _, holds in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
