"""The demo model in onnxruntime: texts in, labels and scores out. What the FastAPI and LitServe applications share."""
import json
import os

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

MAX_TOKENS = 512


class Classifier:
    """folder: of bench/peers/models.py. Threads: classify() from any."""

    def __init__(self, folder, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        # Spinning threads would take the cores from the tokenizer and from HTTP.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(os.path.join(folder, "classifier.onnx"), options,
                                                    providers=["CPUExecutionProvider"])
        self.kinds = {i.name: np.int32 if "int32" in i.type else np.int64 for i in self.session.get_inputs()}
        self.tokenizer = Tokenizer.from_file(os.path.join(folder, "hf", "tokenizer.json"))
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.enable_padding()
        with open(os.path.join(folder, "hf", "config.json"), encoding="utf-8") as f:
            self.labels = [label for _, label in sorted(json.load(f)["id2label"].items(), key=lambda kv: int(kv[0]))]

    def classify(self, texts):
        """For each text its labels, the likeliest first; texts are padded to the longest."""
        encodings = self.tokenizer.encode_batch(texts)
        ids = np.array([e.ids for e in encodings])
        values = {"input_ids": ids, "attention_mask": np.array([e.attention_mask for e in encodings]),
                  "token_type_ids": np.zeros_like(ids)}
        logits = self.session.run(None, {name: values[name].astype(kind) for name, kind in self.kinds.items()})[0]
        scores = np.exp(logits - logits.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return [sorted(({"label": label, "score": float(s)} for label, s in zip(self.labels, row)),
                       key=lambda item: -item["score"]) for row in scores]
