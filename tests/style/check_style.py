#!/usr/bin/env python3
"""Holds what clang-format and the compiler do not: sizes, banned functions, braces, openings, stray text.

  check_style.py [ROOT]

Prints one line a fault and exits 1 when there is one. headers_alone() compiles every header by itself.
"""
import concurrent.futures
import fnmatch
import os
import re
import subprocess
import sys

from source import line_of, list_files, read, without_comments

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C_FILES = (".c", ".h", ".cu", ".cuh")
MAX_LINES = {".c": 500, ".cu": 500, ".cuh": 500, ".h": 120}
LONGER_HEADERS = {
    "tests/unit/server/json_cases.h": 400,  # cases, a line each
    "tokenizer/unicode_delta.h": 400,  # a table that unicode_delta.py writes
}
MAX_FUNCTION_LINES = 70
FOLDERS_WITH_README = ("base", "tokenizer", "kernels", "model", "batching", "server", "bench", "tests")

BANNED = re.compile(r"\b(v?sprintf|strcpy|strcat|atoi|atol|atoll|atof|strtok|gets|alloca)\s*\(")
IF_ZERO = re.compile(r"^[ \t]*#[ \t]*if[ \t]+0\b", re.M)
# Put together here so that this file does not hold what it looks for.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X"]) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:" + "|".join(["wo" "rk", "fa" "rm", "ro" "ot", "ho" "me"]) + r")/")
REGISTRY = re.compile(r"(?:py" r"pi|python" r"hosted|deb\.deb" r"ian|archive\.ubun" r"tu)\.(?:org|com)")
DEVICE_HEADERS = ["kernels/cuda/ptx.h", "kernels/cuda/launch.h"]  # for nvcc alone
CUDA_INCLUDE = "/usr/local/cuda/include"
# Files that hold what others made, byte for byte.
VERBATIM = ["LICENSE", "*/LICENSE.*", "tests/fuzz/corpus/*", "tests/golden/models/*", "tests/golden/*.txt", "*.safetensors",
            "*.csv", "*.png"]
CONTROL = re.compile(r"\b(if|for|while|switch|cJSON_ArrayForEach|foreach_job)\s*\(|\b(else|do)\b")


def blank_preprocessor(code):
    """Directives, continued lines too, become blanks."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M)


def after_parens(code, at):
    """Where the parenthesis that opens at `at` has been closed."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "(") - (code[i] == ")")
        if depth == 0:
            return i + 1
    return len(code)


def missing_braces(code):
    for m in CONTROL.finditer(code):
        word = m.group(1) or m.group(2)
        at = after_parens(code, m.end() - 1) if m.group(1) else m.end()
        rest = code[at:at + 200].lstrip()
        if rest.startswith("{") or (word == "else" and re.match(r"if\b", rest)):
            continue
        if word == "while" and rest.startswith(";") and code[:m.start()].rstrip().endswith("}"):
            continue  # the end of a do loop
        yield m.start(), f"`{word}` without braces"


def long_functions(code):
    """Outside a function only a definition ends a line in `) {`; its closing brace stands in column 0."""
    start = None
    for number, line in enumerate(code.split("\n"), 1):
        if start is None and re.search(r"\)\s*\{\s*$", line):
            start = number
        elif start is not None and line.startswith("}"):
            if number - start + 1 > MAX_FUNCTION_LINES:
                yield start, f"function of {number - start + 1} lines; {MAX_FUNCTION_LINES} at most"
            start = None


def c_faults(path, text):
    code = without_comments(text)
    for m in BANNED.finditer(code):
        yield line_of(code, m.start()), f"{m.group(1)}() is banned"
    for m in IF_ZERO.finditer(code):
        yield line_of(code, m.start()), "dead code under `#if` zero"
    plain = blank_preprocessor(code)
    for at, words in missing_braces(plain):
        yield line_of(plain, at), words
    yield from long_functions(plain)
    n_lines, most = text.count("\n"), LONGER_HEADERS.get(path, MAX_LINES[os.path.splitext(path)[1]])
    if n_lines > most:
        yield most, f"{n_lines} lines; {most} at most"
    name = os.path.basename(path)
    if not text.startswith(f"/* {name} - ") and (path.endswith(".h") or not path.startswith("tests/")):
        yield 1, f"does not open with `/* {name} - what it is about`"


def script_faults(path, text):
    lines = text.split("\n", 3)
    first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    if path.endswith(".py") and not first.startswith('"""') and text.strip():
        yield 1, "does not open with a docstring"
    if path.endswith(".sh") and not first.startswith("# "):
        yield 1, "does not open with a comment"


def text_faults(text):
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield number, "white space at the end of the line"
        for pattern, words in ((UNFINISHED, "an unfinished mark"), (MACHINE_PATH, "the path of some machine"),
                               (REGISTRY, "the host name of a package registry")):
            if pattern.search(line):
                yield number, words
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end of the file"


def broken_links(root, path, text):
    for m in re.finditer(r"\]\(([^)\s#]+)(#[^)\s]*)?\)", text):
        if "://" not in m.group(1) and not os.path.exists(os.path.join(root, os.path.dirname(path), m.group(1))):
            yield line_of(text, m.start()), f"links to {m.group(1)}, which is not there"


def faults_of_file(root, path):
    text = read(root, path)
    if "\0" not in text:
        yield from text_faults(text)
    if path.endswith(C_FILES):
        yield from c_faults(path, text)
    if path.endswith((".py", ".sh")):
        yield from script_faults(path, text)
    if path.endswith(".md"):
        yield from broken_links(root, path, text)


def check(root):
    files = list_files(root)
    found = [f"{path}:{line}: {words}" for path in files
             if not any(fnmatch.fnmatchcase(path, v) for v in VERBATIM)
             for line, words in faults_of_file(root, path)]
    for folder in FOLDERS_WITH_README:
        has_code = any(p.startswith(folder + "/") and p.endswith(C_FILES) for p in files)
        if has_code and folder + "/README.md" not in files:
            found.append(f"{folder}/README.md:1: is missing")
    return found


def compile_alone(root, path, compiler):
    flags = ["-xc++", "-std=c++17"] if compiler == "c++" else ["-xc", "-std=c11", "-Wstrict-prototypes"]
    if fnmatch.fnmatchcase(path, "kernels/cpu/*") and os.uname().machine == "x86_64":
        flags += ["-mavx2", "-mfma"]
    if fnmatch.fnmatchcase(path, "kernels/cuda/*"):
        flags += ["-isystem", CUDA_INCLUDE]
    done = subprocess.run([compiler, *flags, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                           "-I", root, "-"], input=f'#include "{path}"\n', capture_output=True, text=True)
    return "" if done.returncode == 0 else f"{path}:1: does not compile alone ({compiler}): {done.stderr.strip()}"


def matches_any(path, patterns):
    return any(fnmatch.fnmatchcase(path, p) for p in patterns)


def headers_alone(root):
    skipped = DEVICE_HEADERS if os.path.isdir(CUDA_INCLUDE) else ["kernels/cuda/*"]
    headers = [p for p in list_files(root) if p.endswith(".h") and not matches_any(p, skipped)]
    jobs = [(root, p, "cc") for p in headers]
    jobs += [(root, p, "c++") for p in headers if re.fullmatch(r"kernels/\w+\.h", p)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [fault for fault in pool.map(lambda job: compile_alone(*job), jobs) if fault]


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else ROOT
    everything = check(where) + headers_alone(where)
    print("\n".join(everything) or "style: clean")
    sys.exit(bool(everything))
