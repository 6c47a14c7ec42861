#!/usr/bin/env python3
"""Checks docker/asyncapi.yaml: the records of a running worker, the decoder's table of fields and the lists of finish
reasons and error codes must match the document, and wrong records must not. Needs the packages of docker/deps.sh test: kcat,
and jsonschema with a YAML reader in .deps/python."""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps"))
sys.path[:0] = [str(DEPS / "python"), str(ROOT / "tests/bench")]

import jsonschema  # noqa: E402
from ruamel.yaml import YAML  # noqa: E402

import fleet  # noqa: E402

DOCUMENT = YAML(typ="safe", pure=True).load(ROOT / "docker/asyncapi.yaml")
SCHEMAS = DOCUMENT["components"]["schemas"]
MESSAGES = DOCUMENT["components"]["messages"]


def schema(part):
    """The schema together with the components that its references name."""
    return {**part, "components": DOCUMENT["components"]}


def errors(part, value):
    return [error.message for error in jsonschema.Draft7Validator(schema(part)).iter_errors(value)]


def must_pass(part, value, what):
    found = errors(part, value)
    assert not found, f"{what}: {found[0]}\n{json.dumps(value)[:2000]}"


def must_fail(part, value, what):
    assert errors(part, value), f"{what} passed\n{json.dumps(value)[:2000]}"


# --- the document itself -------------------------------------------------------------------------------------------

def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def resolve(reference):
    node = DOCUMENT
    assert reference.startswith("#/"), reference
    for name in reference[2:].split("/"):
        assert name in node, f"{reference} leads nowhere"
        node = node[name]
    return node


def check_document():
    assert DOCUMENT["asyncapi"].startswith("3.")
    project = re.search(r"^project\(millrace VERSION (\S+)", source("CMakeLists.txt"), re.M)[1]
    assert DOCUMENT["info"]["title"] and DOCUMENT["info"]["version"] == project
    for reference in references(DOCUMENT):
        resolve(reference)
    for name, part in SCHEMAS.items():
        jsonschema.Draft7Validator.check_schema(part)
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)
    for name, channel in DOCUMENT["channels"].items():
        assert "address" in channel and channel["messages"], name
    for name, operation in DOCUMENT["operations"].items():
        assert operation["action"] in ("send", "receive"), name
        assert "address" in resolve(operation["channel"]["$ref"]), name


# --- the lists in the code -------------------------------------------------------------------------------------------

def source(path):
    return (ROOT / path).read_text()


def check_lists():
    finish = re.findall(r'^    X\([A-Z_]+, "([a-z_]+)"\)', source("codec/records/result.h"), re.M)
    assert finish and sorted(SCHEMAS["finishReason"]["enum"]) == sorted(finish), finish
    codes = set(re.findall(r'X\([A-Z_]+, [A-Z]+, "([a-z_]+)"', source("codec/status.h")))
    assert codes and set(SCHEMAS["errorCode"]["enum"]) == codes, codes
    table = source("codec/records/request_fields.c").split("fields[] = {", 1)[1].split("};", 1)[0]
    fields = set(re.findall(r"(?:TEXT|READ|MAX_TOKENS|BOOL|ABOVE|SESSION)\((\w+)|(?:NUMBER|LIST)\(\w+, (\w+)", table))
    fields = {one or two for one, two in fields} | {"id"}
    assert len(fields) > 30 and set(SCHEMAS["request"]["properties"]) == fields, \
        fields ^ set(SCHEMAS["request"]["properties"])


# --- records of a running worker -----------------------------------------------------------------------------------

def produce(broker, topic, value, key=None, headers=()):
    command = ["kcat", "-P", "-b", broker.address, "-t", topic]
    command += ["-k", key] if key else []
    for name, text in headers:
        command += ["-H", f"{name}={text}"]
    subprocess.run(command, input=value.encode(), check=True, timeout=30)


REQUESTS = [
    ({"id": "length", "prompt": "Once upon", "max_tokens": 6, "ignore_eos": True, "logprobs": 2,
      "metadata": {"any": ["thing", 1]}, "seed": 1, "session": "s", "priority": "high"}, "length"),
    ({"id": "stop", "prompt": "One two three four five", "max_tokens": 200, "stop": ["e", "a", " "],
      "temperature": 0}, "stop_string"),
    ({"id": "chars", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 64, "max_chars": 5},
     "max_chars"),
    ({"id": "twins", "prompt": "Dogs", "n": 2, "max_tokens": 3, "ignore_eos": True, "stream": False}, "length"),
    ({"id": "token", "prompt_token_ids": [100, 200], "max_tokens": 5, "stop_token_ids": list(range(2, 60)),
      "allowed_token_ids": list(range(2, 60))}, "stop_token"),
    ({"id": "end", "prompt_token_ids": [100, 200], "max_tokens": 50, "logit_bias": {"2": 100}, "temperature": 0}, "eos"),
    ({"id": "late", "prompt": "x", "deadline_ms": 1}, "deadline"),
    ({"id": "soon", "prompt": "x", "max_tokens": 4000, "ignore_eos": True, "timeout_ms": 1500}, "deadline"),
    ({"id": "other", "prompt": "x", "model": "another"}, "rejected"),
    ({"id": "gone", "prompt": "x", "max_tokens": 4000, "ignore_eos": True}, "cancelled"),
]
HEADERS = [("kafka_correlationId", "c-1"), ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]


