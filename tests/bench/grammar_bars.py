#!/usr/bin/env python3
"""Measures the cost of constrained output: the time to compile a schema, and the time to compute one token mask.

    grammar_bars.py TOKENIZER [SCHEMAS]

TOKENIZER: a .gguf file or a tokenizer.json; SCHEMAS: number of schemas of tests/integration/grammar/schemas.py, 1,000
by default. Then hostile sources follow, each of which must be compiled or rejected within 100 ms. Times are the CPU
time of one thread."""

import json
import os
import pathlib
import resource
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "build/millrace")).resolve().parent
sys.path.insert(0, str(ROOT / "tests/integration/grammar"))

from fleet import percentile  # noqa: E402
from schemas import Schemas, draw  # noqa: E402


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"anyOf": [schema, schema]}
    return schema


def properties(count, schema):
    return {"type": "object", "properties": {f"p{number}": schema for number in range(count)}}


HOSTILE_SCHEMAS = {
    "1 MB of properties": properties(30000, {"type": "string"}),
    "240 KB of properties": {**properties(4000, {"type": "string"}), "additionalProperties": False},
    "4,000 free properties": properties(4000, {}),
    "10^6 values in enum": {"enum": list(range(10**6))},
    "25,000 values in enum": {"enum": [f"v{number}" for number in range(25000)]},
    "4,096 anyOf in 12 levels": nested(12),
    "10^10 combinations of anyOf": {"allOf": [
        {"anyOf": [{"properties": {f"a{one}_{two}": {"type": "integer"}}} for two in range(10)]} for one in range(10)]},
    "1,000 oneOf": {"oneOf": [{"type": "object", "required": ["t"], "properties": {"t": {"const": number}}}
                              for number in range(1000)]},
    "oneOf of equal constants": {"oneOf": [{"enum": [[0] * 90 + [side, number] for number in range(300)]}
                                           for side in range(2)]},
    "$ref to itself": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "no finite value": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"},
                                                             "minItems": 1}}},
    "2^11 states twice": {"allOf": [{"type": "string", "pattern": "(a|b)*a(a|b){10}"},
                                    {"type": "string", "pattern": "(a|b)*b(a|b){11}"}]},
    "200 patterns": properties(200, {"type": "string", "pattern": "(a|b)*a(a|b){8}"}),
    "3,000 formats": properties(3000, {"type": "string", "format": "email"}),
    "2,000 ranges": properties(2000, {"type": "number", "minimum": -123456.789, "maximum": 987654.321}),
    "2,000 multiples": properties(2000, {"type": "integer", "multipleOf": 1999}),
    "a constant of 250 KB": {"const": "x" * 250000},
}
HOSTILE_TEXTS = {"depth 10,000": '{"items":' * 10000 + "true" + "}" * 10000}
HOSTILE_REGEXES = [
    "(a{0,99}){0,99}", "((a{0,99}){0,99}){0,99}", "(a*)*", "(a|aa)+", "(a|b)*a(a|b){20}", "(.*a){25}", "(.*.*)*x", ".*" * 10000,
    "(x+x+)+y", "(a{1000}){1000}", "[^a]{16777216}", "(a?){5000}a{5000}", "(" * 100000 + "a" + ")" * 100000, "(.?){2000}",
    "(a{0,2047}b?){0,2047}", "([a-z]{0,40}[A-Z]{0,40}){0,40}", "(\\w{1,100}\\s?){1,100}", "(((a{1,9}){1,9}){1,9}){1,9}",
    "(?:[\\s\\S]{0,50}X){30}", "((((.{0,9}){0,9}){0,9}){0,9})", "(.*?,){11}P"]
HOSTILE_GRAMMARS = {
    "left recursion": 'root ::= root "a" | "b"',
    "left recursion behind an empty rule": 'root ::= e root\ne ::= ""',
    "no end": 'root ::= "a" root',
    "empty loop": 'root ::= ("")* "a"',
    "10,000 rules": "root ::= r0\n" + "".join(f"r{n} ::= r{n + 1} | \"x\"\n" for n in range(10000)) + 'r10000 ::= "y"',
    "two ways at each byte": 'root ::= root2 root2 | "a"\nroot2 ::= "a" root | "b" root | "a"',
}


def report(name, answers):
    rows = [row for answer in answers for row in answer.get("rows_us", [])]
    compiles = [answer["compile_us"] / 1000 for answer in answers]
    print(f"{name}: {len(answers)} sources, {sum('error' in answer for answer in answers)} refused; compile P50 "
          f"{percentile(compiles, .5):.2f} ms, P95 {percentile(compiles, .95):.2f} ms, most {max(compiles):.1f} ms; {len(rows)} masks, P50 "
          f"{percentile(rows or [0], .5):.1f} us, P99 {percentile(rows or [0], .99):.0f} us, most {max(rows, default=0):.0f} us")


def main():
    generator = Schemas(21)
    schemas = [generator.whole() for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1000)]
    report("generated schemas", draw(BUILD, sys.argv[1], [{"kind": "json_schema", "text": json.dumps(one)} for one in schemas]))
    hostile = [(name, "json_schema", json.dumps(one)) for name, one in HOSTILE_SCHEMAS.items()]
    hostile += [(name, "json_schema", one) for name, one in HOSTILE_TEXTS.items()]
    hostile += [(one[:30], "regex", one) for one in HOSTILE_REGEXES]
    hostile += [(name, "grammar", one) for name, one in HOSTILE_GRAMMARS.items()]
    answers = draw(BUILD, sys.argv[1], [{"kind": kind, "text": text} for _, kind, text in hostile])
    for (name, _, _), answer in zip(hostile, answers):
        print(f"  {name:36} {answer['compile_us'] / 1000:7.1f} ms, slowest mask {max(answer.get('rows_us') or [0]):6.0f} us  "
              f"{answer.get('error', '')[:100]}")
    report("hostile sources", answers)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"peak memory of the process: {peak / 1024:.0f} MiB")


main()
