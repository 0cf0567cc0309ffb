"""Methods, paths, types, lengths, ids, and what a connection is kept for."""

import pytest

from wire import get, post, post_chunked

BODY = '{"inputs":"a berth for the night"}'


def test_keep_alive(server):
    with server.connect() as c:
        for _ in range(3):
            assert c.send(post("/tokenize", BODY)).read().status == 200
            assert c.send(get("/health")).read().status == 200


def test_an_error_of_the_body_keeps_the_connection(server):
    with server.connect() as c:
        response = c.send(post("/predict", '{"inputs":')).read()
        assert response.status in (400, 422)
        response.check_error(response.status)
        assert c.send(get("/health")).read().status == 200


def test_pipelining(server):
    with server.connect() as c:
        ids = [f"id-{i}" for i in range(8)]
        c.send(b"".join(post("/tokenize", BODY, f"X-Request-Id: {i}") for i in ids))
        assert [c.read().header("X-Request-Id") for _ in ids] == ids


def test_head(server):
    with server.connect() as c:
        c.send(get("/health", method="HEAD")).send(get("/health"))
        head, whole = c.read(head_only=True), c.read()
        assert head.status == whole.status == 200
        assert head.header("Content-Length") == whole.header("Content-Length") == str(len(whole.body))
        assert len(whole.body) > 0


def test_http_1_0(server):
    with server.connect() as c:
        c.send("GET /health HTTP/1.0\r\n\r\n")
        assert c.read().status == 200
        assert c.is_closed()


def test_connection_close(server):
    with server.connect() as c:
        assert c.send(post("/tokenize", BODY, "Connection: close")).read().status == 200
        assert c.is_closed()


def test_expect_100_continue(server):
    with server.connect() as c:
        c.send(post("/tokenize", b"", "Expect: 100-continue", length=len(BODY)))
        assert c.read().status == 100
        assert c.send(BODY).read().status == 200


def test_expect_is_refused_before_the_body(server):
    with server.connect() as c:
        c.send(post("/tokenize", b"", "Expect: 100-continue", length=1 << 40))
        c.read().check_error(413)


@pytest.mark.parametrize("path", ["/nothing", "/predict/", "/PREDICT", "/predict/../health", "//", "/%00"])
def test_unknown_path(server, path):
    server.ask(get(path)).check_error(404)


@pytest.mark.parametrize(
    "method, path, allowed",
    [("GET", "/predict", "POST"), ("DELETE", "/predict", "POST"), ("OPTIONS", "/tokenize", "POST"),
     ("POST", "/health", "GET, HEAD"), ("BREW", "/metrics", "GET, HEAD")],
)
def test_other_method(server, method, path, allowed):
    response = server.ask(get(path, "Content-Length: 0", method=method)).check_error(405)
    assert set(allowed.split(", ")) <= set(response.header("Allow").split(", "))


def test_a_query_string_is_no_part_of_the_path(server):
    assert server.ask(get("/health?verbose=1")).status == 200


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]
)
def test_wrong_content_type(server, content_type):
    server.ask(post("/tokenize", BODY, content_type=content_type)).check_error(415, "application/json")


@pytest.mark.parametrize("content_type", ["application/json;charset=UTF-8", 'Application/Json; charset="utf-8"'])
def test_right_content_type(server, content_type):
    assert server.ask(post("/tokenize", BODY, content_type=content_type)).status == 200


def test_no_length(server):
    with server.connect() as c:
        c.send("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n")
        c.read().check_error(411)


def test_100_mb_are_refused_unread(server):
    with server.connect() as c:
        c.send(post("/tokenize", b"{", length=100 << 20))
        c.read().check_error(413, str(100 << 20))
        assert c.is_closed()


def test_a_large_upload_gets_its_answer_while_it_is_sent(server):
    """A client that reads only after it has sent: the server's buffers must not be in its way."""
    with server.connect() as c:
        try:
            c.send(post("/tokenize", b" " * (20 << 20), length=100 << 20))
        except (BrokenPipeError, ConnectionResetError):
            pass
        else:
            assert c.read().status == 413
    assert server.ask(get("/health")).status == 200


def test_a_body_on_a_get_is_not_in_the_way(server):
    with server.connect() as c:
        c.send(get("/health", "Content-Length: 5") + b"12345").send(get("/health"))
        assert c.read().status == c.read().status == 200


@pytest.mark.parametrize("wanted", ["abc-123", "x" * 64, "a/b:c;d=e"])
def test_request_id_is_kept(server, wanted):
    assert server.ask(get("/health", f"X-Request-Id: {wanted}")).header("X-Request-Id") == wanted
    response = server.ask(get("/nothing", f"X-Request-Id: {wanted}")).check_error(404)
    assert response.json()["request_id"] == wanted


@pytest.mark.parametrize("wanted", ["", "x" * 65, "a b", 'a"b', "a\\b", "\xe9"])
def test_request_id_is_made(server, wanted):
    got = server.ask(get("/health", f"X-Request-Id: {wanted}")).header("X-Request-Id")
    assert got != wanted and len(got) == 32


def test_empty_body(server):
    response = server.ask(post("/predict", b""))
    assert response.status in (400, 422)
    response.check_error(response.status)


def test_chunked_body_without_an_end_is_bounded(shared_slow):
    """64 KiB are the limit there: a little more is told, far more is cut off."""
    limit = 1 << 16
    assert shared_slow.ask(post_chunked("/tokenize", b" " * limit)).status == 200
    with shared_slow.connect() as c:
        c.send(post_chunked("/tokenize", b" " * limit, b" "))
        c.read().check_error(413, str(limit))
        assert c.send(get("/health")).read().status == 200  # the body was whole: nothing is lost
    with shared_slow.connect() as c:
        try:
            c.send(post_chunked("/tokenize", b" " * limit, b" " * (4 << 20)))
            assert c.is_closed()
        except (BrokenPipeError, ConnectionResetError):
            pass
    shared_slow.check_sum(shared_slow.counters())
