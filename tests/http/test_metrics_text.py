"""The metrics as another parser reads them: Prometheus' own client library."""

import json

import prometheus_client.parser

from wire import eventually, get, post


def scrape(server):
    response = server.ask(get("/metrics"))
    assert response.status == 200
    assert response.header("Content-Type").startswith("text/plain; version=0.0.4")
    families = list(prometheus_client.parser.text_string_to_metric_families(response.body.decode()))
    assert len({f.name for f in families}) == len(families)
    return families


def value(families, name, **labels):
    names = (name, name + "_total")  # the parser gives counters that ending where they have none
    found = [s.value for f in families for s in f.samples if s.name in names and s.labels == labels]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def ask(server, path, inputs):
    return server.ask(post(path, json.dumps({"inputs": inputs})))


def predict(server, inputs):
    response = ask(server, "/predict", inputs)
    assert response.status == 200, response.body


def test_every_family_is_typed_and_explained(shared_berth):
    for family in scrape(shared_berth):
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert family.documentation, family.name
        assert family.samples or family.name == "berth_errors", family.name


def test_histograms_are_cumulative(shared_berth):
    predict(shared_berth, "a film")
    n_seen = 0
    for family in scrape(shared_berth):
        if family.type != "histogram":
            continue
        series = {}
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k != "le"}
            part = series.setdefault(tuple(sorted(labels.items())), {"buckets": []})
            if sample.name.endswith("_bucket"):
                part["buckets"].append((float(sample.labels["le"]), sample.value))
            else:
                part[sample.name.removeprefix(family.name)] = sample.value
        for part in series.values():
            bounds = [b for b, _ in part["buckets"]]
            counts = [c for _, c in part["buckets"]]
            assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
            assert counts == sorted(counts) and counts[-1] == part["_count"]
            assert part["_sum"] >= 0
            n_seen += part["_count"] > 0
    assert n_seen > 0


def test_counters_follow_what_happens(start_berth):
    server = start_berth()
    before = scrape(server)
    predict(server, "a good film")
    predict(server, [["a"], ["good", "film"], ["bad"]])
    assert ask(server, "/predict", 3).status == 422
    assert ask(server, "/tokenize", "a").status == 200
    assert eventually(lambda: server.counters()["slots_used"] == 0)  # counted when the answer has left
    after = scrape(server)

    def rise(name, **labels):
        return value(after, name, **labels) - value(before, name, **labels)

    assert rise("berth_requests_total", route="predict", code="2xx") == 2
    assert rise("berth_requests_total", route="predict", code="4xx") == 1
    assert rise("berth_requests_total", route="tokenize", code="2xx") == 1
    assert value(after, "berth_errors_total", code="422") == 1
    assert rise("berth_jobs_total", outcome="done") == 4
    assert rise("berth_input_tokens_count") == 4
    assert rise("berth_requests_accepted_total") == 4
    assert rise("berth_requests_answered_total") == 3
    assert rise("berth_requests_refused_total") == 1
    assert rise("te_request_count", method="predict") == 3
    assert rise("te_request_success", method="predict") == 2
    assert rise("te_request_failure", err="validation") == 1
    assert rise("berth_tokens_total") == rise("berth_input_tokens_sum")
    assert rise("berth_rows_total") >= rise("berth_tokens_total")
    assert value(after, "berth_ready") == 1
    assert value(after, "process_resident_memory_bytes") > 0


def test_the_stages_add_up(shared_berth):
    predict(shared_berth, "a film")
    families = scrape(shared_berth)
    stages = [s for f in families for s in f.samples if s.name == "berth_stage_seconds_sum"]
    assert abs(sum(s.value for s in stages) - value(families, "berth_request_seconds_sum")) < 1e-6
