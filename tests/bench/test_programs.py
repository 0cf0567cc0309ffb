"""The benchmarks' own working: programs on command, their answers to nonsense, and the arithmetic of a table."""
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "peers"), str(ROOT / "bench")]

import figures  # noqa: E402
from driver import Driver, EngineFailed  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BERTH", ROOT / "build" / "berth")).parent
MODEL = ROOT / "tests" / "golden" / "models" / "base"
HIDDEN, LABELS, VOCABULARY = 32, 2, 214


@pytest.fixture
def forward(tmp_path):
    command = [BUILD / "bench" / "forward" / "bench_forward", MODEL, "--commands", "--rows", "64", "--workers", "2"]
    with Driver("berth", command, os.sched_getaffinity(0), str(tmp_path / "forward.log")) as driver:
        yield driver


def write_sequences(path, seqs):
    words = [len(seqs), *map(len, seqs), *(i for s in seqs for i in s)]
    path.write_bytes(struct.pack(f"={len(words)}i", *words))
    return path


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def made_up(lens):
    rng = random.Random(7)
    return [[rng.randrange(5, VOCABULARY) for _ in range(n)] for n in lens]


def output(driver, path, out):
    driver.ask("load", path)
    driver.ask("output", out)
    return np.fromfile(out, np.float32)


def test_a_batch_gives_what_its_sequences_give_alone(forward, tmp_path):
    seqs = made_up([5, 3, 9])
    for rows, floats in (("all", sum(map(len, seqs)) * HIDDEN), ("first", len(seqs) * LABELS)):
        forward.ask("rows", rows)
        together = output(forward, write_sequences(tmp_path / "all", seqs), tmp_path / "out")
        alone = [output(forward, write_sequences(tmp_path / "one", [s]), tmp_path / "out") for s in seqs]
        assert together.size == floats
        assert np.array_equal(together, np.concatenate(alone))
        assert np.ptp(together) > 0


def test_times_and_mixes(forward, tmp_path):
    forward.ask("load", write_sequences(tmp_path / "seqs", made_up([30, 30, 30, 30, 5])))
    assert [float(t) > 0 for t in forward.ask("mix", 64).split()] == [True, True]
    assert forward.ask("mix", 64).split()[1] == "3"  # 60, 60 and 5 rows
    assert float(forward.ask("peak")) > 0
    forward.ask("load", write_sequences(tmp_path / "seqs", made_up([30])))
    times = [float(t) for t in forward.ask("time", 0.01).split()]
    assert times and min(times) > 0


@pytest.mark.parametrize("words, reason", [
    (("time", 1), "nothing is loaded"), (("what", 1), "is expected"), (("load", "/nowhere/at/all"), "cannot be opened"),
    (("mix", 64), "nothing is loaded")])
def test_says_what_is_wrong(forward, words, reason):
    with pytest.raises(EngineFailed, match=reason):
        forward.ask(*words)


@pytest.mark.parametrize("words, reason", [
    ([0], "number of sequences"), ([2, 3], "that many lengths"), ([1, 70, *[5] * 70], "does not take"),
    ([1, 0], "does not take"), ([1, 3, 5], "token ids"), ([1, 1, 1 << 20], "does not have"), ([1, 1, -1], "does not have")])
def test_refuses_a_file_that_is_none(forward, tmp_path, words, reason):
    path = tmp_path / "bad"
    path.write_bytes(struct.pack(f"={len(words)}i", *words))
    with pytest.raises(EngineFailed, match=reason):
        forward.ask("load", path)
    with pytest.raises(EngineFailed, match="nothing is loaded"):
        forward.ask("time", 1)


def test_refuses_what_is_more_than_a_batch(forward, tmp_path):
    forward.ask("load", write_sequences(tmp_path / "seqs", made_up([40, 40])))
    with pytest.raises(EngineFailed, match="one batch has at most"):
        forward.ask("time", 1)
    with pytest.raises(EngineFailed, match="from 1 to 64"):
        forward.ask("mix", 65)


