#!/usr/bin/env python3
"""Compares the texts that fuzz_template and the reference, Jinja2, render from the same inputs.

    compare_templates.py [--verbose] [--cases OUT.json] FUZZ_TEMPLATE FOLDER...

FUZZ_TEMPLATE is the program of a build, a folder holds inputs. Prints how many inputs agree and each input
on which the two render different texts; exit status 1 if there is one. --cases writes the inputs that agree
as cases of tests/golden/test_templates.c. Needs: pip install transformers jinja2.
"""
import argparse
import glob
import json
import os
import re
import resource
import signal
import subprocess
import sys

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TREE, "tests/golden"))
import make_templates  # noqa: E402

SECONDS_MAX = 5
MEMORY_MAX = 2 << 30


def default_record():
    """The record that fuzz_template.c uses when an input has none."""
    source = open(os.path.join(TREE, "tests/fuzz/fuzz_template.c"), encoding="utf-8").read()
    literal = re.search(r"default_record\[\] =(.*?);\n", source, re.S).group(1)
    return json.loads("".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', literal)))


class TooLong(Exception):
    pass


def give_up(*_):
    raise TooLong()


def ours(program, paths):
    """(status, reason, text) of each input."""
    answer = subprocess.run([program, *paths], cwd=TREE, env=dict(os.environ, FUZZ_PRINT="1"),
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    lines = [line.split("\t") for line in answer.decode(errors="replace").split("\n") if line.count("\t") == 2]
    if len(lines) != len(paths):
        sys.exit("%d answers to %d inputs" % (len(lines), len(paths)))
    return [(status, reason, bytes.fromhex(text)) for status, reason, text in lines]


def reference(source, record):
    """(True, text), or (False, reason) when the reference refuses the template or the messages."""
    signal.alarm(SECONDS_MAX)
    try:
        return make_templates.reference(source, record)
    except TooLong:
        return False, "too long"
    except Exception as error:  # the reference raises many kinds of errors, Python's own too
        return False, "%s: %s" % (type(error).__name__, str(error)[:100])
    finally:
        signal.alarm(0)


def same_but_for_python(wanted):
    """True when the reference prints objects that templates print only by mistake: views, generators, ranges, and
    functions by name and address."""
    return re.search(r"dict_(items|keys|values)\(|range\(|<(function|generator object|built-in method|bound method) ",
                     wanted)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--cases")
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+")
    given = parser.parse_intermixed_args()
    signal.signal(signal.SIGALRM, give_up)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, resource.RLIM_INFINITY))
    paths = sorted(path for folder in given.folders for path in glob.glob(os.path.abspath(folder) + "/*"))
    counts, cases = {}, []
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    answers = ours(os.path.abspath(given.program), paths)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, resource.RLIM_INFINITY))
    for path, (status, reason, text) in zip(paths, answers):
        source, _, record = open(path, "rb").read().partition(b"\0")
        try:
            source = source.decode()
            record = json.loads(record) if record else default_record()
        except ValueError:
            status = "no request"
        if status == "no request" or reason == "no request":
            counts["not compared"] = counts.get("not compared", 0) + 1
            continue
        good, wanted = reference(source, record)
        verdict = ("equal" if text == wanted.encode(errors="surrogatepass") else "DIFFERENT") if good and status == "OK" \
            else "only the reference renders" if good else "only we render" if status == "OK" else "both refuse"
        if verdict == "DIFFERENT" and same_but_for_python(wanted):
            verdict = "equal but for Python's own values"
        counts[verdict] = counts.get(verdict, 0) + 1
        if verdict == "equal":
            cases.append((os.path.basename(path), source, [record], None))
        if verdict == "DIFFERENT" or (given.verbose and verdict.startswith("only")):
            print("%s: %s\n  template  %r\n  ours      %s\n  reference %r"
                  % (path, verdict, source[:300], reason or repr(text.decode(errors="replace")[:200]), wanted[:200]))
    print(", ".join("%d %s" % (count, verdict) for verdict, count in sorted(counts.items())))
    if given.cases:
        make_templates.write(given.cases, cases)
    sys.exit(1 if "DIFFERENT" in counts else 0)


main()
