"""The command line: what it prints, what it refuses and how, and that `classify` gives the model's own answers."""

import json
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
import servers
from wire import post

MODELS = servers.ROOT / "tests" / "golden" / "models"
LOGITS = servers.ROOT / "tests" / "golden" / "logits"
BASE = MODELS / "base"


def berth(*arguments, stdin=b""):
    wrapper = shlex.split(os.environ.get("BERTH_WRAPPER", ""))
    return subprocess.run([*wrapper, str(servers.binary()), *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=120)


def lines(result):
    return [json.loads(line) for line in result.stdout.decode().splitlines()]


def refused(code, *arguments):
    """What stands on stderr, which is one line and no log."""
    result = berth(*arguments)
    err = result.stderr.decode()
    assert result.returncode == code, (result.returncode, err)
    assert result.stdout == b""
    assert re.fullmatch(r"berth: [^\n]+\n", err), err
    return err


def golden(name):
    cases = json.loads((LOGITS / f"{name}.json").read_text())["cases"]
    return [c for c in cases if "text" in c and "text_pair" not in c]


def softmax(logits):
    exponents = [math.exp(x - max(logits)) for x in logits]
    return [e / sum(exponents) for e in exponents]


@pytest.fixture
def model(tmp_path):
    """A copy that a test may break."""
    return pathlib.Path(shutil.copytree(BASE, tmp_path / "model"))


# what is printed


def test_version_and_usage():
    assert re.fullmatch(rb"berth \d+\.\d+\.\d+\n", berth("--version").stdout)
    assert berth("version").stdout == berth("--version").stdout
    for words in (["help"], ["--help"], ["-h"]):
        result = berth(*words)
        assert result.returncode == 0
        for command in (b"serve", b"classify", b"tokenize", b"help config"):
            assert command in result.stdout
    nothing = berth()
    assert nothing.returncode == 2 and b"usage" in nothing.stderr and nothing.stdout == b""


@pytest.mark.parametrize("command", ["serve", "classify", "tokenize"])
def test_help_of_a_command(command):
    result = berth(command, "--help")
    assert result.returncode == 0
    assert f"usage: berth {command} MODEL_DIR".encode() in result.stdout
    assert result.stdout == berth("help", command).stdout
    settings = json.loads(berth(command, "--print-config").stdout)
    for section, members in settings.items():
        for key in members:
            assert f"--{section}.{key}\n".encode() in result.stdout


def test_sample_config():
    sample = berth("help", "config").stdout
    assert sample == (servers.ROOT / "deploy" / "berth.jsonc").read_bytes()


def test_print_config_reads_back(tmp_path):
    printed = berth("serve", "--port", "9", "--mode=none", "--pin", "--print-config").stdout
    settings = json.loads(printed)
    assert settings["server"]["port"] == 9
    assert settings["batching"]["mode"] == "none"
    assert settings["compute"]["pin"] is True
    file = tmp_path / "berth.jsonc"
    file.write_bytes(b"// comment\n" + printed)
    assert berth("serve", "--config", file, "--print-config").stdout == printed
    again = json.loads(berth("serve", "--port", "10", "--config", file, "--print-config").stdout)
    assert again["server"]["port"] == 10 and again["compute"]["pin"] is True


def test_check_config(tmp_path):
    file = tmp_path / "berth.jsonc"
    file.write_text('{ // comment\n  "server": {\n    "prot": 9000\n  }\n}\n')
    result = berth("serve", "--config", file, "--check-config")
    assert result.returncode == 1
    assert result.stderr.decode() == (
        f'berth: serve: {file}:3: unknown key "server.prot"; the nearest known one is "server.port"\n'
    )
    file.write_text('{"server": {"port": 9000}}')
    good = berth("serve", "--config", file, "--check-config")
    assert (good.returncode, good.stdout) == (0, b"OK\n")
    assert berth("serve", "--config", tmp_path / "none", "--check-config").returncode == 1


def test_check_config_reads_what_the_settings_name(tmp_path):
    """What would keep the server from starting is told: the keys, and buckets that do not go with the model."""
    file, keys = tmp_path / "berth.jsonc", tmp_path / "keys.json"
    file.write_text('{"batching": {\n  "buckets": [{"up_to": 16}, {"up_to": 4096}]}}')
    result = berth("serve", BASE, "--config", file, "--check-config")
    assert result.returncode == 1 and result.stdout == b""
    assert f"{file}:2: batching.buckets[1]" in result.stderr.decode() and "64" in result.stderr.decode()
    assert berth("serve", "--config", file, "--check-config").returncode == 0  # without a model nobody knows
    keys.write_text('{"keys": [\n  {"name": "web", "key": ""}]}')
    keys.chmod(0o600)
    result = berth("serve", "--auth.keys-file", keys, "--check-config")
    assert result.returncode == 1 and f"auth.keys_file: {keys}:2: keys[0]: key:" in result.stderr.decode()
    keys.write_text('{"keys": [{"name": "web", "key": "0123456789abcdef"}]}')
    assert berth("serve", BASE, "--auth.keys-file", keys, "--check-config").stdout == b"OK\n"
    assert "none" in refused(1, "serve", tmp_path / "none", "--check-config")


def test_options_alone_are_the_servers(tmp_path):
    sample = berth("--check-config", "--config", servers.ROOT / "deploy" / "berth.jsonc", "--device", "cpu")
    assert sample.stdout == b"OK\n" and b"batching.max_batch_tokens is not set: 256 here, on a CPU" in sample.stderr
    assert b"is not set" not in berth("--check-config", "--max-batch-tokens", "300").stderr
    assert berth("--print-config", "--port", "9").stdout == berth("serve", "--port", "9", "--print-config").stdout
    assert "--server.port" in refused(2, "--prot", "1")
    assert "MODEL_DIR" in refused(2, "--port", "9")


def test_wrong_words():
    assert '"serve"' in refused(2, "sevre")
    assert "--server.port" in refused(2, "serve", BASE, "--prot", "1")
    assert "0 to 65535" in refused(2, "serve", BASE, "--port", "70000")
    assert "needs a value" in refused(2, "serve", BASE, "--port")
    assert "MODEL_DIR" in refused(2, "serve")
    assert "too many" in refused(2, "serve", BASE, "another")
    assert "--interrupt=true" in refused(2, "serve", BASE, "--interrupt", "true")


# classify and tokenize


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_classify_gives_the_models_answers(device):
    cases = golden("base")
    assert len(cases) > 3
    labels = json.loads((BASE / "config.json").read_text())["id2label"]
    text = "".join(c["text"] + "\n" for c in cases).encode()
    result = berth("classify", BASE, "--device", device, stdin=text)
    assert (result.returncode, result.stderr) == (0, b"")
    rows = lines(result)
    assert [r["text"] for r in rows] == [c["text"] for c in cases]
    for row, case in zip(rows, cases):
        wanted = {labels[str(i)]: p for i, p in enumerate(softmax(case["logits"]))}
        got = {s["label"]: s["score"] for s in row["scores"]}
        assert got == pytest.approx(wanted, abs=1e-4)
        assert [s["score"] for s in row["scores"]] == sorted(got.values(), reverse=True)
        assert (row["label"], row["score"]) == (row["scores"][0]["label"], row["scores"][0]["score"])
        assert row["tokens"] == len(case["token_ids"])


def test_classify_arguments_and_modes():
    words = ["The film was very good.", "good", "bad film"]
    alone = lines(berth("classify", BASE, *words))
    assert [r["text"] for r in alone] == words
    for mode in ("none", "padded", "bucketed", "packed"):
        rows = lines(berth("classify", BASE, *words, "--mode", mode, "--workers", "2", "--threads", "1"))
        for row, wanted in zip(rows, alone, strict=True):
            assert row["score"] == pytest.approx(wanted["score"], abs=1e-5)


def check(*args, **kwargs):
    result = berth("models", "check", BASE, *args, **kwargs)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def test_models_check_compares_precisions(tmp_path):
    names = json.loads((BASE / "config.json").read_text())["id2label"]
    cases = golden("base")
    best = [names[str(max(range(len(c["logits"])), key=c["logits"].__getitem__))] for c in cases]
    texts, tabbed, apart = tmp_path / "texts", tmp_path / "tabbed", tmp_path / "labels"
    texts.write_text("".join(c["text"] + "\n" for c in cases))
    tabbed.write_text("".join(f"{label}\t{c['text']}\n" for label, c in zip(best, cases)))
    apart.write_text("".join(label + "\n" for label in best))
    code, out, err = check("--texts", texts, "--precision", "int8", "--min-agreement", "0.5")
    assert (code, err) == (0, "")
    assert out.startswith(f"{len(cases)} texts, float32 beside int8 (cpu, ") and out.endswith("passed\n")
    assert "same label" in out and "score difference max 0." in out and "cosine of logits worst" in out
    assert "accuracy" not in out
    for labels in (("--texts", tabbed), ("--texts", texts, "--labels", apart)):
        code, out, err = check(*labels, "--min-agreement", "0", "--max-accuracy-loss", "100")
        assert (code, err) == (0, "")
        assert "accuracy         1.0000, int8 " in out  # the labels are fp32's own


def test_models_check_fails_below_its_limits(tmp_path):
    texts = tmp_path / "texts"
    texts.write_text("good film\nbad film\n")
    code, out, _ = check("--texts", texts, "--max-mean-difference", "0")
    assert code == 1 and out.endswith("failed\n")


@pytest.mark.parametrize("content, args, message", [
    (None, (), "No such file"),
    (b"", (), "there are no texts in it"),
    (b"a\n\nb\n", (), "line 2: the text is empty"),
    (b"a\nb\xff\n", (), "line 2: invalid UTF-8 at byte 1"),
    (b"a" * 70000 + b"\n", ("--max_body_bytes", "65536"), "line 1: longer than 65536 bytes (server.max_body_bytes)"),
    (b"a\n" + b"good " * 100, ("--auto_truncate=false",), "line 2: the text has 102 tokens, at most 64 are allowed"),
    (b"NEGATIVE\ta\nb\n", (), "line 2: the first line begins with a label"),
    (b"NEGATIVE\ta\nNEGATIVE\t\n", (), "line 2: the first line begins with a label"),
    (b"a\nb\n", ("--labels", "labels"), "1 labels for 2 texts"),
    (b"a\n", ("--labels", "two"), "line 2: more labels than texts"),
    (b"a\n", ("--labels", "wrong"), "line 1: not a label of this model"),
    (b"a\n", ("--labels", "nowhere"), "nowhere: No such file"),
    (b"a\n", ("--min-agreement", "2"), '--min-agreement: "2", where a number, 0 to 1 is expected'),
    (b"a\n", ("--max-accuracy-loss", "x"), '--max-accuracy-loss: "x", where a number, 0 to 100 is expected'),
    (b"a\n", ("--max-mean-difference", "nan"), '--max-mean-difference: "nan"'),
    (b"a\n", ("--isa", "baseline", "--precision", "bfloat16"), "means float32 on this machine"),
    (b"a\n", ("--isa", "avx1"), 'cpu isa "avx1": this machine and build have baseline'),
])
def test_models_check_names_what_is_wrong(tmp_path, content, args, message):
    names = list(json.loads((BASE / "config.json").read_text())["id2label"].values())
    if content is not None:
        (tmp_path / "texts").write_bytes(content.replace(b"NEGATIVE", names[0].encode()))
    for file, text in (("labels", names[0]), ("two", f"{names[0]}\n{names[1]}"), ("wrong", "no such label")):
        (tmp_path / file).write_text(text + "\n")
    args = [tmp_path / a if a in ("labels", "two", "wrong", "nowhere") else a for a in args]
    code, out, err = check("--texts", tmp_path / "texts", *args)
    assert (code, out) == (1, "")
    assert message in err, err


def test_models_check_reads_no_folder(tmp_path):
    code, out, err = check("--texts", tmp_path)
    assert (code, out) == (1, "") and err == f"berth: models: {tmp_path}: reading failed: Is a directory\n"


def test_models_check_measures_what_truncation_leaves(tmp_path):
    texts = tmp_path / "texts"
    texts.write_text("good " * 100 + "\n")
    code, out, err = check("--texts", texts, "--min-agreement", "0")
    assert (code, err) == (0, "") and out.startswith("1 texts, ")


@pytest.mark.parametrize("words, message", [
    (("--precision", "int4"), '"int4", where one of float32, bfloat16, int8, float16, auto is expected'),
    (("a text",), '"a text" is one word too many'),
    (("--min-agrement", "1"), "min-agreement"),
])
def test_models_check_refuses_words(tmp_path, words, message):
    (tmp_path / "texts").write_text("a\n")
    code, out, err = check("--texts", tmp_path / "texts", *words)
    assert (code, out) == (2, "") and message in err, err


def test_models_check_of_other_heads(tmp_path):
    """A regression has no labels to agree on; several labels a text agree when all of them do."""
    texts = tmp_path / "texts"
    texts.write_text("good film\nbad film\n")
    for name, words in (("regression", "a regression has none"), ("multi_label", "of texts (at least 0)")):
        result = berth("models", "check", MODELS / name, "--texts", texts, "--min-agreement", "0")
        out = result.stdout.decode()
        assert result.returncode == 0 and words in out and "accuracy" not in out, out


def test_models_wants_its_word():
    for words in (("models",), ("models", "check", BASE), ("models", "chek", BASE, "--texts", "x")):
        assert berth(*words).returncode == 2


def test_classify_keeps_the_order_of_many_lines():
    texts = [f"film number {i} was {'very ' * (i % 30)}good" for i in range(2000)]
    result = berth("classify", BASE, "--max_queued_jobs", "64", stdin="\n".join(texts).encode())
    assert result.returncode == 0
    assert [r["text"] for r in lines(result)] == texts


def test_classify_bad_lines():
    result = berth("classify", BASE, stdin=b"good\nb\xffd\n\ngood\n")
    assert result.returncode == 1
    rows = lines(result)
    assert rows[0] == rows[3] and rows[0]["text"] == "good"
    assert rows[1] == {"line": 2, "error": "invalid UTF-8 at byte 1"}
    assert rows[2] == {"line": 3, "error": "the text is empty"}


def test_classify_long_lines():
    long = b"good " * 500
    [row] = lines(berth("classify", BASE, stdin=long))
    assert row["truncated"] is True and row["tokens"] == 64
    result = berth("classify", BASE, "--auto_truncate=false", stdin=long + b"\ngood\n")
    assert result.returncode == 1
    rows = lines(result)
    assert rows[0]["line"] == 1 and "502" in rows[0]["error"] and "64" in rows[0]["error"]
    assert rows[1]["truncated"] is False
    result = berth("classify", BASE, "--max_body_bytes", "1024", stdin=long + b"\ngood\n")
    assert result.returncode == 1
    rows = lines(result)
    assert "1024" in rows[0]["error"] and rows[1]["text"] == "good"


def test_classify_answers_while_the_pipe_pauses():
    wrapper = shlex.split(os.environ.get("BERTH_WRAPPER", ""))
    command = [*wrapper, str(servers.binary()), "classify", str(BASE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for text in ("good", "bad film"):
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text  # hangs where nothing is flushed
        process.stdin.close()
        assert process.wait(30) == 0


def test_tokenize():
    cases = golden("base")
    result = berth("tokenize", BASE, stdin="".join(c["text"] + "\n" for c in cases).encode())
    assert (result.returncode, result.stderr) == (0, b"")
    vocab = (BASE / "vocab.txt").read_text().splitlines()
    for row, case in zip(lines(result), cases, strict=True):
        assert row["text"] == case["text"]
        assert row["ids"] == case["token_ids"]
        assert row["tokens"] == [vocab[i] for i in row["ids"]]
        assert len(row["offsets"]) == len(row["ids"])
    [row] = lines(berth("tokenize", BASE, "Good film."))
    raw = b"Good film."
    words = [raw[s:e].decode().lower() for s, e in row["offsets"] if e]
    assert "".join(words) == "goodfilm." and row["offsets"][0] == row["offsets"][-1] == [0, 0]
    bad = berth("tokenize", BASE, stdin=b"\xff\ngood")
    assert bad.returncode == 1 and "error" in lines(bad)[0] and lines(bad)[1]["text"] == "good"


# models that are broken: file, field and what was expected


def edit(path, **fields):
    settings = json.loads(path.read_text())
    for key, value in fields.items():
        settings.pop(key, None) if value is None else settings.update({key: value})
    path.write_text(json.dumps(settings))


def test_no_such_directory(tmp_path):
    assert "none" in refused(1, "classify", tmp_path / "none", "text")


def test_broken_config(model):
    edit(model / "config.json", hidden_size=None)
    err = refused(1, "classify", model, "text")
    assert "config.json" in err and "hidden_size" in err
    edit(model / "config.json", hidden_size=31)
    assert "hidden_size" in refused(1, "classify", model, "text")
    (model / "config.json").write_text("{")
    assert "config.json" in refused(1, "classify", model, "text")


def test_vocabulary_and_model_differ(model):
    edit(model / "config.json", vocab_size=200)
    err = refused(1, "classify", model, "text")
    assert "214" in err and "200" in err and "vocab_size" in err


def test_missing_and_cut_weights(model):
    weights = model / "model.safetensors"
    raw = weights.read_bytes()
    weights.write_bytes(raw[:-8])
    assert "model.safetensors" in refused(1, "classify", model, "text")
    (size,) = struct.unpack("<Q", raw[:8])
    header = raw[8 : 8 + size].replace(b"classifier.weight", b"classifier.weighx")
    weights.write_bytes(raw[:8] + header + raw[8 + size :])
    assert "classifier.weight" in refused(1, "classify", model, "text")
    weights.unlink()
    assert "model.safetensors" in refused(1, "classify", model, "text")


def test_broken_tokenizer(model):
    (model / "tokenizer.json").write_text('{"model": {"type": "Unknown"}}')
    assert "tokenizer.json" in refused(1, "classify", model, "text")
    assert "tokenizer.json" in refused(1, "tokenize", model, "text")


def test_limits_that_do_not_fit_the_model():
    err = refused(1, "classify", BASE, "text", "--max_input_tokens", "100")
    assert "100" in err and "64" in err
    err = refused(1, "classify", BASE, "text", "--buckets", '[{"up_to": 32}, {"up_to": 128}]')
    assert '{"up_to": 64}' in err
    err = refused(1, "classify", BASE, "text", "--buckets", '[{"up_to": 32}]')
    assert '{"up_to": 64}' in err
    err = refused(1, "classify", BASE, "text", "--max_input_tokens", "3")
    assert "at least 4" in err


def test_compute_settings():
    alone = lines(berth("classify", BASE, "good", "--isa", "baseline", "--threads", "1"))
    assert alone[0]["score"] == pytest.approx(lines(berth("classify", BASE, "good"))[0]["score"], abs=1e-5)
    err = refused(1, "classify", BASE, "good", "--isa", "bogus")
    assert "compute" in err and "bogus" in err and "baseline" in err


# serve


def test_serve_logs_its_cold_start(start_berth):
    server = start_berth("--served_name", "films", "--workers", "2", "--threads", "1")
    events = server.events()
    stages = [e["stage"] for e in events if e["event"] == "cold_start"]
    assert stages == ["listen", "tokenizer", "map", "check", "convert", "tune", "warm_up"]
    assert all(e["ms"] >= 0 for e in events if e["event"] == "cold_start")
    ready = events[-1]
    assert ready["event"] == "ready" and ready["model"] == "films" and ready["mode"] == "packed"
    assert (ready["workers"], ready["threads"], ready["max_input_tokens"]) == (2, 1, 64)
    assert not [e for e in events if e["event"] == "exposed"]


def test_serve_warns_of_open_addresses(start_berth):
    events = start_berth("--host", "0.0.0.0", "--allow_open").events()
    assert [e["host"] for e in events if e["event"] == "exposed"] == ["0.0.0.0"]


def test_serve_goes_on_after_sighup(start_berth):
    server = start_berth()
    server.process.send_signal(signal.SIGHUP)
    assert servers.eventually(lambda: any(e["event"] == "reload" for e in server.events()), 10)
    server.terminate()
    assert '"stop"' in server.finish()[1]


def test_serve_second_signal_ends_at_once(start_berth):
    server = start_berth()
    with server.connect() as upload:  # never finished: the drain waits for it
        upload.send(post("/predict", b"{", length=20))
        assert servers.eventually(lambda: server.counters()["slots_used"] == 1)
        server.terminate()
        time.sleep(0.7)
        assert server.process.poll() is None
        server.terminate()
        assert server.process.wait(5) == 128 + signal.SIGTERM


def test_serve_two_signals_in_a_row_are_one(start_berth):
    server = start_berth()
    for _ in range(3):
        server.terminate()
        time.sleep(0.01)
        if server.process.poll() is not None:
            break
    assert '"stop"' in server.finish()[1]


def test_serve_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = berth("serve", BASE, "--port", port)
    assert result.returncode == 1
    *log, last = result.stderr.decode().splitlines()
    assert last.startswith("berth: serve: ") and str(port) in last and "in use" in last
    events = [json.loads(line) for line in log]
    assert events[-1]["event"] == "start_failed" and events[-1]["level"] == "error"


def test_serve_broken_model(model):
    (model / "config.json").unlink()
    result = berth("serve", model, "--port", "0")
    assert result.returncode == 1
    assert "config.json" in result.stderr.decode().splitlines()[-1]