def test_a_program_that_ends_is_named(tmp_path):
    command = [BUILD / "bench" / "forward" / "bench_forward", tmp_path, "--commands"]
    with pytest.raises(EngineFailed, match="berth: ended: .*config.json"):
        Driver("berth", command, os.sched_getaffinity(0), str(tmp_path / "forward.log"))


def test_who_is_killed_leaves_no_stopped_program_behind(tmp_path):
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "bench")!r})
from driver import Driver
program = {str(BUILD / "bench" / "forward" / "bench_forward")!r}
driver = Driver("berth", [program, {str(MODEL)!r}, "--commands"], os.sched_getaffinity(0), {str(tmp_path / "log")!r})
print(driver.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    pid = int(done.stdout)
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)


def test_tokenizer_writes_ids_and_byte_spans(tmp_path):
    theirs = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    theirs.no_padding()
    theirs.no_truncation()
    texts = ["a b, c", "", "der Öl-Fluß", "日本"]
    (tmp_path / "texts").write_text("".join(t + "\n" for t in texts), encoding="utf-8")
    command = [BUILD / "bench" / "tokenizer" / "bench_tokenizer", MODEL]
    with Driver("berth", command, os.sched_getaffinity(0), str(tmp_path / "log")) as ours:
        assert ours.ask("load", tmp_path / "texts").startswith("4 texts")
        ours.ask("output", tmp_path / "out")
        assert all(float(t) > 0 for t in ours.ask("time", 0.01).split())
        with pytest.raises(EngineFailed, match="holds no lines"):
            ours.ask("load", tmp_path / "none")
    raw = np.fromfile(tmp_path / "out", np.int32)
    for text in texts:
        encoding = theirs.encode(text)
        n = int(raw[0])
        assert raw[1:1 + n].tolist() == encoding.ids
        for token, (start, end) in zip(range(n), raw[1 + n:1 + 3 * n].reshape(-1, 2).tolist()):
            first, last = encoding.offsets[token]
            assert text.encode()[start:end].decode() == text[first:last]
        raw = raw[1 + 3 * n:]
    assert not raw.size


def samples(case, **ms_by_engine):
    return [{"case": case, "engine": engine.replace("_", ", "), "round": i + 1, "ms": ms}
            for engine, all_ms in ms_by_engine.items() for i, ms in enumerate(all_ms)]


def test_a_ratio_is_the_median_of_the_rounds_own():
    drifting = samples("1x16", berth=[1, 10, 2], quick=[2, 20, 6], slow=[3, 30, 60])
    assert figures.fastest_peer(drifting) == "quick"
    assert figures.ratio(drifting, "quick") == 2  # of 2, 2 and 3; the medians' ratio would be 3
    assert figures.geometric_mean([1, 4]) == pytest.approx(2)


def test_a_peer_that_missed_rounds_is_compared_in_those_it_ran():
    some = samples("1x16", berth=[1, 2, 4], late=[3])
    assert figures.ratio(some, "late") == 3
    assert math.isnan(figures.ratio(samples("1x16", berth=[1]), "late"))


def test_tables_hold_the_ratios():
    config = {"hidden_size": 10, "intermediate_size": 40, "num_hidden_layers": 2}
    assert figures.gflop(config, 3, 5) == pytest.approx(2 * (15 * (800 + 1600) + 4 * 15 * 5 * 10) / 1e9)
    table = figures.shape_table(samples("1x16", berth=[1.0], berth_classifier=[0.5], quick=[2.0]), config, [(1, 16)],
                                ["quick"])
    assert [c.strip() for c in table[2].split("|")][-5:-1] == ["quick", "2.00", "0.50", "4.00"]
    assert "**2.00** times" in table[4]
    alone = figures.shape_table(samples("1x16", quick=[2.0], slow=[3.0]), config, [(1, 16)], ["quick", "slow"])
    assert len(alone) == 4 and "times as fast" not in alone[0]
    mix = figures.mix_table(samples("mix", berth_packed=[100.0], quick_one=[200.0], quick_fifo=[900.0]), 10, 100)
    assert mix[2].startswith("| berth, packed | 100.0 |")
    assert mix[-1] == "- `berth, packed`: 2.00 times `quick, one`, 9.00 times `quick, fifo`"
