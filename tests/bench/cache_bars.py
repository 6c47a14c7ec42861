#!/usr/bin/env python3
"""Measures the gain of the KV caches: time to first token of long prompts and conversations, on one worker and on two that
share a Redis. Each worker has its own topics on one broker (the embedded one, or --brokers), so that a request reaches the
intended worker. Needs redis-server. Bars: a 4,000-token prompt that another worker has computed takes 1/8 of the time
to compute it; an identical prompt on the same worker takes 10 ms; turn 8 of a conversation takes at most 1.3 times turn
2. The worker measures the times, from intake on. The script compares answers with those of a worker without caches, and
loaded tokens in the results with the metrics. slow_redis.py measures a slow Redis."""

import argparse
import contextlib
import os
import sys
import time

import fleet

sys.path.insert(0, str(fleet.ROOT / "tests/integration"))

import redis_rig  # noqa: E402
from redis_rig import first, loaded  # noqa: E402


def open_worker(options, broker, name, *flags):
    return redis_rig.Worker(options, broker, name, "--kv-memory", "1GiB", *flags)


def kind(options):
    return ["--deterministic"] if options.deterministic else []


def tokens(seed, count):
    return redis_rig.tokens(seed, count, vocabulary=40000)


def settle():
    time.sleep(1.5)  # stores continue for a moment after an answer


def said(result):
    return [result[key] for key in ("token_ids", "text", "finish_reason", "logprobs") if key in result]


class Count:
    """The tokens that a worker computed and loaded between two readings of its metrics."""

    def __init__(self, worker):
        self.worker = worker
        self.before = self.look()

    def look(self):
        metrics = self.worker.serve.metrics()
        return [metrics[f"millrace_{name}_total"] for name in ("prompt_tokens", "shared_cache_loaded_tokens")]

    def exact(self, result):
        """Checks that the figures in the result equal the metrics and add up to the prompt."""
        computed, got = [after - before for after, before in zip(self.look(), self.before)]
        usage = result["usage"]
        return loaded(result) == got and usage["cached_tokens"] + computed == usage["prompt_tokens"]


def long_prompt(one, other, plain, salt):
    shared, endings = tokens(salt, 4000), [tokens(salt + 1, 40), tokens(salt + 2, 40)]
    cold = one.ask(shared + endings[0])
    settle()
    count = Count(other)
    warm = other.ask(shared + endings[1], logprobs=3)
    exact = count.exact(warm)
    computed = other.ask(shared + endings[1], cache={"read": False, "write": False})
    apart = plain.ask(shared + endings[1], logprobs=3)
    return {"cold_ms": first(cold), "other_worker_ms": first(warm), "share": first(warm) / first(computed),
            "share_bar": 0.125, "computing_ms": first(computed),
            "cached_tokens_redis": loaded(warm),
            "cached_tokens_redis_most": 4000 // 32 * 32, "cached_tokens_redis_exact": exact,
            "as_without_cache": said(warm) == said(apart)}


def identical(one, other, plain, salt):
    prompt = tokens(salt, 4000)
    cold = one.ask(prompt)
    again = []
    for _ in range(3):
        count = Count(one)
        again.append(one.ask(prompt, logprobs=3))
        assert count.exact(again[-1])
    settle()
    count = Count(other)
    there = other.ask(prompt, logprobs=3)
    exact = count.exact(there)
    apart = plain.ask(prompt, logprobs=3)
    return {"cold_ms": first(cold), "same_worker_ms": [first(result) for result in again], "same_worker_bar_ms": 10,
            "chunks_again": [result["prefill_chunks"] for result in again], "other_worker_ms": first(there),
            "other_worker_share": first(there) / first(cold), "share_bar": 0.125,
            "other_worker_chunks": there["prefill_chunks"],
            "cached_tokens_redis": loaded(there), "cached_tokens_redis_exact": exact,
            "as_without_cache": all(said(result) == said(apart) for result in [*again, there])}


def conversation(workers, salt, asked):
    """A conversation of 300 tokens per turn, of which `asked` are new prompt tokens."""
    history, turns = [], []
    for turn in range(8):
        history += tokens(salt + turn, asked)
        result = workers[turn % len(workers)].ask(history, max_tokens=300 - asked, session=f"talk-{salt}-{asked}")
        times, usage = result["timings_ms"], result["usage"]
        turns.append({"first_token": times["first_token"], "queue": times["queue"], "prefill": times["prefill"],
                      "prompt": len(history), "cached": usage["cached_tokens"],
                      "redis": loaded(result)})
        history += result["token_ids"]
        if len(workers) > 1:
            settle()
    return {"asked": asked, "turn_8_to_2": turns[7]["first_token"] / turns[1]["first_token"], "bar": 1.3,
            "turns": turns}


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--only", help="long, identical, alone, travelling; separated by commas")
    parser.add_argument("--deterministic", action="store_true", help="the workers run with --deterministic")
    parser.add_argument("--asked", default="172", help="new tokens of a turn of 300; several separated by commas")
    parser.add_argument("--brokers", help="a broker that runs already")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else ["long", "identical", "alone", "travelling"]
    figures = {}
    with contextlib.ExitStack() as stack:
        broker = argparse.Namespace(address=options.brokers) if options.brokers else \
            stack.enter_context(fleet.Broker(options))
        redis = stack.enter_context(redis_rig.Redis())
        one, two, plain = [stack.enter_context(open_worker(options, broker, name, *flags, *kind(options)))
                           for name, flags in (("one", ("--redis", redis.url())), ("two", ("--redis", redis.url())),
                                               ("plain", ("--prefix-cache=false",)))]
        one.warm(1, count=1500)
        two.warm(2, count=1500)
        asked = [int(count) for count in options.asked.split(",")]
        times = range(options.repetitions)
        if "long" in wanted:
            figures["long"] = [long_prompt(one, two, plain, 100 + 10 * i) for i in times]
        if "identical" in wanted:
            figures["identical"] = [identical(one, two, plain, 200 + 10 * i) for i in times]
        if "alone" in wanted:
            figures["conversation_on_one"] = [conversation([one], 1000 * i, count) for count in asked for i in times]
        if "travelling" in wanted:
            figures["conversation_on_two"] = [conversation([one, two], 1000 * i + 500, count) for count in asked
                                              for i in times]
    fleet.report(options, "cache_bars", {"pid": os.getpid(), "deterministic": options.deterministic, **figures})


if __name__ == "__main__":
    main()
