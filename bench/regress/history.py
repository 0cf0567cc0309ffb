"""What each run found, a line of JSON each, and a picture of it: how far every head was from its base."""
import html
import json
import os

WIDTH, ROW_H, LEFT, RIGHT, TOP = 860, 64, 220, 70, 44
MOST_RUNS = 60  # drawn; the file keeps all
LEAST_SPAN = 0.05
COLOURS = {"slower": "#b42318", "more": "#b42318", "faster": "#067647", "same": "#475467", "noisy": "#b8b8b8"}


def append(path, run):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(run) + "\n")


def read(path):
    """Lines that are no JSON (a run that was killed while it wrote) are left out."""
    runs = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                try:
                    runs.append(json.loads(line))
                except ValueError:
                    continue
    return runs


def series(runs):
    """name -> [(index of the run, change, low, high, word)]."""
    found = {}
    for i, run in enumerate(runs):
        for r in run["timed"]:
            found.setdefault(r["name"], []).append((i, r["change"], r["low"], r["high"], r["word"]))
        for r in run["counted"]:
            word = "more" if r["flagged"] else "same"
            found.setdefault("instructions: " + r["name"], []).append((i, r["change"], r["change"], r["change"], word))
    return found


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'


def draw_row(name, points, n_runs, top):
    span = max(LEAST_SPAN, *(min(abs(p[1]) * 1.3, 1) for p in points))
    middle = top + ROW_H / 2
    x_of = lambda i: LEFT + (WIDTH - LEFT - RIGHT) * (i + 0.5) / n_runs
    y_of = lambda v: middle - max(-1, min(1, v / span)) * (ROW_H / 2 - 6)
    lines = [text(8, middle + 4, name),
             f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle:.1f}" y2="{middle:.1f}" stroke="#d0d5dd"/>',
             text(WIDTH - RIGHT + 6, top + 12, f"+{span:.0%}", 'fill="#667085"'),
             text(WIDTH - RIGHT + 6, top + ROW_H - 4, f"-{span:.0%}", 'fill="#667085"')]
    for i, change, low, high, word in points:
        x, colour = x_of(i), COLOURS[word]
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y_of(high):.1f}" y2="{y_of(low):.1f}" stroke="{colour}"/>')
        lines.append(f'<circle cx="{x:.1f}" cy="{y_of(change):.1f}" r="3" fill="{colour}"><title>'
                     f'{html.escape(name)}, run {i + 1}: {change:+.2%} ({word})</title></circle>')
    return lines


def draw(runs):
    """One row a measurement, one point a run with its 95 % interval; above the line is slower."""
    runs = runs[-MOST_RUNS:]
    rows = series(runs)
    height = TOP + ROW_H * len(rows) + 12
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
             'font-family="sans-serif" font-size="12">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             text(8, 18, f"Head against base, {len(runs)} runs; up is slower", 'font-size="14"')]
    if runs:
        lines.append(text(8, 34, f"{runs[0]['date']} {runs[0]['head'][:12]} to {runs[-1]['date']} {runs[-1]['head'][:12]}",
                          'fill="#667085"'))
    for k, (name, points) in enumerate(rows.items()):
        lines += draw_row(name, points, len(runs), TOP + k * ROW_H)
    return "\n".join([*lines, "</svg>", ""])


def write_picture(path, runs):
    with open(path, "w", encoding="utf-8") as f:
        f.write(draw(runs))
