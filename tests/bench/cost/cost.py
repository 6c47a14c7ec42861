"""Shared by the measurements of the cost of a feature: the same streams through workers with and without it, in turns.
Broker and reader share the cores with the worker, so their CPU time lowers its throughput too. Adds tests/bench, where
fleet.py is, to the import path."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import fleet  # noqa: E402

STREAMS = 32


def arguments(description, tokens=128, repetitions=3):
    parser = fleet.arguments(description)
    parser.set_defaults(repetitions=repetitions)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=tokens, help="of an answer")
    return parser


def worker(options, broker, name, *flags):
    """A worker whose topics and group have this name."""
    return fleet.Worker(options, broker, "--prefix", name, "--group", name, "--max-sequences", STREAMS, "--kv-memory",
                        "512MiB", *flags)


def measure(options, broker, worker, name, *flags):
    """Sends the streams once. Returns tokens per second, and the CPU time per token of the threads by name, in us."""
    before = worker.cpu_seconds()
    figures = fleet.Bench(options, "--brokers", broker.address, "--prefix", name, "--requests", options.requests,
                          "--prompt-tokens", 32, "--output-tokens", options.tokens, "--warmup", 2, "--timeout", "250s",
                          *flags).wait(requests=options.requests)
    tokens = options.requests * options.tokens
    return tokens / figures["duration"], {name: 1e6 * (seconds - before.get(name, 0.0)) / tokens
                                          for name, seconds in worker.cpu_seconds().items()}


def rounds(options, variants, measure):
    """The figures {variant: measure(variant)} of each round; a different variant begins each time."""
    for number in range(options.repetitions):
        yield {variant: measure(variant) for variant in fleet.rotated(variants, number)}


def medians(all_rounds, variant):
    return {name: round(statistics.median(each[variant][name] for each in all_rounds), 1)
            for name in all_rounds[0][variant]}


def costs(all_rounds, variant):
    """The share of the throughput that the variant lost in each round, compared with the variant "without"."""
    shares = [1 - each[variant]["tok_s"] / each["without"]["tok_s"] for each in all_rounds]
    return {"cost": round(statistics.median(shares), 4), "cost_all": [round(share, 4) for share in shares]}
