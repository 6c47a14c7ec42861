#!/usr/bin/env python3
"""What publishing every token costs: the same 32 streams through one worker, with token records and without, in turns.
Bar: at most 3 % of the throughput without. The worker's own CPU time per token says what of it is the worker's: broker
and reader share the machine here, and a token record is work for them as well."""

import os

import fleet

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(options, stream):
    with fleet.Broker(options) as broker, fleet.Worker(options, broker) as worker:
        before = cpu_seconds(worker.process)
        figures = fleet.Bench(options, "--brokers", broker.address, "--requests", options.requests, "--concurrency", 32,
                              "--prompt-tokens", 32, "--output-tokens", options.tokens, "--warmup", 2, "--timeout",
                              "300s", *([] if stream else ["--no-stream"])).wait()
        cpu_s = cpu_seconds(worker.process) - before
    if figures["failed"] or figures["completed"] != options.requests:
        raise RuntimeError(f"{figures['failed']} requests failed")
    tokens = options.requests * options.tokens
    return tokens / figures["duration"], 1000 * cpu_s / tokens


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    options.requests, options.tokens = int(options.requests), int(options.tokens)
    pairs = [(run(options, True), run(options, False)) for _ in range(max(options.repetitions, 1))]
    with_tok_s, with_cpu = max(pair[0] for pair in pairs)
    without_tok_s, without_cpu = max(pair[1] for pair in pairs)
    fleet.report(options, "publish_cost", {
        "streams": 32, "requests": options.requests, "output_tokens": options.tokens,
        "with_tok_s": round(with_tok_s, 1), "without_tok_s": round(without_tok_s, 1),
        "with_tok_s_all": [round(pair[0][0], 1) for pair in pairs],
        "without_tok_s_all": [round(pair[1][0], 1) for pair in pairs],
        "cost": round(1 - with_tok_s / without_tok_s, 4), "cost_bar": 0.03,
        "worker_cpu_ms_per_token_with": round(with_cpu, 4), "worker_cpu_ms_per_token_without": round(without_cpu, 4)})


if __name__ == "__main__":
    main()
