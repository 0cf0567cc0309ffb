"""Ids, type ids and offsets must equal those of the `tokenizers` package, text by text."""
import itertools
import json
import random
import struct
import subprocess

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

import corpus

DRIVER = corpus.BUILD / "tests" / "golden" / "tokenizer" / "tokenizer_driver"
TRUNCATE, LEFT, SPECIAL, PAIR = 1, 2, 4, 8


class Answer:
    def __init__(self, data, at):
        self.status, n, self.uncut = struct.unpack_from("<iiq", data, at)
        at += 16
        if not self.status:
            self.ids, self.types = (np.frombuffer(data, "<i4", n, at + 4 * n * i) for i in (0, 1))
            self.spans = np.frombuffer(data, "<i4", 2 * n, at + 8 * n).reshape(n, 2)
            self.special = np.frombuffer(data, "u1", n, at + 16 * n)
            self.sequence = np.frombuffer(data, "u1", n, at + 17 * n)
            at += 18 * n
        assert data[at : at + 4] == b"\xff\xff\xff\xff"
        self.end = at + 4


def ours(folder, inputs, options=SPECIAL, max_tokens=0):
    """An answer for each input, a text or a pair of texts."""
    records = []
    for i in inputs:
        first, second = i if isinstance(i, tuple) else (i, None)
        texts = [t.encode() for t in (first, second or "")]
        flags = options | (PAIR if second is not None else 0)
        records.append(struct.pack("<iIII", max_tokens, flags, *map(len, texts)) + b"".join(texts))
    done = subprocess.run([DRIVER, folder], input=b"".join(records), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    answers, at = [], 0
    while at < len(done.stdout):
        answers.append(Answer(done.stdout, at))
        at = answers[-1].end
    assert len(answers) == len(inputs)
    return answers


def byte_positions(text):
    """Where each code point begins, in bytes, and the end."""
    sizes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    bytes_each = 1 + (sizes > 0x7F).astype(int) + (sizes > 0x7FF) + (sizes > 0xFFFF)
    return np.concatenate([[0], np.cumsum(bytes_each)])


def compare(folder, reference, inputs, options=SPECIAL, max_tokens=0):
    reference.no_padding()
    reference.no_truncation()
    if max_tokens:
        reference.enable_truncation(max_tokens, direction="left" if options & LEFT else "right")
    want = reference.encode_batch(inputs, add_special_tokens=bool(options & SPECIAL))
    got = ours(folder, inputs, options | (TRUNCATE if max_tokens else 0), max_tokens)
    for text, w, g in zip(inputs, want, got):
        where = f"{text!r:.200} options {options} max {max_tokens}"
        assert g.status == 0, where
        if g.ids.tolist() != w.ids:
            mine = [reference.id_to_token(i) for i in g.ids]
            at = next((i for i, (a, b) in enumerate(zip(mine, w.tokens)) if a != b), min(len(mine), len(w.tokens)))
            pytest.fail(f"{where}\ntoken {at}\nwant {w.tokens[max(0, at - 5) : at + 9]}\ngot  {mine[max(0, at - 5) : at + 9]}")
        assert g.types.tolist() == w.type_ids, where
        assert g.special.tolist() == w.special_tokens_mask, where
        if isinstance(text, tuple) and not max_tokens:  # a cut encoding has forgotten them
            assert g.sequence.tolist() == [s or 0 for s in w.sequence_ids], where
        texts = text if isinstance(text, tuple) else (text, "")
        spans = np.fromiter(itertools.chain.from_iterable(w.offsets), int).reshape(-1, 2)
        for i, t in enumerate(texts):
            mine = (g.sequence == i) & (g.special == 0)
            bytes_at = byte_positions(t)
            want_spans = bytes_at[spans[mine]]
            wrong = np.nonzero((g.spans[mine] != want_spans).any(1))[0]
            assert not wrong.size, f"{where}\ntoken {wrong[0]} want {want_spans[wrong[0]]} got {g.spans[mine][wrong[0]]}"
        assert not g.spans[g.special == 1].any(), where
    return got


SWITCHES = [
    dict(clean_text=c, handle_chinese_chars=h, strip_accents=s, lowercase=l)
    for c, h, s, l in itertools.product([True, False], [True, False], [None, True, False], [True, False])
]
DEFAULT = SWITCHES[0]


def name_of(switches):
    return "-".join(f"{k.split('_')[0]}={v}" for k, v in switches.items())


@pytest.fixture(scope="module")
def demo():
    return corpus.demo_dir()


@pytest.fixture(scope="module")
def demo_doc(demo):
    return json.loads((demo / "tokenizer.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def telling():
    return [c for c in corpus.code_points() if corpus.is_telling(c)]


@pytest.fixture(scope="module")
def alphabet(telling):
    return corpus.alphabet_tokenizer(telling)


@pytest.fixture(scope="module")
def mixes():
    return corpus.random_mixes(20000)


@pytest.fixture(scope="module")
def sentences():
    return corpus.vader_sentences(20000) + corpus.spacy_examples()


def make(doc, tmp_path, **switches):
    folder = corpus.save(corpus.with_normalizer(doc, **switches), tmp_path / "model")
    return folder, Tokenizer.from_file(str(folder / "tokenizer.json"))


def in_rows(points, row=200):
    """Texts of many code points each, alone and inside a word, all kept apart by spaces."""
    for i in range(0, len(points), row):
        chars = [chr(c) for c in points[i : i + row]]
        yield " ".join(chars) + " " + " ".join(f"a{c}b" for c in chars)


@pytest.mark.parametrize("switches", SWITCHES, ids=name_of)
def test_switches(alphabet, telling, tmp_path, mixes, switches):
    """On a vocabulary of single characters: ids show what each became."""
    folder, reference = make(alphabet, tmp_path, **switches)
    compare(folder, reference, list(in_rows(telling)))
    compare(folder, reference, mixes if switches == DEFAULT else mixes[: len(mixes) // 20])


@pytest.mark.parametrize("switches", [DEFAULT, SWITCHES[-1]], ids=name_of)
def test_every_code_point(demo_doc, tmp_path, switches):
    folder, reference = make(demo_doc, tmp_path, **switches)
    compare(folder, reference, list(in_rows(corpus.code_points())))


def test_code_points_between_marks(alphabet, telling, tmp_path):
    """Canonical order, with a mark of a low and of a high class on either side, stripped and not."""
    folder, reference = make(alphabet, tmp_path)
    points = [c for c in telling if chr(c).strip()]
    texts = []
    for i in range(0, len(points), 100):
        chars = [chr(c) for c in points[i : i + 100]]
        texts.append(" ".join(f"e\u0301{c}\u0323\U0001D165x {c}\U0001D165\u0334{c}" for c in chars))
    compare(folder, reference, texts)


def test_sentences(demo, sentences):
    compare(demo, Tokenizer.from_file(str(demo / "tokenizer.json")), sentences)


def test_mixes_on_demo_vocabulary(demo, mixes):
    compare(demo, Tokenizer.from_file(str(demo / "tokenizer.json")), mixes)


@pytest.mark.parametrize("special", [0, SPECIAL])
@pytest.mark.parametrize("side", [0, LEFT])
@pytest.mark.parametrize("limit", [3, 4, 5, 8, 9, 16, 31, 64])
def test_truncation(demo, mixes, sentences, limit, side, special):
    reference = Tokenizer.from_file(str(demo / "tokenizer.json"))
    texts = mixes[:100] + sentences[:100]
    inputs = texts + list(zip(texts, texts[::-1]))
    got = compare(demo, reference, inputs, special | side, limit)
    whole = ours(demo, inputs, special)
    assert [g.uncut for g in got] == [len(w.ids) for w in whole]
    refused = ours(demo, inputs, special, limit)
    assert [r.status != 0 for r in refused] == [w.uncut > limit for w in whole]
    assert [r.uncut for r in refused] == [w.uncut for w in whole]


def test_pairs(demo, mixes):
    reference = Tokenizer.from_file(str(demo / "tokenizer.json"))
    pairs = list(zip(mixes[:2000], mixes[2000:4000]))
    compare(demo, reference, pairs)
    compare(demo, reference, pairs, 0)


def test_no_post_processor_and_no_normalizer(demo_doc, tmp_path, mixes):
    for post in (None, {"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]}):
        doc = {**demo_doc, "post_processor": post, "normalizer": None}
        folder = corpus.save(doc, tmp_path / "model")
        reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
        for options in (0, SPECIAL):
            compare(folder, reference, mixes[:500], options)
            compare(folder, reference, list(zip(mixes[:500], mixes[500:1000])), options)


FLAGS = ["single_word", "lstrip", "rstrip", "normalized", "special"]
WORDS = ["<user>", "Berth", "New York", "né", "ing", "İx", "\u0301", "世", "a", " ", "_b"]


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=4)), ids=str)
def test_added_tokens(demo_doc, tmp_path, flags):
    on = dict(zip(FLAGS, flags))
    words = [w for w in WORDS if not (on["normalized"] and w == "\u0301")]
    tokens = [corpus.added(w, 30522 + i, **on) for i, w in enumerate(words)]
    tokens = [t for t in tokens if t["content"] not in ("ing", "a", "世")] + [
        corpus.added("ing", 13749, **on), corpus.added("a", 1037, **on), corpus.added("世", 1745, **on)]
    for i, t in enumerate(t for t in tokens if t["id"] >= 30522):
        t["id"] = 30522 + i
    doc = {**demo_doc, "added_tokens": demo_doc["added_tokens"] + tokens}
    folder = corpus.save(doc, tmp_path / "model")
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rng = random.Random(7)
    parts = WORDS + ["BERTH", "new york", "NE\u0301", "ne", "b", "1", "_", "\u200d", "\u00a0", "\n", "。", "世界",
                     "[MASK]", "\u0323", "İX", "i\u0307x", "  ", "-", "berthing", "ⓐ", "\u0300"]
    texts = ["".join(rng.choice(parts) for _ in range(rng.randint(1, 9))) for _ in range(1500)]
    compare(folder, reference, texts)
    compare(folder, reference, texts[:200], SPECIAL, 6)
    compare(folder, reference, texts[:200], SPECIAL | LEFT, 6)


def vocab_reference(folder, config):
    """What the reference makes of a vocab.txt with these settings."""
    lower, strip = config.get("do_lower_case", True), config.get("strip_accents")
    t = Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt"), unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=config.get("tokenize_chinese_chars", True), strip_accents=strip, lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    for entry in config.get("added_tokens_decoder", {}).values():
        t.add_tokens([AddedToken(**entry)])
    t.add_special_tokens(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]", *config.get("additional_special_tokens", [])])
    return t


@pytest.mark.parametrize("config", [
    None, {}, {"do_lower_case": False}, {"do_lower_case": False, "strip_accents": True}, {"strip_accents": False},
    {"tokenize_chinese_chars": False},
    {"cls_token": {"content": "[CLS]"}, "additional_special_tokens": ["<user>", "@@"]},
    {"added_tokens_decoder": {"30522": dict(content="<url>", lstrip=True, rstrip=False, normalized=False, single_word=False,
                                            special=True),
                              "0": dict(content="[PAD]", lstrip=False, rstrip=False, normalized=False, single_word=False,
                                        special=True)}},
], ids=str)
def test_vocab_txt(demo, tmp_path, mixes, config):
    (tmp_path / "vocab.txt").write_bytes((demo / "vocab.txt").read_bytes())
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    texts = mixes[:700] + [f"{m} <user>@@ <url>" for m in mixes[700:900]]
    compare(tmp_path, vocab_reference(tmp_path, config or {}), texts)


@pytest.mark.parametrize("text", ["a" * (1 << 20), "word " * 200000, "\u0301" * 500000, "\U0001D165\u0334" * 150000,
                                  "[" * (1 << 18), "世" * 300000, "é" * 500000], ids=lambda t: repr(t[:6]))
def test_a_megabyte(demo, text):
    compare(demo, Tokenizer.from_file(str(demo / "tokenizer.json")), [text])
