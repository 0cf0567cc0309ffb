"""Slow clients, clients that leave, deadlines, and more clients than there is room for."""

import time

import pytest

from wire import eventually, get, post


def job(queue_ms, run_ms, n=1, *headers):
    return post("/predict", f"[{queue_ms}, {run_ms}, {n}]", *headers)


def settled(server, **wanted):
    """Waits until the counters are as wanted, then checks that they add up."""
    assert eventually(lambda: all(server.counters()[k] == v for k, v in wanted.items())), server.counters()
    server.check_sum(server.counters())


def test_slow_headers(start_slow):
    server = start_slow(read_timeout_ms=400)
    begin = time.monotonic()
    with server.connect() as silent, server.connect() as dripping:
        closed = False
        for byte in get("/health", "X-Long: " + "x" * 1000):
            try:
                dripping.send(bytes([byte]))
                time.sleep(0.02)
            except (BrokenPipeError, ConnectionResetError):
                closed = True
                break
        assert closed and 0.3 < time.monotonic() - begin < 2
        assert silent.is_closed(1)


def test_slow_headers_of_a_later_request(start_slow):
    server = start_slow(read_timeout_ms=400)
    with server.connect() as c:
        assert c.send(get("/health")).read().status == 200
        time.sleep(0.6)  # between requests the idle timeout holds, not this one
        assert c.send(get("/health")).read().status == 200
        c.send("GET /health HTTP/1.1\r\nHost: te")
        assert c.is_closed(2)


def test_idle_connections_are_closed(start_slow):
    server = start_slow(idle_timeout_s=1)
    with server.connect() as c:
        assert c.send(get("/health")).read().status == 200
        assert c.is_closed(4)


def test_waiting_for_an_answer_is_not_idle(start_slow):
    server = start_slow(idle_timeout_s=1)
    with server.connect() as c:
        assert c.send(job(1800, 500)).read().status == 200
        assert c.send(get("/health")).read().status == 200


def test_slow_body(start_slow):
    server = start_slow(read_timeout_ms=300)
    with server.connect() as c:
        c.send(post("/tokenize", b'{"in', "X-Request-Id: slow-1", length=100))
        begin = time.monotonic()
        response = c.read().check_error(408, "read_timeout_ms")
        assert response.header("X-Request-Id") == "slow-1"
        assert 0.1 < time.monotonic() - begin < 2
        assert c.is_closed()
    settled(server, expired=1, slots_used=0)


def test_a_body_that_drips(start_slow):
    server = start_slow(read_timeout_ms=300)
    with server.connect() as c:
        c.send(post("/tokenize", b"", length=1000))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(200):
                c.send(b" ")
                time.sleep(0.02)
    settled(server, expired=1, slots_used=0)


def test_hang_up_in_the_body(start_slow):
    server = start_slow()
    with server.connect() as c:
        c.send(post("/tokenize", b'{"in', length=100))
        settled(server, accepted=1, slots_used=1)
    settled(server, cancelled=1, slots_used=0)


def test_hang_up_with_the_last_bytes(start_slow):
    """The end of the stream comes together with a part of the body: no slot is held until the deadline."""
    server = start_slow()
    for _ in range(40):
        server.connect().send(post("/tokenize", b'{"in', length=100)).socket.close()
    settled(server, cancelled=40, expired=0, slots_used=0)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_hang_up_while_queued(start_slow, how):
    server = start_slow()
    c = server.connect().send(job(60000, 0, 5))
    settled(server, slots_used=1)
    c.reset() if how == "reset" else c.socket.close()
    settled(server, cancelled=1, jobs_cancelled=5, slots_used=0, connections_open=1)


def test_hang_up_while_running(start_slow):
    server = start_slow()
    c = server.connect().send(job(0, 500, 3))
    settled(server, slots_used=1)
    time.sleep(0.1)
    c.socket.close()
    settled(server, slots_used=1, cancelled=0)  # the device cannot be stopped
    settled(server, cancelled=1, jobs_cancelled=0, wasted_cancelled=3, slots_used=0)


def test_hang_up_at_once(start_slow):
    server = start_slow()
    for _ in range(50):
        server.connect().send(job(5, 5)).socket.close()
    settled(server, slots_used=0, connections_open=1)
    assert server.counters()["cancelled"] > 0


