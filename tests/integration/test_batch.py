#!/usr/bin/env python3
"""millrace batch through an Apache Kafka while the command is killed with SIGKILL, workers are killed, and the broker is
restarted. Each line of the input must get one line of the output, and no line may be sent again after its answer.

    test_batch.py [--lines N] [--faults N] [--json]

--faults: how often each of the three happens. The workers' model costs nothing (build/bench_transport)."""

import argparse
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import rig

STEP_US = 20_000  # of a step, so that the batch lasts longer than the faults
LIMIT_S = 60  # without progress


def write_input(path, count):
    with path.open("w") as file:
        for number in range(1, count + 1):
            body = {"messages": [{"role": "user", "content": f"Number {number}"}], "max_tokens": 4, "ignore_eos": True}
            file.write(json.dumps({"custom_id": f"c-{number}", "method": "POST", "url": "/v1/chat/completions",
                                   "body": body}) + "\n")


class Batch:
    """The command, which may be killed and started again."""

    def __init__(self, fleet, folder):
        self.output = folder / "out.jsonl"
        self.log = folder / "batch.log"
        self.command = [str(rig.OPTIONS.millrace), "batch", "--brokers", fleet.services.brokers, "--prefix", fleet.prefix,
                        "--concurrency", "256", str(folder / "in.jsonl"), str(self.output)]

    def start(self):
        with self.log.open("ab") as log:
            self.process = rig.started(subprocess.Popen(self.command, stdout=log, stderr=log))

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def lines(self):
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0


def run_with_faults(services, fleet, batch, options):
    """Injects a fault each time that a further part of the lines is answered. Returns how many of each."""
    pick = random.Random(1)
    kinds = ["command", "worker", "broker"] * options.faults
    counts = collections.Counter()
    batch.start()
    seen, seen_at = 0, time.monotonic()
    while batch.process.poll() is None:
        fleet.look()
        lines = batch.lines()
        if lines > seen:
            seen, seen_at = lines, time.monotonic()
        assert time.monotonic() - seen_at < LIMIT_S, f"no progress at {lines} lines:\n{batch.log.read_text()[-2000:]}"
        due = sum(counts.values()) + 1
        if due <= len(kinds) and lines >= due * options.lines // (len(kinds) + 1):
            kind = kinds[due - 1]
            counts[kind] += 1
            if kind == "command":
                batch.kill()
            elif kind == "worker":
                victim = pick.choice(fleet.running())
                victim.end(signal.SIGKILL)
                victim.start()
            else:
                services.call("kafka_stop && kafka_restart")
        time.sleep(0.05)
    return counts


def records(fleet, topic):
    """(key, time of the broker in ms) of each record."""
    out = subprocess.run(["kcat", "-C", "-b", fleet.services.brokers, "-t", f"{fleet.prefix}.{topic}", "-e", "-q", "-f",
                          "%k %T\n"], check=True, capture_output=True, text=True).stdout
    return [(key, int(at)) for key, at in (line.rsplit(" ", 1) for line in out.splitlines())]


def line_of(key):
    return int(re.fullmatch(r"batch-[0-9a-f]{16}-(\d+)-\d+", key)[1])


def check(fleet, batch, count):
    """The faults found, and figures."""
    broken = []
    lines = [json.loads(line) for line in batch.output.read_text().split("\n") if line]
    ids = collections.Counter(line["custom_id"] for line in lines)
    if sorted(ids.values()) != [1] * count:
        broken.append(f"{len(lines)} lines of {len(ids)} custom_ids, for {count} lines")
    for line in lines:
        if line["response"]["status_code"] != 200 or line["id"].rsplit("-", 1)[1] != line["custom_id"][2:]:
            broken.append(f"line {line['custom_id']}: {line}")
    answered = {}
    for key, at in records(fleet, "results"):
        answered[line_of(key)] = min(at, answered.get(line_of(key), at))
    sent = records(fleet, "requests")
    again = [key for key, at in sent if at > answered[line_of(key)]]
    if again:
        broken.append(f"sent again after the answer: {again[:5]} of {len(again)}")
    return broken, {"lines": len(lines), "sent": len(sent), "sent_after_answer": len(again)}


def small_things(fleet, batch, folder):
    """What users see without faults: a finished batch sends nothing, a pipe works, wrong usage is refused."""
    began = time.monotonic()
    assert subprocess.run(batch.command, capture_output=True).returncode == 0
    assert time.monotonic() - began < 5, "a finished batch takes seconds"
    size = len(records(fleet, "requests"))
    first = (folder / "in.jsonl").read_text().splitlines(True)[0]
    piped = subprocess.run([*batch.command[:-2], "-", "-"], input=first, capture_output=True, text=True)
    assert piped.returncode == 0 and json.loads(piped.stdout)["custom_id"] == "c-1", piped
    assert len(records(fleet, "requests")) == size + 1
    same = subprocess.run([*batch.command[:-1], batch.command[-2]], capture_output=True, text=True)
    assert same.returncode == 1 and "is the input too" in same.stderr, same
    huge = folder / "huge.jsonl"
    huge.write_text(json.dumps({"prompt": "x" * 1_100_000}) + "\n")
    refused = subprocess.run([*batch.command[:-2], str(huge), str(folder / "x")], capture_output=True, text=True)
    assert refused.returncode != 0 and "line 1: record is" in refused.stderr and "at most" in refused.stderr, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=600)
    parser.add_argument("--faults", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    transport = argparse.Namespace(**{**vars(rig.OPTIONS), "millrace": rig.TOOLS / "bench_transport",
                                      "model": next(iter(sorted((rig.DEPS / "model").glob("*.gguf"))))})
    os.environ["TRANSPORT_STEP_US"] = str(STEP_US)
    with rig.scratch() as folder, rig.Services() as services:
        fleet = rig.Fleet(transport, services, "batch")
        fleet.add(3)
        write_input(folder / "in.jsonl", options.lines)
        batch = Batch(fleet, folder)
        began = time.monotonic()
        faults = run_with_faults(services, fleet, batch, options)
        figures = {"seconds": round(time.monotonic() - began, 1), "faults": dict(faults)}
        broken, counts = check(fleet, batch, options.lines)
        figures.update(counts)
        if batch.process.returncode != 0:
            broken.append(f"exit code {batch.process.returncode}")
        small_things(fleet, batch, folder)
        fleet.close()
        broken += [str(end) for end in fleet.abnormal]
        print(json.dumps(figures) if options.json else figures)
        for text in broken:
            print(text, file=sys.stderr)
        if broken:
            print(batch.log.read_text()[-3000:], file=sys.stderr)
        sys.exit(bool(broken))


if __name__ == "__main__":
    main()
