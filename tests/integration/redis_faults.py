"""Faults of Redis, each a context manager in which a worker gets a request. test_redis.py compares the answers with
those of a worker without Redis; tests/bench/fault_cost.py measures the added time."""

import contextlib
import random
import signal
import struct
import threading
import time

import redis_rig
from redis_rig import first, loaded, tokens

KEEP_NOTHING, NO_CACHE = {"read": True, "write": False}, {"read": False, "write": False}
HEADER_BYTES = 64  # kvcache/remote/block_frame.h
VERSION_AT, LENGTH_AT = 4, 32


class Stage:
    """One Redis and its workers: writer and reader use it directly, far uses it through a relay, and plain does not use
    it. orphan has an address without a server, stranger has a wrong password."""

    def __init__(self, options, stack, *flags, prefix=1820, block_bytes=0):
        enter = stack.enter_context
        self.prefix, self.block_bytes = prefix, block_bytes
        broker = enter(redis_rig.fleet.Broker(options))
        self.redis = enter(redis_rig.Redis())
        self.link = enter(redis_rig.Link(self.redis.port))
        wrong = self.redis.url().replace(redis_rig.PASSWORD, "millstone")
        urls = {"writer": self.redis.url(), "reader": self.redis.url(), "far": self.redis.url(self.link.port),
                "plain": None, "orphan": self.redis.url(redis_rig.fleet.free_port()), "stranger": wrong}
        self.workers = {name: enter(redis_rig.Worker(options, broker, name, *flags, *(["--redis", url] if url else [])))
                        for name, url in urls.items()}
        for name, worker in self.workers.items():
            setattr(self, name, worker)
            worker.warm(len(name))
        self.recover()

    def recover(self):
        """Waits until every worker that can reach its Redis is connected."""
        for worker in (self.writer, self.reader, self.far):
            worker.wait_up()

    def fill(self, salt):
        """Lets the writer store a prefix in Redis; returns a prompt of that prefix and a new ending, for the other workers."""
        prefix = tokens(salt, self.prefix)
        self.writer.ask(prefix + tokens(salt + 1, 30))
        self.writer.wait_stored()
        return prefix + tokens(salt + 2, 30)

    def values(self):
        """The keys of blocks in Redis and their values."""
        keys = self.redis.keys()
        return {key: value for key, value in zip(keys, self.redis.client.all([("GET", key) for key in keys])) if value}

    def check_same(self, name, got, wanted):
        assert got["token_ids"] == wanted["token_ids"], f"{name}: {got} is not {wanted}"


# ---- unreachable, slow, empty, full ----


@contextlib.contextmanager
def healthy(stage):
    yield stage.reader


@contextlib.contextmanager
def down_at_start(stage):
    yield stage.orphan


@contextlib.contextmanager
def wrong_password(stage):
    yield stage.stranger


@contextlib.contextmanager
def away(stage):
    stage.redis.stop()
    yield stage.reader
    stage.redis.start()


@contextlib.contextmanager
def restarted_empty(stage):
    stage.redis.stop()
    stage.redis.start()
    stage.reader.wait_up()
    yield stage.reader


@contextlib.contextmanager
def stopped(stage):
    stage.redis.signal(signal.SIGSTOP)
    yield stage.reader
    stage.redis.signal(signal.SIGCONT)


@contextlib.contextmanager
def paused(stage):
    stage.redis("CLIENT", "PAUSE", 1000)
    yield stage.reader
    stage.redis("PING")  # answered after the pause


@contextlib.contextmanager
def flushed_in_a_loop(stage):
    done = threading.Event()

    def flush():
        client = redis_rig.Client(stage.redis.address)
        while not done.wait(0.001):
            client("FLUSHALL")

    flusher = threading.Thread(target=flush, daemon=True)
    flusher.start()
    yield stage.reader
    done.set()
    flusher.join()


@contextlib.contextmanager
def memory(stage, policy, limit):
    stage.redis("CONFIG", "SET", "maxmemory-policy", policy)
    stage.redis("CONFIG", "SET", "maxmemory", limit)
    yield stage.reader
    stage.redis("CONFIG", "SET", "maxmemory", 0)


def used_bytes(stage, field):
    return int(stage.redis("INFO", "memory").split(f"{field}:".encode())[1].split()[0])


def full_and_nothing_evicted(stage):
    return memory(stage, "noeviction", 1 << 20)


def room_for_one_block(stage):
    return memory(stage, "allkeys-lru", used_bytes(stage, "used_memory_overhead") + int(1.3 * stage.block_bytes))


# ---- in the middle of a command ----


@contextlib.contextmanager
def in_the_middle_of_a_get(stage, action, undo):
    stage.link.when("down", int(1.5 * stage.block_bytes), action)
    yield stage.far
    stage.link.when("down", 0, None)
    undo()


