#!/usr/bin/env python3
"""Sends SIGTERM to a worker in each phase of its life: it must end within --drain-timeout + 5 s, with the exit code of
that phase, and no request may be lost. Another worker then answers the remaining requests, and checker.c reads the
topics. There must be remaining requests, or the test proves nothing. A step of the model takes milliseconds, so that
the requests last for seconds. Prints a table, and JSON with --json.

    stops.py [--small] [PHASE...]

--small: the bound is twice as long, because other jobs may use the same cores."""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import redis_rig
import rig

DRAIN_S = 3
SLACK_S = 5  # of the whole shutdown, beyond the drain timeout
LONG_TOKENS = 300
REQUESTS = 20


class Phase:
    """A worker with its own topics and group. All its requests are published before it starts, and they are more than
    it can answer."""

    def __init__(self, options, services, name, *flags, delivery="at-least-once", requests=REQUESTS, tokens=LONG_TOKENS,
                 drain_s=DRAIN_S):
        options.delivery = delivery
        self.options, self.services, self.name, self.requests = options, services, name, requests
        self.fleet = rig.Fleet(options, services, name, "--max-sequences", "4", "--drain-timeout", f"{drain_s}s", *flags)
        self.bound_s = drain_s + SLACK_S
        self.fleet.options = argparse.Namespace(**vars(options))
        self.worker = rig.Worker(self.fleet, f"{name}-first")
        self.checker = self.rescue = None
        self.row = {"phase": name, "delivery": delivery, "broken": []}
        if requests:
            for topic in ("requests", "cancel", "tokens", "results", "dlq"):
                services.call(f"kafka_topic {self.fleet.prefix}.{topic} 2")
            producer = rig.Producer(self.fleet, requests, 0, lambda n: {
                "id": f"{name}-{n}", "prompt": f"stone {n}", "max_tokens": tokens, "temperature": 0,
                "ignore_eos": True})
            producer.start()
            producer.join(60)
            if producer.failed:
                raise RuntimeError(f"{name}: the requests could not be published")

    def start(self, text=None):
        self.worker.start()
        if text:
            self.worker.wait_for(text)

    def wait_topic(self, topic, count, seconds=60):
        """Waits until a topic has this many records."""
        command = ["kcat", "-C", "-b", self.services.brokers, "-t", f"{self.fleet.prefix}.{topic}", "-c", str(count), "-q"]
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{self.name}: {topic} stays below {count}:\n{self.worker.tail()}") from error

    def stop(self, signals=1, codes=(0,), bound_s=None):
        """Sends the signals and waits for the end."""
        began = time.monotonic()
        for _ in range(signals):
            self.worker.process.send_signal(signal.SIGTERM)
            time.sleep(0.3 if signals > 1 else 0)
        bound_s = (bound_s or self.bound_s) * (2 if self.options.small else 1)
        try:
            code = self.worker.process.wait(bound_s)
        except subprocess.TimeoutExpired:
            self.row["broken"].append(f"runs {bound_s} s after SIGTERM:\n{self.worker.tail()}")
            self.worker.process.kill()
            self.worker.process.wait()
            return
        self.row.update(ended_s=round(time.monotonic() - began, 1), code=code)
        if code not in codes:
            self.row["broken"].append(f"exit code {code}, not {codes}:\n{self.worker.tail()}")

    def begin_rescue(self):
        """In the background: another worker, and the checker."""
        self.rescue = rig.Worker(self.fleet, f"{self.name}-rescue")
        self.rescue.start()
        self.checker = rig.Checker(self.fleet, self.requests, 240)

    def count_left(self):
        """How many requests the stopped worker has not answered."""
        out = subprocess.run(["kcat", "-C", "-b", self.services.brokers, "-t", f"{self.fleet.prefix}.results", "-e", "-q",
                              "-f", "%k\\n"], check=True, capture_output=True, text=True).stdout
        self.row["left"] = self.requests - len(set(out.split()))
        if not self.row["left"]:
            self.row["broken"].append("all requests were answered before the signal")

    def finish(self):
        if self.checker:
            figures = self.checker.figures()
            if not figures["ok"] or figures["refused"]:
                self.row["broken"].append(f"violations {figures['violations']}, {figures['refused']} refused: "
                                          f"{self.checker.messages[:20]}")
            self.rescue.end()
        for end in self.fleet.abnormal:
            self.row["broken"].append(json.dumps(end))
        return self.row


@contextlib.contextmanager
def frozen(services, name):
    """The server is stopped, as if it hung, and continues at the end."""
    process = int(services.call(f"service_pid {name}"))
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


# --- the phases ------------------------------------------------------------------------------------------------------

def loading(options, services):
    """The model is being opened, right after the start of the process."""
    phase = Phase(options, services, "loading", requests=0)
    phase.start()
    time.sleep(0.05)
    # before the handler is installed, the signal ends the process
    phase.stop(codes=(0, -signal.SIGTERM), bound_s=2)
    return phase


