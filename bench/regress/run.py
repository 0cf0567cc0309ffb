#!/usr/bin/env python3
"""Whether this commit is slower than a base: both are built, measured in turn, and judged.

  build/venv/bin/python bench/regress/run.py [BASE] [--only GROUPS] [--rounds N] [--accept NAME] [--plant NAME]

BASE is a commit (HEAD~1), the other side --head (HEAD; what is not committed is not measured). Timed are shapes of the
forward pass, the tokenizer, the queue, the HTTP floor, mixed load and its p99, and start-up: some rounds of each, and
for what looks slower a second, larger set that is judged alone. Instructions are counted by valgrind. Exit code 0:
nothing is slower; 1: something is, by more than the noise (or takes more instructions); 2: it could not be measured.
Each run adds a line to --history and draws it anew as SVG. --self-test plants slowdowns of 5 % in the head and holds
the guard to flagging each; --quiet-runs N compares the base with itself, N times, and holds it to silence.
"""
import argparse
import dataclasses
import datetime
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import builds  # noqa: E402
import counts  # noqa: E402
import history  # noqa: E402
import measures  # noqa: E402
import plants  # noqa: E402
import verdict  # noqa: E402
from driver import EngineFailed  # noqa: E402
from server import machine  # noqa: E402

NAMES = [g.name for g in measures.GROUPS]
FLAGGED, FAILED = 1, 2
CAUGHT_BY = {"gemm": ("forward", ("forward", "GEMM")), "tokenizer": ("tokenizer", ("tokenizer",)),
             "queue": ("queue", ("queue",))}  # plant -> group to run, how names of what must be flagged begin


def say(words):
    print("regress:", words, flush=True)


class Guard:
    def __init__(self, base, head, args):
        self.sides, self.args = {"base": base, "head": head}, args
        self.rng = random.Random(args.seed)
        self.groups = [g(self.sides, self.rng) for g in measures.GROUPS if g.name in args.only]
        self.n_measurements = sum(len(g.names) for g in self.groups)
        self.pairs, self.notes = {}, []

    def screen(self, group):
        seen = {name: [] for name in group.names}
        for _ in range(self.args.rounds or group.rounds):
            for name, pair in group.round(group.names).items():
                seen[name].append(pair)
        return seen

    def settle(self, group, name, pairs):
        """The verdict on one measurement, with more rounds where it looks slower."""
        margin = group.margin_of(name)
        if not verdict.is_suspect(pairs, margin):
            v = verdict.judge(pairs, margin, 0)
        else:
            say(f"{name} looks slower ({verdict.judge(pairs, margin, 0).change:+.1%}): measuring it again")
            v, pairs = verdict.confirm(lambda n: [group.round([name])[name] for _ in range(n)], group.looks, margin,
                                       self.n_measurements)
        self.pairs[name] = pairs
        say(f"{name}: {v.sentence()}")
        return {"name": name, **dataclasses.asdict(v)}

    def time_group(self, group):
        why = group.missing()
        if why:
            self.note(f"{group.name}: not measured: {why}")
            return []
        seen = self.screen(group)
        return [self.settle(group, name, seen[name]) for name in group.names]

    def note(self, words):
        say(words)
        self.notes.append(words)

    def count(self):
        why = counts.missing_tool()
        if why:
            self.note(f"instructions: not counted: {why}")
            return []
        base, head = (counts.counts_of(self.sides[side], say) for side in ("base", "head"))
        for name in sorted(set(counts.COUNTS) - (base.keys() & head.keys())):
            self.note(f"instructions, {name}: a commit has no program for it")
        rows = [{"name": n, "base": b, "head": h, "change": c, "flagged": f} for n, b, h, c, f in counts.compare(base, head)]
        for r in rows:
            say(f"instructions, {r['name']}: {r['change']:+.2%}{', more' if r['flagged'] else ''}")
        return rows

    def run(self):
        start = time.monotonic()
        counted = self.count() if self.args.counts else []
        timed = [r for g in self.groups for r in self.time_group(g)]
        return {"date": datetime.datetime.now().isoformat(timespec="seconds"), "machine": machine(),
                "base": self.sides["base"].commit, "head": self.sides["head"].commit,
                "variant": self.sides["head"].variant, "minutes": round((time.monotonic() - start) / 60, 1),
                "timed": timed, "counted": counted, "notes": self.notes}


def flagged(run, accepted=()):
    names = [r["name"] for r in run["timed"] if r["word"] == "slower"]
    names += ["instructions, " + r["name"] for r in run["counted"] if r["flagged"]]
    return [n for n in names if n not in accepted]


def table(run):
    lines = ["| timed | change | 95 % interval | chance if not slower | pairs | verdict |", "|---|---|---|---|---|---|"]
    lines += [f"| {r['name']} | {r['change']:+.1%} | {r['low']:+.1%} to {r['high']:+.1%} | {r['p']:.2g} | {r['rounds']} | "
              f"{r['word']} |" for r in run["timed"]]
    if run["counted"]:
        lines += ["", "| instructions | base | head | change | verdict |", "|---|---|---|---|---|"]
        lines += [f"| {r['name']} | {r['base']} | {r['head']} | {r['change']:+.2%} | {'more' if r['flagged'] else 'same'} |"
                  for r in run["counted"]]
    return lines