def test_half_close(start_slow):
    for tolerate in (False, True):
        server = start_slow(tolerate_half_close=tolerate)
        with server.connect() as c:
            c.send(job(200, 0))
            settled(server, slots_used=1)
            c.socket.shutdown(1)
            response = c.read()
            assert (response.status if response else None) == (200 if tolerate else None)
        settled(server, answered=int(tolerate), cancelled=int(not tolerate), slots_used=0)


def test_deadline_in_the_queue(start_slow):
    server = start_slow(request_timeout_ms=200)
    begin = time.monotonic()
    response = server.ask(job(60000, 0, 2)).check_error(504, "request_timeout_ms")
    assert 0.15 < time.monotonic() - begin < 2
    assert response.header("Connection") != "close"
    settled(server, expired=1, jobs_expired=2, jobs_cancelled=0, wasted_expired=0, slots_used=0)


def test_deadline_while_running(start_slow):
    server = start_slow(request_timeout_ms=100)
    begin = time.monotonic()
    server.ask(job(0, 400)).check_error(504)
    assert time.monotonic() - begin > 0.35  # what runs is awaited
    settled(server, expired=1, jobs_expired=0, wasted_expired=1, slots_used=0)


def test_all_slots_in_use(start_slow):
    server = start_slow(max_concurrent_requests=3)
    waiting = [server.connect().send(job(300, 0)) for _ in range(3)]
    settled(server, slots_used=3)
    response = server.ask(job(0, 0)).check_error(429, "max_concurrent_requests")
    assert int(response.header("Retry-After")) > 0
    assert server.ask(get("/health")).status == 200
    assert [c.read().status for c in waiting] == [200] * 3
    assert server.ask(job(0, 0)).status == 200
    settled(server, accepted=4, answered=4, slots_used=0)


def test_all_connections_in_use(start_slow):
    server = start_slow(max_connections=4)
    held = [server.connect().send(get("/health")) for _ in range(4)]
    assert [c.read().status for c in held] == [200] * 4
    with server.connect() as c:
        response = c.send(job(0, 0)).read().check_error(503, "max_connections")
        assert int(response.header("Retry-After")) > 0
    assert server.ask(get("/health")).status == 200  # whoever watches the server still sees it
    held.pop().socket.close()
    assert eventually(lambda: server.counters()["connections_open"] == 4)
    assert held[0].send(job(0, 0)).read().status == 200


def test_far_more_connections_than_there_is_room_for(start_slow):
    server = start_slow(max_connections=4)
    many = [server.connect() for _ in range(400)]
    for c in many:
        try:
            c.send(job(0, 0))
        except (BrokenPipeError, ConnectionResetError):
            pass
    answers = [c.read() for c in many]  # none of them hangs
    assert sum(r is not None and r.status == 200 for r in answers) == 4
    assert {r.status for r in answers if r} == {200, 503}
    for c in many:
        c.socket.close()
    assert eventually(lambda: server.counters()["connections_open"] == 1)
    assert server.ask(job(0, 0)).status == 200


def test_while_the_model_is_loaded(start_slow):
    server = start_slow(loading=1)
    assert server.ask(get("/health")).status == 200
    response = server.ask(job(0, 0)).check_error(503, "loaded")
    assert int(response.header("Retry-After")) > 0
    assert server.counters()["accepted"] == 0


def test_pipelined_behind_a_waiting_request(start_slow):
    server = start_slow()
    with server.connect() as c:
        c.send(job(100, 0) + job(0, 0, 2) + get("/health"))
        assert [c.read().status for _ in range(3)] == [200] * 3
    settled(server, answered=2, slots_used=0)


def test_many_jobs_and_many_requests(start_slow):
    server = start_slow()
    clients = [server.connect() for _ in range(32)]
    for _ in range(5):
        for i, c in enumerate(clients):
            c.send(job(i % 3, i % 2, 1 + i % 7))
        assert [c.read().json()["ran"] for c in clients] == [1 + i % 7 for i in range(32)]
    settled(server, accepted=160, answered=160, slots_used=0)