BINARY = {"kafka_dlt-original-partition", "kafka_dlt-original-offset", "kafka_dlt-original-timestamp"}


def as_text(value):
    """Runs kcat and decodes its output as Latin-1, so that every byte is one character."""
    return value.encode("latin-1").decode() if isinstance(value, str) else value


def consume(broker, topic):
    """The records of a topic. Headers are a map; a binary header has one character per byte."""
    out = subprocess.run(["kcat", "-C", "-b", broker.address, "-t", topic, "-e", "-q", "-J"], check=True, timeout=60,
                         stdout=subprocess.PIPE).stdout
    records = [json.loads(line.decode("latin-1")) for line in out.split(b"\n") if line]
    for record in records:
        pairs = record.get("headers") or []
        record["headers"] = {name: value if name in BINARY else as_text(value)
                             for name, value in zip(pairs[0::2], pairs[1::2])}
        record["key"], record["payload"] = as_text(record["key"]), as_text(record["payload"])
    return records


def await_results(broker, wanted):
    until = time.monotonic() + 120
    while len(results := consume(broker, "millrace.results")) < wanted:
        assert time.monotonic() < until, f"{len(results)} of {wanted} results"
        time.sleep(0.5)
    return results


def gather(options):
    with fleet.Broker(options) as broker, fleet.Worker(options, broker, "--session-timeout", "6s", "--kv-memory",
                                                       "64MiB"):
        produce(broker, "millrace.cancel", "cancel", key="gone")
        produce(broker, "millrace.requests", json.dumps({"prompt": "x", "max_tokens": 2}), key="k",
                headers=[("ce_specversion", "1.0"), ("ce_id", "event"), ("ce_source", "/s"), ("ce_type", "t")])
        await_results(broker, 1)  # the worker has joined, so its start does not count against deadlines
        for request, _ in REQUESTS:
            produce(broker, "millrace.requests", json.dumps(request), key="k", headers=HEADERS)
        envelope = {"specversion": "1.0", "id": "inside", "source": "/s", "type": "t",
                    "data": {"prompt": "x", "max_tokens": 2}}
        must_pass(SCHEMAS["cloudEvent"], envelope, "the envelope")
        produce(broker, "millrace.requests", json.dumps(envelope), key="k",
                headers=[("content-type", "application/cloudevents+json")])
        produce(broker, "millrace.requests", '{"id":"header","prompt":"x"}', headers=[("millrace-deadline", "1000")])
        produce(broker, "millrace.requests", "{not json", key="bad", headers=[("their-own", "kept")])
        produce(broker, "millrace.requests", '{"id":"seven","prompt":7}')
        results = await_results(broker, len(REQUESTS) + 5)
        return results, consume(broker, "millrace.tokens"), consume(broker, "millrace.dlq")


def check_records(results, tokens, dead):
    by_id = {}
    for record in results:
        value = json.loads(record["payload"])
        must_pass(SCHEMAS["result"], value, "a result")
        must_pass(SCHEMAS["resultHeaders"], record["headers"], "a result's headers")
        assert record["key"] == value["id"] == record["headers"]["millrace-id"]
        assert record["headers"]["millrace-finish-reason"] == value["finish_reason"]
        assert int(record["headers"]["millrace-generation"]) >= 1
        by_id[value["id"]] = record, value
    for request, reason in REQUESTS:
        must_pass(SCHEMAS["request"], request, f"request {request['id']}")
        record, value = by_id[request["id"]]
        assert value["finish_reason"] == reason, f"{request['id']}: {value['finish_reason']}, not {reason}"
        for name, text in HEADERS:
            assert record["headers"][name] == text
    assert len(by_id["length"][1]["logprobs"]) == 6 and by_id["length"][1]["metadata"] == {"any": ["thing", 1]}
    assert len(by_id["twins"][1]["choices"]) == 2
    assert by_id["soon"][1]["token_ids"] and by_id["soon"][1]["error"]["code"] == "deadline_exceeded"
    assert by_id["header"][1]["finish_reason"] == "deadline"
    assert by_id["seven"][1]["error"]["code"] == "invalid_request" and by_id["bad"][1]["error"]["code"] == "malformed"
    assert {"event", "inside"} <= set(by_id)
    streamed = set()
    for record in tokens:
        value = json.loads(record["payload"])
        must_pass(SCHEMAS["tokens"], value, "a token record")
        must_pass(SCHEMAS["tokensHeaders"], record["headers"], "a token record's headers")
        assert record["headers"]["millrace-index"] == str(value["index"]) and record["key"] == value["id"]
        streamed.add(value["id"])
    assert "length" in streamed and "twins" not in streamed
    assert len(dead) == 2
    for record in dead:
        must_pass(SCHEMAS["deadLetterHeaders"], record["headers"], "a dead letter's headers")
    assert {record["payload"] for record in dead} == {"{not json", '{"id":"seven","prompt":7}'}
    assert any(record["headers"].get("their-own") == "kept" for record in dead)


