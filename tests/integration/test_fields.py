#!/usr/bin/env python3
"""docker/guide/fields.md is true: its table has a row for every field that the decoder's two tables have and for every field
of OpenAI's and vLLM's APIs, and each row's example, sent to a worker with the real model, is accepted, reported in a
warning, or refused, as the row states. The examples of the page's other sections get the answers that the page shows,
and their token records joined are these answers. Needs the packages of docker/deps.sh test
(confluent_kafka in .deps/python)."""

import json
import re
import tempfile
import time

import embedded_rig
from embedded_rig import ROOT

STRICT = "millrace.strict"
PAGE = (ROOT / "docker/guide/fields.md").read_text()

# The fields of the public reference pages: create chat completion, create completion; vLLM's OpenAI-compatible server.
OPENAI = """audio best_of echo frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
messages metadata modalities model n parallel_tool_calls prediction presence_penalty prompt prompt_cache_key
prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream
stream_options suffix temperature tool_choice tools top_logprobs top_p user verbosity web_search_options""".split()
VLLM = """add_generation_prompt add_special_tokens allowed_token_ids bad_words cache_salt chat_template chat_template_kwargs
continue_final_message documents ec_transfer_params guided_choice guided_decoding_backend guided_grammar guided_json
guided_regex guided_whitespace_pattern ignore_eos include_reasoning include_stop_str_in_output kv_transfer_params
length_penalty logits_processors logprob_token_ids media_io_kwargs min_p min_tokens mm_processor_kwargs priority
prompt_embeds prompt_logprobs repetition_detection repetition_penalty request_id return_mm_kwargs return_prompt_text
return_token_ids return_token_offsets return_tokens_as_token_ids routed_experts_prompt_start session_id
skip_special_tokens spaces_between_special_tokens stop_token_ids stream_interval structural_tag structured_outputs
thinking_token_budget top_k truncate_prompt_tokens truncation_side use_beam_search vllm_xargs watermarking""".split()

# A chat template for calls of tools between <tool_call> tags.
TEMPLATE = """{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %} {{ tool | tojson }}{% endfor %}
Write a call as <tool_call>{"name": name, "arguments": arguments}</tool_call>.<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


# A chat template for calls as Qwen3-Coder writes them.
TAGS_TEMPLATE = """{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %} {{ tool.function.name }}{% endfor %}
Write <tool_call><function=name><parameter=key>value</parameter></function></tool_call>.<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def rows():
    """{field: (of, here, example)} of the table of request fields."""
    found = {}
    table = PAGE.split("| request field |", 1)[1].split("\n\n", 1)[0]
    for line in table.splitlines()[2:]:
        name, of, here, example = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))][:4]
        name = name.strip("`")
        assert name not in found and here in ("accepted", "warned", "refused"), line
        found[name] = (of, here, None if example == "-" else json.loads("{" + example.strip("`") + "}"))
    return found


def check_lists(table):
    served = (ROOT / "codec/records/request_fields.c").read_text().split("fields[] = {", 1)[1].split("};", 1)[0]
    served = re.findall(r"(?:TEXT|READ|MAX_TOKENS|BOOL|ABOVE|SESSION)\((\w+)|(?:NUMBER|LIST)\(\w+, (\w+)", served)
    served = {one or two for one, two in served} | {"id"}
    foreign = (ROOT / "codec/records/foreign_fields.c").read_text().split("fields[] = {", 1)[1].split("\n};", 1)[0]
    foreign = re.findall(r'^    \{"(\w+)", (NULL|"(?:[^"\\]|\\.)*"), (true|false), ', foreign, re.M)
    here = {name: "accepted" if neutral == '"*"' else "refused" if refused == "true" else "warned"
            for name, neutral, refused in foreign}
    assert len(here) == len(foreign) > 40 and not served & set(here)
    assert set(table) == served | set(here), set(table) ^ (served | set(here))
    for name, (_, outcome, example) in table.items():
        assert outcome == here.get(name, "accepted"), f"{name} is {here.get(name, 'accepted')}"
        assert name in served or example is not None, f"{name} has no example"
    for api, fields in (("OpenAI", OPENAI), ("vLLM", VLLM)):
        missing = set(fields) - set(table)
        assert not missing, f"fields of {api} without a row: {sorted(missing)}"
    print(f"{len(table)} fields: {len(served)} served, {len(here)} not; {len(OPENAI)} of OpenAI and {len(VLLM)} of vLLM")


def conversations():
    """For each pair of JSON blocks below the table: the request, and the expected members of the result."""
    blocks = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.M | re.S)]
    assert len(blocks) % 2 == 0, "an example without an answer"
    return list(zip(blocks[0::2], blocks[1::2]))


def fill(example):
    body = {"max_tokens": 2, "stream": False, **example}
    if any(name in body for name in ("max_completion_tokens", "max_new_tokens")):
        del body["max_tokens"]
    if "deadline_ms" in body:
        body["deadline_ms"] = int(time.time() * 1000) + 3600000
    return body if {"prompt", "prompt_token_ids", "messages", "input"} & set(body) else {"prompt": "Once upon", **body}


def check_outcome(name, here, result, strict):
    error = result.get("error")
    refused = here == "refused" or (here == "warned" and strict)
    if refused:
        assert error and error["code"] == "unsupported" and name in error["message"], f"{name}: {result}"
        return
    assert not error, f"{name}: {error}"
    warnings = result.get("warnings", [])
    assert len(warnings) == (1 if here == "warned" else 0), f"{name}: {warnings}"
    assert all(warning.startswith(name) for warning in warnings), f"{name}: {warnings}"


