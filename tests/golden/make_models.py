#!/usr/bin/env python3
"""Makes the golden models and logits: small random BERT classifiers, and what `transformers` says about them.

  make_models.py                                     models/NAME/ and logits/NAME.json for every model below
  make_models.py --demo MODEL_DIR VADER_SDIST        demo_logits.json for the demo model (deploy/demo-model/fetch.py);
                                                     VADER_SDIST: vaderSentiment-3.3.2.tar.gz, from PyPI (MIT)

Needs torch, transformers, tokenizers, safetensors. Logits are computed in fp32 on the CPU, one sequence at a time,
from weights upcast from what is stored; versions stand in each file. The same seeds give the same models.
"""
import argparse
import io
import json
import random
import shutil
import tarfile
import tempfile
from pathlib import Path

import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HERE = Path(__file__).parent
LABELS5 = ["anger", "joy", "sadness", "fear", "neutral"]

# name: (changes of the config, how it is stored)
MODELS = {
    "base": ({"id2label": {0: "NEGATIVE", 1: "POSITIVE"}}, {}),
    "head_dim_9": ({"hidden_size": 36, "num_attention_heads": 4, "intermediate_size": 50, "hidden_act": "gelu_new",
                    "layer_norm_eps": 1e-2}, {}),
    "one_layer": ({"num_hidden_layers": 1, "hidden_act": "relu"}, {}),
    "three_layers": ({"num_hidden_layers": 3, "intermediate_size": 100, "hidden_act": "gelu_pytorch_tanh",
                      "max_position_embeddings": 200}, {}),
    "regression": ({"num_labels": 1, "problem_type": "regression"}, {}),
    "one_label": ({"num_labels": 1}, {}),
    "multi_label": ({"id2label": dict(enumerate(LABELS5)), "problem_type": "multi_label_classification"}, {}),
    "five_labels": ({"id2label": dict(enumerate(LABELS5))}, {}),
    "float16": ({}, {"dtype": torch.float16}),
    "bfloat16": ({}, {"dtype": torch.bfloat16}),
    "sharded": ({"num_hidden_layers": 3}, {"shards": True}),
    "no_prefix": ({}, {"rename": lambda name: name.removeprefix("bert."), "position_ids": True}),
    "gamma_beta": ({}, {"rename": lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma")
                        .replace("LayerNorm.bias", "LayerNorm.beta")}),
    "short": ({"max_position_embeddings": 16, "num_labels": 3}, {"plain_labels": True}),
}
WORDS = """the a an and or but not no never very so too this that it is was are were be been i you he she we they my
your of in on at to for with from by as film movie book music food phone price sound story acting service good great
best better bad worse worst awful boring dull fun funny love loved hate hated like liked happy sad slow fast cheap
broken work works worked time day all more most less least one two three what who why how just only really still even
again would could should can will do does did done make made get got see saw watch read""".split()
PIECES = ["##s", "##ed", "##ing", "##ly", "##er", "##est", "##ness", "##ful", "##less", "##able", "##ment", "##tion"]
TEXTS = ["good", "The film was very good.", "I never loved this book!", "bad service, awful food, slow & cheap",
         "What a boring, boring story... it just never ends, and the acting is not even funny",
         "phone 2 works; phone 3 is broken?"]
PAIRS = [("who made this movie?", "she did"), ("is it good", "No. It was the worst day of all the days we had."),
         ("a", "b")]


def make_vocab():
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + [str(d) for d in range(10)]
    marks = list(".,!?;:'\"()&-")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return specials + letters + ["##" + c for c in letters] + marks + WORDS[1:] + PIECES


def make_tokenizer(vocab):
    ids = {token: i for i, token in enumerate(vocab)}
    assert len(ids) == len(vocab) - sum(vocab.count(t) - 1 for t in ids)
    tok = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])])
    tok.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tok


def write_tokenizer(folder, vocab, max_length):
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    make_tokenizer(vocab).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": max_length,
        "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]",
        "mask_token": "[MASK]"}, indent=2) + "\n")


def randomise(model, seed):
    """Larger than the usual initialisation, so that attention is not uniform and an error shows."""
    gen = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen)
            if "LayerNorm.weight" in name:
                p.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                p.copy_(0.1 * noise)
            elif "embeddings" in name:
                p.copy_(0.5 * noise)
            else:
                p.copy_(noise * 1.5 / p.shape[1] ** 0.5)


def store(folder, model, dtype=torch.float32, shards=False, rename=None, position_ids=False, plain_labels=False):
    model.to(dtype).save_pretrained(folder, max_shard_size="40KB" if shards else "5GB")
    if rename:
        path = folder / "model.safetensors"
        tensors = {rename(name): t for name, t in safetensors.torch.load_file(path).items()}
        if position_ids:
            tensors["embeddings.position_ids"] = torch.arange(model.config.max_position_embeddings)[None]
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    if plain_labels:  # as files have it that were written by hand
        path = folder / "config.json"
        config = json.loads(path.read_text())
        config.pop("label2id")
        config["num_labels"] = len(config.pop("id2label"))
        path.write_text(json.dumps(config, indent=2) + "\n")


