"""`berth profile`, and the profile in the timing header: that figures are there for every op of every layer, and add up."""

import json
import re

import pytest
from test_berth import TEXT, predict
from test_cli import BASE, berth, refused

CONFIG = json.loads((BASE / "config.json").read_text())
LAYER_OPS = ("qkv", "attention", "attention_out", "attention_norm", "intermediate", "output", "output_norm")


def profile(*arguments):
    result = berth("profile", BASE, "--seconds", "0.05", *arguments)
    assert (result.returncode, result.stderr) == (0, b""), result.stderr.decode()
    return result.stdout.decode()


def rows(out):
    table = out.split("\n\n")[1].strip().split("\n")[1:]
    return {tuple(line.split()[:2]): [float(x) for x in line.split()[2:] if x != "-"] for line in table}


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_every_op_of_every_layer(device):
    report = json.loads(profile("--shape", "2x7", "--json", "--device", device))
    n_layers, hidden, passes = CONFIG["num_hidden_layers"], CONFIG["hidden_size"], report["passes"]
    ops = {(o["op"], o["layer"]): o for o in report["ops"]}
    assert (report["layers"], report["sequences"], report["tokens"]) == (n_layers, 2, 14) and passes >= 1
    for layer in range(n_layers):
        rows_of_it = 2 if layer == n_layers - 1 else 14
        for op in LAYER_OPS:
            found = ops[op, layer]
            assert found["calls"] == passes and found["ms"] > 0 and found["bytes"] > 0
            assert found["rows"] == passes * (14 if op == "qkv" else rows_of_it)
        assert ops["qkv", layer]["flops"] == passes * 2 * 14 * 3 * hidden * hidden
    assert {"embed", "pool", "head", "fetch"} <= {op for op, layer in ops if layer is None}
    assert 0.5 < sum(o["ms"] for o in report["ops"]) / report["ms"] <= 1.001
    assert (report["peak_gflops"] > 0) == (device == "cpu")


def test_the_table_by_op_by_layer_and_by_both():
    n_layers = CONFIG["num_hidden_layers"]
    by_op, by_layer, both = (rows(profile("--lengths", "5,9", *by)) for by in ((), ("--by", "layer"), ("--by=both",)))
    assert {(op, "all") for op in LAYER_OPS} <= set(by_op)
    assert {("all", str(i)) for i in range(n_layers)} | {("all", "-"), ("all", "all")} == set(by_layer)
    assert {(op, str(i)) for op in LAYER_OPS for i in range(n_layers)} <= set(both)
    for table in (by_op, by_layer, both):
        parts = [row[3] for place, row in table.items() if place != ("all", "all")]
        assert abs(sum(parts) - 100) < 0.5 and table["all", "all"][3] == 100


def test_bad_options_are_refused_by_name():
    for code, option, value, said in (
            (2, "--shape", "8", "BATCHxLENGTH"), (2, "--shape", "0x5", "BATCHxLENGTH"), (2, "--shape", "2000x2", "1024"),
            (2, "--shape", "8x128x", "BATCHxLENGTH"), (2, "--shape", "99999999999999999999x1", "BATCHxLENGTH"),
            (2, "--lengths", "5,,6", "lengths parted by commas"), (2, "--lengths", "", "lengths parted"),
            (2, "--lengths", "-3", "lengths parted"), (2, "--lengths", "16000,16000", "16384 tokens in all"),
            (2, "--seconds", "nan", "0.01 to 3600"), (2, "--seconds", "0", "0.01 to 3600"), (2, "--by", "head", "op, layer or both"),
            (1, "--lengths", "400", "400 tokens: the model takes at most")):
        message = refused(code, "profile", BASE, f"{option}={value}")
        assert said in message, message
    assert "give one" in refused(2, "profile", BASE, "--shape", "1x5", "--lengths", "5")
    assert "one word too many" in refused(2, "profile", BASE, "a text")
    assert "no MODEL_DIR" in refused(2, "profile")
    refused(1, "profile", BASE / "nowhere")


def test_the_timing_header_tells_every_op_of_every_layer(shared_berth):
    timing = predict(shared_berth, {"inputs": TEXT}, "Berth-Profile: 1").header("Server-Timing")
    found = {name: float(ms) for name, ms in re.findall(r"([\w.]+);dur=([\d.]+)", timing)}
    for layer in range(CONFIG["num_hidden_layers"]):
        assert {f"layer{layer}_{op}" for op in LAYER_OPS} <= set(found), timing
    gemm = sum(ms for name, ms in found.items()
               if re.fullmatch(r"layer\d+_(qkv|attention_out|intermediate|output)", name))
    assert abs(gemm - found["gemm"]) < 0.001 * (4 * CONFIG["num_hidden_layers"] + 1), timing
