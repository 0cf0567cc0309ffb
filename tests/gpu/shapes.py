"""Models to be timed: the shapes of base and MiniLM-L6, with random weights, and lengths as texts have them."""
import array
import json
import random
import struct

MODELS = {  # layers, hidden, heads, intermediate
    "base": (12, 768, 12, 3072),
    "minilm-l6": (6, 384, 12, 1536),
}


def tensors_of(layers, hidden, intermediate, vocab=30522, positions=512):
    yield "bert.embeddings.word_embeddings.weight", (vocab, hidden)
    yield "bert.embeddings.position_embeddings.weight", (positions, hidden)
    yield "bert.embeddings.token_type_embeddings.weight", (2, hidden)

    def pair(name, *shape):
        yield name + ".weight", shape
        yield name + ".bias", shape[:1]

    yield from pair("bert.embeddings.LayerNorm", hidden)
    for i in range(layers):
        layer = f"bert.encoder.layer.{i}."
        for name in ("query", "key", "value"):
            yield from pair(layer + "attention.self." + name, hidden, hidden)
        yield from pair(layer + "attention.output.dense", hidden, hidden)
        yield from pair(layer + "attention.output.LayerNorm", hidden)
        yield from pair(layer + "intermediate.dense", intermediate, hidden)
        yield from pair(layer + "output.dense", hidden, intermediate)
        yield from pair(layer + "output.LayerNorm", hidden)
    yield from pair("bert.pooler.dense", hidden, hidden)
    yield from pair("classifier", 2, hidden)


def make_model(folder, layers, hidden, heads, intermediate):
    """Random weights of the spread that BERT begins with; one block of them, again and again."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.safetensors"
    if file.exists():
        return
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 30522,
        "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": heads, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "pad_token_id": 0}))
    header, at = {}, 0
    for name, shape in tensors_of(layers, hidden, intermediate):
        n = 4
        for size in shape:
            n *= size
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = random.Random(1)
    block = array.array("f", [generator.gauss(0, 0.02) for _ in range(1 << 18)]).tobytes()
    partial = file.with_suffix(".part")
    with partial.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for left in range(at, 0, -len(block)):
            out.write(block[:left])
    partial.rename(file)


def make_models(folder, names):
    """{name: its folder}; what is there already is kept."""
    for name in names:
        make_model(folder / name, *MODELS[name])
    return {name: folder / name for name in names}


def mixed_lengths(n, longest):
    """Many short and a few long, one of them the longest; the same ones every time."""
    generator = random.Random(2)
    return [max(4, min(longest, int(generator.lognormvariate(3.6, 0.9)))) for _ in range(n - 1)] + [longest]
