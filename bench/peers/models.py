#!/usr/bin/env python3
"""Makes one model in every form that an engine wants; what is there already is kept.

  build/peers-venv/bin/python bench/peers/models.py demo|bert-base FOLDER

FOLDER/hf is what berth and transformers read: the demo model, or a BERT-base with random weights (fixed seed)
and a classifier of two labels. The others hold its encoder alone, ending in the last hidden state:
fused.onnx (onnxruntime's transformer optimizer), fused-int8.onnx (dynamic quantisation), openvino.xml (fp32 IR),
openvino-int8.xml (nncf, calibrated on the workload's first texts), ct2 (CTranslate2, which quantises when it loads);
but classifier.onnx, for servers, is the whole model, fused.
"""
import json
import os
import shutil
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "build", "demo-model")
WORKLOAD = os.path.join(ROOT, "build", "bench", "workload.txt")
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SEED = 20261130
N_CALIBRATION_TEXTS, CALIBRATION_TOKENS = 64, 128


def log(*words):
    print("models:", *words, file=sys.stderr, flush=True)


def make_hf(name, folder):
    """The checkpoint. Finished names are given last, so that what was interrupted is made again."""
    if os.path.exists(folder):
        return
    half = folder + ".part"
    shutil.rmtree(half, ignore_errors=True)
    if name == "demo":
        shutil.copytree(DEMO, half)
    else:
        import torch
        from transformers import BertConfig, BertForSequenceClassification
        torch.manual_seed(SEED)
        BertForSequenceClassification(BertConfig(num_labels=2)).save_pretrained(half)
        for file in TOKENIZER_FILES:
            shutil.copy(os.path.join(DEMO, file), half)
        path = os.path.join(half, "config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        config["position_embedding_type"] = "absolute"  # CTranslate2's converter reads it
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f, indent=2)
    os.rename(half, folder)


def load_encoder(hf, **options):
    from transformers import AutoModelForSequenceClassification
    return AutoModelForSequenceClassification.from_pretrained(hf, **options).eval().float()


def make_onnx(hf, path, output="last_hidden_state"):
    """output: also "logits", of the whole classifier."""
    import torch

    class One(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):
            return getattr(self.model(input_ids=input_ids, attention_mask=attention_mask,
                                      token_type_ids=token_type_ids), output)

    whole = load_encoder(hf, attn_implementation="eager")
    ids = torch.randint(1000, 30000, (2, 16), generator=torch.Generator().manual_seed(SEED))
    axes = {k: {0: "batch", 1: "length"} for k in INPUTS}
    axes[output] = {0: "batch"} if output == "logits" else axes[INPUTS[0]]
    model = One(whole if output == "logits" else whole.base_model)
    torch.onnx.export(model, (ids, torch.ones_like(ids), torch.zeros_like(ids)), path, dynamo=False, opset_version=17,
                      input_names=list(INPUTS), output_names=[output], dynamic_axes=axes)


def make_fused(hf, plain, path):
    from onnxruntime.transformers import optimizer
    with open(os.path.join(hf, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    fused = optimizer.optimize_model(plain, model_type="bert", num_heads=config["num_attention_heads"],
                                     hidden_size=config["hidden_size"], opt_level=0)
    found = fused.get_fused_operator_statistics()
    log("onnxruntime fused", {k: v for k, v in found.items() if v})
    if found["Attention"] != config["num_hidden_layers"]:
        sys.exit("models: onnxruntime's optimizer did not fuse the attention of every layer")
    fused.save_model_to_file(path)


def make_onnx_int8(fused, path):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    quantize_dynamic(fused, path, weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": 1})


def make_openvino(plain, path):
    import openvino
    openvino.save_model(openvino.convert_model(plain), path, compress_to_fp16=False)


def calibration_batches(hf):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(hf, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(CALIBRATION_TOKENS)
    with open(WORKLOAD, encoding="utf-8") as f:
        texts = f.read().split("\n")[:N_CALIBRATION_TEXTS]
    for encoded in tokenizer.encode_batch(texts):
        ids = np.array([encoded.ids], np.int64)
        yield dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids))))


def make_openvino_int8(hf, fp32, path):
    import nncf
    import openvino
    model = openvino.Core().read_model(fp32)
    data = nncf.Dataset(list(calibration_batches(hf)))
    openvino.save_model(nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER,
                                      subset_size=N_CALIBRATION_TEXTS), path, compress_to_fp16=False)


def make_ct2(hf, path):
    import ctranslate2
    ctranslate2.converters.TransformersConverter(hf).convert(path, force=True)


def make(name, folder):
    os.makedirs(folder, exist_ok=True)
    hf = os.path.join(folder, "hf")
    make_hf(name, hf)
    in_folder = lambda file: os.path.join(folder, file)
    steps = (("plain.onnx", lambda to: make_onnx(hf, to)),
             ("fused.onnx", lambda to: make_fused(hf, in_folder("plain.onnx"), to)),
             ("plain-classifier.onnx", lambda to: make_onnx(hf, to, "logits")),
             ("classifier.onnx", lambda to: make_fused(hf, in_folder("plain-classifier.onnx"), to)),
             ("fused-int8.onnx", lambda to: make_onnx_int8(in_folder("fused.onnx"), to)),
             ("openvino.xml", lambda to: make_openvino(in_folder("plain.onnx"), to)),
             ("openvino-int8.xml", lambda to: make_openvino_int8(hf, in_folder("openvino.xml"), to)),
             ("ct2", lambda to: make_ct2(hf, to)))
    for file, step in steps:
        done = in_folder(file + ".done")
        if not os.path.exists(done):
            log(f"{name}: {file}")
            step(in_folder(file))
            with open(done, "w", encoding="ascii"):
                pass


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("demo", "bert-base"):
        sys.exit(__doc__)
    make(sys.argv[1], sys.argv[2])
