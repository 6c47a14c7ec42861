#!/usr/bin/env python3
"""Two workers on one real Redis: what one computed the other loads, and whatever becomes of Redis, the answers are those
of a worker without one. Nothing is timed."""

import contextlib
import pathlib
import signal
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))

import cache_bars  # noqa: E402
import fleet  # noqa: E402

PREFIX, ENDING = 780, 30


def compare(name, workers, salt, between=lambda: None, after=lambda: None):
    """The same prefix with two endings, on two workers; each answer beside that of the worker without Redis."""
    one, two, plain = workers
    prefix = cache_bars.tokens(salt, PREFIX)
    prompts = [prefix + cache_bars.tokens(salt + 1, ENDING), prefix + cache_bars.tokens(salt + 2, ENDING)]
    first = one.ask(prompts[0])
    cache_bars.settle()
    between()
    second = two.ask(prompts[1])
    after()
    for prompt, result in zip(prompts, (first, second)):
        wanted = plain.ask(prompt)
        assert result["finish_reason"] == wanted["finish_reason"] == "length", f"{name}: {result}"
        assert result["token_ids"] == wanted["token_ids"], f"{name}: {result} is not {wanted}"
    loaded = second["usage"]["cached_tokens_redis"]
    print(f"{name}: the same tokens, {loaded} loaded", flush=True)
    return loaded


def spoil(redis, change):
    """Every block of KV in Redis, changed. Returns how many."""
    keys = [key for key in redis.command("--scan").splitlines() if int(redis.command("STRLEN", key) or 0) > 4096]
    for key in keys:
        redis.command(*change(key))
    return len(keys)


def check_spoilt(redis, workers):
    changes = {
        "a changed byte": lambda key: ("SETRANGE", key, "2000", "not what was here"),
        "a changed header": lambda key: ("SETRANGE", key, "4", "\x7f\x7f"),
        "a value too long": lambda key: ("APPEND", key, "more than there was"),
        "a short value": lambda key: ("SET", key, "short"),
    }
    for number, (name, change) in enumerate(changes.items()):
        redis.command("FLUSHALL")
        spoilt = []
        loaded = compare(name, workers, 2000 + 10 * number, lambda: spoilt.append(spoil(redis, change)))
        assert spoilt[0] > 0, f"{name}: there was nothing to spoil"
        assert loaded == 0, f"{name}: {loaded} tokens loaded from values that are wrong"


def check_faults(redis, workers):
    flushing = threading.Event()

    def flush_all_the_time():
        while not flushing.wait(0.02):
            redis.command("FLUSHALL")

    flusher = threading.Thread(target=flush_all_the_time, daemon=True)
    compare("FLUSHALL in a loop", workers, 3000, flusher.start, lambda: (flushing.set(), flusher.join()))
    compare("CLIENT PAUSE", workers, 3010, lambda: redis.command("CLIENT", "PAUSE", "3000"))
    redis.command("CONFIG", "SET", "maxmemory", "2mb")
    redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    compare("full, and nothing evicted", workers, 3020)
    redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    compare("room for one block", workers, 3030)
    redis.command("CONFIG", "SET", "maxmemory", "0")
    compare("stopped", workers, 3040, lambda: redis.process.send_signal(signal.SIGSTOP),
            lambda: redis.process.send_signal(signal.SIGCONT))
    compare("killed while it is asked", workers, 3050, threading.Timer(0.03, redis.stop).start)
    compare("away", workers, 3060)
    redis.start()
    assert any(compare("started again", workers, 3100 + 10 * turn) for turn in range(20)), "Redis is back, and not used"


def main():
    options = fleet.arguments(__doc__).parse_args()
    options.dtype = "fp32"
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(fleet.Broker(options))
        redis = stack.enter_context(cache_bars.Redis())
        kv = ("--kv-memory", "256MiB")
        one, two, plain = [stack.enter_context(cache_bars.Asker(options, broker, name, *kv, *flags))
                           for name, flags in (("one", ("--redis", redis.url())), ("two", ("--redis", redis.url())),
                                               ("plain", ()))]
        workers = (one, two, plain)
        # A busy machine may be late once, which means computing; not every time.
        assert any(compare("healthy", workers, 1000 + 10 * turn) for turn in range(20)), "nothing was ever loaded"
        check_spoilt(redis, workers)
        check_faults(redis, workers)
        for worker in workers:
            assert worker.worker.process.poll() is None, f"{worker.name} ended"
        redis.stop()
        late = stack.enter_context(cache_bars.Asker(options, broker, "late", *kv, "--redis", redis.url()))
        compare("away at the start", (late, two, plain), 4000)


if __name__ == "__main__":
    main()
