"""The peers' environment, and the models in every form that they want. Runs before the environment is there."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VENV = os.path.join(ROOT, "build", "peers-venv")
PYTHON = os.path.join(VENV, "bin", "python")
WORK = os.path.join(ROOT, "build", "peers")
REQUIREMENTS = os.path.join(HERE, "requirements.txt")
DEMO = os.path.join(ROOT, "build", "demo-model")
WORKLOAD = os.path.join(ROOT, "build", "bench", "workload.txt")


def say(*words):
    print("peers:", *words, flush=True)


def ensure_venv(script):
    """Makes the environment, or finds it, and goes on with `script` inside it."""
    stamp = os.path.join(VENV, "requirements.txt")
    with open(REQUIREMENTS, encoding="utf-8") as f:
        wanted = f.read()
    have = ""
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as f:
            have = f.read()
    if have != wanted:
        say("installing the peers into", os.path.relpath(VENV, ROOT), "(minutes)")
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement",
                        REQUIREMENTS], check=True)
        with open(stamp, "w", encoding="utf-8") as f:
            f.write(wanted)
    if os.path.realpath(sys.prefix) != os.path.realpath(VENV):
        os.execv(PYTHON, [PYTHON, script, *sys.argv[1:]])


def make_models(names):
    if not os.path.exists(DEMO):
        sys.exit(f"peers: {DEMO} is not there; this makes it: deploy/demo-model/fetch.py")
    if not os.path.exists(WORKLOAD):
        subprocess.run([PYTHON, os.path.join(ROOT, "bench", "workload.py")], check=True)
    for name in names:
        folder = os.path.join(WORK, "models", name)
        log = os.path.join(WORK, f"models-{name}.log")
        os.makedirs(WORK, exist_ok=True)
        with open(log, "wb") as f:
            done = subprocess.run([PYTHON, os.path.join(HERE, "models.py"), name, folder], stdout=f, stderr=f)
        if done.returncode:
            sys.exit(f"peers: the forms of {name} could not all be made: {log}")
