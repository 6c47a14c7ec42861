#!/usr/bin/env python3
"""Writes the records of tests/golden/wire and tests/golden/poison with the reference msgpack.

    pip install msgpack==1.2.4 && tests/golden/make_records.py

wire/requests/NAME.json and NAME.msgpack are the same request in both encodings.
wire/answers/NAME.msgpack is the output that this program must write, byte for byte.
poison/ has records that must be rejected. The columns of poison/manifest.tsv: file, content-type header
("-": none), error code, id of the answer ("-": no readable id).
"""
import json
import pathlib
import shutil
import struct

import msgpack

HERE = pathlib.Path(__file__).parent


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


# ---- good requests ----

USER = [{"role": "user", "content": "hello"}]
REQUESTS = {
    "prompt": {"id": "g-1", "prompt": "Once upon a time"},
    "ids": {"prompt_token_ids": [0, 1, 127, 128, 255, 256, 65535, 65536, 4294967294]},
    "chat": {
        "id": "g-3",
        "model": "SmolLM2",
        "messages": [{"role": "system", "content": "Be brief."}] + USER,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
        "chat_template_kwargs": {"enable_thinking": False, "n": 3, "f": 0.5, "t": "x", "z": None, "l": [1, {"m": True}]},
    },
    "unicode": {"id": "g-4", "prompt": "caf\u00e9 \u4f60\u597d \U0001f600 \u0000 \u2028 \"quoted\" \\ \n\t"},
    "sampling": {
        "id": "g-5", "prompt": "x", "temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05,
        "typical_p": 0.9, "repetition_penalty": 1.1, "presence_penalty": -0.5,
        "frequency_penalty": 0.25, "seed": -9223372036854775808,
        "logit_bias": {"0": -100, "49151": 100.0, "7": 0.5}, "allowed_token_ids": [1, 2, 3],
        "bad_words": ["foo", "b\u00e4r"], "logprobs": 5,
    },
    "ending": {
        "id": "g-6", "prompt": "x", "max_completion_tokens": 32, "min_tokens": 4,
        "ignore_eos": True, "stop": ["\n\n", "END", "\u3002"], "include_stop_str_in_output": True,
        "stop_token_ids": [2, 0], "max_chars": 400, "min_confidence": 0.01,
    },
    "operation": {
        "id": "g-7", "prompt": "x", "n": 8, "priority": "urgent", "timeout_ms": 60000,
        "stream": False, "session": "s/1", "cache": {"read": False, "write": True},
        "response_format": {"type": "text"}, "metadata": {"k": [1, 2.5, None, {"d": "e"}]},
    },
    "one_stop": {"id": "g-8", "prompt": "x", "stop": "END", "priority": -100, "logprobs": True,
                 "max_new_tokens": 1},
    "nulls": {"id": None, "prompt": "x", "messages": None, "stop": None, "max_tokens": None,
              "temperature": None, "metadata": None, "unknown": None},
    "unknown": {"id": "g-10", "prompt": "x", "user": "u", "tool_selection": [{"a": {"b": []}}]},
    "long_prompt": {"id": "g-11", "prompt": "word " * 2000},
    "many_ids": {"id": "g-12", "prompt_token_ids": list(range(5000))},
}


def make_requests():
    folder = fresh(HERE / "wire" / "requests")
    for name, request in REQUESTS.items():
        (folder / f"{name}.json").write_text(json.dumps(request))
        (folder / f"{name}.msgpack").write_bytes(msgpack.packb(request))


# ---- answers ----

