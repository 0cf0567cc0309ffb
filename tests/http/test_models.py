"""Model directories that are odd or broken: what loads answers, what does not load says why in one line."""

import json
import math
import os
import pathlib
import shutil
import struct
import time

import pytest
from test_cli import BASE, berth, edit, lines, refused
from wire import post


@pytest.fixture
def model(tmp_path):
    """A copy that a test may change."""
    return pathlib.Path(shutil.copytree(BASE, tmp_path / "model"))


def read_tensors(path):
    """({name: entry}, bytes) of a safetensors file."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def write_tensors(path, header, data):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def keep_rows(path, name, n_rows):
    """Cuts a tensor to its first rows; the file's others move up."""
    header, data = read_tensors(path)
    entry = header[name]
    begin, end = entry["data_offsets"]
    keep = (end - begin) // entry["shape"][0] * n_rows
    gone = end - begin - keep
    entry["shape"][0] = n_rows
    for tensor in (t for key, t in header.items() if key != "__metadata__"):
        tensor["data_offsets"] = [at - gone if at >= end else at for at in tensor["data_offsets"]]
    write_tensors(path, header, data[: begin + keep] + data[end:])


def edit_tokenizer(model, change):
    path = model / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    change(tokenizer)
    path.write_text(json.dumps(tokenizer))


TYPES = "bert.embeddings.token_type_embeddings.weight"


def test_one_token_type_means_no_pairs(model, serve):
    edit(model / "config.json", type_vocab_size=1)
    keep_rows(model / "model.safetensors", TYPES, 1)
    server = serve(model)
    pair = json.dumps({"inputs": [["a"], ["a", "b"]]})
    server.ask(post("/predict", pair)).check_error(424, "inputs[1] is a pair")
    assert server.ask(post("/predict", '{"inputs": [["a"], ["b"]]}')).status == 200


def test_a_template_whose_types_the_model_has_not(model):
    def change(tokenizer):
        for piece in tokenizer["post_processor"]["single"]:
            next(iter(piece.values()))["type_id"] = 2

    edit_tokenizer(model, change)
    err = refused(1, "classify", model, "good")
    assert "post_processor.single" in err and "type_id 2" in err and "type_vocab_size, 2" in err


def test_a_pad_id_that_the_model_has_not(model):
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 70000,
               "pad_type_id": 0, "pad_token": "[NONE]"}
    edit_tokenizer(model, lambda tokenizer: tokenizer.update(padding=padding))
    (model / "tokenizer_config.json").unlink()  # its pad_token goes first
    err = refused(1, "classify", model, "good", "--mode", "padded")
    assert "padding.pad_id is 70000" in err and "vocab_size" in err


FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_none(model, name):
    """A pipe that nobody writes to must not hold the start up, and a link to nothing is not `no such file`."""
    path = model / name
    path.unlink()
    os.mkfifo(path)
    assert f"{name}: not a regular file" in refused(1, "classify", model, "good")
    path.unlink()
    path.symlink_to(model / "nothing")
    assert name in refused(1, "classify", model, "good")


def test_a_header_that_does_not_fit_its_file(model):
    """A file of 64 GiB holes is refused by its header, unread."""
    with open(model / "model.safetensors", "r+b") as file:
        file.truncate(64 << 30)
    began = time.monotonic()
    assert "the file holds" in refused(1, "classify", model, "good")
    assert time.monotonic() - began < 5


def test_a_weight_that_is_no_number(model):
    path = model / "model.safetensors"
    header, data = read_tensors(path)
    at = header["classifier.weight"]["data_offsets"][0] + 4 * 33
    write_tensors(path, header, data[:at] + struct.pack("<f", math.nan) + data[at + 4 :])
    err = refused(1, "classify", model, "good")
    assert str(model) in err and "classifier.weight: value 33 (row 1, column 1)" in err
