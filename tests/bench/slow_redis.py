#!/usr/bin/env python3
"""Measures the cost of a slow Redis: time to first token of a worker that reaches Redis over a link of 20 MB/s each
way, compared with a worker without Redis and one with the same Redis at full speed. All get the same prompts, in turns.
Bar: with the slow link at most 1.05 times the time without Redis; at full speed the worker loads. There are two kinds
of prompts: `known`, whose first blocks are in Redis, so that the worker must decide whether to load; and `new`, for
which Redis only adds lookups and stores. Needs redis-server. The workers measure the times, from intake on."""

import contextlib
import socket
import statistics
import time

import cache_bars
import fleet
import redis_rig  # cache_bars sets the import path
from redis_rig import first


class SlowLink(redis_rig.Link):
    """A relay that forwards a fixed number of bytes per second in each direction, over all connections."""

    def __init__(self, port, bytes_per_second):
        self.rate = bytes_per_second
        self.free_at = dict.fromkeys(("up", "down"), time.monotonic())  # when the direction can take the next bytes
        super().__init__(port)

    def tune(self, end):
        """Small socket buffers, so that the kernel does not buffer bytes beyond the rate of the link."""
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)

    def forward(self, sink, data, direction):
        with self.lock:
            now = time.monotonic()
            self.free_at[direction] = max(self.free_at[direction], now) + len(data) / self.rate
            wait = self.free_at[direction] - now
        time.sleep(wait)
        sink.sendall(data)


def decisions(worker):
    return {name: int(count) for name, count in
            worker.serve.by_label("millrace_shared_cache_decisions_total").items() if count}


def in_turns(workers, prompts, **fields):
    """Time to first token and loaded tokens of each worker; the order of the workers changes every turn."""
    times = {name: [] for name in workers}
    loaded = {name: 0 for name in workers}
    for turn, prompt in enumerate(prompts):
        for name in fleet.rotated(workers, turn):
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
