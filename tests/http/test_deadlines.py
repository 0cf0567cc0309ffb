"""Deadlines and priorities from headers, refusals that say when to come again, and a server that is asked for too much."""

import json
import threading
import time

import pytest

from wire import eventually, get, post


def job(queue_ms, run_ms, n=1, *headers):
    return post("/predict", f"[{queue_ms}, {run_ms}, {n}]", *headers)


def settled(server, **wanted):
    assert eventually(lambda: all(server.counters()[k] == v for k, v in wanted.items())), server.counters()
    server.check_sum(server.counters())


@pytest.mark.parametrize("value", ["", "0", "-5", "5.0", "1e3", "abc", "5ms", "0x10", "3600001", "9" * 30])
def test_a_deadline_is_a_number(start_slow, value):
    server = start_slow()
    server.ask(job(0, 0, 1, f"Berth-Deadline-Ms: {value}")).check_error(400, "Berth-Deadline-Ms")


@pytest.mark.parametrize("value", ["", "urgent", "HIGH", "1", "high, low"])
def test_a_priority_is_a_word(start_slow, value):
    server = start_slow()
    server.ask(job(0, 0, 1, f"Berth-Priority: {value}")).check_error(400, "Berth-Priority")
    for good in ("high", "normal", "low"):
        assert server.ask(job(0, 0, 1, f"Berth-Priority: {good}")).status == 200


def test_two_of_either_are_no_request(start_slow):
    server = start_slow()
    for name, value in (("Berth-Deadline-Ms", "50"), ("Berth-Priority", "low")):
        server.ask(job(0, 0, 1, f"{name}: {value}", f"{name}: {value}")).check_error(400, name)


def test_a_deadline_that_is_kept(start_slow):
    server = start_slow()
    assert server.ask(job(10, 10, 2, "Berth-Deadline-Ms: 5000")).status == 200


@pytest.mark.parametrize(("allowed_ms", "way_ms"), [(128, 4), (5000, 5)])
def test_a_result_is_due_before_its_answer(start_slow, allowed_ms, way_ms):
    """What would be done just in time is not computed: its answer would come too late."""
    for server, header in ((start_slow(), [f"Berth-Deadline-Ms: {allowed_ms}"]), (start_slow(request_timeout_ms=allowed_ms), [])):
        left_ms = server.ask(job(0, 0, 1, *header)).json()["left_us"] / 1e3
        assert allowed_ms * 0.5 < left_ms <= allowed_ms - way_ms


def test_a_deadline_in_the_queue(start_slow):
    server = start_slow()
    begin = time.monotonic()
    response = server.ask(job(60000, 0, 2, "Berth-Deadline-Ms: 200")).check_error(504, "Berth-Deadline-Ms")
    assert 0.15 < time.monotonic() - begin < 2 and response.header("Connection") != "close"
    settled(server, expired=1, jobs_expired=2, wasted_expired=0, slots_used=0)


def test_a_deadline_beyond_the_servers_own(start_slow):
    server = start_slow(request_timeout_ms=200)
    server.ask(job(60000, 0, 1, "Berth-Deadline-Ms: 60000")).check_error(504, "request_timeout_ms")


def test_a_deadline_while_running_is_counted_as_waste(start_slow):
    server = start_slow()
    server.ask(job(0, 400, 2, "Berth-Deadline-Ms: 100")).check_error(504)
    settled(server, expired=1, jobs_expired=0, wasted_expired=2, slots_used=0)


def test_a_deadline_counts_from_the_headers(start_slow):
    """A body that comes late is told so, and never becomes a job."""
    server = start_slow()
    with server.connect() as c:
        begin = time.monotonic()
        c.send(post("/predict", b"[0", "Berth-Deadline-Ms: 200", length=9))
        c.read().check_error(504, "Berth-Deadline-Ms")
        assert 0.15 < time.monotonic() - begin < 2
    settled(server, expired=1, slots_used=0)


@pytest.mark.parametrize(("times", "limit", "words"), [((-1200, 0), 1, ["predicted"]), ((0, -1200), 0, ["queue is full"])])
def test_refusals_say_when_to_come_again(start_slow, times, limit, words):
    server = start_slow()
    with server.connect() as c:
        response = c.send(job(*times)).read().check_error(429, *words)
        assert (response.header("Retry-After"), response.header("Retry-After-Ms")) == ("2", "1200")
        assert response.json()["error_type"] == "Overloaded"
        assert c.send(job(0, 0)).read().status == 200  # the connection goes on
    settled(server, refused=1, answered=1, slots_used=0)
    assert server.counters()["limited"][limit] == 1


