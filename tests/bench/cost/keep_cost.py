#!/usr/bin/env python3
"""Measures the cost of --resume, which keeps every token in Redis: the same 32 streams through one worker with
--no-resume and one with --resume, in turns, over the embedded broker. Redis, broker and reader share the cores, so their
CPU time counts as cost. Also prints the CPU time per token of the worker's threads for the engine, Kafka and Redis."""

import sys

import cost
import fleet  # cost sets the import path

sys.path.insert(0, str(fleet.ROOT / "tests/integration"))
import redis_rig  # noqa: E402

THREADS = ("engine", "publish", "redis-calls")
VARIANTS = {"without": "--no-resume", "with": "--resume"}


def rounds(options, broker, redis):
    def measure(variant):
        tok_s, cpu_us = cost.measure(options, broker, workers[variant], variant)
        return {"tok_s": tok_s, **{name: cpu_us.get(name, 0.0) for name in THREADS}}

    def worker(variant):
        return cost.worker(options, broker, variant, "--redis", redis.url(), VARIANTS[variant])

    with worker("without") as without, worker("with") as kept:
        workers = {"without": without, "with": kept}
        yield from cost.rounds(options, VARIANTS, measure)
        kept_tokens = kept.metrics()["millrace_kept_tokens_total"]
        if kept_tokens < options.repetitions * options.requests * (options.tokens - 1):
            raise RuntimeError(f"only {kept_tokens} tokens were kept")


def main():
    options = cost.arguments(__doc__).parse_args()
    with fleet.Broker(options) as broker, redis_rig.Redis() as redis:
        all_rounds = list(rounds(options, broker, redis))
    fleet.report(options, "keep_cost", {
        "streams": cost.STREAMS, "requests": options.requests, "output_tokens": options.tokens,
        **{variant: cost.medians(all_rounds, variant) for variant in VARIANTS}, **cost.costs(all_rounds, "with")})


if __name__ == "__main__":
    main()
