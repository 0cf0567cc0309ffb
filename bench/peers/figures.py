"""From rounds to what is reported. A sample is a dict: kind, model, precision, case, engine, round, ms, calls."""
import math
import statistics

OURS, OURS_FIRST = "berth", "berth, classifier"


def by_round(samples, engine):
    return {s["round"]: s["ms"] for s in samples if s["engine"] == engine}


def median(samples, engine):
    return statistics.median(by_round(samples, engine).values())


def fastest_peer(samples, only=None):
    """The peer with the least median, or None. `only`: which engines count."""
    names = {s["engine"] for s in samples if not s["engine"].startswith(OURS)}
    names = {n for n in names if only is None or only(n)}
    return min(sorted(names), key=lambda name: median(samples, name), default=None)


def ratio(samples, engine, ours=OURS):
    """How many times as fast ours is: the median over the rounds that both ran of their own ratios."""
    theirs, mine = by_round(samples, engine), by_round(samples, ours)
    rounds = sorted(theirs.keys() & mine.keys())
    return statistics.median(theirs[r] / mine[r] for r in rounds) if rounds else math.nan


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def gflop(config, batch, length):
    """Every row of every layer: products with weights, and attention's two."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    rows = batch * length
    return config["num_hidden_layers"] * (rows * (8 * hidden ** 2 + 4 * hidden * inner)
                                          + 4 * rows * length * hidden) / 1e9


def row(cells):
    return "| " + " | ".join(cells) + " |"


def shape_table(samples, config, shapes, engines):
    """One line a shape: ours, each peer, the ratio to the fastest, and the classifier's path beside it."""
    has_ours = any(s["engine"] == OURS for s in samples)
    head = ["shape", *([f"{OURS} ms"] if has_ours else []), *(f"{e} ms" for e in engines), "fastest peer"]
    head += ["times as fast", f"{OURS_FIRST} ms", "times as fast"] if has_ours else []
    lines, ratios, firsts = [row(head), row(["---"] * len(head))], [], []
    for batch, length in shapes:
        here = [s for s in samples if s["case"] == f"{batch}x{length}"]
        fastest = fastest_peer(here)
        if fastest is None:
            continue
        work = gflop(config, batch, length)

        def cell(engine):
            if not by_round(here, engine):
                return "-"
            ms = median(here, engine)
            return f"{ms:.2f} ({work / ms * 1e3:.0f})"
        cells = [f"{batch}x{length}", *([cell(OURS)] if has_ours else []), *(cell(e) for e in engines), fastest]
        if has_ours:
            ratios.append(ratio(here, fastest))
            cells += [f"{ratios[-1]:.2f}"]
            firsts.append(ratio(here, fastest, OURS_FIRST))
            cells += [f"{median(here, OURS_FIRST):.2f}", f"{firsts[-1]:.2f}"]
        lines.append(row(cells))
    lines.append("")
    if ratios:
        lines.append(f"To the fastest peer of each shape: **{geometric_mean(ratios):.2f}** times as fast on the geometric "
                     f"mean, {min(ratios):.2f} at the least; the classifier's path {geometric_mean(firsts):.2f} and "
                     f"{min(firsts):.2f}.")
        means = []
        for engine in engines:
            own = [ratio([s for s in samples if s["case"] == f"{b}x{n}"], engine) for b, n in shapes]
            own = [r for r in own if not math.isnan(r)]
            if own:
                means.append(f"{engine} {geometric_mean(own):.2f}")
        lines.append(f"To each peer, geometric means: {', '.join(means)}.")
    return lines


def mix_table(samples, n_texts, n_tokens):
    """One line a way of running the texts, fastest first; ratios of each of ours to the peers' best and to fifo."""
    names = sorted({s["engine"] for s in samples}, key=lambda name: median(samples, name))
    lines = [row(["way", "texts/s", "tokens/s", "rounds"]), row(["---"] * 4)]
    for name in names:
        s = median(samples, name) / 1e3
        lines.append(row([name, f"{n_texts / s:.1f}", f"{n_tokens / s:.0f}", str(len(by_round(samples, name)))]))
    lines.append("")
    best = fastest_peer(samples, lambda name: not name.endswith("fifo"))
    slow = fastest_peer(samples, lambda name: name.endswith("fifo"))
    for ours in (n for n in names if n.startswith(OURS)):
        words = [f"{ratio(samples, name, ours):.2f} times `{name}`" for name in (best, slow) if name]
        if words:
            lines.append(f"- `{ours}`: " + ", ".join(words))
    return lines