def test_no_slot_says_when_to_come_again(start_slow):
    server = start_slow(max_concurrent_requests=1)
    waiting = server.connect().send(job(300, 0))
    settled(server, slots_used=1)
    response = server.ask(job(0, 0)).check_error(429, "max_concurrent_requests")
    assert (response.header("Retry-After"), response.header("Retry-After-Ms")) == ("2", "1700")
    assert waiting.read().status == 200
    assert server.counters()["limited"][3] == 1


def test_hang_ups_are_noticed_at_once(start_slow):
    """Half of many clients leave while their jobs wait: all of these come back, none is computed."""
    server = start_slow()
    clients = [server.connect().send(job(2500, 10, 4)) for _ in range(40)]
    settled(server, slots_used=40)
    begin = time.monotonic()
    for i, c in enumerate(clients[::2]):
        c.reset() if i % 2 else c.socket.close()
    settled(server, cancelled=20, jobs_cancelled=80, slots_used=20)
    assert time.monotonic() - begin < 2  # long before their turn
    assert [c.read().status for c in clients[1::2]] == [200] * 20
    settled(server, answered=20, wasted_cancelled=0, slots_used=0)


# What follows asks the whole program, on the slowest backend, so that a few clients are too many.
LONG = json.dumps({"inputs": "night " * 500, "truncate": True})


class Client(threading.Thread):
    """Asks again and again until told to stop, whatever the answer."""

    def __init__(self, server, stop, *headers):
        super().__init__()
        self.server, self.stop, self.headers, self.answers = server, stop, headers, []

    def run(self):
        c = self.server.connect()
        while not self.stop.is_set():
            begin = time.monotonic()
            response = c.send(post("/predict", LONG, *self.headers)).read()
            self.answers.append((response.status, time.monotonic() - begin, response))
            if response.header("Connection") == "close":  # the deadline passed before the body was there
                c.socket.close()
                c = self.server.connect()
        c.socket.close()


def overload(server, n, seconds, *headers):
    stop = threading.Event()
    clients = [Client(server, stop, *headers) for _ in range(n)]
    for c in clients:
        c.start()
    time.sleep(seconds)
    stop.set()
    for c in clients:
        c.join(30)
        assert not c.is_alive()
    return [a for c in clients for a in c.answers]


def median(values):
    return sorted(values)[len(values) // 2]


def test_too_much_is_refused_quickly_and_counted(start_berth):
    server = start_berth("--compute.device", "reference", "--max_queued_jobs", "4", "--max_client_batch_size", "4")
    answers = overload(server, 16, 1.5)
    times = {status: [t for s, t, _ in answers if s == status] for status in (200, 429)}
    assert {s for s, _, _ in answers} == {200, 429}
    assert median(times[429]) < median(times[200]) / 2
    for _, _, response in (a for a in answers if a[0] == 429):
        assert int(response.header("Retry-After")) >= 1 and int(response.header("Retry-After-Ms")) >= 1
    assert eventually(lambda: server.counters()["slots_used"] == 0)
    counters = server.counters()
    server.check_sum(counters)
    assert (counters["answered"], counters["refused"]) == (len(times[200]), len(times[429]))
    text = server.ask(get("/metrics")).body.decode()
    assert server.value(text, r'berth_limited_total\{limit="queue"\}') == len(times[429])
    assert server.ask(post("/predict", LONG)).status == 200  # and it goes on


def jobs(server):
    text = server.ask(get("/metrics")).body.decode()
    names = {"done": r'berth_jobs_total\{outcome="done"\}', "limited": r'berth_limited_total\{limit="deadline"\}'}
    names["wasted"] = r'berth_wasted_jobs_total\{reason="expired"\}'
    return {key: server.value(text, name) for key, name in names.items()}


def test_what_cannot_be_in_time_is_refused_and_never_computed(start_berth):
    server = start_berth("--compute.device", "reference")
    alone = overload(server, 1, 0.5)  # what a pass takes is known then
    ms = max(5, int(4000 * median([t for _, t, _ in alone])))
    before = jobs(server)
    answers = overload(server, 16, 1.5, f"Berth-Deadline-Ms: {ms}")
    statuses = [s for s, _, _ in answers]
    assert set(statuses) <= {200, 429, 504} and 200 in statuses and 429 in statuses
    assert eventually(lambda: server.counters()["slots_used"] == 0)
    server.check_sum(server.counters())
    rise = {key: value - before[key] for key, value in jobs(server).items()}
    assert rise["limited"] == statuses.count(429)
    assert rise["done"] - rise["wasted"] == statuses.count(200)
    assert rise["wasted"] <= statuses.count(504)
