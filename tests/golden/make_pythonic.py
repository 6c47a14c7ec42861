#!/usr/bin/env python3
"""Writes tests/golden/pythonic/literals.json: 2,000 literals of Python, drawn at random, each with the JSON of its value.

Needs Python 3.11 or later and nothing else. ast.literal_eval reads each literal and json.dumps writes its value; a lone
surrogate becomes U+FFFD, infinity becomes 1e999. golden_test_pythonic compares these with the arguments of calls in Python's syntax.
Not drawn, because JSON has no such value: bytes, sets, complex numbers. Not drawn, because the program does not know the names of
characters: \\N{...}.

    make_pythonic.py [SEED [COUNT]]
"""
import ast
import json
import os
import random
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
SPACES = ["", "", "", " ", "  ", "\n", "\t", " # note (]'\"\n", "\\\n", "\r\n"]
CHARACTERS = ["a", "Z", "0", " ", "é", "€", "😀", "{", "}", "[", ")", ",", ":", "#", "=", "%", "</s>", "\t", "\x7f", "\u2028"]
ESCAPES = ["\\\\", "\\'", '\\"', "\\a", "\\b", "\\f", "\\n", "\\r", "\\t", "\\v", "\\0", "\\7", "\\12", "\\101", "\\377", "\\777",
           "\\x00", "\\x41", "\\xfF", "\\u20ac", "\\u0000", "\\uD83D\\uDE00", "\\ud83d", "\\ude00", "\\U0001F600", "\\U0010ffff",
           "\\d", "\\.", "\\ ", "\\é", "\\\n", "\\\r\n", "\\8", "\\e"]


def space(draw):
    return draw.choice(SPACES)


def underscored(draw, digits):
    return "".join(d + ("_" if i + 1 < len(digits) and draw.random() < 0.15 else "") for i, d in enumerate(digits))


def digits_of(draw, letters, most):
    return underscored(draw, "".join(draw.choice(letters) for _ in range(draw.randint(1, most))))


def integer(draw):
    base = draw.choice(["0x", "0X", "0o", "0O", "0b", "0B", "", "", "", "", "", ""])
    if base:
        letters = {"x": "0123456789abcdefABCDEF", "o": "01234567", "b": "01"}[base[1].lower()]
        return base + draw.choice(["", "_"]) + digits_of(draw, letters, 40)
    return draw.choice(["0", "00", "0_0", draw.choice("123456789") + draw.choice(["", "_0", digits_of(draw, "0123456789", 39)])])


def real(draw):
    whole, part = digits_of(draw, "0123456789", 20), digits_of(draw, "0123456789", 20)
    exponent = draw.choice("eE") + draw.choice(["", "+", "-"]) + digits_of(draw, "0123456789", 2)
    return draw.choice([whole + ".", "." + part, whole + "." + part, whole + exponent, whole + "." + exponent,
                        "." + part + exponent, whole + "." + part + exponent, "1e400", "1e15", "1e16", "5e-324", "0.0"])


def number(draw):
    text = draw.choice([integer, real])(draw)
    sign = draw.choice(["", "", "", "-", "+", "- ", "-("])
    return sign + text + (")" if sign == "-(" else "")


def quoted(draw):
    prefix = draw.choice(["", "", "", "", "r", "R", "u", "U"])
    quote = draw.choice(["'", '"', "'''", '"""'])
    pieces = []
    for _ in range(draw.randint(0, 8)):
        pieces.append(draw.choice(ESCAPES if draw.random() < 0.5 else CHARACTERS))
        if len(quote) == 3 and draw.random() < 0.2:
            pieces.append(draw.choice(["\n", "\r\n", "\r", "' \" ", '" \' ']))
        if len(quote) == 1 and draw.random() < 0.1:
            pieces.append("'" if quote == '"' else '"')
    return prefix + quote + "".join(pieces) + quote


def text(draw):
    return (space(draw) or " ").join(quoted(draw) for _ in range(draw.choice([1, 1, 1, 1, 2, 3])))


def listed(draw, items, brackets):
    comma = "," if brackets == "()" and len(items) == 1 or items and draw.random() < 0.2 else ""
    inner = ",".join(space(draw) + item + space(draw) for item in items)
    return brackets[0] + inner + comma + space(draw) + brackets[1]


def value(draw, depth):
    kind = draw.randint(0, 9 if depth < 4 else 5)
    if kind < 2:
        return number(draw)
    if kind < 4:
        return text(draw)
    if kind == 4:
        return draw.choice(["True", "False", "None"])
    if kind == 5:
        return "(" + space(draw) + draw.choice([number, text])(draw) + space(draw) + ")"
    items = [value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    if kind < 8:
        return listed(draw, items, draw.choice(["[]", "()"]))
    keys = [draw.choice([text, text, text, number, lambda d: d.choice(["True", "False", "None"])])(draw) for _ in items]
    return listed(draw, [k + space(draw) + ":" + space(draw) + v for k, v in zip(keys, items)], "{}")


def plain(v):
    """The value with the texts that the program writes."""
    if isinstance(v, str):
        return v.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(v, (list, tuple)):
        return [plain(item) for item in v]
    if isinstance(v, dict):
        return {plain(k) if isinstance(k, str) else k: plain(item) for k, item in v.items()}
    return v


def written(v):
    """As json.dumps, with 1e999 for an infinite value; an infinite key stays Infinity."""
    if isinstance(v, dict):
        return "{" + ",".join(json.dumps({k: 0}, ensure_ascii=False)[1:-4] + ":" + written(item) for k, item in v.items()) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(written, v)) + "]"
    text = json.dumps(v, ensure_ascii=False)
    return text.replace("Infinity", "1e999") if isinstance(v, float) else text


def members(v):
    """How many members the objects in a JSON text have; one name twice counts once."""
    if isinstance(v, list):
        return sum(map(members, v))
    return len(v) + sum(map(members, v.values())) if isinstance(v, dict) else 0


def case(draw):
    while True:
        literal = value(draw, 0).strip()
        try:
            got = written(plain(ast.literal_eval(literal)))
        except (SyntaxError, ValueError):  # a raw text that ends in a backslash, for example
            continue
        # Equal keys are one member for Python, but two of one name in the arguments of a call.
        keys = sum(len(node.keys) for node in ast.walk(ast.parse(literal, mode="eval")) if isinstance(node, ast.Dict))
        if members(json.loads(got)) == keys:
            return [literal, got]


def main():
    warnings.simplefilter("ignore")
    seed, count = (list(map(int, sys.argv[1:])) + [43, 2000][len(sys.argv) - 1:])[:2]
    draw = random.Random(seed)
    cases = [case(draw) for _ in range(count)]
    os.makedirs(os.path.join(HERE, "pythonic"), exist_ok=True)
    with open(os.path.join(HERE, "pythonic", "literals.json"), "w") as file:
        file.write("[" + ",\n".join(json.dumps(one) for one in cases) + "]\n")


main()
