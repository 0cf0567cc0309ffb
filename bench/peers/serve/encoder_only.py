"""Saves a classifier's encoder alone, as a sentence encoder is published.

  build/peers-venv/bin/python bench/peers/serve/encoder_only.py HF_FOLDER OUT_FOLDER
"""
import os
import shutil
import sys

from transformers import BertModel

source, out = sys.argv[1:]
BertModel.from_pretrained(source).save_pretrained(out)
for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
    shutil.copy(os.path.join(source, name), os.path.join(out, name))
