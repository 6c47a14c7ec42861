#!/usr/bin/env python3
"""Constrained output: answers are valid, and constraints that cannot be guaranteed are rejected.

1,000 generated schemas: grammar_draw compiles each one and draws answers at random from its masks; PyPI jsonschema
validates every answer. Then a worker with the real model answers some of them at temperature 1. Needs the
packages of docker/deps.sh test (jsonschema and confluent_kafka in .deps/python).

    test_grammar.py [--served 48] [--suite FOLDER] [--numbers 400] [--seed 1]

generators.jsonl has schemas that pydantic, attrs with msgspec, zod, TypeBox, .NET and Jackson write. The first four have
made theirs; those of .NET and Jackson are written by hand in the form of theirs.

--suite: the folder json/tests/draft2020-12 of a source package of PyPI jsonschema: answers are drawn for each schema of
the public JSON Schema Test Suite too."""

import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import embedded_rig  # noqa: E402
from embedded_rig import BINARY, MODEL  # noqa: E402

import jsonschema  # noqa: E402 (embedded_rig adds its folder to the path, and that of fleet)
import schemas as schemas_module  # noqa: E402
from fleet import percentile  # noqa: E402

SCHEMAS, DRAWS, SUITE_DRAWS = 1000, 2, 20
CHECKER = jsonschema.FormatChecker(())
# no grammar enforces the format regex, so it is an annotation
CHECKER.checkers = {name: check for name, check in jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers.items()
                    if name != "regex"}


def invalid(schema, text):
    """Why a text is invalid; None: it is valid."""
    try:
        value = json.loads(text)
        validator = jsonschema.Draft202012Validator(schema, format_checker=CHECKER)
        error = next(validator.iter_errors(value), None)
        return error and error.message
    except ValueError as error:
        return str(error)


def is_understood(group):
    """Whether the validator answers the suite's own tests of a group rightly: older ones fail at $dynamicRef and $id."""
    try:
        return all((invalid(group["schema"], json.dumps(test["data"])) is None) == test["valid"] for test in group["tests"])
    except Exception:  # each version of the validator has its own exceptions for references
        return False


def draw(schemas, draws):
    return schemas_module.draw(BINARY.parent, MODEL, [{"kind": "json_schema", "text": json.dumps(schema), "draws": draws}
                                                      for schema in schemas])


def check_suite(folder):
    """Every schema of the public suite is rejected, or all answers drawn from it are valid."""
    schemas = [(f"{file.relative_to(folder)}: {group['description']}", group)
               for file in sorted(folder.rglob("*.json")) for group in json.loads(file.read_text())]
    refused, texts, unjudged, wrong = {}, 0, 0, []
    for (name, group), answer in zip(schemas, draw([group["schema"] for _, group in schemas], SUITE_DRAWS)):
        schema = group["schema"]
        if "error" in answer:
            assert answer["code"] in ("unsupported", "invalid_request"), answer
            reason = "no text" if "no text" in answer["error"] else answer["code"]
            refused[reason] = refused.get(reason, 0) + 1
            continue
        if not is_understood(group):
            unjudged += 1
            continue
        texts += len(answer["texts"])
        wrong += [f"{name}: {why}: {text}\n  {json.dumps(schema)}"
                  for text in answer["texts"] if (why := invalid(schema, text))]
    print(f"{len(schemas)} schemas of the suite, refused: {refused}, {texts} answers drawn, {len(wrong)} invalid; "
          f"answers of {unjudged} schemas are not judged, because the validator fails the suite's own tests of them")
    assert not wrong, "\n".join(wrong)


def check_draws(schemas):
    answers = draw(schemas, DRAWS)
    texts, refused, rows = 0, 0, []
    for schema, answer in zip(schemas, answers):
        if "error" in answer:
            assert answer["code"] in ("unsupported", "invalid_request"), answer
            assert "no text" in answer["error"], f"{answer}\n{json.dumps(schema)}"
            refused += 1
            continue
        rows += answer["rows_us"]
        for text in answer["texts"]:
            texts += 1
            why = invalid(schema, text)
            assert not why, f"{why}\n{json.dumps(schema)}\n{text}"
    compiles = [answer["compile_us"] for answer in answers]
    print(f"{len(schemas)} schemas, {refused} refused, {texts} answers valid, {len(rows)} masks: "
          f"P50 {percentile(rows, .5):.1f} us, P99 {percentile(rows, .99):.1f} us; "
          f"compile P95 {percentile(compiles, .95):.0f} us, most {max(compiles):.0f} us")
    assert texts > len(schemas) and refused < len(schemas) / 5


def check_generators():
    """Nearly all schemas as generators write them compile; every answer is valid."""
    lines = [json.loads(line) for line in pathlib.Path(__file__).with_name("generators.jsonl").read_text().splitlines()]
    compiled, silent, refused = 0, 0, []
    for line, answer in zip(lines, draw([line["schema"] for line in lines], 4)):
        if "error" in answer:
            refused.append(f"{line['source']}, {line['name']}: {answer['error']}")
            continue
        compiled += 1
        silent += not answer["texts"]  # a text that is drawn seldom ends with the letter that a pattern wants
        # what older drafts write otherwise: required: true in the schema of a property, type any, items as an array
        written = json.dumps(line["schema"])
        for old, new in (('"required": true', '"x": 0'), ('"type": "any"', '"y": 0'), ('"items": [', '"prefixItems": ['),
                         ('"additionalItems"', '"items"')):
            written = written.replace(old, new)
        schema = json.loads(written)
        for text in answer["texts"]:
            # this validator cannot follow references by id
            if not re.search(r'"\$ref": "[^#]', written):
                assert not invalid(schema, text), f"{invalid(schema, text)}: {line}\n{text}"
    print(f"{compiled} of {len(lines)} schemas of generators compiled, all answers valid; refused: {refused}")
    assert compiled >= 0.958 * len(lines) and silent <= 1


