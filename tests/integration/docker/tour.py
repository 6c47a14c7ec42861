#!/usr/bin/env python3
"""Pastes the commands of "A tour" in docker/guide/operating.md into a shell, block after block, and prints their
output. When a block ends, it must have printed its text in EXPECTED. After the load, each panel of the dashboard is
queried for data. Uses the ports of the tour: 9090, 9092, 9093 and 9461 to 9463 of the loopback interface."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]
SECONDS_MAX = 900  # of one block: the first may compile

# Words of a block, and patterns that its output has, in order.
EXPECTED = {
    "deps.sh test": [],
    "topics create": [r"ok +topic +millrace\.requests, 24 partitions", r"ok +topic +millrace\.dlq"],
    "millrace check": [r"ok +model", r"ok +broker +127\.0\.0\.1:9092",
                       r"ok +group +millrace, 0 members", r'"ready":true', r'"ready":true', r'"ready":true'],
    "prometheus.yml": [r"127\.0\.0\.1:9463 +1", r"all +3", r'reason="(eos|length)"'],
    "crash bad": [r"bad", r"MillraceDeadLetters"],
    "replay millrace.dlq bad": [r'"finish_reason":"rejected"\n"code":"poison"', r"sent millrace\.dlq/0/0 bad", r'"finish_reason":"length"'],
    "sleep 150": [r'alertstate="firing"', r'"ready":true.*\n\s*\Z'],
    "rm -r": [],
}


def blocks():
    page = (ROOT / "docker/guide/operating.md").read_text()
    tour = page[page.index("\n## A tour\n"):] + "\n## "
    return re.findall(r"^```sh\n(.*?)^```$", tour[:tour.index("\n## ", 1)], re.M | re.S)


class Shell:
    def __init__(self):
        self.process = subprocess.Popen(["bash"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def paste(self, text):
        """The output of a block until it has ended."""
        timer = threading.Timer(SECONDS_MAX, self.end)
        timer.start()
        self.process.stdin.write(text + "echo @@END@@\n")
        self.process.stdin.flush()
        output = []
        for line in self.process.stdout:
            if line.endswith("@@END@@\n"):
                output.append(line.removesuffix("@@END@@\n"))
                break
            sys.stdout.write(line)
            output.append(line)
        timer.cancel()
        return "".join(output)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def check(text, output):
    patterns, = [patterns for words, patterns in EXPECTED.items() if words in text]
    at = 0
    for pattern in patterns:
        found = re.compile(pattern).search(output, at)
        assert found, f"not shown: {pattern}"
        at = found.end()


def panels():
    """Number of dashboard expressions with data, and number of all expressions."""
    found = 0
    expressions = [target["expr"] for panel in json.loads((ROOT / "docker/grafana/millrace.json").read_text())["panels"]
                   for target in panel.get("targets", [])]
    for text in expressions:
        text = re.sub(r"\$\{?\w+(:\w+)?\}?", ".*", re.sub(r"\$__rate_interval|\$__interval|\$__range", "1m", text))
        told = subprocess.run(["promtool", "query", "instant", "http://127.0.0.1:9090", text], capture_output=True, text=True)
        found += "=>" in told.stdout
        if "=>" not in told.stdout:
            print("no data:", text, told.stderr)
    return found, len(expressions)


def main():
    shell = Shell()
    try:
        for text in blocks():
            print(re.sub("^", "$ ", text.rstrip(), flags=re.M), flush=True)
            output = shell.paste(text)
            check(text, output)
            if "prometheus.yml" in text:
                found, count = panels()
                print(f"{found} of {count} expressions of the dashboard have data")
                assert found > count / 2
    finally:
        shell.end()
    print("the tour works as written")


if __name__ == "__main__":
    main()
