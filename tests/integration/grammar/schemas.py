"""Shared by test_grammar.py and tests/bench/grammar_bars.py: a generator of JSON schemas with the supported keywords, and
the program grammar_draw, which draws answers of a grammar at random."""

import json
import math
import random
import struct
import subprocess


def draw(folder, tokenizer, requests):
    """The answers of grammar_draw, a program in this folder, to these requests; grammar_draw.c names the members of both."""
    lines = "".join(json.dumps({"draws": 2, "seed": number + 1, **request}) + "\n" for number, request in enumerate(requests))
    done = subprocess.run([folder / "grammar_draw", tokenizer], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert len(answers) == len(requests)
    return answers


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
        """A lower bound, an upper bound, both or none; both allow at least one value."""
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


class Numbers:
    """A generator of numbers and of schemas with bounds of numbers."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def integer(self):
        """An integer of 1 to 40 digits."""
        return self.random.randrange(10 ** self.random.randint(1, 40)) * self.random.choice([1, -1])

    def double(self):
        """A finite double of any size."""
        while True:
            value = struct.unpack("<d", self.random.randbytes(8))[0]
            if math.isfinite(value):
                return self.random.choice([value, self.random.uniform(-1000, 1000), round(self.random.uniform(-9, 9), 2)])

    def bounded(self):
        """A schema with one or two bounds, which has a solution."""
        integer = self.random.random() < 0.5
        low, high = sorted(self.integer() if integer else self.random.choice([-1, 1]) * 10 ** self.random.uniform(-30, 30)
                           for _ in range(2))
        if integer and high - low < 100:
            high = low + 100
        elif not high > low:
            high = abs(low) * 2 + 1
        schema = {"type": "integer" if integer else "number"}
        kind = self.random.randrange(4)
        if kind != 0:
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if kind != 1:
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = high
        if integer and self.random.random() < 0.2:
            schema["multipleOf"] = self.random.randint(2, 9)
        return schema
