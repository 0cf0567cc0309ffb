"""What is timed, a round at a time: each group gives the pairs (base, head) of one round, in which both sides run in
turn, in an order drawn anew, in processes of their own that are as old as each other's."""
import json
import math
import os
import random
import re
import statistics
import subprocess

from builds import ROOT, WORK
from driver import Driver
from server import MODEL, Server

TINY_MODEL = os.path.join(ROOT, "tests", "golden", "models", "base")
WORKLOAD = os.path.join(ROOT, "build", "bench", "workload.txt")
SHAPES = ((1, 16), (1, 128), (8, 64), (32, 32))
TURN_S = 0.25
CONNECTIONS = 32
FLOOR_S, CLOSED_S, OPEN_S, LOAD_WARM_UP_S, LOAD = 0.6, 4, 5, 0.5, 0.6  # LOAD: of what the base can do, closed loop
SEED = 20261130
ROW = re.compile(r"^\| (\d+) \| (\d+) \| (\d+) ns \| (\d+) ns \| (\d+) ns \| (\d+) ns \|$", re.M)


def quick_quarter(ms):
    """A quantile that others on the machine spoil least, and that is still of many calls."""
    return sorted(ms)[len(ms) // 4]


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def write_shape(batch, length):
    from array import array
    rng = random.Random(f"{SEED} {batch}x{length}")
    ids = [rng.randrange(1000, 30000) for _ in range(batch * length)]
    path = os.path.join(WORK, f"{batch}x{length}.bin")
    with open(path, "wb") as f:
        array("i", [batch, *[length] * batch, *ids]).tofile(f)
    return path


class Group:
    """names: of its measurements. margins: a slowdown below is not worth a word. looks: numbers of pairs in which a
    suspect is judged."""
    rounds, looks, margin = 10, (16, 32, 64), 0.01

    def __init__(self, sides, rng):
        self.sides, self.rng = sides, rng  # {"base": Build, "head": Build}
        self.cores = sorted(os.sched_getaffinity(0))

    def margin_of(self, name):
        return self.margin

    def missing(self):
        """Why this cannot be measured, or None."""
        for side in self.sides.values():
            if not side.program(self.target):
                return f"{side.name} has no {self.target}"
        return None

    def log(self, side):
        return os.path.join(WORK, f"{self.name}-{side}.log")

    def turns(self, measure, twice=True):
        """{side: value} of turns in the order base, head, head, base or its opposite; measure(side) gives a number."""
        order = ["base", "head"]
        self.rng.shuffle(order)
        order = order + order[::-1] if twice else order
        values = {"base": [], "head": []}
        for side in order:
            values[side].append(measure(side))
        return geometric_mean(values["base"]), geometric_mean(values["head"])


class Driven(Group):
    """Programs that stay while a round lasts, and have turns."""

    def drivers(self):
        order = list(self.sides)
        self.rng.shuffle(order)
        return order

    def with_drivers(self, measure):
        opened = {}
        try:
            for side in self.drivers():
                opened[side] = Driver(side, self.command(self.sides[side]), self.cores, self.log(side))
            return measure(opened)
        finally:
            for driver in opened.values():
                driver.close()

    def turn(self, driver):
        return quick_quarter([float(t) for t in driver.ask("time", TURN_S).split()])


class Forward(Driven):
    name, target = "forward", "bench/forward/bench_forward"

    def __init__(self, sides, rng):
        super().__init__(sides, rng)
        self.files = {f"forward {b}x{n}": write_shape(b, n) for b, n in SHAPES}
        self.names = list(self.files)

    def command(self, build):
        return [build.program(self.target), MODEL, "--commands", "--threads", str(len(self.cores))]

    def round(self, only):
        def shapes(drivers):
            pairs = {}
            for name in only:
                for driver in drivers.values():
                    driver.ask("load", self.files[name])
                pairs[name] = self.turns(lambda side: self.turn(drivers[side]))
            return pairs
        return self.with_drivers(shapes)


class Tokenizer(Driven):
    name, target, names = "tokenizer", "bench/tokenizer/bench_tokenizer", ["tokenizer"]

    def command(self, build):
        return [build.program(self.target), MODEL]

    def round(self, only):
        def workload(drivers):
            for driver in drivers.values():
                driver.ask("load", WORKLOAD)
            return {"tokenizer": self.turns(lambda side: self.turn(drivers[side]))}
        return self.with_drivers(workload)


class Queue(Group):
    name, target, names = "queue", "bench/schedule/bench_schedule", ["queue, a job", "queue, a cancellation"]

    def run(self, side):
        done = subprocess.run([self.sides[side].program(self.target)], capture_output=True, text=True, check=True)
        rows = ROW.findall(done.stdout)
        if not rows:
            raise RuntimeError(f"{self.target} of {side} printed no table")
        return {"queue, a job": geometric_mean([float(r[5]) for r in rows]),
                "queue, a cancellation": geometric_mean([float(r[4]) for r in rows])}

    def round(self, only):
        seen = {"base": [], "head": []}
        self.turns(lambda side: seen[side].append(self.run(side)) or 1.0)
        return {name: tuple(geometric_mean([v[name] for v in seen[side]]) for side in ("base", "head")) for name in only}


class Served(Group):
    """Servers of both commits, loaded by one client, the head's."""
    target, looks = "berth", (12, 24)

    def server(self, side, model, options):
        cache = os.path.join(self.sides[side].folder, "cache")
        return Server([*options, "--workers", "1", "--threads", str(len(self.cores))], self.log(side),
                      berth=self.sides[side].program("berth"), model=model, env=dict(os.environ, XDG_CACHE_HOME=cache))

    def load(self, server, seconds, *options):
        done = subprocess.run([self.sides["head"].program("berth"), "bench", server.url, "--duration", str(seconds), "--json", "-",
                               "--quiet", *options], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"berth bench {' '.join(options)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def with_servers(self, model, measure):
        order = list(self.sides)
        self.rng.shuffle(order)
        with self.server(order[0], model, ()) as first, self.server(order[1], model, ()) as second:
            return measure(dict(zip(order, (first, second))))


class Floor(Served):
    name, names = "floor", ["health request"]

    def round(self, only):
        def health(servers):
            return {"health request": self.turns(lambda side: 1 / self.load(
                servers[side], FLOOR_S, "--method", "GET", "--path", "/health", "--connections", str(CONNECTIONS),
                "--warmup", "0.2")["throughput_per_s"])}
        return self.with_servers(TINY_MODEL, health)


class Load(Served):
    name, names, rate = "load", ["mixed load, a request", "mixed load, p99"], None

    def margin_of(self, name):
        return 0.05 if name.endswith("p99") else 0.01

    def closed(self, server):
        return self.load(server, CLOSED_S, "--texts", WORKLOAD, "--connections", str(CONNECTIONS), "--warmup",
                         str(LOAD_WARM_UP_S))["throughput_per_s"]

    def p99(self, server):
        """Open loop at one rate in all rounds, so that a slower server shows as it would to its users."""
        self.rate = self.rate or LOAD * self.closed(server)
        return self.load(server, OPEN_S, "--texts", WORKLOAD, "--rate", f"{self.rate:.1f}", "--warmup",
                         str(LOAD_WARM_UP_S))["latency_ms"]["p99"]

    def round(self, only):
        def mixed(servers):
            pairs = {}
            if self.names[0] in only:
                pairs[self.names[0]] = self.turns(lambda side: 1 / self.closed(servers[side]), twice=False)
            if self.names[1] in only:
                pairs[self.names[1]] = self.turns(lambda side: self.p99(servers[side]), twice=False)
            return pairs
        return self.with_servers(MODEL, mixed)


class Start(Served):
    name, names, margin = "start", ["start-up"], 0.05

    def ready(self, side):
        with self.server(side, MODEL, ()) as server:
            return server.ready_s

    def round(self, only):
        return {"start-up": self.turns(self.ready)}


GROUPS = (Forward, Tokenizer, Queue, Floor, Load, Start)
