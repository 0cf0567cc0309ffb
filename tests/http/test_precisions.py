"""Precisions as an operator meets them: what /info, /metrics and the log call them, what stands in for one that the
machine lacks, and that a result which is no number fails its own input alone, in each."""

import json
import pathlib
import shutil
import struct

import pytest
from test_cli import BASE, golden
from test_models import read_tensors, write_tensors
from wire import get, post

PRECISIONS = ("float32", "bfloat16", "int8", "auto")
STRANGE = 3e38  # of which a few make infinity


def named(server):
    """What the ready line, /info and /metrics call the precision: one name."""
    ready = next(e for e in server.events() if e["event"] == "ready")["dtype"]
    info = server.ask(get("/info")).json()["model_dtype"]
    metrics = server.ask(get("/metrics")).body.decode()
    assert ready == info and f'berth_backend_info{{backend="cpu",dtype="{info}"}} 1' in metrics
    return info


def warnings(server):
    return [e for e in server.events() if e["event"] == "precision"]


def fields(server):
    """Logits apart, an answer by the model's own labels."""
    return server.ask(post("/predict", json.dumps({"inputs": [[c["text"]] for c in golden("base")[:8]]}))).json()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_used_is_named(serve, precision):
    server = serve(BASE, "--precision", precision)
    used = named(server)
    if precision == "auto":
        assert used in ("float32", "bfloat16") and not warnings(server)
    elif used != precision:
        (line,) = warnings(server)
        assert precision == "bfloat16" and used == "float32"
        assert line["level"] == "warn" and line["wanted"] == precision and line["used"] == used
    else:
        assert not warnings(server)


def test_what_the_machine_lacks_is_told(serve):
    """The baseline has int8, but no bf16: fp32 takes its place, to the bit, with a line that says so."""
    server = serve(BASE, "--isa", "baseline", "--precision", "bfloat16")
    assert named(server) == "float32"
    (line,) = warnings(server)
    assert line["level"] == "warn" and (line["wanted"], line["used"]) == ("bfloat16", "float32")
    assert "baseline" in line["detail"] and line["reason"]
    assert fields(server) == fields(serve(BASE, "--isa", "baseline"))


def test_precisions_differ_and_agree(serve):
    exact, coarse = fields(serve(BASE)), fields(serve(BASE, "--precision", "int8"))
    assert exact != coarse
    for a, b in zip(exact, coarse, strict=True):
        scores = {s["label"]: s["score"] for s in b}
        assert all(s["score"] == pytest.approx(scores[s["label"]], abs=0.1) for s in a)


@pytest.fixture
def strange_model(tmp_path):
    """`base`, in which every value of the embedding of the word "film" is near the largest float."""
    model = pathlib.Path(shutil.copytree(BASE, tmp_path / "model"))
    path = model / "model.safetensors"
    header, data = read_tensors(path)
    entry = header["bert.embeddings.word_embeddings.weight"]
    n = entry["shape"][1]
    row = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]["film"]
    at = entry["data_offsets"][0] + 4 * n * row
    write_tensors(path, header, data[:at] + struct.pack(f"<{n}f", *[STRANGE] * n) + data[at + 4 * n :])
    return model


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_result_that_is_no_number_fails_alone(serve, strange_model, precision):
    server, sound = serve(strange_model, "--precision", precision), serve(BASE, "--precision", precision)
    inputs = [["good"], ["a film that is bad"], ["bad"], ["very good"]]
    body = json.dumps({"inputs": inputs})
    answer = server.ask(post("/predict", body))
    answer.check_error(424, "result for inputs[1] is not finite")
    rest = json.dumps({"inputs": inputs[:1] + inputs[2:]})
    assert server.ask(post("/predict", rest)).json() == sound.ask(post("/predict", rest)).json()
    partial = server.ask(post("/predict", json.dumps({"inputs": inputs, "partial": True}))).json()
    whole = sound.ask(post("/predict", body)).json()
    assert [p == w for p, w in zip(partial, whole, strict=True)] == [True, False, True, True]
    assert partial[1]["error_type"] == "Backend"