def report(run, accepted):
    found = flagged(run, accepted)
    head = run["head"][:12] + (f" ({run['variant']})" if run["variant"] else "")
    return "\n".join([f"# {head} against {run['base'][:12]}, {run['date']}", "", f"- Machine: {run['machine']}; "
                      f"{run['minutes']} minutes", *(f"- {n}" for n in run["notes"]),
                      f"- Slower: {', '.join(found) if found else 'nothing'}", "", *table(run), ""])


def guard(base, head, args):
    run = Guard(base, head, args).run()
    history.append(args.history, run)
    history.write_picture(os.path.splitext(args.history)[0] + ".svg", history.read(args.history))
    print("\n" + report(run, args.accept), flush=True)
    return run


def planted(commit, name):
    variant = f"plant-{name}-{builds.mark_of('plants.py')}"
    return builds.Build(commit, variant).make(plants.planter(name))


def self_test(base, args):
    """Every plant has to be flagged, by its time and by its instructions."""
    missed = []
    for name, (group, beginnings) in CAUGHT_BY.items():
        args.only = [group]
        found = flagged(guard(base, planted(base.commit, name), args))
        timed = [n for n in found if n.startswith(beginnings)]
        counted = [n for n in found if n.startswith(tuple("instructions, " + b for b in beginnings))]
        say(f"planted {name}: flagged {', '.join(found) if found else 'nothing'}")
        missed += [] if timed else [f"{name}, timed"]
        missed += [] if counted or not args.counts else [f"{name}, counted"]
    say(f"missed: {', '.join(missed)}" if missed else "every plant was flagged")
    return FLAGGED if missed else 0


def quiet_runs(base, args):
    """The same commit, built twice: whatever is flagged is a false alarm."""
    twin = builds.Build(base.commit, "twin").make()
    alarms = [flagged(guard(base, twin, args)) for _ in range(args.quiet_runs)]
    loud = [a for a in alarms if a]
    say(f"{len(alarms)} runs without a change, {len(loud)} with an alarm{': ' + str(loud) if loud else ''}")
    return FLAGGED if loud else 0


def groups(words):
    chosen = words.split(",")
    for word in chosen:
        if word not in NAMES:
            raise argparse.ArgumentTypeError(f"{word!r}: expected some of {','.join(NAMES)}")
    return chosen


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?", default="HEAD~1")
    parser.add_argument("--head", default="HEAD")
    parser.add_argument("--only", type=groups, default=NAMES, help=",".join(NAMES))
    parser.add_argument("--rounds", type=int, help="of the screening (10), 6 at least")
    parser.add_argument("--no-counts", dest="counts", action="store_false", help="without valgrind")
    parser.add_argument("--accept", action="append", default=[], metavar="NAME", help="known to be slower; may be repeated")
    parser.add_argument("--history", default=os.path.join(builds.WORK, "history.jsonl"))
    parser.add_argument("--report", help="a file for the table in Markdown")
    parser.add_argument("--seed", type=int, help="of the order of turns")
    parser.add_argument("--plant", choices=sorted(plants.PLANTS), help="slows the head down by 5 %% there")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--quiet-runs", type=int, metavar="N")
    args = parser.parse_args()
    if args.rounds is not None and args.rounds < verdict.LEAST_PAIRS:
        parser.error(f"--rounds: from {verdict.LEAST_PAIRS} on")
    if args.quiet_runs is not None and args.quiet_runs < 1:
        parser.error("--quiet-runs: from 1 on")
    return args


def need_inputs():
    for path, remedy in ((measures.MODEL, "deploy/demo-model/fetch.py"), (measures.WORKLOAD, "bench/workload.py")):
        if not os.path.exists(path):
            sys.exit(f"regress: {path} is not there; this makes it: build/venv/bin/python {remedy}")
    os.makedirs(builds.WORK, exist_ok=True)


def main():
    args = parse_args()
    need_inputs()
    commits = [builds.commit_of(name) for name in (args.base, args.head)]
    if builds.git("status", "--porcelain", "--untracked-files=no"):
        say("there are changes that are not committed; they are not measured")
    try:
        base = builds.Build(commits[0] if not (args.self_test or args.quiet_runs) else commits[1]).make()
        if args.self_test:
            return self_test(base, args)
        if args.quiet_runs:
            return quiet_runs(base, args)
        run = guard(base, planted(commits[1], args.plant) if args.plant else builds.Build(commits[1]).make(), args)
    except (EngineFailed, RuntimeError, subprocess.SubprocessError) as fault:
        say(f"could not be measured: {fault}")
        return FAILED
    if args.report:
        with open(args.report, "w", encoding="utf-8") as f:
            f.write(report(run, args.accept))
    return FLAGGED if flagged(run, args.accept) else 0


if __name__ == "__main__":
    sys.exit(main())
