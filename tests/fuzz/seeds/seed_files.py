"""Writes seeds, and reads the files of tests/golden for them."""
import glob
import os
import sys

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
GOLDEN = os.path.join(TREE, "tests/golden")
SMALL = 40000  # larger files make every run of a target slow
counts = {}


def put(target, data):
    if len(data) > SMALL:
        return
    folder = os.path.join(sys.argv[1], target)
    os.makedirs(folder, exist_ok=True)
    counts[target] = counts.get(target, 0) + 1
    with open(os.path.join(folder, "seed%04d" % counts[target]), "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())


def golden(pattern):
    for path in sorted(glob.glob(os.path.join(GOLDEN, pattern))):
        yield path, open(path, "rb").read()
