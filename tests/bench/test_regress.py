"""The regression guard's own working: its verdicts on made-up noise, its plants, its history; and, with
BERTH_REGRESS_END_TO_END set, one planted slowdown from the build to the exit code."""
import itertools
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "regress"), str(ROOT / "bench")]

import builds  # noqa: E402
import counts  # noqa: E402
import history  # noqa: E402
import measures  # noqa: E402
import plants  # noqa: E402
import verdict  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BERTH", ROOT / "build" / "berth")).parent
N_MEASUREMENTS, MARGIN = 12, 0.01


def noisy(rng, sd):
    """As on a shared machine: now and then a side takes half as long again."""
    return math.exp(rng.gauss(0, sd)) * (1.5 if rng.random() < 0.05 else 1)


def make_pairs(rng, n, slower=0.0, sd=0.02):
    return [(noisy(rng, sd), (1 + slower) * noisy(rng, sd)) for _ in range(n)]


def guard(rng, slower, sd=0.02):
    """What run.py does with one measurement."""
    pairs = make_pairs(rng, 10, slower, sd)
    if not verdict.is_suspect(pairs, MARGIN):
        return verdict.judge(pairs, MARGIN, 0)
    return verdict.confirm(lambda n: make_pairs(rng, n, slower, sd), (16, 32, 64), MARGIN, N_MEASUREMENTS)[0]


