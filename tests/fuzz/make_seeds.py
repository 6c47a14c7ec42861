#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, a file each, from tests/golden and from this script.

    make_seeds.py FOLDER        writes FOLDER/TARGET/NAME

fuzz.sh min merges them into the committed corpora.
"""
import base64
import glob
import json
import os
import re
import struct
import sys

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(TREE, "tests/golden")
SMALL = 40000  # larger files make every run of a target slow
counts = {}


def put(target, data):
    if len(data) > SMALL:
        return
    folder = os.path.join(sys.argv[1], target)
    os.makedirs(folder, exist_ok=True)
    counts[target] = counts.get(target, 0) + 1
    with open(os.path.join(folder, "seed%04d" % counts[target]), "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())


def golden(pattern):
    for path in sorted(glob.glob(os.path.join(GOLDEN, pattern))):
        yield path, open(path, "rb").read()


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
    """Each field of docker/fields.md: its example, the examples of whole requests, and values that do not fit."""
    guide = open(os.path.join(TREE, "docker/fields.md")).read()
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


BYTES = {}  # the byte alphabet of byte-level tokenizers
for value in range(256):
    printable = 33 <= value <= 126 or 161 <= value <= 172 or 174 <= value <= 255
    BYTES[value] = chr(value) if printable else chr(256 + len([v for v in BYTES if ord(BYTES[v]) > 255]))


def small_tokenizer(**parts):
    vocab = {"a": 0, "b": 1, BYTES[32]: 2, "ab": 3, BYTES[32] + "a": 4, "<s>": 5, BYTES[0xC3]: 6, BYTES[0xA9]: 7,
             "1": 8, BYTES[10]: 9}
    file = {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": 5, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True},
                             {"id": 10, "content": "New", "normalized": True, "special": False}],
            "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": False, "vocab": vocab, "merges": ["a b", [BYTES[32], "a"]]}}
    file.update(parts)
    return json.dumps(file, ensure_ascii=False)


def split(pattern, behavior="Isolated", invert=False, key="Regex"):
    return {"type": "Split", "pattern": {key: pattern}, "behavior": behavior, "invert": invert}


def tokenizers():
    text = ("ab a\u00e9 <s>  1 New\n a b " + "ab" * 300 + " A\u0301\u1100\u1161").encode()
    level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False, "trim_offsets": True}
    stages = [split("(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"),
              {"type": "Digits", "individual_digits": True}, {"type": "Whitespace"},
              {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "WhitespaceSplit"},
              {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
              split("a", "Removed", True, "String"), split(" ", "MergedWithPrevious"),
              split("b", "MergedWithNext", False, "String"), split("\\h+|\\X|[[:alpha:]&&[^a]]", "Contiguous")]
    normalizers = [{"type": "NFC"}, {"type": "NFKC"}, {"type": "NFD"}, {"type": "NFKD"}, {"type": "Lowercase"},
                   {"type": "Prepend", "prepend": "\u2581"}, {"type": "StripAccents"},
                   {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                   {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "_"},
                   {"type": "Strip", "strip_left": True, "strip_right": True}]
    posts = [{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                        {"Sequence": {"id": "A", "type_id": 0}}],
              "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
             {"type": "BertProcessing", "sep": ["<s>", 5], "cls": ["<s>", 5]},
             {"type": "RobertaProcessing", "sep": ["<s>", 5], "cls": ["<s>", 5], "trim_offsets": True,
              "add_prefix_space": False}, level]
    config = b'{"bos_token":"<s>","eos_token":{"content":"New"},"add_bos_token":true,"unk_token":null}'
    files = [small_tokenizer()]
    files += [small_tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [one, level]}) for one in stages]
    files += [small_tokenizer(pre_tokenizer=one) for one in stages[:6]]
    files += [small_tokenizer(normalizer=one) for one in normalizers]
    files += [small_tokenizer(normalizer={"type": "Sequence", "normalizers": normalizers[:6]})]
    files += [small_tokenizer(post_processor=one) for one in posts]
    files += [small_tokenizer(post_processor={"type": "Sequence", "processors": posts[:1] + posts[3:]})]
    decoder = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    model = {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True, "merges": ["\u2581 a"],
             "vocab": {"<unk>": 0, "<0x0A>": 1, "<0xC3>": 2, "\u2581": 3, "a": 4, "\u2581a": 5}}
    files += [small_tokenizer(added_tokens=[], decoder=decoder, model=model, pre_tokenizer=None,
                              normalizer={"type": "Sequence", "normalizers": [normalizers[5], normalizers[7]]})]
    flags = [{"id": 5, "content": "<s>", "lstrip": True, "rstrip": True, "special": True},
             {"id": 10, "content": "a", "single_word": True, "normalized": False}, {"id": 11, "content": "a b"},
             {"id": 12, "content": "  ", "lstrip": True, "rstrip": True}]
    files += [small_tokenizer(added_tokens=flags), small_tokenizer(added_tokens=flags, normalizer={"type": "NFC"})]
    merging = json.loads(small_tokenizer())["model"]
    files += [small_tokenizer(model=dict(merging, ignore_merges=True)),
              small_tokenizer(model=dict(merging, merges=["a b", "ab ab"], vocab=dict(merging["vocab"], abab=11))),
              small_tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [
                  split("\\v|\\u00e9|\\x41|\\P{Lu}|[\\p{L}\\d&&a]|\\S+|\\W|(?!a)b|\\.|\\A"), level]})]
    files += [small_tokenizer(added_tokens=[], decoder={"type": "Metaspace", "replacement": "\u2581"}, model=model)]
    charsmap = base64.b64encode(character_map()).decode()
    scored = [["<unk>", 0.0], ["\u2581", -3.0], ["a", -4.0], ["b", -4.5], ["ab", -2.0], ["<s>", 0.0], ["\u2581a", -1.0], ["<0x0A>", 0.0]]
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": scored, "byte_fallback": True}
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    mapped = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    for change in [{}, {"normalizer": mapped}, {"normalizer": {"type": "Sequence", "normalizers": [mapped, {"type": "Nmt"}]}},
                   {"normalizer": {"type": "Precompiled"}}, {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "*"}},
                   {"model": dict(unigram, unk_id=None)}, {"model": dict(unigram, vocab=[])}, {"model": dict(unigram, vocab=[["a"]])},
                   {"model": dict(unigram, byte_fallback=1)}, {"decoder": dict(space, prepend_scheme="never")}, {"decoder": dict(space, replacement="")}]:
        files += [small_tokenizer(**{"model": unigram, "pre_tokenizer": space, "decoder": space, **change})]
    files += [small_tokenizer(model=dict(merging, **change)) for change in (
        {"dropout": 0.5}, {"continuing_subword_prefix": "##"}, {"end_of_word_suffix": "</w>"}, {"vocab": []}, {"vocab": {"a": -1}},
        {"vocab": {"a": 1, "b": 1}}, {"merges": 1}, {"merges": ["a"]}, {"merges": [["a"]]}, {"type": "WordPiece"}, {"type": "WordLevel"})]
    files += [small_tokenizer(pre_tokenizer=one) for one in (
        {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "-"}, {"type": "UnicodeScripts"}, {"type": "Metaspace"},
        dict(space, add_prefix_space=True, prepend_scheme="never"), split("a" * 200, key="String"), {"type": "Digits"},
        {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}] * 20},
        {"type": "Sequence", "pretokenizers": [split("a")] * 20}, {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, level]})]
    files += [small_tokenizer(normalizer=one) for one in (
        level, {"type": "Nmt"}, {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 20}, {"type": "z"})]
    files += [small_tokenizer(decoder=one) for one in (
        {"type": "WordPiece"}, {"type": "z"}, {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Replace"}]},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x", "start": 1, "stop": 0}]})]
    many = [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * 40 + [{"Sequence": {"id": "A", "type_id": 0}}]
    files += [small_tokenizer(post_processor=one) for one in (
        dict(posts[0], single=many), dict(posts[0], special_tokens={"<s>": {"ids": [99]}}), dict(posts[0], special_tokens={}),
        {"type": "Sequence", "processors": [posts[0], posts[1]]}, {"type": "z"})]
    names = ["<|a|>", "<\uff5cb\uff5c>", "<|im_end|>", "Hello"]
    files += [small_tokenizer(added_tokens=[{"id": 10 + i, "content": name, "special": False} for i, name in enumerate(names)]),
              small_tokenizer(added_tokens=[{"id": -1, "content": "x"}]), small_tokenizer(added_tokens=[{"content": "x"}])]
    for file in files:
        put("tokenizer", file.encode() + b"\0" + config + b"\0" + text)
    controls = "\x01\x0b\x7f\t\u200b\u2028 \u2581 \ufeff a\u0301\ufb01 \u4e2d\u6587 <|a|> <\uff5cb\uff5c>".encode()
    for file in files[-60:]:
        put("tokenizer", file.encode() + b"\0" + config + b"\0" + controls)
    for _, data in golden("tokenizer/odd_style.json"):
        put("tokenizer", data)
    for _, data in golden("models/qwen2/tokenizer.json"):
        put("tokenizer", data + b"\0" + config + b"\0" + text)


def number(value):
    """A varint of Protocol Buffers."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def message(field, data):
    return number(field << 3 | 2) + number(len(data)) + data