# --- wrong records -------------------------------------------------------------------------------------------------

def without(value, name):
    return {key: member for key, member in value.items() if key != name}


def changed(value, path, member):
    value = copy.deepcopy(value)
    node = value
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = member
    return value


def check_wrong_records(results, tokens, dead):
    values = [json.loads(record["payload"]) for record in results]
    value = next(one for one in values if one["id"] == "length")
    twins = next(one for one in values if one["id"] == "twins")
    refused = next(one for one in values if "error" in one)
    for name in SCHEMAS["result"]["required"]:
        must_fail(SCHEMAS["result"], without(value, name), f"a result without {name}")
    for path, member in [(["finish_reason"], "done"), (["attempt"], 0), (["token_ids", 0], -1), (["text"], None),
                         (["usage", "prompt_tokens"], 1.5), (["usage", "more"], 1), (["timings_ms", "queue"], "1"),
                         (["source", "offset"], -1), (["surprise"], 1), (["id"], ""), (["id"], "\u00e4"),
                         (["stop_reason"], []), (["logprobs", 0, "logprob"], 1), (["choices"], [])]:
        must_fail(SCHEMAS["result"], changed(value, path, member), f"a result with {path} {member!r}")
    must_fail(SCHEMAS["result"], changed(twins, ["choices", 1, "choice"], 8), "a ninth choice")
    must_fail(SCHEMAS["result"], changed(refused, ["error", "code"], "oops"), "an unknown error code")
    must_fail(SCHEMAS["result"], changed(refused, ["error", "retryable"], "no"), "a retryable that is text")
    token = json.loads(tokens[0]["payload"])
    for name in SCHEMAS["tokens"]["required"]:
        must_fail(SCHEMAS["tokens"], without(token, name), f"a token record without {name}")
    for path, member in [(["index"], -1), (["choice"], 8), (["attempt"], "1"), (["token_ids"], 7), (["more"], 1)]:
        must_fail(SCHEMAS["tokens"], changed(token, path, member), f"a token record with {path} {member!r}")
    for part, record in [("resultHeaders", results[0]), ("tokensHeaders", tokens[0]), ("deadLetterHeaders", dead[0])]:
        must_pass(SCHEMAS[part], record["headers"], part)
        names = SCHEMAS[part].get("required") or SCHEMAS["answerHeaders"]["required"]
        for name in names:
            must_fail(SCHEMAS[part], without(record["headers"], name), f"{part} without {name}")
    must_fail(SCHEMAS["resultHeaders"], changed(results[0]["headers"], ["millrace-attempt"], "one"), "an attempt in words")
    must_fail(SCHEMAS["resultHeaders"], changed(results[0]["headers"], ["millrace-generation"], "old"), "a generation")
    for request in [{}, {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}, {"prompt": 7},
                    {"prompt": "x", "n": 9}, {"prompt": "x", "max_tokens": 0}, {"prompt": "x", "top_p": 0},
                    {"prompt": "x", "priority": "soonest"}, {"messages": []}]:
        must_fail(SCHEMAS["request"], request, "a request")


def main():
    check_document()
    check_lists()
    sys.argv = [sys.argv[0], "--dtype", "bf16"]
    os.environ.setdefault("MILLRACE_BIN", str(ROOT / "build/millrace"))
    options = fleet.arguments(__doc__).parse_args()
    records = gather(options)
    check_records(*records)
    check_wrong_records(*records)
    print(f"{len(records[0])} results, {len(records[1])} token records and {len(records[2])} dead letters are as "
          "docker/asyncapi.yaml says")


if __name__ == "__main__":
    main()
