#!/usr/bin/env python3
"""Constrained output: answers are valid, and what cannot be guaranteed is refused.

1,000 generated schemas: grammar_draw compiles each one and draws answers at random from its masks; PyPI jsonschema
validates every answer. Then a worker with the real model answers some of them at temperature 1. Needs what
docker/deps.sh test installs (jsonschema and confluent_kafka in .deps/python)."""

import json
import random
import re
import subprocess

import embedded_rig
from embedded_rig import BINARY, MODEL

import jsonschema  # embedded_rig adds its folder to the path

SCHEMAS, DRAWS, SERVED = 1000, 2, 48


class Schemas:
    """A generator of schemas, the same ones in every run."""

    WORDS = ["id", "name", "kind", "a", "ab", "abc", "items", "value", "é", "with space", 'quote"', "x/y~z", "count"]
    PATTERNS = ["^[a-z]+$", "^[A-Z]{2}-\\d{3}$", "foo", "^(yes|no)$", "[0-9]{2,4}x?", "^\\w+@\\w+$", "^.{3,9}$", "a|b$"]
    FORMATS = ["date", "time", "date-time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, chance=0.5):
        return self.random.random() < chance

    def bounds(self, low, high, names, step=1):
        """Some of two bounds that leave something between them."""
        one, two = sorted(round(self.random.uniform(low, high) / step) * step for _ in range(2))
        found = {}
        if self.maybe():
            found[names[0]] = round(one, 2)
        if self.maybe():
            found[names[1]] = round(two + 2 * step, 2)
        return found

    def string(self):
        kind = self.random.randrange(5)
        if kind == 0:
            return {"type": "string", "pattern": self.random.choice(self.PATTERNS)}
        if kind == 1:
            return {"type": "string", "format": self.random.choice(self.FORMATS)}
        if kind == 2:
            return {"type": "string", **self.bounds(0, 30, ("minLength", "maxLength"))}
        if kind == 3:
            return {"type": "string", "pattern": "^[a-f]*$", "maxLength": self.random.randint(1, 20)}
        return {"type": "string"}

    def number(self):
        names = self.random.choice([("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")])
        if self.maybe():
            schema = {"type": "integer", **self.bounds(-2000, 2000, names)}
            if self.maybe(0.2):
                schema = {"type": "integer", "multipleOf": self.random.randint(2, 40), "minimum": -500, "maximum": 500}
            return schema
        return {"type": "number", **self.bounds(-50, 50, names, self.random.choice([1, 0.25, 0.01]))}

    def constant(self, depth=0):
        kind = self.random.randrange(7 if depth < 2 else 5)
        if kind == 5:
            return [self.constant(depth + 1) for _ in range(self.random.randrange(3))]
        if kind == 6:
            return {word: self.constant(depth + 1) for word in self.random.sample(self.WORDS, 2)}
        return [None, self.maybe(), self.random.randint(-99, 99), self.random.choice(self.WORDS),
                self.random.choice([0.5, 1e20, -2.75])][kind]

    def array(self, depth):
        schema = {"type": "array", "items": self.schema(depth + 1), **self.bounds(0, 4, ("minItems", "maxItems"))}
        if self.maybe(0.3):
            schema["prefixItems"] = [self.schema(depth + 1) for _ in range(self.random.randint(1, 3))]
            if self.maybe():
                del schema["items"]
        return schema

    def object(self, depth):
        names = self.random.sample(self.WORDS, self.random.randrange(6))
        schema = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        schema["required"] = [name for name in names if self.maybe(0.6)]
        extra = self.random.randrange(5)
        if extra == 0:
            schema["additionalProperties"] = self.schema(depth + 1)
        elif extra < 4:
            schema["additionalProperties"] = extra == 1
        return schema

    def tagged(self, depth):
        tags = self.random.sample(["a", "ab", "b", "c"], self.random.randint(2, 3))
        variants = []
        for tag in tags:
            variant = self.object(depth + 1)
            variant["properties"]["tag"] = {"const": tag}
            variant["required"].append("tag")
            variants.append(variant)
        return {"oneOf": variants}

    def all_of(self, depth):
        one, two = self.object(depth + 1), self.object(depth + 1)
        two["properties"] = {name: {} for name in two["properties"]}
        for part in (one, two):
            part.pop("additionalProperties", None)
        return {"allOf": [one, two]}

    def schema(self, depth=0):
        if depth >= 3 or self.maybe(0.4 if depth else 0):
            return self.random.choice([self.string, self.number, lambda: {"type": ["boolean", "null"]},
                                       lambda: {"enum": [self.constant() for _ in range(3)]},
                                       lambda: {"const": self.constant()}, lambda: {"$ref": "#/$defs/leaf"}])()
        return self.random.choice([self.object, self.object, self.array, self.tagged, self.all_of,
                                   lambda d: {"anyOf": [self.schema(d + 1), self.schema(d + 1)]},
                                   lambda d: {"$ref": "#/$defs/tree"}])(depth)

    def whole(self):
        schema = self.schema()
        schema["$defs"] = {
            "leaf": self.string(),
            "tree": {"type": "object", "properties": {
                "leaf": {"$ref": "#/$defs/leaf"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
                "required": ["leaf"]}}
        return schema


def invalid(schema, text):
    """Why a text is no valid answer; None when it is one."""
    try:
        value = json.loads(text)
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        error = next(validator.iter_errors(value), None)
        return error and error.message
    except ValueError as error:
        return str(error)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0


def check_draws(schemas):
    lines = [json.dumps({"kind": "json_schema", "text": json.dumps(schema), "draws": DRAWS, "seed": number + 1})
             for number, schema in enumerate(schemas)]
    done = subprocess.run([BINARY.parent / "grammar_draw", MODEL], input="\n".join(lines) + "\n", capture_output=True, text=True,
                          check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(schemas)
    texts, refused, rows = 0, 0, []
    for schema, answer in zip(schemas, answers):
        if "error" in answer:
            assert answer["code"] in ("unsupported", "invalid_request"), answer
            assert "no text" in answer["error"] or "may both hold" in answer["error"], f"{answer}\n{json.dumps(schema)}"
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


REFUSED = [
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"not": {}}}}}}},
     "unsupported", "#/properties/a/not"),
    ({"guided_regex": "(?=a)"}, "unsupported", "look-around"),
    ({"guided_json": {"type": "integer", "minimum": 2, "maximum": 1}}, "invalid_request", "no text"),
    ({"guided_choice": ["a"], "ignore_eos": True}, "invalid_request", "ignore_eos"),
]
OTHERS = [
    ({"guided_choice": ["yes", "no"], "min_tokens": 20}, "yes|no"),
    ({"guided_regex": "[a-c]{2,4}\\d", "n": 3, "logprobs": 2}, "[a-c]{2,4}[0-9]"),
    ({"response_format": {"type": "json_object"}, "allowed_token_ids": [5]}, r"\{[\s\S]*\}"),
]


