"""From rounds to a table. A sample: server, round, requests_per_s, p50_ms, p99_ms, failed."""
import statistics

FIGURES = ("requests_per_s", "p50_ms", "p99_ms")


def of(samples, server, figure):
    return {s["round"]: s[figure] for s in samples if s["server"] == server}


def median(samples, server, figure):
    return statistics.median(of(samples, server, figure).values())


def ratio(samples, server, other, figure):
    """The median over the rounds that both ran of their own ratios: a shared machine drifts between rounds."""
    a, b = of(samples, server, figure), of(samples, other, figure)
    rounds = sorted(a.keys() & b.keys())
    return statistics.median(a[r] / b[r] for r in rounds) if rounds else float("nan")


def best(samples, peers, only=lambda peer: True):
    """The peer that answers most requests a second; chosen once, not a round at a time. None: there is none."""
    names = [p.name for p in peers if only(p) and of(samples, p.name, FIGURES[0])]
    return max(names, key=lambda name: median(samples, name, "requests_per_s"), default=None)


def table(samples, servers, reference):
    lines = [f"| server | batches | requests/s | p50 ms | p99 ms | {reference}: times its requests/s | {reference}: p99 to its p99 |",
             "|---|---|---|---|---|---|---|"]
    for peer in servers:
        if of(samples, peer.name, "p99_ms"):
            m = {f: median(samples, peer.name, f) for f in FIGURES}
            lines.append(f"| {peer.name} | {'yes' if peer.batches else 'no'} | {m['requests_per_s']:.1f} | {m['p50_ms']:.0f} | "
                         f"{m['p99_ms']:.0f} | {ratio(samples, reference, peer.name, 'requests_per_s'):.2f} | "
                         f"{ratio(samples, reference, peer.name, 'p99_ms'):.2f} |")
    return lines


def goals(samples, ours, peers):
    """(what, measured, wanted, reached) for each thing the project wants to reach here; without the servers: left out."""
    found = []
    fp32, int8 = (next((p.name for p in ours if p.precision == k and of(samples, p.name, "p99_ms")), None)
                  for k in ("fp32", "int8"))
    rival, batching = best(samples, peers), best(samples, peers, lambda p: p.batches)

    def add(what, a, b, figure, wanted, more):
        value = ratio(samples, a, b, figure)
        found.append((what, value, wanted, value >= wanted if more else value <= wanted))
    if fp32 and rival:
        add(f"fp32: requests/s to the best peer ({rival})", fp32, rival, "requests_per_s", 1.25, True)
        add(f"fp32: p99 to its p99 ({rival})", fp32, rival, "p99_ms", 0.5, False)
    if fp32 and batching:
        add(f"fp32: requests/s to the best that batches ({batching})", fp32, batching, "requests_per_s", 2.3, True)
    if int8 and rival:
        add(f"int8: requests/s to the best peer in fp32 ({rival})", int8, rival, "requests_per_s", 1.8, True)
    return found


def goal_lines(found):
    return [f"- {what}: {value:.2f}; wanted {'at least' if 'requests' in what else 'at most'} {wanted:g}: "
            f"{'reached' if reached else 'NOT reached'}" for what, value, wanted, reached in found]
