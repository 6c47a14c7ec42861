#!/usr/bin/env python3
"""Workers with --redis-kv int8: the size of their blocks in Redis, loads between them, and the options that exclude
int8. They and workers without int8 never use each other's blocks. Times are not checked."""

import contextlib
import pathlib
import subprocess
import tempfile

import redis_rig
from redis_rig import Redis, Worker, loaded, tokens

BLOCK, PREFIX, ENDING = 256, 1820, 30
LAYERS, HEAD = 4, 32  # redis_rig.write_model
HEADER, CODEC_AT = 64, 6  # kvcache/remote/block_frame.h
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
        """For every key: the encoding of the KV block and the bytes after the header."""
        keys = self.redis.keys()
        values = self.redis.client.all([("GET", key) for key in keys])
        return {key: (value[CODEC_AT], len(value) - HEADER) for key, value in zip(keys, values)}

    def loaded_here(self, worker):
        return int(worker.serve.metrics()["millrace_shared_cache_loaded_tokens_total"])

    def fill(self, worker, salt):
        """Sends a prompt of seven full blocks and a partial one; returns the contents of Redis afterwards."""
        prompt = tokens(salt, PREFIX)
        worker.ask(prompt)
        worker.wait_stored()
        return prompt, self.values()


def blocks(values, form):
    """The values of full blocks, which all have the same length; a complete-prompt entry has logits too."""
    lengths = [length for codec, length in values.values() if codec == form]
    return [length for length in lengths if lengths.count(length) > 1]


def check_bytes(test):
    """int8 has two scales of two bytes for 2 * 32 one-byte numbers: 0.53 times the bytes of bf16."""
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
    """Sends the prefix of the writer with another ending; checks the loaded tokens in the answer and the metrics."""
    prompt, _ = test.fill(test.writer, salt)
    prompt += tokens(salt + 1, ENDING)
    before = test.loaded_here(worker)
    got = worker.ask(prompt)
    assert loaded(got) == test.loaded_here(worker) - before, got
    return prompt, got


def check_loads(test):
    """Compares the greedy tokens with those of a worker without Redis, up to the first difference."""
    same, asked = 0, 0
    for turn in range(20 * PROMPTS):  # on a busy machine the load may exceed its timeout
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
    """Loads a complete prompt with its partial block and logits: nothing is computed, so the first token is the same."""
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
    """A worker without int8 on the same Redis with the same model never loads int8 blocks, and a worker with int8 never
    loads exact ones."""
    prompt, got = ask_after(test, test.exact, 5000)
    assert loaded(got) == 0 and got["token_ids"] == test.plain.ask(prompt)["token_ids"], got
    test.exact.wait_stored()
    assert {codec for codec, _ in test.values().values()} == {EXACT, INT8}
    prompt = tokens(5100, PREFIX)
    test.exact.ask(prompt)
    test.exact.wait_stored()
    assert loaded(test.reader.ask(prompt + tokens(5101, ENDING))) == 0
    print("exact and int8: neither loads blocks of the other", flush=True)


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
