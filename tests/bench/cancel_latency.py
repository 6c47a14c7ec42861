#!/usr/bin/env python3
"""Measures the time from publishing a cancel record until the client reads the result: for requests that run together
with seven others, requests that wait to run, and requests that are cancelled before they are sent. Needs
build/bench_cancel. Bars: P99 at most two steps plus 50 ms for running requests; a cancel before its request must
work."""

import json
import pathlib
import subprocess

import fleet

PLACES = 8


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    with fleet.Broker(options) as broker, fleet.Worker(options, broker, "--max-sequences", PLACES):
        program = pathlib.Path(options.millrace).parent / "bench_cancel"
        figures = json.loads(subprocess.run(
            [program, "--brokers", broker.address, "--requests", str(options.requests), "--concurrency",
             str(PLACES - 1)], check=True, stdout=subprocess.PIPE, timeout=280).stdout)
    running = figures["running"]
    bar_ms = round(2 * running["step_ms"] + 50, 1)
    fleet.report(options, "cancel_latency", {
        **figures, "bar_ms": bar_ms, "bar_met": running["p99_ms"] <= bar_ms,
        "all_cancelled": not any(figures[kind]["not_cancelled"] for kind in ("running", "waiting", "before"))})


if __name__ == "__main__":
    main()
