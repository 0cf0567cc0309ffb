"""Requests that two parsers might read differently are refused, and nothing after them is believed."""

import pytest

from wire import get, post, post_chunked

SMUGGLED = get("/health", "X-Request-Id: smuggled")


def head(*lines, start="POST /tokenize HTTP/1.1", host="Host: test"):
    lines = [start, *([host] if host else []), "Content-Type: application/json", *lines]
    return "\r\n".join(lines) + "\r\n\r\n"


CHUNKED_BODY = "2\r\n{}\r\n0\r\n\r\n"
VECTORS = {
    "length and coding": head("Content-Length: 2", "Transfer-Encoding: chunked") + CHUNKED_BODY,
    "coding and length": head("Transfer-Encoding: chunked", "Content-Length: 2") + CHUNKED_BODY,
    "two lengths": head("Content-Length: 2", "Content-Length: 3") + "{} ",
    "one length twice": head("Content-Length: 2", "Content-Length: 2") + "{}",
    "space after a name": head("Transfer-Encoding : chunked") + CHUNKED_BODY,
    "space before a name": head(" Transfer-Encoding: chunked", "Content-Length: 2") + "{}",
    "folded length": head("Content-Length:\r\n 2") + "{}",
    "folded coding": head("Transfer-Encoding:\r\n chunked") + CHUNKED_BODY,
    "unknown coding": head("Transfer-Encoding: xchunked") + CHUNKED_BODY,
    "coding before chunked": head("Transfer-Encoding: gzip, chunked") + CHUNKED_BODY,
    "coding twice": head("Transfer-Encoding: chunked", "Transfer-Encoding: identity") + CHUNKED_BODY,
    "empty coding": head("Transfer-Encoding:", "Content-Length: 2") + "{}",
    "no host": head("Content-Length: 2", host=None) + "{}",
    "two hosts": head("Host: other", "Content-Length: 2") + "{}",
    "two content types": head("Content-Type: text/plain", "Content-Length: 2") + "{}",
    "coding in HTTP/1.0": head("Transfer-Encoding: chunked", start="POST /tokenize HTTP/1.0") + CHUNKED_BODY,
    "unknown version": head("Content-Length: 2", start="POST /tokenize HTTP/1.7") + "{}",
    "not a name": head("X Y: z", "Content-Length: 2") + "{}",
    "get without a host": "GET /health HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", VECTORS)
def test_refused_and_closed(server, name):
    with server.connect() as c:
        c.send(VECTORS[name]).send(SMUGGLED)
        c.read().check_error(400)
        assert c.is_closed()


@pytest.mark.parametrize("length", ["-1", "+3", "0x3", "2, 2", "2 2", "", "99999999999999999999"])
def test_what_is_no_length_closes(server, length):
    """The library answers some of these by itself, without a body of ours."""
    with server.connect() as c:
        c.send(head(f"Content-Length: {length}") + "{}").send(SMUGGLED)
        response = c.read(head_only=True)
        assert response.status in (400, 413)
        assert b"smuggled" not in c.rest
        assert response.header("X-Request-Id") != "smuggled"


def test_nul_in_a_value_ends_nothing_but_the_value(server):
    with server.connect() as c:
        c.send(b"GET /health HTTP/1.1\r\nHost: test\r\nX-Request-Id: a\0b\r\n\r\n")
        response = c.read()
        assert response is None or b"\0" not in response.body
    assert server.ask(get("/health")).status == 200


@pytest.mark.parametrize("junk", [b"\r\n\r\n\r\n", b"\0" * 1000, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" * 50])
def test_junk_does_not_stop_the_server(server, junk):
    with server.connect() as c:
        c.send(junk)
        c.socket.shutdown(1)
        c.is_closed(0.3)
    assert server.ask(get("/health")).status == 200


def test_the_largest_headers(server):
    """What is far beyond max_header_bytes is refused by the library, in words of its own."""
    assert server.ask(get("/health", "X-Long: " + "x" * 16000)).status == 200
    for request in (get("/health", "X-Long: " + "x" * 17000), get("/health?" + "x" * 17000)):
        with server.connect() as c:
            c.send(request)
            response = c.read()
            assert response.status == 431 and response.json()["error_type"] == "HeadersTooLarge"
            assert c.is_closed()
    with server.connect() as c:
        c.send(get("/health", "X-Long: " + "x" * 600000))
        assert c.read(head_only=True).status == 431


def test_chunks_of_every_size(server):
    body = b'{"inputs":"' + b"a" * 300 + b'"}'
    for size in (1, 7, 64, len(body)):
        chunks = [body[i : i + size] for i in range(0, len(body), size)]
        assert server.ask(post_chunked("/tokenize", *chunks)).status == 200


def test_a_body_that_comes_byte_by_byte(server):
    with server.connect() as c:
        for byte in post("/tokenize", '{"inputs":"slowly"}'):
            c.send(bytes([byte]))
        assert c.read().status == 200
