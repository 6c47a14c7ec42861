#!/usr/bin/env python3
"""Workers that share a Redis load blocks that other workers computed. Under every fault of Redis they answer like a
worker without Redis. Times are not checked; tests/bench/fault_cost.py measures them."""

import contextlib
import pathlib
import tempfile

import redis_faults
import redis_rig
from redis_faults import loaded


def retried(name, stage, salt, good, times=20):
    """Retries, because on a busy machine a load may exceed its timeout once, but not every time."""
    for turn in range(times):
        got, _ = redis_faults.run(stage, name, salt + 10 * turn)
        if good(loaded(got)):
            return loaded(got)
    raise AssertionError(f"{name}: never so")


def check_faults(stage):
    assert retried("healthy", stage, 1000, lambda count: count > 0)
    for number, name in enumerate(redis_faults.FAULTS):
        got, _ = redis_faults.run(stage, name, 2000 + 10 * number)
        print(f"{name}: the same tokens, {loaded(got)} loaded", flush=True)
        if name in ("down at start", "wrong password", "away", "restarted empty"):
            assert loaded(got) == 0, f"{name}: {loaded(got)} tokens from nowhere"
    assert retried("healthy", stage, 3000, lambda count: count > 0)


def check_values(stage, count):
    """No damaged value may be used."""
    stage.redis("FLUSHALL")
    *_, (done, _) = redis_faults.damaged(stage, stage.fill(4000), count)
    causes = redis_faults.refused(stage.reader)
    print(f"{done} damaged values: the same tokens, loaded and refused {causes}", flush=True)
    assert causes["damaged"] > 0 and causes["another version"] > 0, f"causes: {causes}"


def check_figures(stage):
    """The metrics of the Redis tier must all exist."""
    page = stage.reader.serve.get("/metrics")[1]
    for series in ("tier_look_seconds_bucket", "tier_load_seconds_bucket", "tier_bytes_per_second",
                   "tier_verify_failures_total{", "tier_bytes_stored_total", "tier_bytes_dropped_total",
                   "tier_breaker_state", "tier_items_gone_total", "tier_asks_late_total",
                   "shared_cache_asked_tokens_total", "shared_cache_there_tokens_total",
                   "shared_cache_loaded_tokens_total", "shared_cache_decisions_total{",
                   "shared_cache_saved_seconds_total"):
        assert f"\nmillrace_{series}" in page, f"no {series}"


def main():
    parser = redis_rig.fleet.arguments(__doc__)
    parser.add_argument("--values", type=int, default=200, help="values to damage")
    options = parser.parse_args()
    options.dtype, options.threads = "fp32", "1"
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.model = redis_rig.write_model(folder)
        stage = redis_faults.Stage(options, stack, "--kv-memory", "64MiB", block_bytes=256 << 10)
        check_faults(stage)
        check_values(stage, options.values)
        check_figures(stage)
        for worker in stage.workers.values():
            assert worker.serve.process.poll() is None, f"{worker.name} ended"
        assert len(stage.stranger.logged("WRONGPASS")) == 1, stage.stranger.log()
        assert not stage.stranger.logged("millstone"), "a secret is in the log"


if __name__ == "__main__":
    main()
