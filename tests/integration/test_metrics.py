#!/usr/bin/env python3
"""Every end of a request is counted once. One request for each finish reason and each error code of the contract goes
to a worker with two tenants; the whole page /metrics is read before and after. Exactly one series of
millrace_requests_finished_total must have grown, by one, and it must name reason, code, topic and tenant. A dead letter
must be counted if and only if the case has one. With twenty tenants the page must stay within its size limit. Every
metric in the alerts and the dashboard must be exported.

Needs the packages of docker/deps.sh test (confluent_kafka in .deps/python)."""

import contextlib
import json
import re

from embedded_rig import ROOT, Broker, Worker, confluent_kafka, wait_until

FINISHED = "millrace_requests_finished_total"
PAGE_BYTES_MAX = 1_000_000  # with 20 tenants

# No request can cause these: with --context-tokens 96 the engine never lacks memory, the model computes no NaN, and no
# part of this version returns `overloaded`. tests/unit/worker/metrics counts all pairs of reason and code.
UNREACHABLE = {"pool_exhausted", "error", "internal", "overloaded"}


def case(reason, code="", dead=False, topic="millrace.blue", headers=(), key=None, value=None, **fields):
    """A request, its end, and whether it becomes a dead letter."""
    return {"reason": reason, "code": code, "dead": dead, "topic": topic, "headers": list(headers), "key": key,
            "value": value, "fields": fields}


CASES = [
    case("eos", prompt_token_ids=[100, 200], logit_bias={"2": 100}, temperature=0),
    case("length", prompt="Once upon a time", max_tokens=3, ignore_eos=True),
    case("stop_token", prompt="x", stop_token_ids=list(range(3, 60)), allowed_token_ids=list(range(3, 60))),
    case("stop_string", prompt="One two three four", stop=["e", "a", " "], max_tokens=60),
    case("max_chars", prompt="Hello", max_chars=5, ignore_eos=True, max_tokens=60),
    case("low_confidence", prompt="Any word", min_confidence=0.999, temperature=0, max_tokens=60),
    case("context_full", prompt="One two", ignore_eos=True, max_tokens=4000),
    case("deadline", "deadline_exceeded", prompt="x", deadline_ms=1),
    case("deadline", "deadline_exceeded", prompt="x", headers=[("millrace-deadline", b"1000")]),
    case("deadline", "deadline_exceeded", topic="millrace.brief", prompt="x", ignore_eos=True, max_tokens=90),
    case("cancelled", "cancelled", key="gone", prompt="x"),
    case("rejected", "malformed", True, value=b"{not json"),
    case("rejected", "malformed", True, topic="millrace.red", value=b"{not json", key=""),
    case("rejected", "unsupported_encoding", True, headers=[("content-type", b"text/html")], prompt="x"),
    case("rejected", "record_too_large", True, prompt="x" * 70000),
    case("rejected", "invalid_request", True, prompt=7),
    case("rejected", "unknown_field", True, topic="millrace.red", prompt="x", surprise=1),
    case("rejected", "empty_prompt", prompt=""),
    case("rejected", "prompt_too_long", prompt="word " * 500),
    case("rejected", "invalid_token_id", prompt_token_ids=[10_000_000]),
    case("rejected", "model_not_found", prompt="x", model="another"),
    case("rejected", "unsupported_content", messages=[{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]),
    case("rejected", "unsupported", prompt="x", audio={"voice": "alloy", "format": "wav"}),
]


def ended(series):
    return sum(value for name, value in series.items() if name.startswith(FINISHED + "{"))


def grown(before, after):
    """The growth of the counter of ended requests between two pages."""
    names = [name for name in after if name.startswith(FINISHED + "{")]
    assert all(name in after for name in before if name.startswith(FINISHED)), "a series has vanished"
    return {name: after[name] - before.get(name, 0) for name in names if after[name] != before.get(name, 0)}


def labels_of(name):
    return dict(re.findall(r'(\w+)="([^"]*)"', name))


def check_end(worker, before, one, what):
    after = wait_until(what, lambda: (page := worker.series()) and ended(page) > ended(before) and page)
    counted = grown(before, after)
    tenant = {"millrace.red": "red", "millrace.blue": "blue", "millrace.brief": "blue"}[one["topic"]]
    want = {"reason": one["reason"], "code": one["code"], "topic": one["topic"], "tenant": tenant}
    assert [labels_of(name) for name in counted] == [want] and list(counted.values()) == [1], f"{what}: {counted}"
    letters = after["millrace_dead_letters_total"] - before["millrace_dead_letters_total"]
    assert letters == one["dead"], f"{what}: {letters} dead letters"
    histogram = f'millrace_e2e_request_latency_seconds_count{{topic="{one["topic"]}"}}'
    if one["reason"] == "rejected":
        assert after[histogram] == before.get(histogram, 0), f"{what}: a refused request is in the latencies"
    return after


def check_cases(broker, worker):
    page = worker.series()
    for number, one in enumerate(CASES):
        key = f"request-{number}" if one["key"] is None else one["key"]
        if one["code"] == "cancelled":
            broker.send("millrace.cancel", "x", key=key)
            wait_until("the cancel", lambda: worker.series()["millrace_cancels_total"] == 1)
        value = one["value"] or json.dumps({"stream": False, **one["fields"]})
        broker.send(one["topic"], value, key=key or None, headers=one["headers"])
        page = check_end(worker, page, one, f"{key} {one['reason']} {one['code']}")


def check_duplicates(broker, worker):
    """An identical record in flight, and a different record with an id in use."""
    long = json.dumps({"id": "twice", "prompt": "One two three", "ignore_eos": True, "n": 8, "max_tokens": 80})
    other = json.dumps({"id": "twice", "prompt": "Another"})
    before = worker.series()
    for value in (long, long, other):
        broker.send("millrace.blue", value, key="twice")
    after = wait_until("three ends", lambda: (page := worker.series()) and ended(page) >= ended(before) + 3 and page)
    counted = {(labels_of(name)["reason"], labels_of(name)["code"]): value for name, value in grown(before, after).items()}
    assert counted == {("length", ""): 1, ("duplicate", ""): 1, ("rejected", "duplicate_id"): 1}, counted


def check_poison(stack, broker, worker, options):
    """The worker of a request is killed, and the next worker answers the request. If it was answered before the kill,
    the test tries another request."""
    # The embedded broker answers a fetch at the end of its wait, 500 ms by default, and not when a record arrives.
    reader = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "t", "auto.offset.reset": "earliest",
                                       "fetch.wait.max.ms": 10})
    reader.assign([confluent_kafka.TopicPartition(topic, number, 0) for topic in ("millrace.tokens", "millrace.results")
                   for number in reader.list_topics(topic, 10).topics[topic].partitions])
    stack.callback(reader.close)

    seen = {}

    def record_of(key, topic):
        record = reader.poll(0.1)
        if record is not None and not record.error():
            seen[record.key(), record.topic()] = record
        return seen.get((key.encode(), topic))

    for number in range(20):
        key = f"poison-{number}"
        request = {"id": key, "prompt": "One two three", "ignore_eos": True, "n": 8, "max_tokens": 90}
        broker.send("millrace.red", json.dumps(request), key=key)
        wait_until(f"a token of {key}", lambda: record_of(key, "millrace.tokens"))
        worker.end(kill=True)
        worker = Worker(stack, broker, *options)
        result = json.loads(wait_until(f"the result of {key}", lambda: record_of(key, "millrace.results")).value())
        if result["finish_reason"] != "length":
            return check_end(worker, {"millrace_dead_letters_total": 0},
                             case("rejected", "poison", True, topic="millrace.red"), "poison")
    raise AssertionError("every request was answered before its worker was killed")


