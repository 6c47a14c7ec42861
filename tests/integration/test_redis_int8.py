#!/usr/bin/env python3
"""Workers that keep KV in Redis in int8 (--redis-kv int8): what they take there, what they load of each other, that they
and workers without it never meet on one Redis, and what does not go with it. Nothing is timed."""

import contextlib
import pathlib
import subprocess
import tempfile

import redis_rig
from redis_rig import Redis, Worker, loaded, tokens

BLOCK, PREFIX, ENDING = 256, 1820, 30
LAYERS, HEAD = 4, 32  # redis_rig.write_model
HEADER, CODEC_AT = 64, 6  # kvcache/block_frame.h
EXACT, INT8 = 0, 1
PROMPTS = 6


class Test:
    def __init__(self, options, stack, folder):
        enter = stack.enter_context
        self.options, self.folder = options, folder
        broker = enter(redis_rig.fleet.Broker(options))
        self.redis = enter(Redis())
        int8 = ["--redis", self.redis.url(), "--redis-kv", "int8"]
        flags = {"writer": int8, "reader": int8, "exact": int8[:2], "plain": []}
        for name, given in flags.items():
            worker = enter(Worker(options, broker, name, "--kv-memory", "64MiB", *given))
            setattr(self, name, worker)
            if given:
                worker.wait_up()
            worker.warm(len(name))

    def values(self):
        """Of all keys: how the KV is written, and the bytes behind the header."""
        keys = self.redis.keys()
        values = self.redis.client.all([("GET", key) for key in keys])
        return {key: (value[CODEC_AT], len(value) - HEADER) for key, value in zip(keys, values)}

    def loaded_here(self, worker):
        return int(worker.serve.metrics()["millrace_shared_cache_loaded_tokens_total"])

    def fill(self, worker, salt):
        """A prompt of seven blocks and a part of one, and what is then in Redis."""
        prompt = tokens(salt, PREFIX)
        worker.ask(prompt)
        worker.wait_stored()
        return prompt, self.values()


def blocks(values, form):
    """Blocks of a form: values that begin a chain's full block all have one length. The entry has logits, too."""
    lengths = [length for codec, length in values.values() if codec == form]
    return [length for length in lengths if lengths.count(length) > 1]


def check_bytes(test):
    """Two scales of two bytes beside 2 * 32 numbers of one: 0.53 of bf16."""
    _, int8 = test.fill(test.writer, 100)
    assert all(codec == INT8 for codec, _ in int8.values()), int8
    test.redis("FLUSHALL")
    _, exact = test.fill(test.exact, 100)
    assert all(codec == EXACT for codec, _ in exact.values()), exact
    assert not set(int8) & set(exact), "one name for two forms"
    sizes = {form: set(blocks(values, form)) for form, values in ((INT8, int8), (EXACT, exact))}
    numbers = BLOCK * LAYERS * 2
    assert sizes == {INT8: {numbers * (HEAD + 2)}, EXACT: {numbers * HEAD * 2}}, sizes
    print(f"a block: {min(sizes[EXACT])} bytes in bf16, {min(sizes[INT8])} in int8", flush=True)
    test.redis("FLUSHALL")


def ask_after(test, worker, salt):
    """The writer's prefix with another ending; what the worker loaded of it, by its answer and by its own count."""
    prompt, _ = test.fill(test.writer, salt)
    prompt += tokens(salt + 1, ENDING)
    before = test.loaded_here(worker)
    got = worker.ask(prompt)
    assert loaded(got) == test.loaded_here(worker) - before, got
    return prompt, got


def check_loads(test):
    """The answer is that of a worker without Redis, or nearly: greedy tokens up to the first that differs."""
    same, asked = 0, 0
    for turn in range(20 * PROMPTS):  # a busy machine may be late, and compute
        prompt, got = ask_after(test, test.reader, 1000 + 10 * turn)
        assert loaded(got) % BLOCK == 0 and loaded(got) <= PREFIX, got
        if loaded(got) == 0:
            continue
        wanted = test.plain.ask(prompt)["token_ids"]
        asked += 1
        same += got["token_ids"][0] == wanted[0]
        print(f"{loaded(got)} tokens loaded: {got['token_ids']}, computed {wanted}", flush=True)
        if asked == PROMPTS:
            break
    assert asked == PROMPTS, f"{asked} loads"
    assert same > PROMPTS // 2, f"{same} of {PROMPTS} answers begin as computed ones do"


def check_entries(test):
    """A complete prompt, part-filled block and logits: nothing is computed, so its first token is the writer's."""
    for turn in range(20):
        prompt = tokens(3000 + 10 * turn, PREFIX)
        first = test.writer.ask(prompt)
        test.writer.wait_stored()
        got = test.reader.ask(prompt)
        if loaded(got) < PREFIX:
            continue
        assert loaded(got) == PREFIX and got["token_ids"][0] == first["token_ids"][0], (first, got)
        print(f"complete prompt: {loaded(got)} tokens loaded", flush=True)
        return
    raise AssertionError("a complete prompt was never loaded")


def check_apart(test):
    """A worker without int8, on the same Redis and with the same model, never sees what was rounded; nor the other
    way round."""
    prompt, got = ask_after(test, test.exact, 5000)
    assert loaded(got) == 0 and got["token_ids"] == test.plain.ask(prompt)["token_ids"], got
    test.exact.wait_stored()
    assert {codec for codec, _ in test.values().values()} == {EXACT, INT8}
    prompt = tokens(5100, PREFIX)
    test.exact.ask(prompt)
    test.exact.wait_stored()
    assert loaded(test.reader.ask(prompt + tokens(5101, ENDING))) == 0
    print("exact and int8: neither loads of the other", flush=True)


def check_refused(test):
    command = [test.options.millrace, "serve", "--model", test.options.model, "--brokers", "127.0.0.1:1", "--redis",
               test.redis.url(), "--redis-kv", "int8", "--deterministic"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "redis-kv int8" in ended.stderr, ended
    print(ended.stderr.strip(), flush=True)


def main():
    options = redis_rig.fleet.arguments(__doc__).parse_args()
    options.dtype, options.threads = "bf16", "1"
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.model = redis_rig.write_model(folder)
        test = Test(options, stack, folder)
        check_bytes(test)
        check_loads(test)
        check_entries(test)
        check_apart(test)
        check_refused(test)
        for name in ("writer", "reader", "exact", "plain"):
            assert getattr(test, name).serve.process.poll() is None, f"{name} ended"


if __name__ == "__main__":
    main()
