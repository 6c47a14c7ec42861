#!/usr/bin/env python3
"""Draws comments at random from the product's sources, for a reader who has not seen the code.

    draw_comments.py COUNT SEED [FOLDER…]     all folders of the product by default

Prints each comment with its file, its line and the code line next to it or below it, so that the reader can explain the
comment in one sentence. The same tree, count and seed give the same comments.
"""
import random
import re
import subprocess
import sys

FOLDERS = ("worker", "batching", "kvcache", "codec", "ops")


def comments(path):
    """(line, comment, code next to it or below it) of each comment; a comment of several lines is one."""
    with open(path) as source:
        text = source.read()
    for found in re.finditer(r"\"(?:\\.|[^\"\\\n])*\"|/\*.*?\*/|//[^\n]*", text, re.S):
        if found[0].startswith('"'):
            continue
        before = text[text.rfind("\n", 0, found.start()) + 1:found.start()].strip()
        after = text[found.end():].lstrip(" \t")
        code = before or next((line for line in after.split("\n") if line.strip()), "")
        lines = re.sub(r"^/\*+|\*/$|^//", "", found[0]).split("\n")
        comment = " ".join(re.sub(r"^\s*\* ?", "", line).strip() for line in lines).strip()
        if len(comment) > 3 and not re.match(r"-+ .* -+$", comment):
            yield text.count("\n", 0, found.start()) + 1, comment, code.strip()


def main():
    count, seed, folders = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or FOLDERS
    listed = subprocess.run(["git", "ls-files", *folders], capture_output=True, text=True, check=True).stdout
    found = []
    for path in sorted(listed.split()):
        if path.endswith((".c", ".h", ".cpp", ".cu")):
            found += [(path, *comment) for comment in comments(path)]
    for number, (path, line, comment, code) in enumerate(random.Random(seed).sample(found, count), 1):
        print(f"{number}. {path}:{line}\n   comment: {comment}\n   code:    {code}\n")


if __name__ == "__main__":
    main()