def check_numbers(count, seed):
    """A constraint copies numbers exactly, and random bounds hold."""
    numbers = schemas_module.Numbers(seed)
    values = [numbers.integer() for _ in range(count // 2)] + [numbers.double() for _ in range(count // 2)]
    # a number within bounds has at most 64 digits on each side of the point
    plain = [value for value in values if isinstance(value, int) or 1e-40 < abs(value) < 1e60]
    bounds = [{"type": "integer" if isinstance(value, int) else "number", "minimum": value, "maximum": value} for value in plain]
    for copied, form in ((plain, bounds), (values, [{"const": value} for value in values])):
        for value, schema, answer in zip(copied, form, draw(form, 1)):
            assert [type(value)(text) for text in answer.get("texts", [])] == [value], f"{schema}: {answer}"
    schemas = [numbers.bounded() for _ in range(count)]
    samples = 0
    for schema, answer in zip(schemas, draw(schemas, 12)):
        assert "error" not in answer, f"{schema}: {answer}"
        for text in answer["texts"]:
            # a reader of doubles reads whole numbers as doubles too
            text = text if schema["type"] == "integer" else repr(float(text))
            assert not invalid(schema, text), f"{schema}: {text}"
            samples += 1
    print(f"{len(values)} numbers copied exactly in two forms; {samples} numbers within {count} random bounds are valid")
    assert samples > 10 * count


REFUSED = [
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"not": {"uniqueItems": True}}}}}}},
     "unsupported", "#/properties/a/not/uniqueItems"),
    ({"guided_regex": "(?<=a)b"}, "unsupported", "look-behind"),
    ({"guided_json": {"type": "integer", "minimum": 2, "maximum": 1}}, "invalid_request", "no text"),
    ({"guided_choice": ["a"], "ignore_eos": True}, "invalid_request", "ignore_eos"),
]
OTHERS = [
    ({"guided_choice": ["yes", "no"], "min_tokens": 20}, "yes|no"),
    ({"guided_regex": "[a-c]{2,4}\\d", "n": 3, "logprobs": 2}, "[a-c]{2,4}[0-9]"),
    ({"guided_grammar": 'root ::= "(" root ")" | [a-c]{2,3}', "n": 2}, r"\(*[a-c]{2,3}\)*"),
    ({"response_format": {"type": "grammar", "grammar": "start: DIGIT~2 [NAME]\nNAME: /[a-z]/+\n%import common.DIGIT"}},
     "[0-9]{2}[a-z]*"),
    ({"response_format": {"type": "json_object"}, "allowed_token_ids": [5]}, r"\{[\s\S]*\}"),
]


def requests(schemas):
    found = {}
    for number, schema in enumerate(schemas):
        body = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}
        found[f"schema-{number}"] = {**body, "temperature": 1.0, "seed": number}
    for number, (body, _, _) in enumerate(REFUSED):
        found[f"refused-{number}"] = body
    for number, (body, _) in enumerate(OTHERS):
        found[f"other-{number}"] = {**body, "temperature": 1.0, "seed": number}
    return {name: {"prompt": "Answer in JSON: ", "max_tokens": 100, "stream": False, **body}
            for name, body in found.items()}


def check_served(schemas):
    results, _ = embedded_rig.serve(requests(schemas))
    ended = 0
    for number, schema in enumerate(schemas):
        result = results[f"schema-{number}"]
        if result["finish_reason"] == "rejected":
            assert "no text" in result["error"]["message"], result
            continue
        assert result["finish_reason"] in ("eos", "length"), result
        if "eos" in (result["finish_reason"], result.get("stopped_by")):
            ended += 1
            why = invalid(schema, result["text"])
            assert not why, f"{why}\n{json.dumps(schema)}\n{result['text']}"
    assert ended > len(schemas) / 4, f"only {ended} answers ended"
    for number, (_, code, why) in enumerate(REFUSED):
        error = results[f"refused-{number}"]["error"]
        assert error["code"] == code and why in error["message"], error
    for number, (_, pattern) in enumerate(OTHERS):
        result = results[f"other-{number}"]
        for choice in result.get("choices") or [result]:
            if choice["finish_reason"] == "eos":
                assert re.fullmatch(pattern, choice["text"]), choice
    print(f"{len(results)} requests served, {ended} of {len(schemas)} schemas answered to the end and valid")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--served", type=int, default=48, help="generated schemas that the worker answers")
    parser.add_argument("--suite", type=pathlib.Path, help="folder of the JSON Schema Test Suite's draft 2020-12")
    parser.add_argument("--numbers", type=int, default=400, help="numbers that are copied, and random bounds")
    parser.add_argument("--seed", type=int, default=1, help="of the numbers")
    options = parser.parse_args()
    if options.suite:
        check_suite(options.suite)
    generator = schemas_module.Schemas(21)
    schemas = [generator.whole() for _ in range(SCHEMAS)]
    check_draws(schemas)
    check_generators()
    check_numbers(options.numbers, options.seed)
    check_served(schemas[:options.served])


main()
