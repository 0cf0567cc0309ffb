"""`berth bench --experiment padding` and `--sweep`: servers of their own, what they find, and what is left when it goes
wrong."""

import csv
import io
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time
import xml.dom.minidom

import pytest
import servers
from wire import eventually

MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models" / "base"
USAGE, FAULT, CHECK_FAILED = 2, 1, 3
SHORT = ("--duration", "200ms", "--warmup", "50ms", "--equal-seconds", "200ms", "--overload-seconds", "300ms",
         "--rounds", "1", "--connections", "8")


SWEEP = ("--duration", "200ms", "--warmup", "50ms", "--budgets", "64,256", "--budget-ms", "5", "--connections", "8")


@pytest.fixture
def model(tmp_path):
    """The tiny model under a path that nothing else serves."""
    link = tmp_path / "model"
    link.symlink_to(MODEL)
    return link


def command(*words):
    return [*shlex.split(os.environ.get("BERTH_WRAPPER", "")), str(servers.binary()), "bench", *map(str, words)]


def run(*words, code=0):
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=280)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def refused(*words, code=USAGE):
    done = run(*words, code=code)
    assert done.stdout == ""
    assert re.fullmatch(r"berth: bench: [^\n]+\n", done.stderr), done.stderr
    return done.stderr


def servers_of(model):
    """Their process ids, by their command lines."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if "serve" in words and str(model) in words:
            found[int(folder.name)] = words
    return found


def checked_page(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'(src|href)\s*=|<script|url\(', text)
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        xml.dom.minidom.parseString(svg)
    return text


def ways_of(result):
    return {way["name"]: way for way in result["ways"]}


def test_the_experiment_tells_padding_from_none(model, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    done = run("--experiment", "padding", "--model", model, *SHORT, "--json", "-", "--html", page, "--csv", table)
    result = json.loads(done.stdout)
    ways = ways_of(result)
    assert list(ways) == ["padded", "none", "bucketed", "packed", "padded, fusion off", "packed, fusion off"]
    assert (result["bad"], result["cure"], result["partial"]) == ("padded", "packed", False)
    for name, way in ways.items():
        closed = way["closed"]
        assert closed["answered"] > 0 and closed["failed"] == 0 and closed["requests_per_s"] > 0
        assert closed["p50_ms"] <= closed["p99_ms"] <= closed["max_ms"]
        assert 0 < closed["attention_share"] < 1 and 0 < closed["cpu_utilisation"] <= 1.05
        assert way["cpu_s"] > 0 and way["max_rss_mib"] > 0 and way["failed"] is None
        assert (way["equal"] is None) == name.endswith("off")
    assert ways["padded"]["closed"]["padding_ratio"] > 0.1
    assert ways["none"]["closed"]["padding_ratio"] == ways["packed"]["closed"]["padding_ratio"] == 0
    rate = ways["padded"]["closed"]["requests_per_s"]
    for way in list(ways.values())[:4]:
        assert way["equal"]["offered_per_s"] == pytest.approx(rate / 2, rel=1e-3)
        assert way["overload"]["offered_per_s"] == pytest.approx(rate * 1.5, rel=1e-3)
    gain = result["gain"]["throughput"]
    assert gain == pytest.approx(ways["packed"]["closed"]["requests_per_s"] / rate, rel=1e-3)
    fusion = result["fusion"]
    assert fusion["packing_first"] * fusion["fusion_last"] == pytest.approx(fusion["total"], rel=0.01)
    assert fusion["fusion_first"] * fusion["packing_last"] == pytest.approx(fusion["total"], rel=0.01)
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(rows) == 4 * 3 + 2
    assert float(rows[0]["requests_per_s"]) == pytest.approx(rate)
    text = checked_page(page)
    assert text.index("The bad case") < text.index("The cure")
    assert not servers_of(model)


def test_the_text_puts_the_bad_case_first(model):
    text = run("--experiment", "padding", "--model", model, *SHORT, "--fusion", "off").stdout
    assert text.index("the bad case: padded, fusion off") < text.index("the cure: packed\n")
    assert re.search(r"throughput +x \d+\.\d\d", text)
    assert re.search(r"padded, fusion off: (no steady state|steady): [\d.]+ of [\d.]+ requests/s answered in time", text)
    assert "what fusion has to do with it" in text
    without = run("--experiment", "padding", "--model", model, *SHORT, "--fusion", "on").stdout
    assert "fusion off" not in without


def test_quick_is_short_and_says_no_more_than_it_measured(model):
    result = json.loads(run("--experiment", "padding", "--model", model, "--quick", "--overload-seconds", "1", "--json",
                            "-").stdout)
    for way in result["ways"]:
        assert way["closed"]["seconds"] == pytest.approx(1, abs=0.05)
    assert ways_of(result)["padded"]["overload"]["seconds"] == pytest.approx(1, abs=0.05)


def start(model, *words):
    process = subprocess.Popen(command("--experiment", "padding", "--model", model, *words), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert eventually(lambda: len(servers_of(model)) == 6, 60)
    return process


def test_a_server_that_is_lost_costs_its_own_way_alone(model):
    process = start(model, *SHORT, "--duration", "2", "--json", "-")
    lost = [pid for pid, words in servers_of(model).items() if "bucketed" in words]
    os.kill(lost[0], signal.SIGKILL)
    out, err = process.communicate(timeout=280)
    assert process.returncode == FAULT
    assert re.search(r"berth: bench: bucketed: ", err)
    result = json.loads(out)
    ways = ways_of(result)
    assert result["partial"] and ways["bucketed"]["failed"]
    assert ways["packed"]["overload"]["answered"] > 0 and ways["packed"]["failed"] is None
    assert not servers_of(model)


def test_an_interrupt_keeps_what_there_is(model):
    process = start(model, *SHORT, "--duration", "3")
    eventually(lambda: False, 1)  # into the first round
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == FAULT
    assert "PARTIAL: interrupted" in out
    assert not servers_of(model)


def test_servers_end_with_a_bench_that_is_killed(model):
    process = start(model, *SHORT, "--duration", "20")
    process.kill()
    process.communicate(timeout=60)
    assert eventually(lambda: not servers_of(model), 30)


@pytest.mark.parametrize("words", [("--sweep", *SWEEP, "--duration", "1"), ("--experiment", "padding", *SHORT, "--duration", "1")])
def test_a_time_limit_cuts_and_says_so(model, tmp_path, words):
    page, began = tmp_path / "page.html", time.monotonic()
    done = run(*words, "--model", model, "--time-limit", "6", "--json", "-", "--html", page, code=FAULT)
    assert time.monotonic() - began < 6 + 15  # and what it takes to stop the servers
    result = json.loads(done.stdout)
    assert result["partial"] and result["cut"] == "the time limit was over (--time-limit)" and result["time_limit_s"] == 6
    assert "Partial: the time limit was over" in checked_page(page)
    if "ways" in result:  # whole rounds or none: the first was done, the last was not
        assert result["ways"][0]["closed"]["seconds"] == pytest.approx(1, abs=0.05)
        assert result["ways"][3]["overload"] is None
    assert not servers_of(model)


def test_a_model_that_is_not_there(tmp_path):
    done = run("--experiment", "padding", "--model", tmp_path / "none", *SHORT, code=FAULT)
    assert "the server did not start" in done.stderr and str(tmp_path / "none") in done.stderr
    assert "not measured" in done.stdout and "PARTIAL" in done.stdout


@pytest.mark.parametrize("words, said", [
    (["--experiment", "padding"], "needs a model"),
    (["--experiment", "cooling", "--model", "x"], "expected padding"),
    (["http://127.0.0.1:1", "--experiment", "padding", "--model", "x"], "no URL"),
    (["--experiment", "padding", "--model", "x", "--rate", "10"], "--rate does not go with"),
    (["--experiment", "padding", "--model", "x", "--fusion", "half"], "expected on or off"),
    (["--experiment", "padding", "--sweep", "--model", "x"], "exclude each other"),
    (["http://127.0.0.1:1", "--time-limit", "60"], "--experiment or --sweep"),
    (["--sweep", "--model", "x", "--time-limit", "0"], "--time-limit"),
    (["--sweep", "--model", "x", "--slo", "99"], "--slo"),
    (["--sweep", "--model", "x", "--budgets", "64,,256"], "--budgets 64,,256"),
    (["--sweep", "--model", "x", "--budgets", "1,2,3,4,5", "--budget-ms", "1,2"], "10 servers"),
    (["http://127.0.0.1:1", "--model", "x"], "--experiment or --sweep"),
    (["http://127.0.0.1:1", "--quick"], "--experiment or --sweep"),
])
def test_what_is_refused(words, said):
    assert said in refused(*words)


def test_a_report_that_cannot_be_written(model, tmp_path):
    path = tmp_path / "no" / "such"
    assert str(path) in refused("--experiment", "padding", "--model", model, "--html", path, code=FAULT)


def test_a_sweep_draws_curves_and_names_the_cheapest(model, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    done = run("--sweep", "--model", model, *SWEEP, "--slo", "p99=5s", "--json", "-", "--html", page, "--csv", table)
    result = json.loads(done.stdout)
    assert [(c["max_batch_tokens"], c["max_batch_ms"]) for c in result["curves"]] == [(64, 5), (256, 5)]
    for curve in result["curves"]:
        rates = [p["figures"]["offered_per_s"] for p in curve["points"]]
        assert rates == sorted(rates) and len(rates) >= 2
        assert curve["knee_rate"] in rates
        power = {p["figures"]["offered_per_s"]: p["figures"]["requests_per_s"] / p["figures"]["mean_ms"]
                 for p in curve["points"]}
        assert power[curve["knee_rate"]] == pytest.approx(max(power.values()), rel=1e-4)
        held = [r for r, p in zip(rates, curve["points"]) if p["holds"]]
        if curve["held_rate"]:
            assert held[:rates.index(curve["held_rate"]) + 1] == rates[:rates.index(curve["held_rate"]) + 1]
            assert curve["core_seconds_per_1000"] == pytest.approx(1000 * result["cores"] / curve["held_rate"], rel=1e-3)
    assert max(len(c["points"]) for c in result["curves"]) >= 6  # the best can do them all
    assert result["cut"] is None and result["seconds"] < result["time_limit_s"]
    costs = [c["core_seconds_per_1000"] for c in result["curves"] if c["core_seconds_per_1000"]]
    chosen = [c for c in result["curves"] if c["max_batch_tokens"] == result["cheapest"]["max_batch_tokens"]][0]
    assert chosen["core_seconds_per_1000"] <= 1.03 * min(costs)
    assert len(list(csv.DictReader(io.StringIO(table.read_text())))) == sum(len(c["points"]) for c in result["curves"])
    assert checked_page(page).count("<circle") == 2
    assert not servers_of(model)


def test_a_goal_that_nothing_holds(model):
    text = run("--sweep", "--model", model, *SWEEP, "--slo", "p99=1us", code=CHECK_FAILED).stdout
    assert "no budget holds p99=1us at any rate tried" in text
    assert "knee" in text
