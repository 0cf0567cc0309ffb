"""`berth bench` and what is odd: servers that answer in every way, files, terminals."""

import json
import os
import pty
import subprocess
import xml.dom.minidom

import pytest
import servers
from test_bench import FAULT, USAGE, Scripted, Trivial, bench, measured, refused, wrapped

HEAD = b"HTTP/1.1 200 OK\r\n"
BODY = b"Content-Length: 2\r\n\r\n{}"
SHORT = ("--rate", 100, "--arrivals", "constant", "--duration", "200ms", "--warmup", 0)


@pytest.mark.parametrize("answer", [
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + BODY,
    b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + HEAD + BODY,
    b"HTTP/1.1 204 No Content\r\n\r\n",
    HEAD + b"X: " + b"a" * 8000 + b"\r\n" + BODY,
    HEAD + b"".join(b"X-%d: %s\r\n" % (i, b"b" * 100) for i in range(500)) + BODY,
])
def test_answers_that_are_odd_and_right(answer):
    with Scripted(lambda n, request: answer) as server:
        result = measured(server.url + "/a/b?c=d&e=f", *SHORT)
        assert result["answered"] == 20 and result["failed_requests"] == 0 and result["connections_opened"] <= 20
        assert all(head.startswith(b"POST /a/b?c=d&e=f HTTP/1.1\r\n") for head, _ in server.requests)


@pytest.mark.parametrize("answer, said", [
    (HEAD + b"X: " + b"a" * 9000 + b"\r\n" + BODY, "a line of it over 8192"),
    (HEAD + b"X: y\r\n" * 12000 + BODY, "the answer's head is over 65536 bytes"),
    (HEAD + b"Content-Length: -2\r\n\r\n{}", "a Content-Length that is no number"),
    (HEAD + BODY + b"more", "bytes behind it"),
    (b"HTTP/1.1 301 Moved\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", "answered HTTP 301; are --path"),
])
def test_answers_that_are_wrong(answer, said):
    with Scripted(lambda n, request: answer) as server:
        assert said in refused(FAULT, server.url, *SHORT)


@pytest.mark.parametrize("content, said", [
    (b"word " * 300000, "line 1: longer than 1048576 bytes"),
    (b"good\n\xff\xfe\n", "line 2: not UTF-8"),
    (b"one\n\ntwo\n", "line 2: the line is empty"),
    (b"a\0b\n", "a NUL in it"),
    (b"\n", "line 1: the line is empty"),
])
def test_files_that_are_wrong(tmp_path, content, said):
    file = tmp_path / "texts.txt"
    file.write_bytes(content)
    with Trivial() as server:
        assert said in refused(USAGE, server.url, "--texts", file)
    with Trivial() as server:
        assert "Is a directory" in refused(FAULT, server.url, "--texts", tmp_path)


def on_a_terminal(*words):
    """Its standard error, which is a terminal."""
    main, other = pty.openpty()
    process = subprocess.Popen(wrapped(servers.binary(), "bench", *words), stdout=subprocess.DEVNULL, stderr=other, stdin=subprocess.DEVNULL)
    os.close(other)
    seen = b""
    try:
        while piece := os.read(main, 65536):
            seen += piece
    except OSError:  # the other end is closed
        pass
    os.close(main)
    return process.wait(60), seen.decode()


def test_progress_on_a_terminal_and_nowhere_else():
    with Trivial() as server:
        code, seen = on_a_terminal(server.url, "--rate", 50, "--duration", 1, "--warmup", "300ms")
        assert code == 0 and "load: warm-up 0." in seen and "/1 s  sent " in seen and "in flight" in seen
        assert seen.endswith("\r\x1b[K")  # the line is taken away again
        assert on_a_terminal(server.url, *SHORT, "--quiet") == (0, "")
        assert bench(server.url, *SHORT).stderr == ""


def test_a_search_that_nothing_broke_says_so():
    with Trivial() as server:
        out = bench(server.url, "--rate", 100, *SHORT[2:], "--find-rate", "p50=10s", "--max-rounds",
                    5).stdout
        assert "holds p50=10s; none that was tried broke it" in out


def test_a_page_of_a_partial_run_says_so(tmp_path):
    page = tmp_path / "page.html"
    ok = HEAD + BODY
    with Scripted(lambda n, request: ok if n < 20 else b"") as server:
        done = bench(server.url, "--rate", 100, "--duration", 20, "--warmup", 0, "--give-up", "300ms", "--html", page,
                     "--json", "-")
    assert done.returncode == FAULT
    result = json.loads(done.stdout)
    assert result["partial"] and result["answered"] >= 19 and "no answer for" in result["partial_reason"]
    text = page.read_text()
    assert "artial" in text and "no answer for" in text
    for svg in text.split("<svg")[1:]:
        xml.dom.minidom.parseString("<svg" + svg.split("</svg>")[0] + "</svg>")
