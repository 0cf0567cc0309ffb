"""tests/gpu.sh and what it calls, with a program that stands in for the real one: no step costs another its turn."""
import csv
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "gpu"))

import gpu_peers  # noqa: E402
import grid  # noqa: E402

# Passes of 2 ms, but none of 2x8; and one of 1x8 fails.
PROGRAM = """#!/usr/bin/env python3
import json, sys, time
shape = sys.argv[sys.argv.index("--shape") + 1] if "--shape" in sys.argv else ""
if shape == "2x8":
    time.sleep(60)
if shape == "1x8":
    sys.exit("no such shape")
print(json.dumps({"ms": 20, "passes": 10, "tokens": 32, "sequences": 4, "ops": [
    {"op": "qkv", "ms": 15, "flops": 2e10}, {"op": "attention", "ms": 4, "flops": 1e10}, {"op": "embed", "ms": 1, "flops": 5}]}))
"""


@pytest.fixture
def build(tmp_path):
    """A build folder of programs that only seem to be."""
    folder = tmp_path / "build"
    for path, text in (("berth", PROGRAM), ("tests/kernels/test_kernels", "#!/bin/sh\nexit 3\n"),
                       ("tests/golden/logits/golden_logits", "#!/bin/sh\necho golden \"$1\"\n")):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return folder


def run(build, out, *steps, **env):
    environment = {**os.environ, "BERTH_GPU_BUILD": str(build), "BERTH_GPU_DEVICE": "simt", "BERTH_GPU_PYTHON": sys.executable,
                   "BERTH_GPU_GRID": "--models minilm-l6 --rows 8,16,32 --lengths 8 --mixed 4 --rounds 1 --limit 2", **env}
    return subprocess.run([ROOT / "tests" / "gpu.sh", out, *steps], capture_output=True, text=True, env=environment, timeout=120)


def figures(out, name="figures.csv"):
    with (out / name).open(newline="") as f:
        return list(csv.DictReader(f))


def test_a_shape_that_hangs_or_fails_costs_no_other(build, tmp_path):
    out = tmp_path / "out"
    done = run(build, out, "grid", "golden-bfloat16")
    assert done.returncode == 1 and "1 passed, 1 failed, 0 skipped" in done.stdout
    rows = figures(out)
    assert {(r["what"], r["graphs"]) for r in rows} == {("mixed packed", "0"), ("mixed padded", "0"), ("grid", "1"), ("grid", "0")}
    assert float(rows[0]["ms"]) == 2 and float(rows[0]["mfu"]) == pytest.approx(3e9 / 2e-3 / 989e12)
    summary = (out / "summary.md").read_text()
    assert "no end after 2 s" in summary and "no such shape" in summary
    assert "| grid | FAILED (1) |" in summary and "| golden-bfloat16 | ok |" in summary


def test_a_step_has_a_limit(build, tmp_path):
    out = tmp_path / "out"
    done = run(build, out, "kernels", "golden-float32", "grid", BERTH_GPU_LIMIT="3",
               BERTH_GPU_GRID="--models minilm-l6 --rows 32,16 --lengths 8 --mixed 4 --rounds 1")
    assert done.returncode == 1 and "1 passed, 2 failed, 0 skipped" in done.stdout
    assert [line.split("|")[2].strip() for line in (out / "summary.md").read_text().splitlines() if line[:3] in ("| k", "| g")
            ] == ["FAILED (3)", "ok", "NOT ENDED after 3 s"]
    assert len(figures(out)) >= 3  # measured before it hung


def test_an_unknown_step_is_refused(build, tmp_path):
    done = run(build, tmp_path / "out", "golden")
    assert done.returncode == 2 and "there is no step golden; there are build kernels" in done.stdout


@pytest.mark.skipif(shutil.which("nvidia-smi"), reason="there may be a GPU")
def test_without_a_gpu_nothing_is_built(build, tmp_path):
    done = run(build, tmp_path / "out", BERTH_GPU_DEVICE="cuda")
    assert done.returncode == 77 and "finds no GPU" in done.stdout and not (tmp_path / "out").exists()


def test_goals_are_judged_by_what_was_measured():
    def row(model, what, rows, length, ms, mfu):
        return {"model": model, "what": what, "rows": rows, "length": length, "ms": ms, "mfu": mfu}
    rows = [row("base", "grid", 16384, 128, 4.5, 0.61), row("base", "grid", 8192, 128, 2.6, 0.5), row("base", "grid", 128, 128, 0.5, 0),
            row("base", "grid", 128, 128, 0.4, 0), row("base", "mixed packed", 9000, 512, 2, 0), row("base", "mixed padded", 99, 512, 4, 0)]
    verdicts = [line.rsplit("|", 3)[1:3] for line in grid.judge(rows)]
    assert verdicts == [[" 0.61 ", " yes "], [" 0.5 ", " NO "], [" 0.4 ", " yes "], [" 2 ", " NO "]]


def test_peers_stand_beside_our_best_of_the_same_shape(tmp_path):
    with (tmp_path / "figures.csv").open("w", newline="") as f:
        writer = csv.DictWriter(f, grid.FIELDS)
        writer.writeheader()
        for what, rows, graphs, ms in (("grid", 128, 1, 3), ("grid", 128, 0, 5), ("mixed packed", 700, 0, 7), ("mixed padded", 9999, 0, 1)):
            writer.writerow({"model": "base", "what": what, "rows": rows, "length": 128, "graphs": graphs, "ms": ms})
    report = gpu_peers.Report(tmp_path)
    report.add("base", "grid", [128], "torch", 6)
    report.add("base", "mixed padded", [4, 128], "torch", 21)
    report.add("base", "grid", [64, 64], "torch", 6)
    assert [r["times_as_fast"] for r in figures(tmp_path, "peers.csv")] == ["2.0", "3.0", ""]
    assert "| base | grid 1x128 | torch | 6 | 3 | 2.00 |" in (tmp_path / "peers.md").read_text()


def test_what_is_not_installed_is_named(tmp_path):
    """As on a machine that has none of them."""
    (tmp_path / "hidden").mkdir()
    for module in ("torch", "onnxruntime"):
        (tmp_path / "hidden" / f"{module}.py").write_text(f"raise ModuleNotFoundError('hidden', name={module!r})")
    done = subprocess.run([sys.executable, ROOT / "tests" / "gpu" / "gpu_peers.py", "--out", tmp_path, "--models", "minilm-l6"],
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path / "hidden")}, timeout=60)
    assert done.returncode == 77
    assert done.stdout.count("is not installed") >= 3