def unreachable(options, services):
    """No broker answers, and the start waits for one."""
    phase = Phase(options, services, "unreachable", "--brokers", "127.0.0.1:1", requests=0)
    phase.start('"resources"')
    time.sleep(0.5)
    phase.stop(bound_s=2)
    return phase


def silent(options, services):
    """The broker accepts connections and does not answer, and the start waits for it."""
    phase = Phase(options, services, "silent", requests=0)
    with frozen(services, "kafka"):
        phase.start('"resources"')
        time.sleep(0.5)
        phase.stop(bound_s=2)
    return phase


def joining(options, services):
    """It serves, and the group has not assigned its partitions yet."""
    phase = Phase(options, services, "joining")
    phase.start('"msg":"started"')
    phase.stop()
    return phase


def recovering(options, services):
    """It reads the results of its partitions."""
    phase = Phase(options, services, "recovering")
    phase.start('"assigned ')
    phase.stop()
    return phase


def running(options, services):
    """More requests run and wait than can end within the drain timeout."""
    phase = Phase(options, services, "running", "--max-sequences", "64", tokens=4 * LONG_TOKENS, drain_s=1)
    phase.start()
    phase.wait_topic("tokens", 20)
    phase.stop()
    return phase


def parked(options, services):
    """Requests wait in intake for room in the engine."""
    phase = Phase(options, services, "parked", "--max-sequences", "1", "--queue-requests", "1", requests=20)
    phase.start()
    phase.wait_topic("tokens", 20)
    phase.stop()
    return phase


def twice(options, services):
    """A second signal ends it at once."""
    phase = Phase(options, services, "twice", "--max-sequences", "64", tokens=4 * LONG_TOKENS)
    phase.start()
    phase.wait_topic("tokens", 20)
    phase.stop(signals=2, codes=(0, 1), bound_s=3)
    return phase


def transaction(options, services):
    """A transaction is open nearly all the time."""
    phase = Phase(options, services, "transaction", delivery="exactly-once", requests=200, tokens=20)
    phase.start()
    phase.wait_topic("results", 5)
    phase.stop()
    return phase


def redis(options, services):
    """Redis hangs."""
    phase = Phase(options, services, "redis", "--redis", services.start_redis())
    phase.start()
    phase.wait_topic("tokens", 20)
    with frozen(services, "redis"):
        time.sleep(1)
        phase.stop()
    return phase


def hanging(options, services):
    """Kafka hangs, and the producer's queue is full."""
    phase = Phase(options, services, "hanging", "--kafka", "queue.buffering.max.messages=40")
    phase.start()
    phase.wait_topic("tokens", 20)
    with frozen(services, "kafka"):
        time.sleep(2)
        phase.stop(codes=(0, 1))
    return phase


def away(options, services):
    """Kafka has ended."""
    phase = Phase(options, services, "away")
    phase.start()
    phase.wait_topic("tokens", 20)
    services.call("kafka_stop")
    time.sleep(1)
    phase.stop(codes=(0, 1))
    services.call("kafka_restart")
    return phase


def committing(options, services):
    """Kafka hangs while a transaction is open."""
    phase = Phase(options, services, "committing", delivery="exactly-once", requests=200, tokens=20)
    phase.start()
    phase.wait_topic("results", 5)
    with frozen(services, "kafka"):
        time.sleep(1)
        phase.stop(codes=(0, 1))
    return phase


PHASES = {phase.__name__: phase for phase in (loading, unreachable, silent, joining, recovering, running, parked,
                                              twice, transaction, redis, hanging, away, committing)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=", ".join(PHASES))
    parser.add_argument("--small", action="store_true")
    parser.set_defaults(**{**vars(rig.OPTIONS), "model": None})
    parser.add_argument("--millrace")
    parser.add_argument("--model", help="default: a small one with random weights")
    parser.add_argument("--json", help="write all figures to this file as well")
    options = parser.parse_args()
    for name in options.phases:
        if name not in PHASES:
            parser.error(f"{name} is none of {', '.join(PHASES)}")
    return options


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        options.model = options.model or redis_rig.write_model(pathlib.Path(folder), feed=8192)
        return run(options)


def run(options):
    phases = []
    with rig.Services() as services:
        for name in options.phases or PHASES:
            phase = PHASES[name](options, services)
            phases.append(phase)
            if phase.requests:
                phase.count_left()
            print(f"{name}: ended after {phase.row.get('ended_s')} s with {phase.row.get('code')}, "
                  f"{phase.row.get('left', 0)} left", flush=True)
            if phase.requests:
                phase.begin_rescue()
        rows = [phase.finish() for phase in phases]
    for row in rows:
        print(f"{row['phase']:12} {row['delivery']:14} ended after {row.get('ended_s', '-'):>4} s with "
              f"{row.get('code', '-'):>3}, {row.get('left', 0):>3} left: {'broken' if row['broken'] else 'ok'}")
        for line in row["broken"]:
            print("   ", line)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row["broken"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