def make_answers():
    folder = fresh(HERE / "wire" / "answers")
    token = {"id": "id-1", "attempt": 1, "choice": 0, "index": 7, "token_ids": [10, 300, 70000],
             "text": " h\u00e4llo"}
    resumed = {"id": "id-1", "attempt": 2, "resumed_at": 7, "choice": 1, "index": 7,
               "token_ids": [], "text": ""}
    result = {
        "id": "id-1", "attempt": 1, "model": "m", "finish_reason": "stop_token",
        "stopped_by": "stop_token", "stop_reason": 42, "text": "hello", "token_ids": [10, 11, 12],
        "usage": {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24,
                  "cached_tokens": 5, "cached_tokens_redis": 2, "accepted_draft_tokens": 3},
        "timings_ms": {"queue": 1.25, "prefill": 10.0, "first_token": 12.5, "total": 99.063,
                       "itl_mean": 9.5, "itl_max": 20.0},
        "prefill_chunks": 2, "preemptions": 1, "recomputed_tokens": 7,
        "error": {"code": "cancelled", "message": "asked to", "retryable": False},
        "worker": "w-1", "source": {"topic": "millrace.requests", "partition": 3, "offset": 41},
        "metadata": {"k": [1, None]},
    }
    for name, answer in (("token", token), ("resumed", resumed), ("result", result)):
        (folder / f"{name}.msgpack").write_bytes(msgpack.packb(answer))


# ---- poison ----

def with_prompt(**fields):
    return {"id": "p", "prompt": "x", **fields}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def raw_str(text):
    return msgpack.packb(text)


def text_record(members):
    """msgpack map of raw key and value bytes, so that keys may repeat."""
    return bytes([0x80 | len(members)]) + b"".join(key + value for key, value in members)


