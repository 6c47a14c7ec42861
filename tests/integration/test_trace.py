#!/usr/bin/env python3
"""A strict collector checks the spans of requests: the JSON must follow OTLP (opentelemetry-proto: names of members,
ids in hexadecimal, 64-bit numbers as text, enums as numbers), and each trace must have the right order of times and the
right parents. One request has a long prompt, one a trace that is not sampled, one has no trace, and one is rejected.
The collector refuses one body. A worker is killed while it answers, and the next attempt's spans must join the same
trace.

Needs the packages of docker/deps.sh test (confluent_kafka in .deps/python), and redis-server."""

import collections
import contextlib
import http.server
import json
import re
import secrets
import subprocess
import sys
import threading

from embedded_rig import Broker, Worker, confluent_kafka, free_port, wait_until

HEX = {16: re.compile(r"[0-9a-f]{32}\Z"), 8: re.compile(r"[0-9a-f]{16}\Z")}
NUMBER = re.compile(r"-?[0-9]+\Z")
KINDS = {"process": 5, "publish": 4}  # SPAN_KIND_CONSUMER, SPAN_KIND_PRODUCER; the others are SPAN_KIND_INTERNAL
PARTS = ["intake", "queue", "start", "prefill", "decode", "publish"]


# ---- the collector ----


def members(value, required, optional=()):
    assert isinstance(value, dict) and set(required) <= set(value) <= set(required) | set(optional), value
    return value


def read_value(value):
    """An AnyValue."""
    (kind, content), = members(value, (), ("stringValue", "intValue", "doubleValue", "boolValue", "arrayValue")).items()
    if kind == "arrayValue":
        return [read_value(each) for each in members(content, ["values"])["values"]]
    wanted = {"stringValue": str, "intValue": str, "doubleValue": (int, float), "boolValue": bool}[kind]
    assert isinstance(content, wanted), value
    if kind == "intValue":
        assert NUMBER.match(content), value
        return int(content)
    return content


def read_attributes(attributes):
    found = {}
    for each in attributes:
        members(each, ["key", "value"])
        assert each["key"] and each["key"] not in found, f"{each['key']} twice"
        found[each["key"]] = read_value(each["value"])
    return found


def read_id(text, length):
    assert HEX[length].match(text) and int(text, 16) != 0, text
    return text


def read_time(text):
    assert isinstance(text, str) and NUMBER.match(text), text
    return int(text)


def read_span(span):
    members(span, ["traceId", "spanId", "name", "kind", "flags", "startTimeUnixNano", "endTimeUnixNano", "attributes"],
            ["parentSpanId", "traceState", "links", "status"])
    name = span["name"].split()[0]
    assert span["kind"] == KINDS.get(name, 1), span
    parent = read_id(span["parentSpanId"], 8) if "parentSpanId" in span else None
    remote = name == "process" and parent is not None
    assert span["flags"] == (0x301 if remote else 0x101), span
    start, end = read_time(span["startTimeUnixNano"]), read_time(span["endTimeUnixNano"])
    assert 1.6e18 < start <= end < 4e18, span
    links = [{"trace": read_id(members(link, ["traceId", "spanId", "attributes"])["traceId"], 16),
              "span": read_id(link["spanId"], 8), "attributes": read_attributes(link["attributes"])}
             for link in span.get("links", [])]
    if "status" in span:
        assert members(span["status"], ["code"])["code"] == 2
    return {"trace": read_id(span["traceId"], 16), "id": read_id(span["spanId"], 8), "parent": parent, "name": name,
            "start": start, "end": end, "attributes": read_attributes(span["attributes"]), "links": links,
            "state": span.get("traceState"), "failed": "status" in span, "whole": span["name"]}


class Collector:
    """Answers POST /v1/traces and keeps the spans by trace."""

    def __init__(self, stack):
        self.traces = collections.defaultdict(list)
        self.faults = []
        self.refusing = 0  # how many bodies to refuse
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code, answer = 200, b"{}"
                if collector.refusing > 0:
                    collector.refusing -= 1
                    code = 503
                else:
                    try:
                        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
                        collector.read(json.loads(body))
                    except Exception as fault:  # the test's thread reports all errors in a body
                        collector.faults.append(f"{type(fault).__name__}: {fault}")
                self.send_response(code)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        stack.callback(self.server.shutdown)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def read(self, body):
        for resource in members(body, ["resourceSpans"])["resourceSpans"]:
            members(resource, ["resource", "scopeSpans"])
            of = read_attributes(members(resource["resource"], ["attributes"])["attributes"])
            assert of["service.name"] == "millrace" and of["service.instance.id"] == "one", of
            for scope in resource["scopeSpans"]:
                members(scope, ["scope", "spans"])
                members(scope["scope"], ["name", "version"])
                for span in map(read_span, scope["spans"]):
                    self.traces[span["trace"]].append(span)

    def trace(self, of, roots=1):
        """The spans of a trace, once it has `roots` outermost spans."""
        def look():
            assert not self.faults, self.faults
            return sum(span["name"] == "process" for span in list(self.traces[of])) >= roots
        wait_until(f"trace {of}", look)
        return list(self.traces[of])