def requests(schemas):
    found = {}
    for number, schema in enumerate(schemas[:SERVED]):
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
    for number, schema in enumerate(schemas[:SERVED]):
        result = results[f"schema-{number}"]
        if result["finish_reason"] == "rejected":
            assert "no text" in result["error"]["message"] or "may both hold" in result["error"]["message"], result
            continue
        assert result["finish_reason"] in ("eos", "length"), result
        if result["finish_reason"] == "eos":
            ended += 1
            why = invalid(schema, result["text"])
            assert not why, f"{why}\n{json.dumps(schema)}\n{result['text']}"
    assert ended > SERVED / 4, f"only {ended} answers ended"
    for number, (_, code, why) in enumerate(REFUSED):
        error = results[f"refused-{number}"]["error"]
        assert error["code"] == code and why in error["message"], error
    for number, (_, pattern) in enumerate(OTHERS):
        result = results[f"other-{number}"]
        for choice in result.get("choices") or [result]:
            if choice["finish_reason"] == "eos":
                assert re.fullmatch(pattern, choice["text"]), choice
    print(f"{len(results)} requests served, {ended} of {SERVED} schemas answered to the end and valid")


def main():
    generator = Schemas(21)
    schemas = [generator.whole() for _ in range(SCHEMAS)]
    check_draws(schemas)
    check_served(schemas)


main()