# Both encodings: (name, request, code, id)
BOTH = [
    ("no_prompt", {"id": "p"}, "invalid_request", "p"),
    ("two_prompts", with_prompt(prompt_token_ids=[1]), "invalid_request", "p"),
    ("empty_prompt", {"id": "p", "prompt": ""}, "empty_prompt", "p"),
    ("empty_ids", {"id": "p", "prompt_token_ids": []}, "empty_prompt", "p"),
    ("empty_messages", {"id": "p", "messages": []}, "empty_prompt", "p"),
    ("prompt_number", {"id": "p", "prompt": 7}, "invalid_request", "p"),
    ("ids_text", {"id": "p", "prompt_token_ids": ["1"]}, "invalid_request", "p"),
    ("ids_float", {"id": "p", "prompt_token_ids": [1.5]}, "invalid_request", "p"),
    ("ids_negative", {"id": "p", "prompt_token_ids": [-1]}, "invalid_token_id", "p"),
    ("ids_huge", {"id": "p", "prompt_token_ids": [4294967295]}, "invalid_token_id", "p"),
    ("id_number", {"id": 7, "prompt": "x"}, "invalid_request", "-"),
    ("id_empty", {"id": "", "prompt": "x"}, "invalid_request", "-"),
    ("id_long", {"id": "a" * 129, "prompt": "x"}, "invalid_request", "-"),
    ("id_not_ascii", {"id": "\u00e4", "prompt": "x"}, "invalid_request", "-"),
    ("id_control", {"id": "a\n", "prompt": "x"}, "invalid_request", "-"),
    ("max_tokens_zero", with_prompt(max_tokens=0), "invalid_request", "p"),
    ("max_tokens_huge", with_prompt(max_tokens=2**40), "invalid_request", "p"),
    ("max_tokens_float", with_prompt(max_tokens=1.5), "invalid_request", "p"),
    ("max_tokens_twice", with_prompt(max_tokens=1, max_new_tokens=1), "invalid_request", "p"),
    ("min_above_max", with_prompt(min_tokens=9, max_tokens=8), "invalid_request", "p"),
    ("temperature_negative", with_prompt(temperature=-1), "invalid_request", "p"),
    ("temperature_text", with_prompt(temperature="hot"), "invalid_request", "p"),
    ("top_p_zero", with_prompt(top_p=0), "invalid_request", "p"),
    ("top_p_above_one", with_prompt(top_p=1.5), "invalid_request", "p"),
    ("penalty_out_of_range", with_prompt(presence_penalty=3), "invalid_request", "p"),
    ("n_too_many", with_prompt(n=9), "invalid_request", "p"),
    ("n_negative", with_prompt(n=-1), "invalid_request", "p"),
    ("logprobs_too_many", with_prompt(logprobs=21), "invalid_request", "p"),
    ("stop_too_many", with_prompt(stop=["a"] * 9), "invalid_request", "p"),
    ("stop_too_long", with_prompt(stop="a" * 129), "invalid_request", "p"),
    ("stop_empty", with_prompt(stop=["a", ""]), "invalid_request", "p"),
    ("stop_map", with_prompt(stop={"a": 1}), "invalid_request", "p"),
    ("bias_too_many", with_prompt(logit_bias={str(i): 1 for i in range(1025)}), "invalid_request", "p"),
    ("bias_out_of_range", with_prompt(logit_bias={"1": 101}), "invalid_request", "p"),
    ("bias_bad_id", with_prompt(logit_bias={"one": 1}), "invalid_token_id", "p"),
    ("allowed_empty", with_prompt(allowed_token_ids=[]), "invalid_request", "p"),
    ("messages_too_many", {"id": "p", "messages": USER * 1025}, "invalid_request", "p"),
    ("message_without_role", {"id": "p", "messages": [{"content": "x"}]}, "invalid_request", "p"),
    ("message_null_content", {"id": "p", "messages": [{"role": "user", "content": None}]}, "invalid_request", "p"),
    ("message_text", {"id": "p", "messages": ["x"]}, "invalid_request", "p"),
    ("kwargs_reserved", {"id": "p", "messages": USER, "chat_template_kwargs": {"tokenize": True}}, "invalid_request", "p"),
    ("kwargs_no_map", {"id": "p", "messages": USER, "chat_template_kwargs": [1]}, "invalid_request", "p"),
    ("tools_no_maps", {"id": "p", "messages": USER, "tools": ["x"]}, "invalid_request", "p"),
    ("tools_without_messages", with_prompt(tools=[]), "invalid_request", "p"),
    ("documents_no_list", {"id": "p", "messages": USER, "documents": {}}, "invalid_request", "p"),
    ("content_image", {"id": "p", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "unsupported_content", "p"),
    ("continue_and_prompt", {"id": "p", "messages": USER, "continue_final_message": True, "add_generation_prompt": True}, "invalid_request", "p"),
    ("kwargs_without_messages", with_prompt(chat_template_kwargs={"a": 1}), "invalid_request", "p"),
    ("priority_name", with_prompt(priority="asap"), "invalid_request", "p"),
    ("priority_range", with_prompt(priority=101), "invalid_request", "p"),
    ("timeout_too_long", with_prompt(timeout_ms=86400001), "invalid_request", "p"),
    ("two_deadlines", with_prompt(timeout_ms=1, deadline_ms=1), "invalid_request", "p"),
    ("stream_number", with_prompt(stream=1), "invalid_request", "p"),
    ("session_long", with_prompt(session="s" * 129), "invalid_request", "p"),
    ("cache_wrong", with_prompt(cache={"read": "yes"}), "invalid_request", "p"),
    ("format_json", with_prompt(response_format={"type": "json_schema"}), "invalid_request", "p"),
    ("format_regex", with_prompt(response_format={"type": "regex", "regex": 5}), "invalid_request", "p"),
    ("format_unknown", with_prompt(response_format={"type": "yaml"}), "invalid_request", "p"),
    ("metadata_large", with_prompt(metadata="m" * 4097), "invalid_request", "p"),
    ("nested_too_deep", with_prompt(metadata=nested(32)), "malformed", "p"),
]

# JSON only: (name, bytes, header, code, id)
JSON_ONLY = [
    ("empty", b"", "-", "malformed", "-"),
    ("blank", b"  \n", "-", "malformed", "-"),
    ("not_json", b"hello", "-", "malformed", "-"),
    ("cut_string", b'{"id":"p","prompt":"x', "-", "malformed", "p"),
    ("cut_object", b'{"id":"p","prompt":"x"', "-", "malformed", "p"),
    ("trailing", b'{"id":"p","prompt":"x"}]', "-", "malformed", "p"),
    ("trailing_comma", b'{"id":"p","prompt":"x",}', "-", "malformed", "p"),
    ("array", b'[{"id":"p","prompt":"x"}]', "application/json", "malformed", "-"),
    ("scalar", b"7", "application/json", "malformed", "-"),
    ("twice", b'{"id":"p","prompt":"x","prompt":"y"}', "-", "malformed", "p"),
    ("twice_inside", b'{"id":"p","prompt":"x","metadata":{"a":1,"a":2}}', "-", "malformed", "p"),
    ("twice_escaped", b'{"id":"p","prompt":"x","pr\\u006fmpt":"y"}', "-", "malformed", "p"),
    ("nan", b'{"id":"p","prompt":"x","temperature":NaN}', "-", "malformed", "p"),
    ("infinity", b'{"id":"p","prompt":"x","temperature":-Infinity}', "-", "malformed", "p"),
    ("overflow", b'{"id":"p","prompt":"x","temperature":1e999}', "-", "invalid_request", "p"),
    ("big_integer", b'{"id":"p","prompt":"x","seed":123456789012345678901234567890}', "-", "invalid_request", "p"),
    ("hex", b'{"id":"p","prompt":"x","seed":0x10}', "-", "malformed", "p"),
    ("single_quotes", b"{'id':'p','prompt':'x'}", "-", "malformed", "-"),
    ("comment", b'{"id":"p",/* hi */"prompt":"x"}', "-", "malformed", "p"),
    ("bad_utf8", b'{"id":"p","prompt":"\xc3\x28"}', "-", "malformed", "p"),
    ("overlong_utf8", b'{"id":"p","prompt":"\xc0\xaf"}', "-", "malformed", "p"),
    ("lone_surrogate", b'{"id":"p","prompt":"\\ud800"}', "-", "malformed", "p"),
    ("utf16", '{"id":"p","prompt":"x"}'.encode("utf-16"), "application/json", "malformed", "-"),
    ("byte_order_mark", b'\xef\xbb\xbf{"id":"p","prompt":"x"}', "-", "malformed", "-"),
    ("deep_arrays", b'{"id":"p","prompt":' + b"[" * 50000, "-", "malformed", "p"),
    ("deep_objects", b'{"a":' * 5000, "-", "malformed", "-"),
    ("wrong_header", b'{"id":"p","prompt":"x"}', "application/msgpack", "malformed", "p"),
    ("unknown_header", b'{"id":"p","prompt":"x"}', "application/cbor", "unsupported_encoding", "p"),
    ("latin1_header", b'{"id":"p","prompt":"x"}', "application/json; charset=latin1", "unsupported_encoding", "p"),
]

ID = raw_str("id") + raw_str("p")
PROMPT = raw_str("prompt") + raw_str("x")


def ending(key, value):
    """A record of id, prompt and one more member of raw bytes."""
    return b"\x83" + ID + PROMPT + key + value


METADATA = raw_str("metadata")
GOOD = msgpack.packb({"id": "p", "prompt": "hello", "stop": ["a"], "temperature": 0.5})

MSGPACK_ONLY = [
    ("empty", b"", "application/msgpack", "malformed", "-"),
    ("array", b"\x91\x01", "-", "malformed", "-"),
    ("integer", b"\x07", "application/msgpack", "malformed", "-"),
    ("cut_in_key", GOOD[:2], "-", "malformed", "-"),
    ("cut_in_text", GOOD[:14], "-", "malformed", "p"),
    ("cut_in_float", GOOD[:-3], "-", "malformed", "p"),
    ("trailing", GOOD + b"\xc0", "-", "malformed", "p"),
    ("two_records", GOOD + GOOD, "-", "malformed", "p"),
    ("fewer_members", b"\x84" + ID + PROMPT, "-", "malformed", "p"),
    ("huge_map", b"\xdf\xff\xff\xff\xff", "-", "malformed", "-"),
    ("huge_map16", b"\xde\xff\xff" + ID, "-", "malformed", "p"),
    ("huge_array", ending(METADATA, b"\xdd\x10\x00\x00\x00"), "-", "malformed", "p"),
    ("huge_arrays", ending(METADATA, b"\xdd\x10\x00\x00\x00" * 30), "-", "malformed", "p"),
    ("huge_text", ending(METADATA, b"\xdb\xff\xff\xff\xff"), "-", "malformed", "p"),
    ("huge_binary", ending(METADATA, b"\xc6\x7f\xff\xff\xff"), "-", "malformed", "p"),
    ("huge_ext", ending(METADATA, b"\xc9\xff\xff\xff\xff\x01"), "-", "malformed", "p"),
    ("deep_arrays", ending(METADATA, b"\x91" * 50000), "-", "malformed", "p"),
    ("deep_maps", b"\x81\xa1a" * 5000, "-", "malformed", "-"),
    ("key_integer", ending(b"\x07", b"\x01"), "-", "malformed", "p"),
    ("key_nil", ending(b"\xc0", b"\x01"), "-", "malformed", "p"),
    ("key_binary", ending(b"\xc4\x01a", b"\x01"), "-", "malformed", "p"),
    ("bias_integer_keys", ending(raw_str("logit_bias"), msgpack.packb({7: 1.0})), "-", "malformed", "p"),
    ("key_twice", text_record([(raw_str("id"), raw_str("p"))] * 2 + [(raw_str("prompt"), raw_str("x"))]), "-", "malformed", "p"),
    ("key_twice_inside", ending(METADATA, b"\x82\xa1a\x01\xa1a\x02"), "-", "malformed", "p"),
    ("key_twice_longer", ending(METADATA, b"\x82\xa1a\x01\xd9\x01a\x02"), "-", "malformed", "p"),
    ("bad_utf8", b"\x82" + ID + raw_str("prompt") + b"\xa2\xc3\x28", "-", "malformed", "p"),
    ("bad_utf8_key", ending(b"\xa1\xff", b"\x01"), "-", "malformed", "p"),
    ("cut_utf8", b"\x82" + ID + raw_str("prompt") + b"\xa1\xe2", "-", "malformed", "p"),
    ("surrogate", b"\x82" + ID + raw_str("prompt") + b"\xa3\xed\xa0\x80", "-", "malformed", "p"),
    ("timestamp", ending(METADATA, b"\xd6\xff\x00\x00\x00\x00"), "-", "malformed", "p"),
    ("ext", ending(METADATA, b"\xc7\x03\x05abc"), "-", "malformed", "p"),
    ("never_used", ending(METADATA, b"\xc1"), "-", "malformed", "p"),
    ("prompt_binary", b"\x82" + ID + raw_str("prompt") + b"\xc4\x01x", "-", "invalid_request", "p"),
    ("nan", ending(raw_str("temperature"), b"\xcb" + struct.pack(">d", float("nan"))), "-", "invalid_request", "p"),
    ("nan32", ending(raw_str("top_p"), b"\xca" + struct.pack(">f", float("nan"))), "-", "invalid_request", "p"),
    ("infinity", ending(raw_str("temperature"), b"\xcb" + struct.pack(">d", float("inf"))), "-", "invalid_request", "p"),
    ("nan_bias", ending(raw_str("logit_bias"), b"\x81\xa11\xcb" + struct.pack(">d", float("nan"))), "-", "invalid_request", "p"),
    ("big_integer", ending(raw_str("max_tokens"), b"\xcf" + b"\xff" * 8), "-", "invalid_request", "p"),
    ("big_seed", ending(raw_str("seed"), b"\xcf" + b"\xff" * 8), "-", "invalid_request", "p"),
    ("wrong_header", GOOD, "application/json", "malformed", "p"),
    ("many_members", msgpack.packb({"id": "p", "prompt": "x", "metadata": {str(i): 0 for i in range(4097)}}), "-", "malformed", "p"),
]


def make_poison():
    folder = fresh(HERE / "poison")
    rows = []

    def add(file, data, header, code, answer_id):
        (folder / file).write_bytes(data)
        rows.append("\t".join((file, header, code, answer_id)))

    for name, request, code, answer_id in BOTH:
        add(f"{name}.json", json.dumps(request).encode(), "-", code, answer_id)
        add(f"{name}.msgpack", msgpack.packb(request), "-", code, answer_id)
    for name, data, header, code, answer_id in JSON_ONLY:
        add(f"json_{name}.json", data, header, code, answer_id)
    for name, data, header, code, answer_id in MSGPACK_ONLY:
        add(f"msgpack_{name}.msgpack", data, header, code, answer_id)
    (folder / "manifest.tsv").write_text("\n".join(rows) + "\n")
    return len(rows)


if __name__ == "__main__":
    make_requests()
    make_answers()
    print(make_poison(), "poison records")
