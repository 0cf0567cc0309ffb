"""Who is compared: how each peer is installed, started and asked. {port} and {threads} stand in a command for what the
run decides; programs are looked for in the peer's own environment, build/peers-serve-KIND."""
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
MODELS = os.path.join(ROOT, "build", "peers", "models", "demo")  # of bench/peers/models.py
HF, OPTIMUM = os.path.join(MODELS, "hf"), os.path.join(MODELS, "optimum")
LLAMA_SLOTS, LLAMA_TOKENS = 32, 512


@dataclass
class Peer:
    """batches: puts texts of several requests together. answers: what comes back, labels or embeddings."""
    name: str
    kind: str
    command: list
    env: dict = field(default_factory=dict)
    path: str = "/predict"
    field: str = "inputs"
    health: str = "/health"
    batches: bool = False
    precision: str = "fp32"
    answers: str = "labels"
    folder: str = HERE  # where it is started
    url: str = ""  # of a server that somebody else has started


def fastapi(name, processes, threads):
    return Peer(name, "fastapi", ["python", "-m", "uvicorn", "fastapi_app:app", "--host", "127.0.0.1", "--port", "{port}",
                                  "--workers", str(processes), "--log-level", "warning", "--no-access-log"],
                {"MODEL_FOLDER": MODELS, "ORT_THREADS": threads})


def litserve(name, max_batch, workers, threads):
    return Peer(name, "litserve", ["python", os.path.join(HERE, "litserve_app.py"), "{port}", MODELS, threads,
                                   str(max_batch), str(workers)], batches=max_batch > 1)


def infinity(name, engine, folder):
    """It finds a graph only beside where it runs."""
    return Peer(name, "infinity", ["infinity_emb", "v2", "--model-id", ".", "--served-model-name", "demo", "--engine", engine,
                                   "--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", "{port}",
                                   "--batch-size", "32", "--no-bettertransformer", "--no-model-warmup", "--log-level", "error"],
                {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}, folder=folder, path="/classify", field="input[]", batches=True)


LLAMA = Peer("llama.cpp, 32 slots", "llama",
             ["llama-server", "--model", os.path.join(MODELS, "demo.gguf"), "--embedding", "--pooling", "cls", "--host",
              "127.0.0.1", "--port", "{port}", "--threads", "{threads}", "--threads-batch", "{threads}", "--threads-http",
              str(LLAMA_SLOTS), "--parallel", str(LLAMA_SLOTS), "--ctx-size", str(LLAMA_SLOTS * LLAMA_TOKENS), "--batch-size", "2048",
              "--ubatch-size", "2048", "--log-disable"],
             path="/v1/embeddings", field="input", batches=True, answers="embeddings")
OURS = [Peer("berth, packed, fp32", "berth", ["{berth}", "serve", HF, "--port", "{port}"], batches=True),
        Peer("berth, packed, int8", "berth", ["{berth}", "serve", HF, "--port", "{port}", "--compute.precision", "int8"], batches=True,
             precision="int8")]
PEERS = [fastapi("FastAPI, a thread a request", 1, "1"), fastapi("FastAPI, intra-op threads", 1, "{threads}"),
         fastapi("FastAPI, a process a core", 2, "1"), litserve("LitServe, batches of 32", 32, 1, "{threads}"),
         litserve("LitServe, a worker a core", 1, 2, "1"), infinity("infinity, torch", "torch", HF),
         infinity("infinity, optimum", "optimum", OPTIMUM), LLAMA]


def venv_of(kind):
    return os.path.join(ROOT, "build", f"peers-serve-{kind}")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def install(kind, say):
    """The environment of one kind, made when its requirements have changed."""
    venv, wanted = venv_of(kind), os.path.join(HERE, f"requirements-{kind}.txt")
    stamp = os.path.join(venv, "requirements.txt")
    if os.path.exists(stamp) and read(stamp) == read(wanted):
        return
    say(f"installing {kind} into {os.path.relpath(venv, ROOT)} (minutes)")
    subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
    if kind == "llama":
        build_llama(venv, wanted)
    else:
        subprocess.run([os.path.join(venv, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--requirement",
                        wanted], check=True)
    shutil.copy(wanted, stamp)


def build_llama(venv, requirements):
    """llama-server without its web page, and without what it could fetch."""
    folder = os.path.join(venv, "source")
    os.makedirs(folder, exist_ok=True)
    subprocess.run([os.path.join(venv, "bin", "pip"), "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                    "--disable-pip-version-check", "--dest", folder, "--requirement", requirements], check=True)
    sdist = next(n for n in os.listdir(folder) if n.endswith(".tar.gz"))
    subprocess.run(["tar", "--extract", "--gzip", "--file", sdist], cwd=folder, check=True)
    source, build = llama_source(), os.path.join(venv, "build")
    off = ("LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL",
           "BUILD_SHARED_LIBS")
    subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    *(f"-D{name}=OFF" for name in off)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "--target", "llama-server"], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(os.path.join(build, "bin", "llama-server"), os.path.join(venv, "bin"))


def llama_source():
    folder = os.path.join(venv_of("llama"), "source")
    name = next(n for n in os.listdir(folder) if os.path.isdir(os.path.join(folder, n)))
    return os.path.join(folder, name, "vendor", "llama.cpp")


def make_gguf():
    """The demo model as llama.cpp wants it, in fp32, by its own converter and the environment of bench/peers."""
    gguf = os.path.join(MODELS, "demo.gguf")
    if not os.path.exists(gguf):
        python = os.path.join(ROOT, "build", "peers-venv", "bin", "python")
        encoder = os.path.join(MODELS, "encoder")  # without the head, which the converter would take for a reranker's
        subprocess.run([python, os.path.join(HERE, "encoder_only.py"), HF, encoder], check=True)
        subprocess.run([python, os.path.join(llama_source(), "convert_hf_to_gguf.py"), encoder, "--outtype", "f32", "--outfile",
                        gguf + ".part"], check=True, stdout=subprocess.DEVNULL)
        os.rename(gguf + ".part", gguf)


def make_optimum():
    """A folder as `optimum-cli export onnx` leaves one; infinity optimizes the graph itself."""
    if not os.path.exists(OPTIMUM):
        shutil.copytree(HF, OPTIMUM + ".part", dirs_exist_ok=True)
        shutil.copy(os.path.join(MODELS, "plain-classifier.onnx"), os.path.join(OPTIMUM + ".part", "model.onnx"))
        os.rename(OPTIMUM + ".part", OPTIMUM)


def prepare(peers, say):
    """Installs what is wanted. Gives those that can be started; the others are said, with the reason."""
    able = []
    for peer in peers:
        try:
            if peer.kind not in ("berth", "url"):
                install(peer.kind, say)
            if peer.kind == "llama":
                make_gguf()
            if peer.folder == OPTIMUM:
                make_optimum()
            able.append(peer)
        except (subprocess.CalledProcessError, OSError, StopIteration) as fault:
            say(f"left out: {peer.name}: {fault}")
    return able
