"""SIGTERM: what was accepted is answered, what is new is not begun, and the program ends in time."""

import threading
import time

from wire import Connection, eventually, get, post


def job(queue_ms, run_ms, n=1):
    return post("/predict", f"[{queue_ms}, {run_ms}, {n}]")


def in_flight(server, n):
    assert eventually(lambda: server.counters()["slots_used"] == n)


def test_the_waiting_are_answered(start_slow):
    server = start_slow()
    waiting = [server.connect().send(job(400, 100, 3)) for _ in range(20)]
    in_flight(server, 20)
    begin = time.monotonic()
    server.terminate()
    answers = [c.read() for c in waiting]
    assert [r.status for r in answers] == [200] * 20
    assert {r.header("Connection").lower() for r in answers} == {"close"}
    counters = server.last_counters()
    assert time.monotonic() - begin < 3
    assert counters["accepted"] == counters["answered"] == 20
    assert counters["slots_used"] == counters["connections_open"] == 0


def test_a_body_under_way_is_read_to_its_end(start_slow):
    server = start_slow()
    with server.connect() as c:
        c.send(post("/predict", b"[0, ", length=9))
        in_flight(server, 1)
        server.terminate()
        time.sleep(0.3)
        assert c.send(b"0, 1]").read().status == 200
    assert server.last_counters()["answered"] == 1


def test_the_drain_time_has_an_end(start_slow):
    server = start_slow(drain_timeout_ms=300)
    queued = server.connect().send(job(60000, 0))
    running = server.connect().send(job(0, 700))
    reading = server.connect().send(post("/predict", b"[0", length=9))
    in_flight(server, 3)
    begin = time.monotonic()
    server.terminate()
    queued.read().check_error(503, "shutting down")
    reading.read().check_error(503, "shutting down")
    assert running.read().status in (200, 503)  # it had begun: awaited
    counters = server.last_counters()
    assert 0.3 <= time.monotonic() - begin < 3
    assert counters["accepted"] == 3 and counters["slots_used"] == 0
    server.check_sum(counters)


def test_idle_and_new_connections_do_not_hold_it(start_slow):
    server = start_slow()
    with server.connect() as idle, server.connect():
        assert idle.send(get("/health")).read().status == 200
        begin = time.monotonic()
        server.terminate()
        server.last_counters()
        assert time.monotonic() - begin < 2


def hammer(port, results, body):
    """One client with keep-alive, until the server lets it go: (sent, answered, cut)."""
    sent = answered = cut = 0
    try:
        while True:
            with Connection(port) as c:
                while True:
                    c.send(body)
                    sent += 1
                    response = c.read()
                    if response is None:
                        cut += 1
                        break
                    assert response.status == 200, response.body
                    answered += 1
                    if (response.header("Connection") or "").lower() == "close":
                        break
    except OSError:  # nobody listens any more
        pass
    results.append((sent, answered, cut))


def drain_under_load(server, body):
    results = []
    threads = [threading.Thread(target=hammer, args=(server.port, results, body)) for _ in range(8)]
    for t in threads:
        t.start()
    time.sleep(1)
    server.terminate()
    for t in threads:
        t.join(20)
    assert len(results) == 8
    return [sum(column) for column in zip(*results)]


def test_under_load_slow_batcher(start_slow):
    server = start_slow()
    sent, answered, cut = drain_under_load(server, job(3, 3, 2))
    counters = server.last_counters()
    assert sent == answered and cut == 0
    assert counters["accepted"] == counters["answered"] == answered > 100


def test_under_load_berth(start_berth):
    server = start_berth()
    sent, answered, cut = drain_under_load(server, post("/predict", '{"inputs":"a berth for the night"}'))
    server.finish()
    assert sent == answered > 100 and cut == 0
