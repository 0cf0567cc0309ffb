"""What the style checks share: which files are ours, and C text without comments and strings."""
import os
import re
import subprocess

SKIPPED_FOLDERS = {".git", "__pycache__", ".pytest_cache"}


def list_files(root):
    """Paths relative to `root`, sorted: what git knows or would add; without git, everything but build folders."""
    if os.path.exists(os.path.join(root, ".git")):
        out = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             check=True, capture_output=True, text=True).stdout
        return sorted(p for p in set(out.split("\0")) if p and os.path.isfile(os.path.join(root, p)))
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in SKIPPED_FOLDERS and not s.startswith("build")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


NOT_CODE = re.compile(r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.S | re.X)


def without_comments(text, strings_too=True):
    """Comments (and what strings hold) become blanks; every character keeps its line and column."""
    def blank(match):
        piece = match.group()
        if piece[0] in "\"'":
            return piece if not strings_too else piece[0] + " " * (len(piece) - 2) + piece[-1]
        return re.sub(r"[^\n]", " ", piece)
    return NOT_CODE.sub(blank, text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1