# ---- the rules for a trace ----


def check_trace(spans, parent, parts):
    """The spans of one attempt."""
    roots = [span for span in spans if span["name"] == "process"]
    root, = roots
    assert len({span["id"] for span in spans}) == len(spans), "an id twice"
    assert root["parent"] == parent, root
    found = {span["name"]: span for span in spans if span["name"] not in ("process", "chunk")}
    assert set(found) == set(parts), f"{set(found)} instead of {set(parts)}"
    last = root["start"]
    for name in parts:
        span = found[name]
        assert span["parent"] == root["id"], span
        assert root["start"] <= span["start"] and span["end"] <= root["end"], f"{span} is not within {root}"
        assert span["start"] >= last, f"{name} begins before the part in front of it ends"
        last = span["end"]
    for chunk in (span for span in spans if span["name"] == "chunk"):
        assert chunk["parent"] == found["prefill"]["id"], chunk
        assert chunk["end"] - chunk["start"] >= 50_000_000 and chunk["attributes"]["millrace.tokens"] > 0, chunk
    return root, found


class Client:
    def __init__(self, stack, broker):
        self.broker = broker
        self.reader = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.address, "group.id": "t", "auto.offset.reset": "earliest"})
        self.reader.assign([confluent_kafka.TopicPartition(topic, number, 0)
                            for topic in ("millrace.tokens", "millrace.results")
                            for number in self.reader.list_topics(topic, 10).topics[topic].partitions])
        stack.callback(self.reader.close)
        self.seen = {}

    def send(self, key, parent=None, state=None, **fields):
        headers = [("traceparent", parent)] * (parent is not None) + [("tracestate", state)] * (state is not None)
        self.broker.send("millrace.requests", json.dumps({"id": key, **fields}), key=key, headers=headers)

    def record(self, key, topic):
        def look():
            record = self.reader.poll(0.1)
            if record is not None and not record.error():
                self.seen[record.key().decode(), record.topic()] = record
            return self.seen.get((key, topic))
        return wait_until(f"{topic} of {key}", look)

    def result(self, key):
        return json.loads(self.record(key, "millrace.results").value())


def new_parent(sampled=True):
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, f"00-{trace}-{span}-{'01' if sampled else '00'}"


def check_long_prompt(client, collector):
    trace, span, header = new_parent()
    client.send("long", header, "vendor=value", prompt="one two three four five " * 250, max_tokens=5, ignore_eos=True,
                temperature=0, model=None)
    result = client.result("long")
    root, parts = check_trace(spans := collector.trace(trace), span, PARTS)
    assert all(each["state"] == "vendor=value" for each in spans)
    assert any(each["name"] == "chunk" for each in spans), "no chunk of 50 ms"
    for topic in ("millrace.tokens", "millrace.results"):
        assert dict(client.record("long", topic).headers())["traceparent"] == header.encode()
    got, usage = root["attributes"], result["usage"]
    partition, offset = result["source"]["partition"], result["source"]["offset"]
    want = {"gen_ai.operation.name": "text_completion", "gen_ai.request.model": result["model"],
            "gen_ai.response.model": result["model"], "gen_ai.response.id": "long",
            "gen_ai.response.finish_reasons": ["length"], "gen_ai.request.max_tokens": 5,
            "gen_ai.request.temperature": 0, "gen_ai.usage.input_tokens": usage["prompt_tokens"],
            "gen_ai.usage.output_tokens": 5, "messaging.system": "kafka",
            "messaging.destination.name": "millrace.requests", "messaging.operation.type": "process",
            "messaging.destination.partition.id": str(partition), "messaging.kafka.offset": offset,
            "messaging.consumer.group.name": "millrace", "millrace.tenant": "default", "millrace.attempt": 1}
    assert want.items() <= got.items(), f"{want.items() - {k: v for k, v in got.items() if k in want}.items()}"
    assert root["whole"] == "process millrace.requests" and not root["failed"] and "error.type" not in got
    assert not any(word in json.dumps(spans) for word in ("three", "prompt\"")), "a span has text of the prompt"
    computed = sum(each["attributes"]["millrace.tokens"] for each in spans if each["name"] == "chunk")
    assert computed <= usage["prompt_tokens"]
    return parts


