"""The repository holds to its style, and each check really sees the fault it is there for."""
import os
import shutil
import subprocess

import pytest

import check_includes
import check_style
from source import list_files

ROOT = check_style.ROOT


def test_includes_point_down():
    assert check_includes.check(ROOT) == []


def test_style_holds():
    assert check_style.check(ROOT) == []


def test_headers_compile_alone():
    assert check_style.headers_alone(ROOT) == []


def scripts():
    found = []
    for path in list_files(ROOT):
        with open(os.path.join(ROOT, path), "rb") as f:
            if f.readline().rstrip().endswith((b"bash", b"/sh")):
                found.append(path)
    return found


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shell_scripts_pass_shellcheck():
    assert "check" in scripts() and "deploy/quickstart.sh" in scripts()
    done = subprocess.run(["shellcheck", "--external-sources", *scripts()], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def tree(tmp_path):
    """A small clean repository to plant faults in."""
    write(tmp_path, "base/README.md", "What: a plain folder\n")
    write(tmp_path, "model/README.md", "What: a plain folder\n")
    write(tmp_path, "base/thing.h", "/* thing.h - a thing. */\nstruct thing;\n")
    write(tmp_path, "model/token_batch.h", "/* token_batch.h - a leaf. */\nstruct token_batch;\n")
    write(tmp_path, "base/thing.c", '/* thing.c - how it works. */\n#include "base/thing.h"\n\n#include <stdio.h>\n')
    assert check_includes.check(str(tmp_path)) == []
    assert check_style.check(str(tmp_path)) == []
    assert check_style.headers_alone(str(tmp_path)) == []
    return tmp_path


def write(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def assert_one_fault(found, path, words):
    assert len(found) == 1, found
    assert found[0].startswith(path + ":") and words in found[0]


INCLUDE_FAULTS = {
    "up": ("base/up.h", '#include "model/token_batch.h"\n', "base/ may not include"),
    "leaf": ("model/token_batch.h", '#include "base/thing.h"\n', "is a leaf"),
    "relative": ("base/rel.h", '#include "thing.h"\n', "paths start at the root"),
    "library": ("base/lib.h", "#include <cjson/cJSON.h>\n", "<cjson/cJSON.h> is for"),
    "unknown library": ("base/lib.h", "#include <boost.h>\n", "is not in the tables"),
    "unknown folder": ("extra/lib.h", '#include "base/thing.h"\n', "is not in the table"),
    "not own header first": ("base/thing.c", '#include <stdio.h>\n#include "base/thing.h"\n', "own header"),
    "no own header": ("base/thing.c", "#include <stdio.h>\n", "own header"),
}


@pytest.mark.parametrize("fault", INCLUDE_FAULTS)
def test_include_fault_is_seen(tree, fault):
    path, text, words = INCLUDE_FAULTS[fault]
    write(tree, path, text)
    assert_one_fault(check_includes.check(str(tree)), path, words)


def test_internal_header_stays_in_its_folder(tree):
    write(tree, "base/internal.h", "/* internal.h - for base. */\n")
    write(tree, "base/a.c", '/* a.c - a. */\n#include "base/internal.h"\n')
    assert check_includes.check(str(tree)) == []
    write(tree, "model/a.c", '/* a.c - a. */\n#include "base/internal.h"\n')
    assert_one_fault(check_includes.check(str(tree)), "model/a.c", "is for its own folder")


def test_leaf_may_be_included_from_beside(tree):
    for folder in ("kernels", "batching"):
        write(tree, folder + "/a.c", '#include "model/token_batch.h"\n#include "base/thing.h"\n')
        assert check_includes.check(str(tree)) == []
    write(tree, "model/encoder.h", "/* encoder.h - not a leaf. */\n")
    write(tree, "batching/a.c", '#include "model/encoder.h"\n')
    assert_one_fault(check_includes.check(str(tree)), "batching/a.c", "batching/ may not include")


C = "/* a.c - a. */\n"
LONG_FUNCTION = "int f(int a,\n      int b) {\n" + "    a++;\n" * 69 + "}\n"
STYLE_FAULTS = {
    "banned function": ("base/a.c", C + "void f(char *s) {\n    strcpy(s, s);\n}\n", "strcpy() is banned"),
    "dead code": ("base/a.c", C + "#if 0\n#endif\n", "dead code"),
    "if": ("base/a.c", C + "void f(int n) {\n    if (n)\n        n++;\n}\n", "`if` without braces"),
    "else": ("base/a.c", C + "void f(int n) {\n    if (n) {\n    } else\n        n++;\n}\n", "`else` without braces"),
    "for": ("base/a.c", C + "void f(int n) {\n    for (;;)\n        n++;\n}\n", "`for` without braces"),
    "while": ("base/a.c", C + "void f(int n) {\n    while (n)\n        n--;\n}\n", "`while` without braces"),
    "long function": ("base/a.c", C + LONG_FUNCTION, "function of 71 lines"),
    "long file": ("base/a.c", C + "int a;\n" * 500, "501 lines; 500 at most"),
    "long header": ("base/a.h", "/* a.h - a. */\n" + "struct a;\n" * 120, "121 lines; 120 at most"),
    "no opening": ("base/a.c", "int a;\n", "does not open with"),
    "opening of another file": ("base/a.c", "/* b.c - b. */\n", "does not open with"),
    "unfinished": ("base/notes.md", "TO" "DO: the rest\n", "unfinished mark"),
    "white space": ("base/a.c", C + "int a; \n", "white space"),
    "no newline": ("base/a.c", C + "int a;", "no newline"),
    "machine path": ("base/a.c", C + "// see /wo" "rk/notes\n", "path of some machine"),
    "registry": ("notes.md", "from py" "pi.org\n", "package registry"),
    "broken link": ("notes.md", "see [this](base/none.md)\n", "which is not there"),
    "python opening": ("a.py", "import os\n", "docstring"),
    "shell opening": ("a.sh", "#!/bin/sh\nset -e\n", "does not open with a comment"),
    "no README": ("kernels/a.c", C, "is missing"),
}


@pytest.mark.parametrize("fault", STYLE_FAULTS)
def test_style_fault_is_seen(tree, fault):
    path, text, words = STYLE_FAULTS[fault]
    write(tree, path, text)
    where = "kernels/README.md" if fault == "no README" else path
    assert_one_fault(check_style.check(str(tree)), where, words)


CLEAN_C = C + """
#define SWAP(a, b)                                                                                 \\
    if (a)                                                                                         \\
        b
static const char *const text = "if (x) strcpy( // no";
/* if (x) y; strcpy(a, b) */
int f(int n) {
    do {
        n--;
    } while (n > '(');
    if (n) {
        n++;
    } else if (n) {
        n--;
    } else {
        n = 0;
    }
    return n + my_atoi(text);
}
"""


def test_clean_code_is_left_alone(tree):
    write(tree, "base/a.c", CLEAN_C)
    assert check_style.check(str(tree)) == []


def test_header_that_needs_another_is_seen(tree):
    write(tree, "base/a.h", "/* a.h - a. */\nsize_t a(void);\n")
    assert_one_fault(check_style.headers_alone(str(tree)), "base/a.h", "does not compile alone (cc)")


def test_kernel_header_that_is_no_cpp_is_seen(tree):
    write(tree, "kernels/a.h", "/* a.h - a. */\nstruct a {\n    int class;\n};\n")
    assert_one_fault(check_style.headers_alone(str(tree)), "kernels/a.h", "does not compile alone (c++)")
