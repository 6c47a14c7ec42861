#!/usr/bin/env python3
"""Hours of 70 % load on workers with Apache Kafka and Redis, with a fault every few minutes. checker.c judges the topics
at the end. Writes the figures as JSON and, over time, as an SVG: resident memory, descriptors and threads of each worker,
and the 99th percentile of the time from a request's sending to its result.

    soak.py [--hours 2] [--faults 40] [--delivery exactly-once] [--json FILE] [--svg FILE]

No fault affects worker 1, so the slope of its memory after the first half hour shows leaks. (In a run shorter than two
hours it is measured after the first quarter, and the limit does not apply.) Exit 1: a request was lost or repeated, a
worker ended unexpectedly, or the slope exceeds its limit."""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import chaos  # noqa: E402
import rig  # noqa: E402
from fleet import percentile  # noqa: E402 (rig adds its folder to the path)

import plot  # noqa: E402

SAMPLE_S = 5
WINDOW_S = 30           # of one value of the 99th percentile
WARM_S = 1800           # before the slope of the memory is measured
SLOPE_LIMIT_MB_H = 1.0
SHARE = 0.7             # of the rate at which the fleet answers a burst
BURST = 4000            # requests that measure this rate: about the backlog after the broker was down for a minute, so that
                        # the workers' memory reaches its maximum before the slope is measured
STREAMS = 20            # one request in this many has token records, because the checker keeps every record in memory
STOP_S = 12             # longer than a session
TOKENS = 400


def slope_per_hour(points):
    """Least squares of (seconds, value); None for fewer than two points."""
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return 3600 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None