def check_others(client, collector, worker):
    silent, _, header = new_parent(sampled=False)
    client.send("silent", header, prompt=7)
    refused, span, header = new_parent()
    client.send("refused", header, prompt=7)
    client.send("plain", messages=[{"role": "user", "content": "Hello"}], max_tokens=3, stream=False)
    for key in ("silent", "refused", "plain"):
        client.result(key)
    root, _ = check_trace(collector.trace(refused), span, ["intake", "publish"])
    assert root["failed"] and root["attributes"]["error.type"] == "invalid_request", root
    plain = wait_until("the trace of plain", lambda: next(
        (trace for trace, spans in list(collector.traces.items())
         if any(span["attributes"].get("gen_ai.response.id") == "plain" for span in list(spans))), None))
    root, _ = check_trace(collector.trace(plain), None, PARTS)
    assert root["attributes"]["gen_ai.operation.name"] == "chat", root
    assert silent not in collector.traces, "a trace that its producer did not sample"
    lines = [json.loads(line) for line in worker.logged().splitlines() if '"refused: ' in line]
    assert [line["trace_id"] for line in lines] == [silent, refused], lines


def check_refused_body(client, collector, worker):
    collector.refusing = 1
    trace, span, header = new_parent()
    client.send("again", header, prompt="Hello", max_tokens=2, ignore_eos=True)
    check_trace(collector.trace(trace), span, PARTS)
    page = worker.series()
    assert collector.refusing == 0 and page["millrace_trace_failures_total"] == 1, page
    assert page["millrace_trace_requests_dropped_total"] == 0 and page["millrace_trace_spans_rejected_total"] == 0


def check_crash(stack, client, collector, worker, options):
    """The worker is killed after the first token, when the collector has the first spans of the first attempt. If the
    answer was complete before the kill, the test tries another request."""
    for number in range(20):
        trace, span, header = new_parent()
        key = f"crash-{number}"
        client.send(key, header, prompt="One two three", max_tokens=400, ignore_eos=True, temperature=0)
        client.record(key, "millrace.tokens")
        wait_until("the first spans", lambda: len(collector.traces[trace]) >= 2)
        worker.end(kill=True)
        worker = Worker(stack, client.broker, *options)
        result = client.result(key)
        if result["attempt"] == 2:
            break
    else:
        raise AssertionError("every request was answered before its worker was killed")
    spans = collector.trace(trace)
    first = [each for each in spans if each["name"] in ("intake", "queue") and each["attributes"]["millrace.attempt"] == 1]
    assert sorted(each["name"] for each in first) == ["intake", "queue"], first
    root, _ = check_trace([each for each in spans if each not in first], span, PARTS)
    link, = root["links"]
    assert link["trace"] == trace and link["span"] == first[0]["parent"] == first[1]["parent"] != root["id"], link
    assert link["attributes"]["millrace.resume"] is True and root["attributes"]["millrace.resume"] is True
    assert root["attributes"]["millrace.attempt"] == 2 and root["attributes"]["millrace.resumed_tokens"] > 0, root
    print(f"attempt 2 resumed after {root['attributes']['millrace.resumed_tokens']} tokens")


def main():
    with contextlib.ExitStack() as stack:
        port = free_port()
        redis = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
                                 stdout=subprocess.DEVNULL)
        stack.callback(redis.wait)
        stack.callback(redis.terminate)
        broker = Broker(stack)
        collector = Collector(stack)
        options = ["--trace-endpoint", collector.url, "--redis", f"redis://127.0.0.1:{port}/0", "--threads", "1",
                   "--dtype", "fp32", "--attempts-max", "9", "--log-format", "json"]
        worker = Worker(stack, broker, *options)
        client = Client(stack, broker)
        check_long_prompt(client, collector)
        check_others(client, collector, worker)
        check_refused_body(client, collector, worker)
        check_crash(stack, client, collector, worker, options)
        assert not collector.faults, collector.faults
        print(f"{len(collector.traces)} traces, {sum(map(len, collector.traces.values()))} spans")


if __name__ == "__main__":
    sys.exit(main())