def check_contract():
    codes = set(re.findall(r'X\([A-Z_]+, [A-Z]+, "([a-z_]+)"\)', (ROOT / "codec/status.h").read_text()))
    reasons = set(re.findall(r'^    X\([A-Z_]+, "([a-z_]+)"\)', (ROOT / "codec/records/result.h").read_text(), re.M))
    tried = {one["reason"] for one in CASES} | {one["code"] for one in CASES} | {"duplicate_id", "poison"}
    missing = (codes | reasons) - tried - UNREACHABLE
    assert not missing, f"no request for {missing}"


def check_many_tenants(stack, broker):
    topics = [f"millrace.requests-of-team-{number:02}" for number in range(20)]
    options = [word for topic in topics for word in ("--requests-topic", f"{topic},tenant={topic[9:]}")]
    worker = Worker(stack, broker, *options, "--group", "many")
    for topic in topics:
        for value in ("{", '{"prompt":7}', '{"prompt":""}', '{"prompt":"x","model":"y"}', '{"prompt":"x","max_tokens":1}'):
            broker.producer.produce(topic, value=value)
    assert broker.producer.flush(30) == 0
    series = wait_until("100 ends", lambda: (found := worker.series()) and ended(found) == 100 and found)
    tenants = {labels_of(name)["tenant"] for name in series if name.startswith(FINISHED + "{")}
    size = len(worker.page())
    assert len(tenants) == 20 and size < PAGE_BYTES_MAX, f"{len(tenants)} tenants, {size} bytes"
    print(f"20 tenants: {len(series)} series, {size} bytes")


def check_dashboard_and_rules(worker):
    """Every metric that the alerts and the dashboard name is exported, by a worker or by millrace lag (whose metrics
    docker/reference.py lists from its source)."""
    exported = set(re.findall(r"^# TYPE (\S+) ", worker.page(), re.M))
    exported |= set(re.findall(r"^\| `(millrace_lag_\w+)", (ROOT / "docker/guide/reference.md").read_text(), re.M))
    for path in ("docker/prometheus/rules.yaml", "docker/grafana/millrace.json"):
        text = (ROOT / path).read_text()
        expressions = ([panel["expr"] for each in json.loads(text)["panels"] for panel in each["targets"]]
                       if path.endswith(".json") else re.findall(r"expr: (?:>-\n)?(.*?)\n +(?:for|labels):", text, re.S))
        assert len(expressions) >= 10, f"{path}: {len(expressions)} expressions"
        for expression in expressions:
            names = re.findall(r"\b(?:millrace|process)_[a-z0-9_]+", expression)
            names = {re.sub(r"_bucket$", "", name) for name in names}
            assert names and names <= exported, f"{path}: not exported: {names - exported} in {expression}"


def main():
    check_contract()
    options = ["--requests-topic", "millrace.red,tenant=red,strict", "--requests-topic", "millrace.blue,tenant=blue",
               "--requests-topic", "millrace.brief,tenant=blue,run=1ms", "--context-tokens", "96",
               "--max-record-bytes", "64KiB", "--attempts-max", "1",
               "--redis", "redis://127.0.0.1:1/0"]  # no server answers there, but its metrics are on the page
    with contextlib.ExitStack() as stack:
        broker = Broker(stack)
        worker = Worker(stack, broker, *options)
        check_dashboard_and_rules(worker)
        check_cases(broker, worker)
        check_duplicates(broker, worker)
        check_poison(stack, broker, worker, options)
        print(f"{len(CASES) + 4} ends, each counted once")
        check_many_tenants(stack, broker)


if __name__ == "__main__":
    main()
