#!/usr/bin/env python3
"""Writes codec/unicode_tables.h: what the reference tokenizer knows of characters that Unicode 14
(the oldest tables this program is built with) does not have, found by asking it about each of them.

    pip install tokenizers==0.23.3
    tests/golden/make_unicode.py > codec/unicode_tables.h     with a Python whose unicodedata is 14.0
"""
import string
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Cf").split()
APART = chr(0x378)  # unassigned in every version: neighbours of no category


def scalars():
    return (c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)


def matches(splitter, c):
    return len(splitter.pre_tokenize_str(APART + chr(c) + APART)) != 1


def runs(keys):
    out = []
    for c in sorted(keys):
        if out and out[-1][1] == c - 1 and out[-1][2] == keys[c]:
            out[-1][1] = c
        else:
            out.append([c, c, keys[c]])
    return out


def is_inert(c):
    """Whether the reference's normalizers, whose tables are older than 14.0, take it for a plain letter."""
    mark, strip = unicodedata.category(chr(c))[0] == "M", normalizers.StripAccents()
    if mark and strip.normalize_str(chr(c)) != "":
        return True
    if unicodedata.combining(chr(c)) and c != 0x345:  # a mark that orders goes in front of the last class
        return not normalizers.NFD().normalize_str("\u0345" + chr(c)).endswith("\u0345")
    full = unicodedata.normalize("NFKD", chr(c))
    return full != chr(c) and normalizers.NFKD().normalize_str(chr(c)) == chr(c)


def table(name, comment, rows):
    print(f"/* {comment} */")
    print(f"static const struct mr_unicode_range {name}[] = {{")
    for first, last, category in rows:
        major, minor = (f"'{category[0]}'", f"'{category[1]}'") if category else ("0", "0")
        print(f"    {{{first:#x}, {last:#x}, {major}, {minor}}},")
    print("};\n")


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit("needs a Python with Unicode 14.0")
    unassigned = [c for c in scalars() if unicodedata.category(chr(c)) == "Cn"]
    added = {}
    for category in CATEGORIES:
        splitter = pre_tokenizers.Split(Regex(r"\p{%s}" % category), "isolated")
        added.update({c: category for c in unassigned if matches(splitter, c)})
    digits = pre_tokenizers.Digits(True)
    numeric = {c: "" for c in unassigned if matches(digits, c)}
    punctuation = pre_tokenizers.Punctuation("isolated")
    mine = lambda c: unicodedata.category(chr(c))[0] == "P" or chr(c) in string.punctuation
    odd = {c: "" for c in scalars() if matches(punctuation, c) != mine(c)}

    lower, strip = normalizers.Lowercase(), normalizers.StripAccents()
    lowered = {c: lower.normalize_str(chr(c)) for c in scalars()}
    lowered = {c: t for c, t in lowered.items() if t != chr(c).lower()}
    former = {c: "" for c in scalars() if c > 0x7F and unicodedata.category(chr(c))[0] != "M" and strip.normalize_str(chr(c)) == ""}
    inert = {c: "" for c in scalars() if c > 0x7F and is_inert(c)}

    print("/* unicode_tables - written by tests/golden/make_unicode.py; the reference's view of characters")
    print(" * where it differs from Unicode 14. Only codec/unicode.c includes this. */")
    print("#ifndef MR_CODEC_UNICODE_TABLES_H\n#define MR_CODEC_UNICODE_TABLES_H\n")
    print('#include "codec/unicode.h"\n')
    table("added_ranges", "Assigned after Unicode 14, with their general category.", runs(added))
    table("numeric_ranges", "Numeric for the Digits component, assigned after Unicode 14.", runs(numeric))
    table("punctuation_flips", "Where the Punctuation component disagrees with category P of Unicode 14.", runs(odd))
    table("inert_ranges", "Assigned before Unicode 14, but a plain letter to the reference's normalizers.", runs(inert))
    table("former_mark_ranges", "Marks no longer, but stripped by the reference's StripAccents.", runs(former))
    print("/* Lower case of letters assigned after Unicode 14. */")
    print("static const uint32_t lower_pairs[][2] = {")
    for c in sorted(lowered):
        print(f"    {{{c:#x}, {ord(lowered[c]):#x}}},")
    print("};\n")
    print("#endif")


main()
