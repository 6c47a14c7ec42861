#!/usr/bin/env python3
"""What shared prefill is worth: time to first token of long prompts and conversations, on one worker and on two that
share a Redis. Workers with topics of their own stand on one embedded broker, so that each request goes where it is
meant to. Needs redis-server. Bars: a 4,000-token prompt known to another worker in 1/8 of computing it; an identical
prompt in 10 ms on the same worker; turn 8 of a conversation within 1.3 times turn 2; behind a link of 20 MB/s no more
than 1.05 times without Redis. First-token times are the worker's own, from intake on."""

import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import uuid

import fleet


class Redis:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.port = fleet.free_port()
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder],
            stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("redis-server does not answer")

    def command(self, *words):
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True).stdout

    def url(self, port=None):
        return f"redis://127.0.0.1:{port or self.port}/0"

    def stop(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class SlowLink:
    """A relay that passes so many bytes a second each way."""

    def __init__(self, port, bytes_per_second):
        self.rate = bytes_per_second
        self.target = port
        self.lock = threading.Lock()
        self.free_at = time.monotonic()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.relay, args=(one, other), daemon=True).start()

    def relay(self, one, other):
        try:
            while data := one.recv(65536):
                with self.lock:
                    now = time.monotonic()
                    self.free_at = max(self.free_at, now) + len(data) / self.rate
                    wait = self.free_at - now
                if wait > 0:
                    time.sleep(wait)
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            end.close()


class Asker:
    """One worker and its producer."""

    def __init__(self, options, broker, name, *flags):
        self.options, self.broker, self.name = options, broker, name
        self.worker = fleet.Worker(options, broker, "--prefix", name, "--group", name, "--kv-memory", "1GiB", *flags)

    def ask(self, ids, **fields):
        fields = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, **fields}
        words = [f"{key}={json.dumps(value)}" for key, value in fields.items()]
        answer = subprocess.run(
            [str(self.options.millrace), "send", "--brokers", self.broker.address, "--prefix", self.name, "--json",
             "--no-stream", "--timeout", "40s", "--id", uuid.uuid4().hex, f"prompt_token_ids={json.dumps(ids)}",
             *words], capture_output=True, text=True)
        lines = [line for line in answer.stdout.splitlines() if '"finish_reason"' in line]
        if not lines:
            raise RuntimeError(f"no result: {answer.stdout[-500:]} {answer.stderr[-500:]}")
        return json.loads(lines[-1])

    def warm(self, salt):
        for turn in range(3):
            self.ask(tokens(salt * 1000 + turn, 1500), cache={"read": False, "write": False})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.worker.__exit__()


def tokens(seed, count):
    drawn = random.Random(seed)
    return [drawn.randrange(100, 40000) for _ in range(count)]


def first(result):
    return result["timings_ms"]["first_token"]


def settle():
    time.sleep(1.5)  # stores are under way behind the answer


def long_prompt(one, other, salt):
    shared = tokens(salt, 4000)
    cold = one.ask(shared + tokens(salt + 1, 40))
    settle()
    warm = other.ask(shared + tokens(salt + 2, 40))
    plain = other.ask(shared + tokens(salt + 2, 40), cache={"read": False, "write": False})
    return {"cold_ms": first(cold), "other_worker_ms": first(warm), "share": first(warm) / first(plain),
            "share_bar": 0.125, "computing_ms": first(plain), "cached_tokens_redis": warm["usage"]["cached_tokens_redis"],
            "cached_tokens_redis_expected": 4000 // 256 * 256,
            "same_tokens": warm["token_ids"] == plain["token_ids"]}


def identical(one, other, salt):
    prompt = tokens(salt, 4000)
    cold = one.ask(prompt)
    again = [one.ask(prompt) for _ in range(3)]
    settle()
    there = other.ask(prompt)
    return {"cold_ms": first(cold), "same_worker_ms": [first(result) for result in again], "same_worker_bar_ms": 10,
            "chunks_again": [result["prefill_chunks"] for result in again], "other_worker_ms": first(there),
            "other_worker_share": first(there) / first(cold), "share_bar": 0.125,
            "other_worker_chunks": there["prefill_chunks"],
            "cached_tokens_redis": there["usage"]["cached_tokens_redis"],
            "same_tokens": all(result["token_ids"] == cold["token_ids"] for result in [*again, there])}


def conversation(workers, salt):
    history, times, found = [], [], []
    for turn in range(8):
        history += tokens(salt + turn, 172)
        result = workers[turn % len(workers)].ask(history, max_tokens=128, session=f"talk-{salt}")
        times.append(first(result))
        found.append([len(history), result["usage"]["cached_tokens"], result["usage"]["cached_tokens_redis"]])
        history += result["token_ids"]
        if len(workers) > 1:
            settle()
    return {"first_token_ms": times, "turn_8_to_2": times[7] / times[1], "bar": 1.3,
            "prompt_cached_redis": found}


def slow_link(options, broker, redis, one, salt):
    """The same prompts with and without a Redis behind a slow link; the second one has been measured by then."""
    link = SlowLink(redis.port, 20e6)
    shared = tokens(salt, 4000)
    one.ask(shared)
    settle()
    with Asker(options, broker, "slow", "--redis", redis.url(link.port)) as slow, \
            Asker(options, broker, "none") as none:
        slow.warm(salt + 1)
        none.warm(salt + 2)
        times = []
        for turn in range(4):
            prompt = shared[:3840] + tokens(salt + 10 + turn, 100)
            off = {"read": True, "write": False}
            times.append([first(slow.ask(prompt, cache=off)), first(none.ask(prompt, cache=off))])
        metrics = slow.worker.get("/metrics")[1]
    decisions = {line.split('"')[1]: int(float(line.rsplit(" ", 1)[1])) for line in metrics.splitlines()
                 if line.startswith("millrace_shared_cache_decisions_total{")}
    best = [min(pair[side] for pair in times) for side in (0, 1)]
    return {"slow_and_none_ms": times, "share_of_best": best[0] / best[1], "bar": 1.05, "decisions": decisions}


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--only", help="long, identical, alone, travelling, slow; separated by commas")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else ["long", "identical", "alone", "travelling", "slow"]
    figures = {}
    with fleet.Broker(options) as broker, Redis() as redis, \
            Asker(options, broker, "one", "--redis", redis.url()) as one, \
            Asker(options, broker, "two", "--redis", redis.url()) as two:
        one.warm(1)
        two.warm(2)
        if "long" in wanted:
            figures["long"] = [long_prompt(one, two, 100 + 10 * i) for i in range(options.repetitions)]
        if "identical" in wanted:
            figures["identical"] = identical(one, two, 200)
        if "alone" in wanted:
            figures["conversation_on_one"] = conversation([one], 300)
        if "travelling" in wanted:
            figures["conversation_on_two"] = conversation([one, two], 400)
        if "slow" in wanted:
            figures["slow_link"] = slow_link(options, broker, redis, one, 500)
    fleet.report(options, "cache_bars", {"pid": os.getpid(), **figures})


if __name__ == "__main__":
    main()