class Latencies(threading.Thread):
    """Reads the results as they arrive. The latency is the broker's time of a result minus the time at which its
    request was sent."""

    def __init__(self, fleet):
        super().__init__(daemon=True)
        self.sent = {}
        self.seen = []  # (time of the result, seconds)
        self.process = rig.started(subprocess.Popen(
            ["kcat", "-C", "-b", fleet.services.brokers, "-t", f"{fleet.prefix}.results", "-q", "-u", "-E", "-f", "%T %k\\n"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))

    def run(self):
        for line in self.process.stdout:
            stamp, _, key = line.strip().partition(" ")
            sent = self.sent.pop(key, None)
            if sent:
                self.seen.append((int(stamp) / 1000, int(stamp) / 1000 - sent))

    def since(self, when):
        return [seconds for stamp, seconds in list(self.seen) if stamp >= when]


class Soak:
    def __init__(self, options, services):
        self.options, self.services = options, services
        self.run = chaos.Run(options, services, "soak", 3)
        self.fleet = self.run.fleet
        self.latencies = Latencies(self.fleet)
        self.began = time.time()
        self.samples, self.faults = [], []
        self.random = random.Random(options.seed)

    def at(self):
        return time.time() - self.began

    # --- load ---

    def make(self, number):
        fields = chaos.request(self.fleet, number, TOKENS) | {"stream": number % STREAMS == 0}
        self.latencies.sent[fields["id"]] = time.time()
        return fields

    def measure_rate(self):
        """Requests per second that the fleet answers when all are published at once."""
        self.run.load(BURST, 0, self.make)
        self.run.wait_answered(BURST)
        span_s = max(0.1, self.run.checker.figures()["span_ms"] / 1000)
        return BURST / span_s

    def load(self, rate):
        count = round(rate * self.options.hours * 3600)
        offset = BURST
        self.run.load(count, rate, lambda number: self.make(offset + number), wait_s=120, before=BURST)

    # --- faults ---

    def kill(self):
        victim = self.fleet.workers[1]
        victim.end(signal.SIGKILL)
        victim.start()

    def end(self):
        victim = self.fleet.workers[2]
        victim.end(signal.SIGTERM)
        victim.start()

    def stop(self):
        victim = self.fleet.workers[1]
        victim.send(signal.SIGSTOP)
        self.pause(STOP_S)
        victim.send(signal.SIGCONT)

    def kafka(self):
        kill = sum(fault["what"] == "kafka" for fault in self.faults) % 2 == 0
        self.services.call("service_stop kafka KILL" if kill else "kafka_stop")
        self.services.call("kafka_restart")

    def redis(self):
        self.services.call("redis_stop")
        self.pause(2)
        self.services.call("redis_restart")

    def flush(self):
        self.services.call('redis-cli -u "$REDIS_URL" flushall')

    def join(self):
        spare = self.fleet.workers[3:]
        if spare:
            spare[0].start()
        else:
            self.fleet.workers.append(rig.Worker(self.fleet, "soak-w4"))
            self.fleet.workers[3].start()

    def leave(self):
        for worker in self.fleet.workers[3:]:
            worker.end(signal.SIGTERM)

    CYCLE = ("kill", "flush", "stop", "join", "kafka", "end", "leave", "redis")

    def disturb(self, number):
        what = self.CYCLE[number % len(self.CYCLE)]
        fault = {"what": what, "s": round(self.at(), 1)}
        self.faults.append(fault)
        self.run.faults += 1
        print(f"{fault['s']:8.0f} s  fault {number + 1}: {what}", flush=True)
        getattr(self, what)()

    # --- samples ---

    def sample(self):
        row = {"s": round(self.at(), 1), "workers": {}}
        for worker in self.fleet.workers:
            if worker.process is None or worker.process.poll() is not None:
                continue
            folder = pathlib.Path(f"/proc/{worker.process.pid}")
            try:
                row["workers"][f"{worker.name}.{worker.lives}"] = {
                    "rss_mb": worker.rss_bytes() / 1e6, "fds": len(os.listdir(folder / "fd")),
                    "threads": len(os.listdir(folder / "task"))}
            except OSError:
                pass  # it has just ended
        row["p99_s"] = percentile(self.latencies.since(time.time() - WINDOW_S), 0.99)
        self.samples.append(row)

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.samples or self.at() - self.samples[-1]["s"] >= SAMPLE_S:
                self.sample()
            self.run.pause(min(1.0, max(0.0, until - time.monotonic())))

    # --- the whole ---

    def live(self):
        self.latencies.start()
        capacity = self.measure_rate()
        rate = min(SHARE * capacity, self.options.rate_max)
        print(f"answers {capacity:.1f} requests/s at once; the load is {rate:.1f}", flush=True)
        self.load(rate)
        self.began = time.time()
        seconds, faults = self.options.hours * 3600, self.options.faults
        for number in range(faults):
            self.pause(max(0.0, (number + 0.5) * seconds / faults - self.at()))
            self.disturb(number)
        while self.run.busy():
            self.pause(SAMPLE_S)
        row = self.run.finish(chaos.allowed_after_stop(self.options))
        self.latencies.process.kill()
        return self.judge(row, capacity, rate)

    def judge(self, row, capacity, rate):
        whole = self.options.hours * 3600 >= 4 * WARM_S
        warm_s = WARM_S if whole else self.options.hours * 900
        undisturbed = f"{self.fleet.workers[0].name}.1"
        points = [(sample["s"], sample["workers"][undisturbed]["rss_mb"]) for sample in self.samples
                  if sample["s"] >= warm_s and undisturbed in sample["workers"]]
        slope = slope_per_hour(points)
        times = [seconds for _, seconds in self.latencies.seen]
        row.update(hours=self.options.hours, capacity=round(capacity, 1), rate=round(rate, 1), faults=self.faults,
                   memory_slope_mb_h=None if slope is None else round(slope, 2), p50_s=percentile(times, 0.5),
                   p99_s=percentile(times, 0.99), samples=self.samples)
        self.run.bar_runs_once()
        if whole:
            self.run.bar(slope is not None and slope <= SLOPE_LIMIT_MB_H,
                         f"memory grows by at most {SLOPE_LIMIT_MB_H} MB/h")
        return row


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--faults", type=int, help="in all; 40 in two hours unless given")
    parser.set_defaults(**vars(rig.OPTIONS))
    parser.add_argument("--delivery")
    parser.add_argument("--rate-max", type=float, default=50.0, help="requests a second, independent of the capacity")
    parser.add_argument("--json")
    parser.add_argument("--svg")
    parser.add_argument("--logs", help="keep the workers' logs in this folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--session", type=int, help="session timeout in seconds")
    parser.add_argument("--millrace")
    options = parser.parse_args()
    if options.faults is None:
        options.faults = max(1, round(20 * options.hours))
    options.sizes, options.small = dict(chaos.FULL), False
    return options


def main():
    options = arguments()
    with rig.Services(options.logs) as services:
        options.redis, options.redis_url = True, services.start_redis()
        row = Soak(options, services).live()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(row, indent=1) + "\n")
    if options.svg:
        pathlib.Path(options.svg).write_text(plot.svg(row))
    chaos.show([row | {"faults": len(row["faults"])}])
    print(f"{len(row['faults'])} faults, memory {row['memory_slope_mb_h']} MB/h, p50 {row['p50_s']:.2f} s, "
          f"p99 {row['p99_s']:.2f} s")
    for end in row["abnormal"]:
        print(json.dumps(end, indent=1))
    for line in row["messages"]:
        print("   ", line)
    return 1 if row["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
