"""Inputs that fail by themselves: with "partial" their errors stand in their places, without it the request is refused."""

import json

import pytest

from wire import eventually, get, post


def predict(server, inputs, *headers, **fields):
    return server.ask(post("/predict", json.dumps({"inputs": inputs, **fields}), *headers))


LONG = "night " * 5000


def check_item(item, error_type, *words):
    assert set(item) == {"error", "error_type"} and item["error_type"] == error_type
    for word in words:
        assert word in item["error"]


def test_errors_stand_in_their_places(shared_berth):
    inputs = [["good"], [""], [LONG], ["bad", "pair"], []]
    whole = predict(shared_berth, [["good"], ["bad", "pair"]]).json()
    response = predict(shared_berth, inputs, partial=True, truncate=False)
    assert response.status == 200
    labels = response.json()
    assert len(labels) == 5 and [labels[0], labels[3]] == whole
    check_item(labels[1], "Empty", "inputs[1]")
    check_item(labels[2], "Validation", "inputs[2]", "limit")
    check_item(labels[4], "Empty", "inputs[4]")
    assert "jobs=2" in response.header("Berth-Batch")
    assert int(response.header("x-compute-tokens")) < 20


def test_without_partial_it_is_refused_whole(shared_berth):
    for partial in ({}, {"partial": False}, {"partial": None}):
        predict(shared_berth, [["good"], [""]], **partial).check_error(400, "inputs[1]")
        predict(shared_berth, [["good"], [LONG]], truncate=False, **partial).check_error(422, "inputs[1]")


def test_nothing_but_errors(shared_berth):
    response = predict(shared_berth, [[""], [LONG]], partial=True, truncate=False)
    assert response.status == 200 and response.header("Server-Timing")
    for item, error_type in zip(response.json(), ("Empty", "Validation"), strict=True):
        check_item(item, error_type)
    single = predict(shared_berth, "", partial=True)
    assert single.status == 200
    check_item(single.json(), "Empty", "inputs")


@pytest.mark.parametrize(
    ("inputs", "status"),
    [([], 400), ([["a"], [1]], 422), ([["a"], ["b", "c", "d"]], 422), ([["a"]] * 5000, 422), (None, 422)],
)
def test_what_is_wrong_with_the_request_refuses_it(shared_berth, inputs, status):
    predict(shared_berth, inputs, partial=True).check_error(status)


def test_partial_is_a_flag(shared_berth):
    predict(shared_berth, "a", partial="yes").check_error(422, "partial")


def test_what_is_cut_is_told_of_the_right_inputs(shared_berth):
    response = predict(shared_berth, [[""], [LONG], ["a"]], partial=True, truncate=True)
    assert response.header("Berth-Truncated").startswith("inputs=1, ")
    labels = response.json()
    check_item(labels[0], "Empty")
    assert labels[1][0]["label"] and labels[2][0]["label"]


def test_a_list_that_expires_on_the_way(start_berth):
    """What was computed by the deadline is answered, what was not has its error."""
    server = start_berth("--compute.device", "reference", "--max_batch_requests", "1")
    inputs = [["night " * 500]] * 32
    for ms in (20, 40, 80, 160, 320, 640):
        response = predict(server, inputs, f"Berth-Deadline-Ms: {ms}", partial=True, truncate=True)
        if response.status == 200:
            labels = response.json()
            late = [item for item in labels if isinstance(item, dict)]
            for item in late:
                check_item(item, "Timeout", "deadline")
            if late and len(late) < len(labels):
                break
        else:
            assert response.status in (429, 504), response.body  # refused whole: too late from the start
    assert eventually(lambda: server.counters()["slots_used"] == 0)
    server.check_sum(server.counters())
    text = server.ask(get("/metrics")).body.decode()
    assert server.value(text, r'berth_jobs_total\{outcome="failed"\}') == 0