def killed_in_a_get(stage):
    return in_the_middle_of_a_get(stage, stage.redis.stop, stage.redis.start)


def stopped_in_a_get(stage):
    return in_the_middle_of_a_get(stage, lambda: stage.redis.signal(signal.SIGSTOP),
                                  lambda: stage.redis.signal(signal.SIGCONT))


def cut_in_a_get(stage):
    return in_the_middle_of_a_get(stage, lambda: setattr(stage.link, "mode", "cut"),
                                  lambda: setattr(stage.link, "mode", "pass"))


@contextlib.contextmanager
def killed_in_a_set(stage):
    killed = threading.Event()
    stage.link.when("up", int(1.5 * stage.block_bytes), lambda: (stage.redis.stop(), killed.set()))
    stage.far.ask(tokens(time.monotonic_ns(), stage.prefix))
    assert killed.wait(10), "nothing was stored"
    yield stage.far
    stage.redis.start()


@contextlib.contextmanager
def link_mode(stage, mode):
    stage.link.mode = mode
    yield stage.far
    stage.link.mode = "pass"


def garbage_for_replies(stage):
    return link_mode(stage, "garbage")


def replies_split_at_every_byte(stage):
    return link_mode(stage, "split")


# ---- damaged values ----


def flipped(key, value, others, drawn):
    at = drawn.randrange(len(value))
    return value[:at] + bytes([value[at] ^ (1 << drawn.randrange(8))]) + value[at + 1:]


def truncated(key, value, others, drawn):
    return value[:drawn.randrange(len(value))]


def swapped(key, value, others, drawn):
    return next((other for name, other in others.items() if name != key and len(other) == len(value)), value[::-1])


def oversized(key, value, others, drawn):
    length = struct.pack("<I", len(value) - HEADER_BYTES + 64)  # the header has the same length
    return value[:LENGTH_AT] + length + value[LENGTH_AT + 4:] + drawn.randbytes(64)


def of_an_older_layout(key, value, others, drawn):
    return value[:VERSION_AT] + b"\0\0" + value[VERSION_AT + 2:]


DAMAGES = [flipped, truncated, swapped, oversized, of_an_older_layout]


def damage(stage, values, kinds, drawn):
    """Overwrites every value with a damaged one, using the kinds of damage in turn."""
    stage.redis.client.all([("SET", key, kinds[number % len(kinds)](key, value, values, drawn))
                            for number, (key, value) in enumerate(values.items())])


def damaged(stage, prompt, count):
    """Repeats a prompt whose blocks are in Redis and damages all of them before each request, with the next kind of
    damage each time, until `count` values are damaged. The worker keeps no block of the prompt. Checks that the tokens
    stay the same and that nothing is loaded. Yields the number of damaged values so far and the answer."""
    values, drawn, done = stage.values(), random.Random(3), 0
    wanted = stage.plain.ask(prompt, cache=NO_CACHE)
    assert len(values) > 3, "there was nothing to damage"
    while done < count:
        kind = DAMAGES[done // len(values) % len(DAMAGES)]
        damage(stage, values, [kind], drawn)
        got = stage.reader.ask(prompt, cache=KEEP_NOTHING)
        stage.check_same(kind.__name__, got, wanted)
        assert loaded(got) == 0, f"{kind.__name__}: {loaded(got)} tokens loaded from values that are wrong"
        done += len(values)
        yield done, got


def refused(worker):
    """Values that failed verification, by cause."""
    return {cause: int(count) for cause, count in
            worker.serve.by_label("millrace_tier_verify_failures_total").items()}


FAULTS = {fault.__name__.replace("_", " "): fault for fault in (
    healthy, down_at_start, wrong_password, away, restarted_empty, stopped, paused, flushed_in_a_loop,
    full_and_nothing_evicted, room_for_one_block, killed_in_a_get, stopped_in_a_get, cut_in_a_get, killed_in_a_set,
    garbage_for_replies, replies_split_at_every_byte)}


def run(stage, name, salt, plain_first=False):
    """Sends one request under a fault and one to the worker without Redis, checks that the tokens are the same, and returns
    both answers."""
    prompt = stage.fill(salt)
    wanted = stage.plain.ask(prompt) if plain_first else None
    with FAULTS[name](stage) as worker:
        got = worker.ask(prompt)
    wanted = wanted or stage.plain.ask(prompt)
    stage.check_same(name, got, wanted)
    stage.recover()
    return got, wanted


__all__ = ["FAULTS", "KEEP_NOTHING", "NO_CACHE", "Stage", "damaged", "first", "loaded", "refused", "run", "tokens"]