def logits_of(model, token_ids, type_ids):
    with torch.no_grad():
        out = model(input_ids=torch.tensor([token_ids]), token_type_ids=torch.tensor([type_ids]),
                    attention_mask=torch.ones(1, len(token_ids), dtype=torch.long))
    return [float(f"{x:.9g}") for x in out.logits[0].tolist()]


def case_of(model, token_ids, type_ids, **origin):
    return {**origin, "token_ids": token_ids, "token_type_ids": type_ids,
            "logits": logits_of(model, token_ids, type_ids)}


def make_cases(model, tok, max_length, rng):
    cases = []
    tok.enable_truncation(max_length)
    for text in TEXTS:
        e = tok.encode(text)
        cases.append(case_of(model, e.ids, e.type_ids, text=text))
    for text, pair in PAIRS:
        e = tok.encode(text, pair)
        cases.append(case_of(model, e.ids, e.type_ids, text=text, text_pair=pair))
    for n in (1, 2, min(17, max_length), max_length):
        ids = [rng.randrange(model.config.vocab_size) for _ in range(n)]
        cases.append(case_of(model, ids, [rng.randrange(2) for _ in ids]))
    return cases


def write_golden(path, cases, **head):
    """One case a line, so that a change shows as one."""
    head["made_with"] = {m.__name__: m.__version__ for m in (torch, transformers, tokenizers, safetensors)}
    lines = ",\n".join("  " + json.dumps(c) for c in cases)
    path.write_text(json.dumps(head)[:-1] + ',\n "cases": [\n' + lines + "\n]}\n")


def load(folder):
    model = transformers.BertForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def make_model(index, name):
    changes, storage = MODELS[name]
    vocab = make_vocab()
    folder = HERE / "models" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = {"vocab_size": len(vocab), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 64, "max_position_embeddings": 64, **changes}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**config))
    randomise(model, 1000 + index)
    with tempfile.TemporaryDirectory() as tmp:  # under the usual names: what the logits are made from
        model.to(storage.get("dtype", torch.float32)).save_pretrained(tmp)
        golden = load(tmp)
    store(folder, model, **storage)
    max_length = config["max_position_embeddings"]
    write_tokenizer(folder, vocab, max_length)
    cases = make_cases(golden, make_tokenizer(vocab), max_length, random.Random(index))
    write_golden(HERE / "logits" / f"{name}.json", cases, model=name)
    print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes")


def read_sentences(sdist):
    """{source: sentences} of the four rated collections."""
    with tarfile.open(sdist) as outer:
        inner = next(m for m in outer.getmembers() if m.name.endswith("additional_resources/hutto_ICWSM_2014.tar.gz"))
        data = outer.extractfile(inner).read()
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        for member in sorted(t.getmembers(), key=lambda m: m.name):
            if member.name.endswith("_GroundTruth.txt") and "/._" not in member.name:
                lines = t.extractfile(member).read().decode("latin-1").splitlines()
                source = Path(member.name).name.split("_")[0]
                texts[source] = [line.split("\t", 2)[2].strip() for line in lines if line.count("\t") >= 2]
    return texts


def make_demo(model_dir, sdist):
    rng = random.Random(7)
    sources = read_sentences(sdist)
    assert len(sources) == 4, list(sources)
    tok = Tokenizer.from_file(str(Path(model_dir) / "tokenizer.json"))
    tok.no_padding()
    tok.enable_truncation(512)
    chosen = [t for texts in sources.values() for t in rng.sample([t for t in texts if t], 46)]
    everything = [t for texts in sources.values() for t in texts if t]
    for n in (4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60):  # the last are cut at 512
        chosen.append(" ".join(rng.sample(everything, n)))
    model = load(model_dir)
    encoded = [(text, tok.encode(text)) for text in chosen]
    cases = [case_of(model, e.ids, e.type_ids, text=text) for text, e in encoded]
    assert len(cases) == 200
    write_golden(HERE / "demo_logits.json", cases, model="demo", texts_from="vaderSentiment 3.3.2 (PyPI sdist): "
                 "C.J. Hutto and E. Gilbert, ICWSM 2014; MIT License, Copyright (c) 2016 C.J. Hutto")
    lengths = sorted(len(c["token_ids"]) for c in cases)
    print(len(cases), "sentences, median", lengths[100], "longest", lengths[-1], "tokens in all", sum(lengths))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", nargs=2, metavar=("MODEL_DIR", "VADER_SDIST"))
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(2)
    if args.demo:
        make_demo(*args.demo)
        return
    (HERE / "logits").mkdir(exist_ok=True)
    for index, name in enumerate(MODELS):
        make_model(index, name)


if __name__ == "__main__":
    main()