def test_ranks_are_those_of_all_signs():
    for n in (1, 2, 5, 8):
        sums = [sum(r for r, s in zip(range(1, n + 1), signs) if s) for signs in itertools.product((0, 1), repeat=n)]
        assert verdict.rank_sum_counts(n) == [sums.count(v) for v in range(n * (n + 1) // 2 + 1)]


def test_chance_by_hand():
    assert verdict.p_above([1, 2, 3], 0) == 1 / 8
    assert verdict.p_above([-1, 2, 3], 0) == 2 / 8
    assert verdict.p_above([-1, -2, -3], 0) == 1.0
    assert verdict.p_above([5, 5, 5], 5) == 1.0
    assert verdict.midranks([3, 1, 3, 2]) == [3.5, 1, 3.5, 2]


def test_interval_covers():
    rng, inside, n = random.Random(1), 0, 400
    for _ in range(n):
        low, high = verdict.interval([rng.gauss(0.3, 1) for _ in range(10)])
        inside += low <= 0.3 <= high
    assert 0.93 <= inside / n <= 0.99
    with pytest.raises(ValueError, match="no interval"):
        verdict.interval([0.1] * (verdict.LEAST_PAIRS - 1))


def test_rounds_end_where_there_is_nothing_to_find():
    """What looks no slower than the margin has its least rounds; what does has more, until it is sure."""
    asked = []

    def more(n, head):
        asked.append(n)
        return [(1.0, head + 0.001 * i) for i in range(n)]
    v, pairs = verdict.confirm(lambda n: more(n, 0.98), (16, 32, 64), MARGIN, N_MEASUREMENTS)
    assert asked == [16] and len(pairs) == 16 and v.word == "faster"
    rng, lengths = random.Random(6), []
    for _ in range(100):
        lengths.append(len(verdict.confirm(lambda n: make_pairs(rng, n, 0, 0.2), (16, 32, 64), MARGIN, N_MEASUREMENTS)[1]))
    assert lengths.count(16) >= 35  # half of them, less those whose median is above the margin by luck


def test_a_program_is_counted_once(tmp_path):
    programs = {"a": b"one", "twin of a": b"one", "b": b"other"}
    for name, content in programs.items():
        (tmp_path / name).write_bytes(content)
    made = []

    def count(name, program):
        return counts.Kept(tmp_path).get(name, tmp_path / program, lambda: made.append(program) or len(made))
    assert [count("queue", p) for p in programs] == [1, 1, 2] and made == ["a", "b"]
    assert count("tokenizer", "a") == 3  # the same program, counted at something else
    assert count("queue", "twin of a") == 1


def test_quiet_without_a_change():
    """400 runs of 12 measurements: at 0.002 a run, one alarm is expected at most."""
    rng = random.Random(2)
    alarms = sum(guard(rng, 0).word == "slower" for _ in range(400 * N_MEASUREMENTS))
    assert alarms <= 3


def test_five_per_cent_are_flagged():
    rng = random.Random(3)
    seen = [guard(rng, 0.05) for _ in range(60)]
    assert sum(v.word == "slower" for v in seen) >= 57
    found = [v.change for v in seen if v.word == "slower"]
    assert 0.035 < sorted(found)[len(found) // 2] < 0.065


def test_faster_and_noise_are_told():
    rng = random.Random(4)
    assert guard(rng, -0.2).word == "faster"
    assert verdict.judge(make_pairs(rng, 40, 0, 0.001), MARGIN, 0.01).word in ("same", "faster")
    v = verdict.judge([(1, 1.3), (1.3, 1), (1, 1.4), (1.2, 1), (1, 1.1), (1.3, 1)], MARGIN, 0.01)
    assert v.word == "noisy" and "would hide" in v.sentence()


def test_one_outlier_decides_nothing():
    pairs = [(1, 1.001), (1, 0.999), (1, 1.002), (1, 0.998), (1, 1.0), (1, 9.0), (1, 1.001), (1, 0.999), (1, 1.0), (1, 1.0)]
    v = verdict.judge(pairs, MARGIN, 0.01)
    assert v.word != "slower" and abs(v.change) < 0.005


def test_counts_are_compared_where_both_are_there():
    name = next(iter(counts.COUNTS))
    assert counts.compare({}, {name: 5}) == []
    for head, flagged in ((1000, False), (1004, False), (1050, True), (900, False)):
        assert [row[4] for row in counts.compare({name: 1000}, {name: head})] == [flagged]


def a_run(word, change, flagged=False):
    return {"date": "2026-12-01T00:00:00", "head": "b" * 40, "base": "a" * 40, "notes": [],
            "timed": [{"name": "queue <&>", "change": change, "low": change - 0.01, "high": change + 0.01, "word": word}],
            "counted": [{"name": "tokenizer", "change": change, "flagged": flagged}]}


def test_history_keeps_and_draws(tmp_path):
    path = tmp_path / "deep" / "history.jsonl"
    assert history.read(path) == []
    history.append(path, a_run("same", 0.001))
    with open(path, "a", encoding="utf-8") as f:
        f.write('{"half a li\n')
    history.append(path, a_run("slower", 0.06, True))
    runs = history.read(path)
    assert [r["timed"][0]["word"] for r in runs] == ["same", "slower"]
    history.write_picture(tmp_path / "h.svg", runs)
    root = xml.etree.ElementTree.parse(tmp_path / "h.svg").getroot()
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == 4
    assert sum(c.get("fill") == history.COLOURS["slower"] for c in circles) == 2
    xml.etree.ElementTree.fromstring(history.draw([]))


@pytest.mark.parametrize("name", sorted(plants.PLANTS))
def test_plants_follow_the_code(name, tmp_path):
    """Each changes its files so that they compile, and a function that has moved or changed is told."""
    for plant in plants.PLANTS[name]:
        path = tmp_path / plant.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            shutil.copy(ROOT / plant.file, path)
        plant.apply(str(tmp_path))
    text = path.read_text()
    for plant in plants.PLANTS[name]:
        assert text.count(f"planted_{plant.name}(") == 2
    if name != "gemm":  # is compiled with definitions of its ISA
        done = subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-I",
                               ROOT, "-I", ROOT / pathlib.Path(plant.file).parent, "-fsyntax-only", path], capture_output=True,
                              text=True)
        assert not done.returncode, done.stderr
    with pytest.raises(SystemExit, match="the plant must follow its change"):
        plants.Plant(plant.file, "void", "no_such_function", "void", "", "0").apply(str(tmp_path))


def test_exchange_says_what_it_did(tmp_path):
    (tmp_path / "texts").write_text('one\ntwo "quoted" é\n', encoding="utf-8")
    program = BUILD / "bench" / "regress" / "bench_exchange"
    done = subprocess.run([program, tmp_path / "texts"], capture_output=True, text=True, check=True)
    assert done.stdout == "2 texts, 17 characters, 80 bytes of replies\n"
    assert subprocess.run([program, tmp_path / "none"], capture_output=True).returncode == 1


def test_queue_table_is_read():
    program = BUILD / "bench" / "schedule" / "bench_schedule"
    rows = measures.ROW.findall(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
    assert len(rows) == 12 and all(int(n) > 0 for row in rows for n in row)


@pytest.mark.parametrize("words, reason", [
    (["--only", "queue,what"], "expected some of"), (["--rounds", "5"], "--rounds"), (["no-such-commit"], "git rev-parse")])
def test_wrong_words_are_told(words, reason):
    done = subprocess.run([sys.executable, ROOT / "bench" / "regress" / "run.py", *words], capture_output=True, text=True)
    assert done.returncode != 0
    if "is not there" not in done.stderr:  # the demo model or the workload
        assert reason in done.stderr


@pytest.mark.skipif("BERTH_REGRESS_END_TO_END" not in os.environ, reason="takes minutes; set BERTH_REGRESS_END_TO_END")
def test_a_planted_slowdown_ends_in_exit_code_1(tmp_path):
    path = tmp_path / "history.jsonl"
    done = subprocess.run([sys.executable, ROOT / "bench" / "regress" / "run.py", "HEAD", "--plant", "queue", "--only", "queue",
                           "--history", path], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    run = json.loads(path.read_text())
    assert [r["flagged"] for r in run["counted"] if r["name"] == "queue"] == [True]
    assert [r["word"] for r in run["timed"] if r["name"] == "queue, a job"] == ["slower"]
    assert builds.Build(run["head"], run["variant"]).program("berth")
