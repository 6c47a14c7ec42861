#!/usr/bin/env python3
"""Compares millrace's renderings of chat templates with those of the reference (transformers).

    compare_templates.py [--verbose] [--refused] [--tools] [--tokenizer tokenizer.json] TEST_TEMPLATES FILE...

TEST_TEMPLATES is the program golden_test_templates of a build, a FILE holds one template. Each is rendered from the
60 records of chat_records.py, or with --tools from the 40 conversations of tool_records.py. Prints how many renderings are equal and the templates with differences; exit status 1
if there is one. --refused also prints the templates that are refused at start. --tokenizer also compares the ids. Where
no text of the user contains a special token, they must equal the reference's. Where one does, no special id may come
from the user's text.

Needs: pip install transformers jinja2 tokenizers.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chat_records import RECORDS  # noqa: E402
from tool_records import CONVERSATIONS  # noqa: E402
from make_templates import UNIX_SECONDS, reference  # noqa: E402


def ours(args, template):
    """[(status, reason, text, ranges, ids)] of the records."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for record in args.records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        file.flush()
        command = [args.program, template, file.name, str(UNIX_SECONDS), *([args.tokenizer] if args.tokenizer else [])]
        out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace")
    answers = []
    for line in out.rstrip("\n").split("\n"):
        status, reason, text, ranges, ids = line.split("\t")
        numbers = [int(one) for one in ranges.split()]
        answers.append((status, reason, bytes.fromhex(text), list(zip(numbers[::2], numbers[1::2])),
                        [int(one) for one in ids.split()]))
    return answers


class Ids:
    """The ids of the reference's tokenizer."""

    def __init__(self, path):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(path)
        added = self.tokenizer.get_added_tokens_decoder().items()
        shape = re.compile(r"<\|.+\|>|<｜.+｜>", re.S)
        control = {token.content: id for id, token in added if token.special or shape.fullmatch(token.content)}
        self.control = set(control.values())
        longest = sorted(control, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest)).encode())

    def of(self, text):
        return self.tokenizer.encode(text.decode(), add_special_tokens=False).ids

    def check(self, text, ranges, ids):
        """None, or a description of the error."""
        held = [match.span() for match in self.pattern.finditer(text)]
        forged = [span for span in held if any(span[0] < end and span[1] > start for start, end in ranges)]
        if not forged:
            return None if ids == self.of(text) else "ids differ"
        template = sum(one in self.control for one in self.of(self.pattern.sub(
            lambda match: b"" if match.span() in forged else match.group(), text)))
        return None if sum(one in self.control for one in ids) == template else "a special id in the user's text"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--refused", action="store_true")
    parser.add_argument("--tools", action="store_const", dest="records", const=CONVERSATIONS, default=RECORDS)
    parser.add_argument("--tokenizer")
    parser.add_argument("program")
    parser.add_argument("templates", nargs="+")
    args = parser.parse_args()
    encoder = Ids(args.tokenizer) if args.tokenizer else None
    equal = differing = both_refuse = bad_ids = 0
    for path in args.templates:
        source = open(path, encoding="utf-8", newline="").read()
        faults = []
        for index, (record, answer) in enumerate(zip(args.records, ours(args, path), strict=True)):
            status, reason, text, ranges, ids = answer
            rendered, want = reference(source, record)
            if status == "BAD_FILE" and index == 0 and (args.refused or rendered):
                print("refused at start: %s: %s (reference: %s)" % (path, reason, "renders" if rendered else want))
            if rendered != (status == "OK") or (rendered and want.encode() != text):
                faults.append((index, reason or text.decode(errors="replace"), want))
                continue
            equal += 1
            both_refuse += not rendered
            problem = encoder.check(text, ranges, ids) if encoder and rendered else None
            if problem:
                bad_ids += 1
                print("%s record %d: %s" % (path, index, problem))
        differing += len(faults)
        if faults:
            print("%s: %d differ" % (os.path.basename(path), len(faults)))
            for index, got, want in faults[:None if args.verbose else 1]:
                at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
                print("   record %d at %d: ours %r, reference %r" % (index, at, got[max(0, at - 60):at + 60], want[max(0, at - 60):at + 60]))
    print("%d templates, %d renderings equal (%d refused by both), %d differ, %d with wrong ids"
          % (len(args.templates), equal, both_refuse, differing, bad_ids))
    return differing + bad_ids > 0


if __name__ == "__main__":
    sys.exit(main())
