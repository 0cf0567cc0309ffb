"""Two commits, each in a git worktree of its own under build/regress, built in release. What is built stays and is used
again; `git worktree prune` forgets what somebody has deleted."""
import os
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WORK = os.path.join(ROOT, "build", "regress")
TARGETS = ("berth", "bench/forward/bench_forward", "bench/tokenizer/bench_tokenizer", "bench/schedule/bench_schedule",
           "bench/regress/bench_exchange")


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"regress: git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def commit_of(name):
    return git("rev-parse", "--verify", "--quiet", name + "^{commit}")


def mark_of(file):
    """Changes with a file of this folder: what was made by another version of it is not used again."""
    with open(os.path.join(HERE, file), "rb") as f:
        return f"{zlib.crc32(f.read()):08x}"


def run_logged(words, log_path, what):
    with open(log_path, "ab") as log:
        if subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode:
            sys.exit(f"regress: {what} cannot be built: {log_path}")


class Build:
    """A commit's folder. `variant` names one that is changed on purpose (plants.py)."""

    def __init__(self, commit, variant=""):
        self.commit, self.variant = commit, variant
        self.name = commit[:12] + (f"-{variant}" if variant else "")
        self.folder = os.path.join(WORK, self.name)
        self.source = os.path.join(self.folder, "source")

    def program(self, target):
        """None where this commit does not have it."""
        path = os.path.join(self.source, "build", target)
        return path if os.path.exists(path) else None

    def checkout(self):
        os.makedirs(self.folder, exist_ok=True)
        if not os.path.exists(os.path.join(self.source, "meson.build")):
            git("worktree", "prune")
            git("worktree", "add", "--force", "--detach", self.source, self.commit)

    def make(self, change=None):
        """change(source) makes it a variant."""
        stamp = os.path.join(self.folder, "built")
        if os.path.exists(stamp):
            return self
        print(f"regress: building {self.name}", flush=True)
        self.checkout()
        if change:
            change(self.source)
        build, log = os.path.join(self.source, "build"), os.path.join(self.folder, "build.log")
        if not os.path.exists(os.path.join(build, "build.ninja")):
            run_logged(["meson", "setup", build, self.source, "--buildtype=release", "-Dtests=disabled"], log, self.name)
        known = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True).stdout
        known = {line.split(":")[0] for line in known.splitlines()}
        run_logged(["ninja", "-C", build, *(t for t in TARGETS if t in known)], log, self.name)
        with open(stamp, "w", encoding="ascii"):
            pass
        return self
