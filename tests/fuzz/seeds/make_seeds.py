#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, a file each, from tests/golden and from these scripts.

    make_seeds.py FOLDER        writes FOLDER/TARGET/NAME

fuzz.py min merges them into the committed corpora.
"""
import base64
import json
import os
import re
import struct

import model_seeds
from seed_files import TREE, counts, golden, put


def requests():
    for path, data in list(golden("wire/requests/*")) + list(golden("poison/*")):
        put("request", data)
        kind = b"json" if path.endswith(".json") else b"msgpack"
        put("request", b"content-type: application/" + kind + b"\n@key: k-1\n\n" + data)
    body = '{"id":"a","prompt":"x","max_tokens":3,"timeout_ms":5}'
    event = '{"specversion":"1.0","id":"e1","source":"/s","type":"t","datacontenttype":"application/json","data":%s}'
    for head in [
        "content-type: application/cloudevents+json; charset=utf-8\n",
        "ce_specversion: 1.0\nce_id: e-7\nce_traceparent: 00-11-22-01\nce_tracestate: a=b\n",
        "correlationId: 7\ntraceparent: 00-aa-bb-01\ntracestate: v=1\nbaggage: k=v\n",
        "kafka_replyTopic: team.a\nkafka_replyPartition: \0\0\0\5\nkafka_correlationId: 1\n",
        "kafka_replyTopic: answers\nmillrace-deadline: 1750000001000\n@strict: \n",
        "millrace-deadline: 1749999999999\n",
        "baggage: " + "b" * 4200 + "\n",
        "kafka_replyTopic: *\nkafka_replyPartition: x\nmillrace-deadline: 99999999999999999999\n",
        "content-type: text/plain\n", "nothing\n",
    ]:
        put("request", head + "\n" + body)
        put("request", head + "\n" + event % body)
    for kind in ["application/json; charset=utf-8", "application/json;charset=\"UTF8\"; x=y", "text/json",
                 "application/json; charset=latin1", "APPLICATION/MSGPACK", "application/x-msgpack", " application/json "]:
        put("request", "content-type: " + kind + "\n\n" + body)
    put("request", '{"prompt":"\\u0000\\ud83d\\ude00","seed":18446744073709551616,"metadata":{"a":1e400}}')
    put("request", b"\x83\xa6prompt\xa1x\xa8metadata\x87\xa1a\xc4\x01x\xa1b\xc5\x00\x01x\xa1c\xc6\x00\x00\x00\x01x"
        b"\xa1d\xda\x00\x01x\xa1e\xdb\x00\x00\x00\x01x\xa1f\xdc\x00\x01\x01\xa1g\xdd\x00\x00\x00\x01\xca\x3f\x80\x00\x00"
        b"\xa4seed\xcf\x00\x00\x00\x00\x00\x00\x00\x01")
    for data in ['"text"', "null", '{"id":1}', "[]", '"e30="']:
        put("request", "content-type: application/cloudevents+json\n\n" + event % data)
    put("request", "content-type: application/cloudevents+json\n\n"
        '{"specversion":"1.0","id":"%s","data_base64":"e30="}' % ("i" * 200))


def fields():
    """Each field of docker/guide/fields.md: its example, the examples of whole requests, and invalid values."""
    guide = open(os.path.join(TREE, "docker/guide/fields.md")).read()
    for name, example in re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\| (?:-|`(.*?)`) \|", guide, re.M):
        prompt = "" if re.match(r'"(prompt|prompt_token_ids|messages)"', example) else '"prompt": "x"'
        put("request", "{%s}" % ", ".join(part for part in (prompt, example) if part))
        for value in ["null", "-1", "0", "2", "1.5", '""', '"x"', "true", "false", "[]", '["x"]', "[1, 2]", "[null]", "[{}]", "{}",
                      '{"x": 1}', "1e99"]:
            put("request", '{"prompt": "x", "%s": %s}' % (name, value))
    for body in re.findall(r"^```json\n(.*?)```", guide, re.M | re.S):
        put("request", body)
    hello = '"messages": [{"role": "user", "content": "Hi"}]'
    for case in [
        '"prompt": "x", "task": "score", "continuations": [%s]' % more for more in ('"a", [1, 2]', '""', "[]", "1", "[-1]")] + [
        '"prompt": "x", "task": "%s", %s' % (task, more) for task in ("score", "embed")
        for more in ('"n": 2', '"echo": true', '"prompt_logprobs": 1', '"guided_regex": "a"', '"logprobs": 1, "continuations": ["a"]')] + [
        '"prompt": "x", ' + more for more in (
            '"logprobs": true, "top_logprobs": 3', '"top_logprobs": 3', '"logprobs": 2, "top_logprobs": 3', '"echo": true, "logprobs": 1',
            '"best_of": 3', '"n": 2, "max_tokens": 0', '"max_tokens": 0', '"max_tokens": 0, "prompt_logprobs": 1', '"min_tokens": 9, "max_tokens": 3',
            '"guided_json": {"a": [true, 1.5, null, {"b": -1}]}', '"guided_choice": "a"', '"guided_grammar": ""',
            '"guided_regex": "a", "guided_choice": ["b"]', '"guided_regex": "a", "ignore_eos": true',
            '"guided_regex": "a", "response_format": {"type": "json_object"}', '"guided_json": {"a": 18446744073709551615}',
            '"truncate_prompt_tokens": 0', '"truncate_prompt_tokens": -1, "truncation_side": "left"', '"truncation_side": "up"',
            '"deadline_ms": 9999999999999', '"stream_options": {"include_usage": true, "continuous_usage_stats": true, "z": 1}')] + [
        '"prompt": "x", "structured_outputs": {%s}' % more for more in (
            '"json": {"type": "object"}', '"regex": "a"', '"grammar": "root ::= [a]"', '"json_object": true', '"json_object": 1',
            '"json_object": false', '"regex": null', '"structural_tag": "t"', '"whitespace_pattern": " "', '"disable_fallback": true', '"z": 1')] + [
        '"prompt": "x", "response_format": {%s}' % more for more in (
            '"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}', '"type": "json_schema"', '"type": "text"', '"type": "z"',
            '"type": "regex"', '"type": "regex", "regex": "a"', '"type": "choice", "choice": ["a", "b"]', '"type": 1')] + [
        hello + ', "reasoning_effort": "%s", "chat_template_kwargs": {"a": 1}' % effort for effort in ("none", "high")] + [
        hello + ', "echo": true', hello + ', "chat_template_kwargs": {"enable_thinking": true}, "reasoning_effort": "low"',
        '"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, "b", {"text": 1}]}]',
        '"messages": [{"role": "user", "content": [{"type": "image_url"}, 1]}]', '"messages": [{"role": "user", "content": 1}]',
        '"messages": [{"role": "%s", "content": ""}]' % ("r" * 80), '"messages": [{"content": "a"}]', '"messages": []',
        '"messages": [{"role": "user", "content": "a", "x": 1e999}]']:
        put("request", "{%s}" % case)
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": text}} for text in ("", '{"a":[1,null,true,2.5]}', "{", {"a": 1})]
    put("request", json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": calls},
                                            {"role": "tool", "tool_call_id": "1", "content": "b"}]}))
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2.5, None, True, "x"]}, "b": {"$ref": "#/$defs/c"}},
              "$defs": {"c": {"const": {"$ref": "#/z"}}}, "required": ["a"], "items": [{"$ref": "#"}, {"$ref": "other"}]}
    function = lambda **parts: {"type": "function", "function": {"name": "f", **parts}}
    for tools in [[function(parameters=schema)], [function(parameters=schema, strict=True)], [function(), function(name="g", parameters=None)],
                  [function(strict=True), function(parameters={})], [function(name="")], [function(name="n" * 99)], [{"type": "function"}],
                  [function(parameters=[])], []]:
        for use in [{}, {"parallel_tool_calls": False}, {"parallel_tool_calls": 1}] + [
                {"tool_choice": choice} for choice in ("auto", "none", "required", "z", {"function": {"name": "g"}}, {"function": 1}, {})] + [
                {"tool_choice": "required", "parallel_tool_calls": False}, {"tool_choice": "required", "guided_regex": "a"},
                {"guided_regex": "a"}, {"ignore_eos": True}, {"max_tokens": 2}, {"max_tokens": 2, "parallel_tool_calls": False}]:
            put("request", json.dumps({"messages": [{"role": "user", "content": "a"}], "tools": tools, **use}))
    put("request", '{"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}')


def replies():
    choice = {"finish_reason": "stop_string", "stop_reason": "END", "text": "hi", "token_ids": [1, 2],
              "completion_tokens": 2}
    logprobs = [{"id": 5, "logprob": -0.5, "text": "a", "top": [{"id": 5, "logprob": -0.5, "text": "a"}]}]
    logprobs[0]["token_id"] = logprobs[0]["top"][0]["token_id"] = 5
    token = {"id": "r", "attempt": 1, "choice": 0, "index": 3, "token_ids": [5], "text": "a", "logprobs": logprobs}
    result = dict(choice, id="r", attempt=1, model="m", worker="w", choices=[choice, dict(choice, stop_reason=7)],
                  usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "cached_tokens": 1,
                                                           "cached_tokens_redis": 0},
                  timings_ms=dict.fromkeys(["queue", "prefill", "first_token", "total", "itl_mean", "itl_max"], 1.5),
                  prefill_chunks=1, preemptions=0, recomputed_tokens=0, error={"code": "cancelled", "message": "m", "retryable": False},
                  source={"topic": "t", "partition": 1, "offset": 2}, metadata={"k": [1, None]})
    for kind, value in [(1, token), (1, dict(token, resumed_at=3)), (3, result)]:
        put("reply", bytes([kind]) + json.dumps(value).encode())
    for path, data in golden("wire/answers/*"):
        put("reply", bytes([2 if "result" in path else 0]) + data)


def templates():
    for _, data in golden("templates/*.jinja"):
        put("template", data)
    for path, data in golden("templates/*.json"):
        for template in json.loads(data)["templates"]:
            for case in template["cases"]:
                put("template", template["template"].encode() + b"\0" + case["record"].encode())
    for source in [
        "{{ messages[0].content|trim|upper }}{{ 'a' ~ 1 + 2 * 3 // 2 % 5 - -1 }}",
        "{% for m in messages if m.role == 'user' %}{{ loop.index0 }}{{ loop.last }}{{ m['content'][1:-1] }}"
        "{% else %}none{% endfor %}",
        "{% macro f(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ f(1, b=2) }}{{ f('z') }}",
        "{% set ns = namespace(n=0) %}{% for i in range(1, 9, 2) %}{% set ns.n = ns.n + i %}{% if i > 5 %}"
        "{% break %}{% else %}{% continue %}{% endif %}{% endfor %}{{ ns.n }}",
        "{%- set x -%} block {%- endset +%}\n{{- x -}}{# comment #}{% generation %}g{% endgeneration %}",
        "{{ {'a': 1, 'b': [1, 2.5, none, true]}|tojson(indent=2) }}{{ {'k': 'v'}.items()|list }}",
        "{{ 'a,b'.split(',')|join('-') }}{{ 'abc'.startswith('a') }}{{ ' x '.strip() }}{{ 'x'.replace('x', 'y') }}",
        "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|length }}",
        "{{ messages|rejectattr('role', 'eq', 'system')|first }}{{ [3, 1, 2]|sort|last }}{{ [1, 1]|unique|list }}",
        "{{ x is defined }}{{ none is none }}{{ 1 is odd }}{{ 's' is string }}{{ messages is iterable }}",
        "{{ strftime_now('%d %b %Y %H:%M') }}{{ raise_exception('no') if false else 'ok' }}",
        "{{ word|default('d', true)|replace('x', 'y')|capitalize|title|lower }}{{ n|int + half|float }}{{ 1.0 }}",
        "{% if not enable_thinking and (n >= 3 or none) %}{{ bos_token }}{% elif 1 in [1] %}b{% else %}c{% endif %}",
        "{{ messages[::-1][0]['role'] }}{{ messages[-1:]|length }}{{ 'abc'[5] }}{{ (1, 2)[0] }}{{ 2 ** 3 }}{{ 'a' * 3 }}",
        "{{ dict(a=1)['a'] }}{{ {'a': {'b': 2}}.a.b }}{{ {'x': 1}.get('y', 4) }}{{ 'k' in {'k': 1} }}{{ 1 != 2 }}",
        "{{ 'x'|indent(2, first=true) }}{{ 'a\\nb'|e }}{{ [1, 2]|string }}{{ 'a' if }}", "{% endfor %}", "{{ 1 +",
        "{{ 'a-b-c'.split('-', 1) }}{{ 'a b'.split() }}{{ ' a  b '.split(none) }}{{ 'abc'.find('c') }}{{ 'a'.find('x') }}",
        "{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('c') }}{{ 'abc'.endswith(['q']) }}{{ ','.join(['a', 1]) }}",
        "{{ {'a': 1}.keys()|list }}{{ {'a': 1}.values()|list }}{{ {'a': 1}.get('b') }}{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}",
        "{{ 'x'.startswith() }}", "{{ 'x'.find() }}", "{{ ','.join() }}", "{{ {}.get() }}", "{{ 'a'.split('') }}", "{{ [].append() }}",
        "{% set a = [1, 2] %}{{ a + a }}{{ 1 in {'a': 1} }}{{ 'a' in none }}{{ 1.5 // 0.5 }}{{ 2.5 % 2 }}{{ 2.0 ** 3 }}{{ 1.5 - 3 * 2.5 }}",
        "{{ messages is sequence }}{{ f is callable }}{{ range is callable }}{{ 1 is sameas(1) }}{{ 2 is in([1, 2]) }}{{ 1 is ne(2) }}",
        "{{ loop }}{{ self }}{{ 'x' | indent(2, true) | trim('x') }}{{ 'a' | round }}{{ 1.567 | round(1) }}{{ '3.7' | float }}",
        "{% for k, v in {'a': 1}|dictsort %}{{ k }}{{ v }}{% endfor %}{{ '\\u00e9\\x41\\n' }}",
    ]:
        put("template", source)
        put("template", source.encode() + b"\0" + b'{"messages":[{"role":"user","content":"\\u00e9 a,b"}]}')


def redis_replies():
    ready = b"+OK\r\n+OK\r\n+PONG\r\n"

    def case(kinds, *turns, cuts=0):
        data = b"".join(bytes([len(turn)]) + turn for turn in (ready,) + turns)
        put("redis", bytes([len(kinds)]) + bytes(kinds) + bytes([cuts]) + data)

    get = 3 + (6 << 2)  # expects a value of 4 + 12 bytes
    value = b"$16\r\nHEADpayload12345\r\n"
    for cuts in (0, 1, 7):
        case([0], b"*3\r\n$3\r\nabc\r\n:12\r\n$-1\r\n", cuts=cuts)
        case([1, 2, get], b"+OK\r\n", b":16\r\n", value, cuts=cuts)
        case([get, get, get], value, b"$-1\r\n", b"$5\r\nshort\r\n", cuts=cuts)
        case([get, 2], b"$40\r\n" + b"x" * 40 + b"\r\n", b":3\r\n", cuts=cuts)
        case([get | 128, 2], b"$16\r\nHEADpay", b"load12345\r\n:3\r\n", cuts=cuts)
    for error in [b"OOM command not allowed", b"LOADING Redis is loading", b"NOPERM no", b"READONLY You",
                  b"NOAUTH x", b"BUSY script", b"MASTERDOWN x", b"ERR what", b"WRONGTYPE Operation", b"CLUSTERDOWN x"]:
        case([2, get], b"-" + error + b"\r\n", b"-" + error + b"\r\n")
    for text in [b"MOVED 3999 127.0.0.1:6381", b"ASK 5 [::1]:7000", b"MOVED 1 :6380", b"MOVED 99999 h:1", b"TRYAGAIN x"]:
        case([2, 0, 2], b"-" + text + b"\r\n", ready, b":1\r\n", b"*0\r\n", b":2\r\n", b"+OK\r\n")
    slots = b"*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$4\r\nnode\r\n:7001\r\n$2\r\nid\r\n" \
            b"*3\r\n:8192\r\n:16383\r\n*2\r\n$0\r\n\r\n:7002\r\n"
    case([2, 2, 0, get], b"-MOVED 10 node:7001\r\n", slots, ready, b":1\r\n", b":2\r\n", b"*1\r\n$1\r\nx\r\n", ready, value)
    case([2, 2], b"-MOVED 10 node:7001\r\n", ready, slots, b":1\r\n", b":2\r\n", ready)
    put("redis", b"\1\2\0" + b"\x0b-NOAUTH x\r\n")
    case([0], b"*1\r\n*1\r\n*1\r\n,1.5\r\n")
    case([0, 0], b"*-1\r\n", b"_\r\n")
    case([0, 0, 0], b"*2\r\n*1\r\n+a\r\n-ERR in a list\r\n", b"$4\r\na\r\nb\r\n", b"%1\r\n+a\r\n:1\r\n")


def trails():
    def entry(kind, attempt, body, tops=0, form=1):
        data = bytes([0xA7, kind, 0 if form == 1 else 1, tops]) + struct.pack("<I", attempt) + body
        return bytes([len(data), form]) + data

    magic = open(os.path.join(TREE, "worker/resume/progress.c")).read().split("#define MAGIC")[1].split()[0]
    for form, keys in ((1, 0), (2, 1)):
        start = entry(1, 1, struct.pack("<II", 0, 0) + bytes(32), 0, form)
        tokens = [entry(2, 1, struct.pack("<IIIff", i, 0, 100 + i, -0.5, 0.5) + struct.pack("<If", 3, -1.0) * 2, 2, form)
                  for i in range(3)]
        again = entry(1, 2, struct.pack("<II", 2, 1) + bytes(32), 0, form)
        other = entry(1, 3, struct.pack("<II", 0, 0) + b"x" * 32, 0, form)
        rest = [entry(3, 1, b"", 0, form), entry(4, 1, b"", 0, form), again,
                entry(2, 2, struct.pack("<IIIff", 1, 2, 7, -0.5, 0.5), 0, form), other]
        data = bytes([keys]) + bytes([40, 3]) + bytes(range(40)) + start + b"".join(tokens) + b"".join(rest)
        data += b"".join(bytes([8, 3, kind, 1, 0, attempt, 1, 0, notes, notes]) for kind in range(5)
                         for attempt, notes in ((3, 0), (4, 1)))
        put("trail", data.replace(b"\xA7", bytes([int(magic.rstrip("u"), 0)])))


def frames():
    for flags in range(8):
        put("block_frame", bytes([flags]) + struct.pack("<HBBHB", 256, 1, 2, 70, 4) + b"mrkv" + bytes(60) + b"payload" * 9)
        put("block_frame", bytes([flags]) + struct.pack("<HBBHB", 16, 0, 0, 3, 0) + bytes(64))


def metadata():
    head = bytes([0xA2]) + struct.pack(">Q", 1750000000000)
    for raw in [head + b"\0\0", head + b"\2\x01\x80\0", head + b"\0\2\1\3\1\2\4\x81", bytes([0xA1]) + b"\1\7\1\4\2\1",
                head + b"\x80\x0c" + b"\x01" * 1536 + b"\0", b"\xA3", b"", head + b"\1\xff\1\3\1\1",
                head[:5], head + b"\xff\xff\xff\xff\x7f", head + b"\0\1\xff\xff\x03\1\1"]:
        for actions in [b"", b"\0\x08\x10\x02\x0a\x0b\x03\x1c\x14\x15\x36\x2f"]:
            put("commit_metadata", bytes([1, 255, len(actions)]) + actions + raw)
    put("commit_metadata", b"\0\0\0" + base64.b64encode(head + b"\0\0"))
    put("commit_metadata", b"\0\0\0not base64!")


def options():
    for text in [
        "brokers: 127.0.0.1:9092\nmodel: m.gguf\ngroup: g\nrequests-topic:\n  - a,priority=3,weight=2,tenant=t\n  - b\n"
        "kafka:\n  linger.ms: 5\n  client.id: x\ntenant-weight: [t=2]\nhttp: 127.0.0.1:0\n",
        "model: x\nbrokers: h\nredis: redis://:p@h:1/2\nredis_ttl: 1h\ndrain-timeout: 25s\nkv-bytes: 2GiB\n"
        "log-format: json\ndelivery: exactly-once\nreply_topics: [a, b*]\n",
        "# only a comment\n", "", "{}\n", "- a\n", "a: &x 1\nb: *x\n", "model: {a: b}\n", "model: ~\nmodel: null\n",
        "brokers: 'h:1'\nmodel: \"m\"\nthreads: 4\ndtype: f32\ntemperature: 2\n", "---\nmodel: a\n---\nmodel: b\n",
        "unknown-option: 1\n", "model: |\n  a\n  b\n", "kafka: {a: [1]}\n", "kafka: {sasl.password: '@missing'}\n",
        "model: a\nbrokers: b\nhttp: 'off'\nredis: rediss://u:p@[::1]:6380\nredis-ca: f\n", "? [a]\n: b\n", "\"a\\0b\": c\n",
    ]:
        put("options", text)
    table = open(os.path.join(TREE, "worker/config/options_table.c")).read()
    names = [part.split('"')[0] for part in table.split('{"')[1:]]
    lines = ["brokers: h:1\nmodel: m\n%s: %s\n" % (name, value) for name in names if name not in ("brokers", "model")
             for value in ("1", "a,b=c", "5s")]
    for line in lines:
        put("options", line)


def http():
    for request in [
        "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "GET /readyz?x=1 HTTP/1.0\r\n\r\n",
        "HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "GET /../livez HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", "GET http://x/livez HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01", "GET /metrics HTTP/9.9\r\n\r\n", "GET  /livez\r\n\r\n",
        "GET /%6civez HTTP/1.1\r\nHost: x\r\nCookie: a=b; c\r\n\r\n",
    ]:
        put("http", request.encode("latin1"))


def texts():
    for flags in range(8):
        put("detokenizer", bytes([flags]) + bytes(range(256)))
        put("detokenizer", bytes([flags]) + "h\u00e9\u6f22\U0001f642".encode() + b"\xf0\x9f\xe0\x80\xed\xa0\xc3")
    for stops, text in [(["END", "EN", "\n\n"], "this is the E ENEND\n"), (["aab", "ab"], "aaaab"), ([], "x"),
                        (["a" * 127 + "b", "\u00e9"], "a" * 300 + "b"), (["abcab", "cabx"], "abcabcabx")]:
        data = bytes([len(stops)]) + b"".join(bytes([len(s.encode())]) + s.encode() for s in stops)
        put("stop_match", data + b"\5" + text.encode())


def tool_calls():
    """Calls of Qwen3-Coder (format 9), with the types of the target's tool f."""
    values = {"i": "7", "n": "1e5", "b": "True", "j": '{"a": [1, null]}', "t": "None", "code": "if (a < b) { x[0] = '>' }"}
    parameters = "".join("<parameter=%s>\n%s\n</parameter>\n" % pair for pair in values.items())
    call = "<tool_call>\n<function=f>\n%s</function>\n</tool_call>" % parameters
    for text in [
        "I look.\n" + call + "\n<tool_call>\n<function=g>\n</function>\n</tool_call>", call.replace("\n", ""),
        "<function=f><parameter=b>no<parameter=n>x</function>\n</tool_call> and <tool_call><function=f></function> so "
        "<function=h>\n<parameter=x",
        "<tool_call> <function=f><function=f> <parameter=i>1</parameter> <parameter=i>null</parameter></function></tool",
        "<function=f><parameter=%s>1</parameter></function>" % ("k" * 129), "<function=%s></function>" % ("f" * 129),
        "<function=f>" + "".join("<parameter=p%d>1" % i for i in range(129)) + "</function>",
        "<function=f><parameter=j>\n" + "[" * 40 + "]" * 40 + "\n</parameter></function>",
        "<function=f><parameter=t>See <function>x</function>, '<parameter=k>' and </parameter>.\n</parameter></function>",
        "<tool_call><function=f> with\n<parameter=i>1\n</tool_call>\n<tool_call>\n<function=g>\n</tool_call>",
        "<function=g><parameter=k> now.\n<tool_call>\n<function=f><parameter=i>1</function>\n</tool_call>",
    ]:
        put("tool_calls", b"\x09\x03" + text.encode())
        put("tool_calls", b"\x09\x23" + text.encode())


def main():
    for make in (requests, fields, replies, templates, redis_replies, trails, frames, metadata, options, http, texts, tool_calls):
        make()
    model_seeds.make()
    print(" ".join("%s:%d" % pair for pair in sorted(counts.items())))


main()
