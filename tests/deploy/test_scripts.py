"""The shell scripts' refusals, and the counting that ./check ends with."""
import os
import socket
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COUNT = os.path.join(ROOT, "tests", "count.py")


def run(*command):
    return subprocess.run([*map(str, command)], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [["--port"], ["--port", "0"], ["--port", "65536"], ["--port", "http"], ["--prot"]])
def test_quickstart_refuses_wrong_arguments(arguments):
    done = run("deploy/quickstart.sh", *arguments)
    assert done.returncode == 1
    assert "--port wants a number" in done.stderr or "unknown argument" in done.stderr


def test_quickstart_names_a_port_that_is_taken_before_it_does_anything():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = run("deploy/quickstart.sh", "--port", port)
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
    assert done.stdout == ""


def test_packages_refuses_a_section_that_is_not_there():
    done = run("deploy/packages.sh", "missing", "nonsense")
    assert done.returncode == 2
    assert "no section [nonsense]" in done.stderr


JUNIT = '<testsuites><testsuite tests="7" failures="1" errors="1" skipped="2"/></testsuites>'
MESON = '{"result": "OK"}\n{"result": "FAIL"}\n{"result": "TIMEOUT"}\n{"result": "SKIP"}\n{"result": "EXPECTEDFAIL"}\n'


def count(tmp_path, **files):
    paths = []
    for name, text in files.items():
        path = tmp_path / name.replace("_", ".")
        if text is not None:
            path.write_text(text)
        paths.append(path)
    return run(sys.executable, COUNT, *paths).stdout.split()


def test_counts_add_up(tmp_path):
    assert count(tmp_path, a_xml=JUNIT) == ["3", "2", "2"]
    assert count(tmp_path, a_json=MESON) == ["2", "2", "1"]
    assert count(tmp_path, a_xml=JUNIT, b_json=MESON) == ["5", "4", "3"]


@pytest.mark.parametrize("text", [None, "", "<broken", '<testsuites><testsuite tests="0"/></testsuites>'])
def test_run_without_tests_is_a_failure(tmp_path, text):
    assert count(tmp_path, a_xml=text) == ["0", "1", "0"]
