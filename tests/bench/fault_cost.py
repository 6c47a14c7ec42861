#!/usr/bin/env python3
"""Measures the time that faults of Redis add: time to first token of a cold prompt under every fault of
tests/integration/redis_faults.py, compared with a worker without Redis that gets the same prompt in turns. Both must
generate the same tokens. Then the same is measured with a small model and 10,000 KV values, each damaged in one of five
ways. Needs redis-server and build/produce. Bar: at most 60 ms added. Prints a table, and JSON."""

import contextlib
import pathlib
import statistics
import sys
import tempfile

import fleet

sys.path.insert(0, str(fleet.ROOT / "tests/integration"))

import redis_faults  # noqa: E402
import redis_rig  # noqa: E402
from redis_faults import first, loaded  # noqa: E402

BAR_MS = 60
BLOCK_TOKENS = 256


def summary(pairs, counts):
    """pairs: (with Redis, without Redis), in ms."""
    added = [one - other for one, other in pairs]
    return {"with_ms": statistics.median(one for one, _ in pairs), "with_max_ms": max(one for one, _ in pairs),
            "without_ms": statistics.median(other for _, other in pairs),
            "without_max_ms": max(other for _, other in pairs), "added_ms": statistics.median(added),
            "added_max_ms": max(added), "asked": len(pairs), "loaded_tokens": statistics.median(counts)}


def show(name, row):
    print(f"{name:32s} {row['asked']:5d} {row['loaded_tokens']:7.0f} {row['with_ms']:9.1f} {row['with_max_ms']:9.1f} "
          f"{row['without_ms']:9.1f} {row['without_max_ms']:9.1f} {row['added_ms']:8.1f} {row['added_max_ms']:8.1f}"
          f"{'' if row['added_max_ms'] <= BAR_MS else '   above the bar'}", file=sys.stderr, flush=True)


def measure_faults(options, names):
    rows = {}
    with contextlib.ExitStack() as stack:
        if options.cheap:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            options.model, options.prompt, options.block_bytes = redis_rig.write_model(folder), 1820, 256 << 10
        stage = redis_faults.Stage(options, stack, "--kv-memory", "512MiB", prefix=options.prompt,
                                   block_bytes=options.block_bytes)
        for number, name in enumerate(names):
            pairs, counts = [], []
            for turn in range(options.repetitions):
                got, wanted = redis_faults.run(stage, name, 10000 * (number + 1) + 10 * turn, plain_first=turn % 2)
                pairs.append((first(got), first(wanted)))
                counts.append(loaded(got))
            rows[name] = summary(pairs, counts)
            show(name, rows[name])
    return rows


def measure_values(options, count):
    """Repeats a prompt whose values in Redis are damaged before every request. The worker keeps no block of the
    prompt."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.model = redis_rig.write_model(folder)
        blocks = 31
        stage = redis_faults.Stage(options, stack, "--kv-memory", "128MiB", prefix=blocks * BLOCK_TOKENS + 20,
                                   block_bytes=256 << 10)
        prompt = stage.fill(5)
        healthy = stage.reader.ask(prompt, cache=redis_faults.KEEP_NOTHING)
        assert loaded(healthy) == blocks * BLOCK_TOKENS, f"nothing to damage: {healthy['usage']}"
        pairs, counts, done = [], [], 0
        for done, got in redis_faults.damaged(stage, prompt, count):
            pairs.append((first(got), first(stage.plain.ask(prompt, cache=redis_faults.NO_CACHE))))
            counts.append(loaded(got))
        row = {**summary(pairs, counts), "values": done, "refused": sum(redis_faults.refused(stage.reader).values())}
        show(f"{done} damaged values", row)
        print(f"  of these {row['refused']} were loaded and refused; the lookup rejected the others by their length",
              file=sys.stderr)
    return row


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--only", help="names of faults, or values; separated by commas")
    parser.add_argument("--cheap", action="store_true", help="a model that computes its prompt in 0.1 s, so that the "
                        "machine's random delays are small compared with the bar")
    parser.add_argument("--prompt", type=int, default=524, help="tokens that are in Redis")
    parser.add_argument("--values", type=int, default=10000)
    parser.set_defaults(dtype="fp32", threads="1", repetitions=5)
    options = parser.parse_args()
    options.block_bytes = BLOCK_TOKENS * 30 * 2 * 3 * 64 * (4 if options.dtype == "fp32" else 2)  # SmolLM2-135M
    wanted = options.only.split(",") if options.only else [*redis_faults.FAULTS, "values"]
    print(f"{'fault':32s} {'asked':>5s} {'loaded':>7s} {'Redis':>9s} {'max':>9s} {'without':>9s} {'max':>9s} "
          f"{'added':>8s} {'max':>8s}  (ms)", file=sys.stderr)
    faults = [name for name in redis_faults.FAULTS if name in wanted]
    figures = {"bar_added_ms": BAR_MS, "faults": measure_faults(options, faults) if faults else {}}
    if "values" in wanted:
        figures["values"] = measure_values(options, options.values)
    fleet.report(options, "fault_cost", figures)


if __name__ == "__main__":
    main()