def check_members(expected, result, where):
    """Every member that the page shows is in the result; a text that begins with ~ is a pattern."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in result, f"{where}: no {name} in {result}"
            check_members(value, result[name], f"{where}.{name}")
    elif isinstance(expected, list):
        assert isinstance(result, list) and len(result) == len(expected), f"{where}: {result}"
        for number, (one, two) in enumerate(zip(expected, result)):
            check_members(one, two, f"{where}[{number}]")
    elif isinstance(expected, str) and expected.startswith("~"):
        assert re.fullmatch(expected[1:], result, re.S), f"{where}: {result}"
    else:
        assert expected == result, f"{where}: {result}, not {expected}"


def check_stream(records, result, where):
    """The token records joined, as a client of OpenAI's stream joins them, are the result."""
    joined = {"text": "", "content": "", "reasoning": "", "tool_calls": []}
    for record in records:
        for name in ("text", "content", "reasoning"):
            joined[name] += record.get(name, "")
        for delta in record.get("tool_calls", []):
            calls, function = joined["tool_calls"], delta.pop("function")
            if delta["index"] == len(calls):
                calls.append({**delta, "function": {"name": function["name"], "arguments": ""}})
            calls[delta["index"]]["function"]["arguments"] += function["arguments"]
    wanted = {name: result.get(name, type(value)()) for name, value in joined.items()}
    assert joined == wanted, f"{where}: {joined} was streamed of {wanted}"


def serve(template, bodies, *options, **more):
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
        file.write(template)
        file.flush()
        return embedded_rig.serve(bodies, "--chat-template", file.name, *options, **more)


def check_tags(*options):
    """Calls in tags get the types of the tool's schema, or stay text. A request whose constraints cannot be kept or
    guaranteed gets a warning or an error."""
    def tool(properties, **more):
        return {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": properties}, **more}}

    days = tool({"days": {"type": "integer"}, "city": {"type": "string"}, "units": {"type": "array"}})
    call = ("<tool_call>\n<function=f>\n<parameter=days>\n3\n</parameter>\n<parameter=city>\n7\n</parameter>\n"
            '<parameter=units>\n["C"]\n</parameter>\n</function>\n</tool_call>')
    ask = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 200, "tools": [days]}
    many = tool({f"p{number}": {"type": "integer"} for number in range(15000)})
    bodies = {"call": {**ask, "guided_choice": [f"I look.\n{call}\n{call}"]},
              "single": {**ask, "guided_choice": [call], "parallel_tool_calls": False},
              "cut": {**ask, "guided_choice": [call[:-30]]},
              "many": {**ask, "tools": [many], "guided_choice": [call]},
              "strict": {**ask, "tools": [tool({}, strict=True)]},
              "required": {**ask, "tool_choice": "required", "parallel_tool_calls": False}}
    results, tokens = serve(TAGS_TEMPLATE, bodies, *options)
    found = {name: [json.loads(call["function"]["arguments"]) for call in result.get("tool_calls", [])]
             for name, result in results.items()}
    typed = {"days": 3, "city": "7", "units": ["C"]}
    assert found["call"] == [typed, typed] and results["call"]["content"] == "I look.", results["call"]
    assert found["single"] == [typed] and results["single"]["content"] == "", results["single"]
    assert found["cut"] == [] and results["cut"]["content"] == call[:-30], results["cut"]
    assert found["many"] == [{"days": "3", "city": "7", "units": '["C"]'}], results["many"]
    assert len(results["many"]["warnings"]) == 1 and results["many"]["warnings"][0].startswith("tools: "), results["many"]
    assert "qwen-coder" in results["strict"]["error"]["message"], results["strict"]
    assert len(found["required"]) == 1 and not results["required"].get("warnings"), results["required"]
    for name in ("call", "single", "cut", "many", "required"):
        check_stream(tokens.get(name, []), results[name], name)
    print(f"{len(bodies)} answers of a model that writes calls in tags are right")


def main():
    table = rows()
    check_lists(table)
    examples = {name: fill(example) for name, (_, _, example) in table.items() if example is not None}
    pages = {f"page-{number}": request for number, (request, _) in enumerate(conversations())}
    bodies = {**examples, **{f"strict-{name}": body for name, body in examples.items()}, **pages}
    results, tokens = serve(
        TEMPLATE, bodies, "--requests-topic", embedded_rig.REQUESTS, "--requests-topic", f"{STRICT},strict",
        topic_of=lambda name: STRICT if name.startswith("strict-") else embedded_rig.REQUESTS)
    for name in examples:
        for prefix in ("", "strict-"):
            check_outcome(name, table[name][1], results[prefix + name], prefix != "")
    for number, (_, expected) in enumerate(conversations()):
        result = results[f"page-{number}"]
        check_members(expected, result, f"example {number + 1}")
        check_stream(tokens.get(f"page-{number}", []), result, f"example {number + 1}")
    assert sum("tool_calls" in record for records in tokens.values() for record in records) >= 8  # some come in pieces
    print(f"{len(examples)} examples of fields and {len(pages)} of features have the outcome in docker/guide/fields.md")
    check_tags()


if __name__ == "__main__":
    main()