def character_map():
    """A character map of one entry, "a" to "b": see test_charsmap.c."""
    units = [256 << 10] + [0] * 511
    units[256 ^ 97], units[256 ^ 97 ^ 128] = 1 << 8 | 128 << 10 | 97, 1 << 31
    return struct.pack("<I512I", 2048, *units) + b"b\0"


def sentencepiece_models():
    tokens = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("\u2581", -3, 1), ("a", -4, 1), ("b", -4, 1), ("ab", -2, 1), ("\u2581a", -1, 1),
              ("<0x0A>", 0, 6), ("x y", 0, 4), ("bb", -1, 5), ("\u00e9", -6, 1)]
    charsmap = character_map()
    text = ("ab a\u00e9 <s>  x y New\n a b bb " + "ab" * 200).encode()
    for kind in (1, 2, 3):
        for flags in range(8):
            pieces = b"".join(message(1, message(1, t.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([of])) for t, score, of in tokens)
            trainer = b"\x18" + bytes([kind]) + number(24 << 3) + bytes([flags & 1]) + number(35 << 3) + bytes([flags >> 1 & 1])
            normalizer = (message(2, charsmap) if flags & 4 else b"") + b"\x18" + bytes([flags & 1 ^ 1]) + b"\x20" + bytes([flags >> 1 & 1])
            model = pieces + message(2, trainer) + message(3, normalizer)
            config = b'{"bos_token":"<s>","legacy":true,"added_tokens_decoder":{"12":{"content":"New","special":true}}}'
            put("sentencepiece", struct.pack("<H", len(model)) + model + (config if flags & 1 else b"") + b"\0" + b'{"c d":13}\0' + text)
    for _, model in golden("tokenizer/sentencepiece_*.model"):
        put("sentencepiece", struct.pack("<H", len(model)) + model + b"\0\0" + text)


def tekkens():
    """A small tekken.json, whole and with damage."""
    vocab = [{"rank": i, "token_bytes": base64.b64encode(b).decode()} for i, b in enumerate([bytes([b]) for b in range(256)] + [b"ab", b"abc"])]
    config = {"pattern": "\\w+|\\W", "default_vocab_size": 263, "default_num_special_tokens": 5}
    special = [{"rank": 1, "token_str": "<s>", "is_control": True}, {"rank": 2, "token_str": "</s>"}]
    file = {"config": config, "vocab": vocab, "special_tokens": special}
    for change in ({}, {"special_tokens": None}, {"vocab": vocab[1:]}, {"config": dict(config, default_vocab_size=100)}, {"vocab": vocab + [{"rank": 258}]}):
        put("tokenizer", json.dumps({**file, **change}, separators=(",", ":")).encode() + b"\0{\"add_eos_token\":true}\0abcab <s> \xff")


def gguf_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    packs = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
    return gguf_text(value) if kind == 8 else struct.pack("<" + packs[kind], value)


def gguf_file(keys, tensors, version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        if isinstance(value, list):
            out += gguf_text(name) + struct.pack("<IIQ", 9, kind, len(value))
            out += b"".join(gguf_value(kind, one) for one in value)
        else:
            out += gguf_text(name) + struct.pack("<I", kind) + gguf_value(kind, value)
    offset, data = 0, b""
    for name, dims, kind, size in tensors:
        out += gguf_text(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        out += struct.pack("<IQ", kind, offset)
        data += bytes(range(256))[:size] * 1 + bytes(max(0, size - 256)) + bytes(-size % alignment)
        offset += size + -size % alignment
    return out + bytes(-len(out) % alignment) + data


def gguf_files():
    def keys(family, model, pre, extra=()):
        tokens = ["a", "b", BYTES[32], "ab", "1", "<s>", BYTES[0xC3], BYTES[0xA9]]
        if model == "llama":
            tokens = ["<unk>", "<s>", "\u2581", "a", "\u2581a", "<0x0A>", "b", "1"]
        listed = [("general.architecture", 8, family), ("general.name", 8, "tiny"),
                  (family + ".block_count", 4, 2), (family + ".context_length", 4, 64),
                  (family + ".embedding_length", 4, 32), (family + ".feed_forward_length", 4, 64),
                  (family + ".attention.head_count", 4, 4), (family + ".attention.head_count_kv", 4, 2),
                  (family + ".attention.layer_norm_rms_epsilon", 6, 1e-5),
                  (family + ".rope.dimension_count", 4, 8), (family + ".rope.freq_base", 6, 10000.0),
                  ("tokenizer.ggml.model", 8, model), ("tokenizer.ggml.pre", 8, pre),
                  ("tokenizer.ggml.tokens", 8, tokens),
                  ("tokenizer.ggml.token_type", 5, [2, 3, 1, 1, 1, 6, 1, 1] if model == "llama"
                   else [1, 1, 1, 1, 1, 3, 1, 4]),
                  ("tokenizer.ggml.bos_token_id", 4, 5 if model == "gpt2" else 1),
                  ("tokenizer.ggml.eos_token_id", 4, 5), ("tokenizer.ggml.unknown_token_id", 4, 0),
                  ("tokenizer.ggml.add_bos_token", 7, 1), ("tokenizer.ggml.add_eos_token", 7, 0),
                  ("tokenizer.ggml.add_space_prefix", 7, 1),
                  ("tokenizer.chat_template", 8, "{{ messages[0].content }}")]
        listed += [("tokenizer.ggml.scores", 6, [0.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0])
                   if model == "llama" else ("tokenizer.ggml.merges", 8, ["a b"])]
        return listed + list(extra)

    tensors = [("token_embd.weight", [32, 8], 0, 1024), ("output_norm.weight", [32], 0, 128),
               ("blk.0.a", [32, 2], 1, 128), ("blk.0.b", [32, 2], 30, 128), ("blk.0.c", [32, 2], 2, 36),
               ("blk.0.d", [32, 2], 3, 40), ("blk.0.e", [32, 2], 6, 44), ("blk.0.f", [32, 2], 7, 48),
               ("blk.0.g", [32, 2], 8, 68), ("blk.0.k", [32, 2], 20, 36), ("blk.0.l", [32, 2], 39, 34)]
    tensors += [("blk.1.%d" % kind, [256, 1], kind, size)
                for kind, size in [(10, 84), (11, 110), (12, 144), (13, 176), (14, 210), (23, 136)]]
    tensors += [("blk.0.h", [256, 1], 15, 292)]
    for family, model, pre in [("llama", "gpt2", "smollm"), ("llama", "llama", "default"), ("qwen2", "gpt2", "qwen2"),
                               ("qwen3", "gpt2", "qwen2"), ("mistral", "llama", "default"),
                               ("llama", "gpt2", "llama-bpe"), ("llama", "gpt2", "gpt-2"), ("gemma", "gpt2", "x")]:
        put("gguf", gguf_file(keys(family, model, pre), tensors[:3]))
    put("gguf", gguf_file([], tensors))
    put("gguf", gguf_file([], tensors[:-1]))
    put("gguf", gguf_file([], [(name, dims, kind, size) for name, dims, kind, size in reversed(tensors[2:-1])], 2))
    put("gguf", gguf_file([("general.alignment", 4, 64), ("n", 12, 0.5), ("q", 10, 1 << 40), ("i", 11, -3),
                           ("list", 2, [1, 2]), ("texts", 8, ["x", ""])], tensors[:2], 2, 64))
    for extra in [[("llama.rope.scaling.type", 8, "linear"), ("llama.rope.scaling.factor", 6, 2.0)],
                  [("llama.attention.key_length", 4, 16), ("llama.attention.value_length", 4, 16)],
                  [("llama.vocab_size", 4, 8), ("tokenizer.ggml.eot_token_id", 4, 4), ("llama.expert_count", 4, 2)],
                  [("llama.attention.sliding_window", 4, 16), ("llama.rope.scaling.attn_factor", 6, 1.0)],
                  [("general.file_type", 4, 1), ("tokenizer.ggml.padding_token_id", 4, 3)]]:
        put("gguf", gguf_file(keys("llama", "gpt2", "smollm", extra), tensors[:2]))
    put_families(keys, tensors)
    listed = keys("llama", "gpt2", "smollm")
    place = lambda number, count: [("split.no", 2, number), ("split.count", 2, count)]
    for first, second in [((0, 2), (1, 2)), ((0, 2), (0, 2)), ((0, 3), (1, 3)), ((1, 2), (1, 2)), ((0, 60000), (1, 60000)), ((0, 2), (1, 3))]:
        put("gguf", gguf_file(listed + place(*first), tensors[:1]) + gguf_file(place(*second), tensors[1:3]))


def put_families(keys, tensors):
    """A file of each family and kind of tokenizer, and each key that changes how a file is read."""
    with_router = tensors[:2] + [("blk.%d.%s.weight" % (layer, name), [32], 0, 128) for layer in (0, 1)
                                 for name in ("ffn_gate_inp", "ffn_up_shexp", "attn_q_norm")]
    factors = [("rope_factors_%s.weight" % name, [4], 0, 16) for name in ("long", "short")]
    for family in ("llama", "mistral3", "qwen2moe", "qwen3moe", "gemma", "gemma2", "gemma3", "phi3", "smollm3", "olmo2", "granite",
                   "granitemoe", "stablelm", "gpt-oss"):
        own = lambda name, kind, value: (family + "." + name, kind, value)
        for extra in [[], [own("embedding_scale", 6, 12.0), own("attention.scale", 6, 0.1), own("logit_scale", 6, 8.0)],
                      [own("rope.scaling.type", 8, "yarn"), own("rope.scaling.factor", 6, 4.0), own("rope.scaling.yarn_beta_fast", 6, 16.0)],
                      [own("expert_count", 4, 4), own("expert_used_count", 4, 2), own("expert_gating_func", 4, 2)],
                      [own("expert_count", 4, 4), own("expert_used_count", 4, 2), own("expert_shared_feed_forward_length", 4, 64)],
                      [own("attention.sliding_window", 4, 16), own("attention.sliding_window_pattern", 7, [1, 0])],
                      [own("attention.sliding_window", 4, 16), own("attention.sliding_window_pattern", 4, 2)],
                      [own("attention.layer_norm_epsilon", 6, 1e-5), own("attention.causal", 7, 0)], [own("rope.scaling.finetuned", 7, 0)],
                      [own("rope.freq_base_swa", 6, 100.0), own("attention.layer_norm_epsilon", 6, 1e-5)]]:
            put("gguf", gguf_file(keys(family, "gpt2", "smollm", extra), with_router))
    replaced = lambda changes: [changes.pop(key[0], key) for key in keys("llama", "gpt2", "smollm")]
    for name, kind, value in [
            ("llama.attention.head_count_kv", 5, [2, 2]), ("llama.attention.head_count_kv", 5, [2, 1]), ("llama.block_count", 1, 2),
            ("llama.context_length", 3, 64), ("llama.feed_forward_length", 12, 64.0), ("llama.block_count", 8, "x"),
            ("llama.attention.head_count", 4, [])]:
        put("gguf", gguf_file(replaced({name: (name, kind, value)}), tensors[:2]))
    for extra in [[("llama.rope.scaling.type", 8, "longrope")], [("llama.rope.scaling.type", 8, "z")], [("llama.rope.scale_linear", 6, 2.0)],
                  [("llama.nextn_predict_layers", 4, 1)], [("llama.attention.sliding_window_pattern", 6, [1.0, 0.0])],
                  [("tokenizer.ggml.eos_token_ids", 5, [4, 5, -1])], [("tokenizer.ggml.eos_token_ids", 4, [4, 5, 99])]]:
        put("gguf", gguf_file(keys("llama", "gpt2", "smollm", extra), tensors[:2] + factors))
    put("gguf", gguf_file(keys("phi3", "gpt2", "smollm"), tensors[:2] + factors))
    put("gguf", gguf_file(keys("llama", "gpt2", "smollm"), tensors[:2] + [("rope_freqs.weight", [4], 0, 16)]))
    put("gguf", gguf_file(keys("llama", "gpt2", "smollm"), tensors[:2] + [("rope_freqs.weight", [3], 0, 16)]))
    tokens = ["<unk>", "</s>", "<pad>", "\u2581", "a", "\u2581a", "<0x0A>", "<|im_end|>"]
    named = {"tokenizer.ggml.tokens": 8, "tokenizer.ggml.scores": 6, "tokenizer.ggml.token_type": 5}
    for changes in [{}, {"tokenizer.ggml.token_type": [1] * 8}, {"tokenizer.ggml.token_type": [9] * 8}, {"tokenizer.ggml.token_type": [1]},
                    {"tokenizer.ggml.scores": [-1.0] * 8}, {"tokenizer.ggml.scores": [-1.0]}, {"tokenizer.ggml.tokens": ["<|return|>", "<|call|>", "<|end|>"] + tokens[3:]}]:
        for model, extra in [("t5", [("tokenizer.ggml.precompiled_charsmap", 0, list(character_map()))]), ("t5", []), ("llama", []), ("gpt2", []),
                             ("bert", []), ("t5", [("tokenizer.ggml.remove_extra_whitespaces", 7, 1)])]:
            of = {"tokenizer.ggml.tokens": tokens, **changes}
            listed = [(key[0], named[key[0]], of[key[0]]) if key[0] in of else key for key in keys("llama", "llama", "default", extra)]
            put("gguf", gguf_file([("tokenizer.ggml.model", 8, model) if key[0] == "tokenizer.ggml.model" else key for key in listed], tensors[:2]))


def safetensors_files():
    def header(*tensors):
        out, at = {"__metadata__": {"format": "pt"}}, 0
        for name, kind, shape, size in tensors:
            out[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        return json.dumps(out).encode(), at

    for tensors in [[("a", "F32", [2, 4], 32), ("b", "BF16", [8], 16), ("c", "F16", [2, 2], 8)],
                    [("x", "I64", [1], 8), ("y", "U8", [4], 4)], [("one", "F32", [], 4)], []]:
        head, size = header(*tensors)
        put("safetensors", b"\1" + struct.pack("<H", size) + head)
        put("safetensors", b"\0" + struct.pack("<Q", len(head)) + head + bytes(size))
        index = {"metadata": {"total_size": size}, "weight_map": {t[0]: "a.safetensors" for t in tensors}}
        put("safetensors", b"\2" + json.dumps(index).encode() + b"\0" + struct.pack("<H", size) + head)
    put("safetensors", b"\2" + b'{"weight_map":{"a":"../a.safetensors"}}' + b"\0")
    data = lambda *numbers: struct.pack(f"<{len(numbers)}q", *numbers)
    configs = {1: [{"quant_method": "fp8", "weight_block_size": [8, 8]}, {"quant_method": "fp8", "weight_block_size": 1}],
               2: [{"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {
                   "weights": {"num_bits": 4, "group_size": 8, "block_structure": [4, 4]}, "format": "int-quantized"}}},
                   {"quant_method": "compressed-tensors", "format": "z"}, {"quant_method": "compressed-tensors", "sparsity_config": {"format": "z"}},
                   {"quant_method": "compressed-tensors", "config_groups": {"g": {"format": "z"}}}],
               3: [{"quant_method": "awq", "bits": 4, "group_size": 8}, {"quant_method": "awq", "w_bit": 4, "q_group_size": 8, "version": "GEMM"},
                   {"quant_method": "awq", "version": "gemv"}, {"quant_method": "awq", "bits": 8}],
               4: [{"quant_method": "gptq", "bits": 4, "group_size": 8}, {"quant_method": "gptq", "bits": 8, "checkpoint_format": "gptq_v2"},
                   {"quant_method": "gptq", "bits": 3}, {"quant_method": "gptq", "checkpoint_format": "marlin"}],
               5: [{"quant_method": "mxfp4"}, {"load_in_4bit": True}, {"load_in_8bit": True}, {"quant_method": "z"}, None, {}]}
    for form, tensors, values in [
            (b"\3\0\37", [("a.qweight", "I32", [32, 1], 128), ("a.qzeros", "I32", [1, 1], 4),
                           ("a.scales", "F16", [1, 8], 16)], b"\x21\x43" * 64 + b"\x11" * 4 + b"\0\x3c" * 8),
            (b"\4\0\37", [("a.qweight", "I32", [4, 8], 128), ("a.qzeros", "I32", [1, 1], 4), ("a.scales", "F16", [1, 8], 16)],
             b"\x21\x43" * 64 + b"\x11" * 4 + b"\0\x3c" * 4 + b"\1\2\0\x3c\xff\xff\0\xfc"),
            (b"\4\0\37", [("a.qweight", "I32", [4, 8], 128), ("a.qzeros", "I32", [1, 1], 4), ("a.scales", "BF16", [1, 8], 16),
                           ("a.g_idx", "I32", [32], 128)], b"\x21\x43" * 64 + b"\x11" * 4 + b"\x80\x3f" * 8),
            (b"\2\0\37", [("a.weight_shape", "I64", [2], 16), ("a.weight_packed", "I32", [8, 4], 128), ("a.weight_scale", "BF16", [8, 1], 16)],
             data(8, 32) + b"\x21\x43" * 64 + b"\x80\x3f" * 8),
            (b"\1\0\0", [("a.weight", "F8_E4M3", [8, 8], 64), ("a.weight_scale_inv", "F32", [8, 8], 256)], b""),
            (b"\2\0\7", [("a.weight_shape", "I64", [2], 16), ("a.weight_packed", "I32", [8, 2], 64),
                          ("a.weight_scale", "F16", [8, 2], 32), ("a.weight_zero_point", "I32", [1, 2], 8),
                          ("a.weight_g_idx", "I32", [16], 64)], data(8, 16)),
            (b"\2\0\0", [("a.weight", "I8", [4, 4], 16), ("a.weight_scale", "BF16", [4, 1], 8),
                          ("a.weight_zero_point", "I8", [4, 1], 4)], b""),
            (b"\3\0\7", [("a.qweight", "I32", [16, 1], 64), ("a.qzeros", "I32", [2, 1], 8),
                          ("a.scales", "F16", [2, 8], 32)], b""),
            (b"\4\2\7", [("a.qweight", "I32", [2, 8], 64), ("a.qzeros", "I32", [2, 1], 8),
                          ("a.scales", "F16", [2, 8], 32), ("a.g_idx", "I32", [16], 64)], b""),
            (b"\5\0\0", [("x_blocks", "U8", [2, 2, 1, 16], 64), ("x_scales", "U8", [2, 2, 1], 4)], b"")]:
        head, size = header(*tensors)
        rest = struct.pack("<H", len(head)) + head + values.ljust(size, b"\0")
        put("safetensors", b"\3" + form + rest)
        for config in configs[form[0]]:
            for key in ("quantization_config", "compression_config"):
                put("safetensors", b"\4" + json.dumps({key: config}).encode() + b"\0" + rest)


def configs():
    for folder in sorted(glob.glob(os.path.join(GOLDEN, "models/*/"))):
        parts = [open(folder + name, "rb").read()
                 for name in ("config.json", "generation_config.json", "tokenizer_config.json")]
        put("model_config", b"\0".join(parts))
        config = json.loads(parts[0])
        for change in [{"rope_scaling": {"type": "linear", "factor": 2.0}},
                       {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
                       {"eos_token_id": [1, 2, 3]}, {"num_key_value_heads": None}, {"hidden_act": "gelu"},
                       {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
                       {"layer_types": ["sliding_attention", "full_attention"]}, {"attention_bias": True}]:
            put("model_config", json.dumps(dict(config, **change)).encode() + b"\0"
                + b'{"temperature":0.6,"top_p":0.9,"top_k":20,"eos_token_id":[2,3]}\0'
                + b'{"bos_token":"<s>","eos_token":{"content":"</s>"},"chat_template":'
                + b'[{"name":"default","template":"{{ 1 }}"},{"name":"tool","template":"x"}]}')


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

    magic = open(os.path.join(TREE, "worker/redis/progress.c")).read().split("#define MAGIC")[1].split()[0]
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


def main():
    for make in (requests, fields, replies, templates, tokenizers, tekkens, sentencepiece_models, gguf_files, safetensors_files, configs, redis_replies,
                 trails, frames, metadata, options, http, texts):
        make()
    print(" ".join("%s:%d" % pair for pair in sorted(counts.items())))


main()
