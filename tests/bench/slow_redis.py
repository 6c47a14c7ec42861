#!/usr/bin/env python3
"""Measures the cost of a slow Redis: time to first token of a worker whose Redis is behind a link of 20 MB/s each way,
compared with one without Redis and one with the same Redis at full speed; the same prompts in turns. Bar: with the slow
link at most 1.05 times the time without Redis; at full speed the worker loads. Two kinds of prompt: `known`, whose first
blocks are in Redis, so that the worker must decide whether to load; `new`, for which Redis only adds lookups and stores.
Needs redis-server. Times are measured by the workers, from intake on."""

import contextlib
import socket
import statistics
import threading
import time

import cache_bars
import fleet
import redis_rig  # cache_bars sets the import path
from redis_rig import first


class Direction:
    """Forwards the bytes of all connections in one direction at a fixed rate."""

    def __init__(self, bytes_per_second):
        self.rate = bytes_per_second
        self.lock = threading.Lock()
        self.free_at = time.monotonic()

    def pass_on(self, source, target):
        try:
            while data := source.recv(65536):
                with self.lock:
                    now = time.monotonic()
                    self.free_at = max(self.free_at, now) + len(data) / self.rate
                    wait = self.free_at - now
                time.sleep(max(wait, 0))
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class SlowLink:
    """A relay to a local port that forwards a fixed number of bytes per second in each direction."""

    def __init__(self, port, bytes_per_second):
        self.target = port
        self.ways = Direction(bytes_per_second), Direction(bytes_per_second)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near = self.listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", self.target))
            # Small socket buffers, so that the kernel does not buffer bytes beyond the rate of the link.
            for end in (near, far):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            for way, (source, target) in zip(self.ways, ((near, far), (far, near))):
                threading.Thread(target=way.pass_on, args=(source, target), daemon=True).start()


def decisions(worker):
    lines = worker.serve.get("/metrics")[1].splitlines()
    counts = {line.split('"')[1]: int(float(line.rsplit(" ", 1)[1])) for line in lines
              if line.startswith("millrace_shared_cache_decisions_total{")}
    return {name: count for name, count in counts.items() if count}


def in_turns(workers, prompts, **fields):
    """Time to first token and loaded tokens of each worker; the order of the workers changes every turn."""
    times = {name: [] for name in workers}
    loaded = {name: 0 for name in workers}
    for turn, prompt in enumerate(prompts):
        names = list(workers)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            result = workers[name].ask(prompt, **fields)
            times[name].append(first(result))
            loaded[name] += redis_rig.loaded(result)
            cache_bars.settle()
    return {name: {"first_token_ms": times[name], "median_ms": statistics.median(times[name]),
                   "loaded_tokens": loaded[name]} for name in workers}


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=2000, help="of a prompt, without its ending")
    parser.add_argument("--rate", type=float, default=20e6, help="bytes a second each way")
    parser.add_argument("--kinds", default="known,new")
    options = parser.parse_args()
    figures = {}
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(fleet.Broker(options))
        redis = stack.enter_context(redis_rig.Redis())
        link = SlowLink(redis.port, options.rate)
        shared = cache_bars.tokens(500, options.tokens)
        with cache_bars.open_worker(options, broker, "writer", "--redis", redis.url()) as writer:
            writer.ask(shared)
            cache_bars.settle()
        flags = {"slow": ("--redis", redis.url(link.port)), "none": (), "full": ("--redis", redis.url())}
        workers = {name: stack.enter_context(cache_bars.open_worker(options, broker, name, *flags[name])) for name in flags}
        for salt, worker in enumerate(workers.values()):
            worker.warm(salt + 1, count=1500)
        if "known" in options.kinds:
            prompts = [shared + cache_bars.tokens(600 + turn, 100) for turn in range(options.turns)]
            figures["known"] = in_turns(workers, prompts, cache={"read": True, "write": False})
        if "new" in options.kinds:
            prompts = [cache_bars.tokens(700 + turn, options.tokens) for turn in range(options.turns)]
            figures["new"] = in_turns({name: workers[name] for name in ("slow", "none")}, prompts)
        figures["decisions"] = {name: decisions(workers[name]) for name in ("slow", "full")}
    for kind in figures.keys() & {"known", "new"}:
        figures[kind]["share"] = figures[kind]["slow"]["median_ms"] / figures[kind]["none"]["median_ms"]
    fleet.report(options, "slow_redis", {"bytes_per_second": options.rate, "bar": 1.05, **figures})


if __name__ == "__main__":
    main()
