#!/usr/bin/env python3
"""Measures millrace batch with a worker whose model costs nothing (build/bench_transport): requests a second, memory of the
command, and the time of a second run on the finished output, which sends nothing.

Bars: 2,000 requests a second, 100 MB of memory, 10 s for the second run. Broker, worker and command share the machine's
cores. memory_mb is without the libraries that every command of millrace loads, above all LibTorch: base_mb, which is what
`millrace version` takes."""

import json
import os
import pathlib
import subprocess
import tempfile
import time

import fleet

RATE_BAR, MEMORY_BAR, AGAIN_BAR_S = 2000, 100e6, 10


def write_input(path, count):
    with path.open("w") as file:
        for number in range(1, count + 1):
            body = {"messages": [{"role": "user", "content": f"Number {number}"}], "max_tokens": 1}
            file.write(json.dumps({"custom_id": f"c-{number}", "method": "POST", "url": "/v1/chat/completions",
                                   "body": body}) + "\n")


def run(*command):
    """Runs the command; returns its exit code, seconds, seconds of CPU time and largest memory in bytes."""
    began = time.monotonic()
    process = subprocess.Popen([str(word) for word in command])
    _, status, usage = os.wait4(process.pid, 0)
    return (os.waitstatus_to_exitcode(status), time.monotonic() - began, usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024)


def main():
    parser = fleet.arguments(__doc__)
    parser.set_defaults(threads="1", dtype="auto")
    parser.add_argument("--transport", default=fleet.ROOT / "build/bench_transport")
    parser.add_argument("--lines", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, fleet.Broker(options) as broker:
        folder = pathlib.Path(name)
        write_input(folder / "in.jsonl", options.lines)
        flags = ("--prefix", "batch", "--group", "batch", "--max-sequences", 64, "--kv-memory", "512MiB")
        with fleet.Worker(options, broker, *flags, program=options.transport) as worker:
            command = (options.millrace, "batch", "--brokers", broker.address, "--prefix", "batch", folder / "in.jsonl",
                       folder / "out.jsonl")
            before = sum(worker.cpu_seconds().values())
            code, seconds, cpu_s, memory = run(*command)
            worker_s = sum(worker.cpu_seconds().values()) - before
            code_again, again_s, _, memory_again = run(*command)
        base = run(options.millrace, "version")[3]
        lines = sum(1 for _ in (folder / "out.jsonl").open("rb"))
    rate = lines / seconds
    holds = code == 0 and code_again == 0 and lines == options.lines
    fleet.report(options, "batch", {
        "lines": lines, "seconds": round(seconds, 1), "requests_per_s": round(rate, 1), "memory_mb": round((max(memory, memory_again) - base) / 1e6, 1), "base_mb": round(base / 1e6, 1),
        "command_us_per_request": round(1e6 * cpu_s / lines), "worker_us_per_request": round(1e6 * worker_s / lines),
        "again_s": round(again_s, 2), "complete": holds,
        "bars": {"rate": rate >= RATE_BAR, "memory": max(memory, memory_again) - base <= MEMORY_BAR,
                 "again": again_s <= AGAIN_BAR_S}})


if __name__ == "__main__":
    main()
