#!/usr/bin/env python3
"""Kills, stops and restarts workers and an Apache Kafka while requests are in flight. checker.c reads the topics and the
commits of the group afterwards and reports violations. Prints a table, and JSON with --json.

    chaos.py [--small] [--delivery exactly-once] [SCENARIO...]

--small: the sizes of `make test`. Time limits are then three times as long, because other jobs may use the same cores.
Exit 1: a guarantee was violated, a time limit exceeded, or a worker ended unexpectedly."""

import argparse
import json
import pathlib
import random
import signal
import sys
import time

import rig

SMALL = {"kill": 3, "rolling": 2, "stop": 1, "broker": 1, "outage": 1, "churn": 2, "comeback": 3, "twin": 1,
         "replaced": 1, "kills": 3, "requests": 240, "rate": 24, "tokens": 200, "every": 4, "stopped": 9, "away": 10,
         "backlog": 200, "long_tokens": 600}
FULL = {"kill": 15, "rolling": 10, "stop": 3, "broker": 2, "outage": 2, "churn": 12, "comeback": 9, "twin": 3,
        "replaced": 3, "kills": 500, "requests": 2000, "rate": 25, "tokens": 200, "every": 5, "stopped": 20, "away": 60,
        "backlog": 3000, "long_tokens": 4000}
KILLS_RATE = 6  # requests a second of the scenario kills, which may run for an hour
LONG_MS = 60_000  # tokens of a request that takes about 60 s


def words(seed, count):
    pick = random.Random(seed)
    return " ".join(pick.choice(("river", "mill", "grain", "stone", "wheel", "water", "seven", "why"))
                    for _ in range(count))


def request(fleet, number, tokens=None):
    tokens = tokens or fleet.options.sizes["tokens"]
    return {"id": f"{fleet.name}-{number}", "prompt": f"{words(number, 8 + number % 30)} {number}",
            "max_tokens": tokens, "temperature": 0 if number % 2 else 0.8, "ignore_eos": True}


class Run:
    """One scenario: a fleet under load, the faults injected into it, and the report of the checker."""

    def __init__(self, options, services, name, workers, *flags, model=None):
        self.options, self.services, self.name = options, services, name
        redis = ("--redis", options.redis_url) if options.redis else ()
        self.fleet = rig.Fleet(options, services, name, *redis, *flags, model=model)
        self.sizes = options.sizes
        self.random = random.Random(options.seed)
        self.row = {"scenario": name, "delivery": options.delivery, "broken": []}
        self.faults = 0
        if workers:
            self.fleet.add(workers)

    def load(self, count=None, rate=None, make=None, wait_s=90, before=0):
        """before: number of requests that are already in the topic."""
        count = count or self.sizes["requests"]
        rate = self.sizes["rate"] if rate is None else rate
        self.producer = rig.Producer(self.fleet, count, rate, make or (lambda n: request(self.fleet, n)))
        self.producer.start()
        self.checker = rig.Checker(self.fleet, before + count, wait_s)

    def pause(self, seconds):
        """Sleeps, and restarts workers that end during that time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.fleet.look()
            time.sleep(0.1)

    def busy(self):
        return self.checker.running()

    def wait_answered(self, count):
        while self.busy() and self.checker.answered < count:
            self.pause(0.2)

    def finish(self, allowed=()):
        """allowed: violations of the checker that this scenario cannot exclude."""
        while self.busy():
            self.pause(0.2)
        figures = self.checker.figures()
        self.fleet.close()
        self.row.update(figures, faults=self.faults, abnormal=self.fleet.abnormal, messages=self.checker.messages[:20])
        if self.producer.failed:
            self.row["abnormal"].append({"worker": "producer", "exit": 1})
        broken = self.row["broken"]
        violations = {kind: count for kind, count in figures["violations"].items() if kind not in allowed}
        if violations:
            broken.append(f"violations {violations}")
        if self.fleet.abnormal:
            broken.append(f"{len(self.fleet.abnormal)} abnormal ends")
        if figures["refused"] and not self.row.get("may_refuse"):
            broken.append(f"{figures['refused']} refused")
        return self.row

    def bar(self, holds, text):
        """Checks a bar and records the outcome in the row."""
        self.row.setdefault("bars", []).append({"bar": text, "holds": bool(holds)})
        if not holds:
            self.row["broken"].append(f"missed: {text}")

    def limit_s(self, seconds):
        """A limit in seconds. In small sizes it is three times as long, because other jobs run at the same time."""
        return seconds * 3 if self.options.small else seconds

    def bar_runs_once(self):
        late = self.row["violations"].get("late_result", 0)  # written after the result of the next worker
        self.bar(self.row["duplicates"] == late, "no finished request runs again")

    def usual_bars(self, outage_s=0, overlap=False):
        """outage_s: None if the kills follow each other faster than sessions expire, so that no time limit applies.
        overlap: two workers may have run the same request, so a second result is allowed."""
        if not overlap:
            self.bar_runs_once()
        if outage_s is None:
            return self.row
        limit_s = self.limit_s(self.options.session + 5 + outage_s)
        self.bar(self.row["stall_ms"] <= limit_s * 1000, f"never {limit_s} s without a result")
        return self.row


# --- the scenarios ---------------------------------------------------------------------------------------------------

def under_load(options, services, name, workers, inject, allowed=()):
    """Runs workers under load and calls `inject(run, number)` repeatedly until all requests are sent."""
    run = Run(options, services, name, workers)
    run.load()
    run.wait_answered(1)
    for number in range(run.sizes[name]):
        if not run.busy():
            break
        inject(run, number)
        run.faults += 1
    run.finish(allowed)
    return run


def kill(options, services):
    """kill -9 of a random worker every few seconds; it is restarted at once."""

    def inject(run, _):
        run.pause(run.sizes["every"] * run.random.uniform(0.6, 1.4))
        victim = run.random.choice(run.fleet.running())
        victim.end(signal.SIGKILL)
        victim.start()

    faster = options.sizes["every"] < 2 * options.session and not options.static
    return under_load(options, services, "kill", 3, inject).usual_bars(None if faster else 0)


def kills(options, services):
    """kill -9 of one worker after the other, evenly over --hours, while requests keep coming."""
    run = Run(options, services, "kills", 3)
    distance_s = options.hours * 3600 / run.sizes["kills"]
    run.row["distance_s"] = round(distance_s, 1)
    run.load(round(options.hours * 3600 * KILLS_RATE), KILLS_RATE,
             lambda number: request(run.fleet, number, 100))
    run.wait_answered(1)
    began = time.monotonic()
    while run.busy() and run.faults < run.sizes["kills"]:
        run.pause(max(0.0, began + (run.faults + 1) * distance_s - time.monotonic()))
        # A worker that is killed while it joins delays the rebalance by another session timeout, so it is not chosen.
        joined = [worker for worker in run.fleet.running() if worker.logged('"assigned ')]
        victim = run.random.choice(joined or run.fleet.running())
        victim.end(signal.SIGKILL)
        victim.start()
        run.faults += 1
    run.finish()
    return run.usual_bars()


def rolling(options, services):
    """SIGTERM for one worker after the other; each is restarted when it has ended."""

    def inject(run, number):
        worker = run.fleet.workers[number % 3]
        worker.end(signal.SIGTERM)
        worker.start()
        worker.wait_for('"assigned ')
        run.pause(1)

    return under_load(options, services, "rolling", 3, inject).usual_bars()


def allowed_after_stop(options):
    """Violations that SIGSTOP of a worker can cause. Without transactions, a result that the worker passed to
    librdkafka just before the stop reaches Kafka after the result of the next worker."""
    return ("late_result",) if options.delivery == "at-least-once" else ()


def stop(options, services):
    """SIGSTOP of one worker for longer than the session timeout, then SIGCONT."""

    def inject(run, number):
        worker = run.fleet.workers[number % 3]
        worker.send(signal.SIGSTOP)
        run.pause(run.sizes["stopped"])
        worker.send(signal.SIGCONT)
        run.pause(run.sizes["every"])

    return under_load(options, services, "stop", 3, inject, allowed_after_stop(options)).usual_bars()


def broker(options, services, name="broker", away_s=0):
    """The broker is stopped and restarted."""
    outages_s = [0]

    def inject(run, number):
        began = time.monotonic()
        services.call("kafka_stop" if number % 2 == 0 else "service_stop kafka KILL")
        run.pause(away_s)
        services.call("kafka_restart")
        outages_s.append(time.monotonic() - began)
        run.pause(run.sizes["every"] + away_s)  # the fleet recovers before the next restart

    run = under_load(options, services, name, 3, inject)
    run.row["outage_s"] = round(max(outages_s), 1)
    return run.usual_bars(run.row["outage_s"])


def outage(options, services):
    """The broker is down for longer than the timeouts of sessions and transactions."""
    return broker(options, services, "outage", options.session + 6)


def churn(options, services):
    """Workers join and leave every few seconds."""

    def inject(run, number):
        if number % 2 == 0:
            spare = [worker for worker in run.fleet.workers[2:] if worker.process is None]
            if spare:
                spare[0].start()
            else:
                run.fleet.add(1)
        else:
            run.random.choice(run.fleet.running()).end(signal.SIGTERM)
            if len(run.fleet.running()) < 2:
                run.fleet.add(1)
        run.pause(run.sizes["every"])

    return under_load(options, services, "churn", 2, inject).usual_bars()


def as_static_members(options):
    return argparse.Namespace(**{**vars(options), "static": True})


def comeback(options, services):
    """Static members end by SIGTERM or SIGKILL and are restarted before their session expires."""
    run = Run(as_static_members(options), services, "comeback", 3)
    run.pause(options.session)  # the group becomes stable
    before = run.fleet.assignments()
    run.load()
    run.wait_answered(1)
    for number in range(run.sizes["comeback"]):
        if not run.busy():
            break
        worker = run.fleet.workers[number % 3]
        worker.end(signal.SIGKILL if number % 3 == 2 else signal.SIGTERM)
        worker.start()
        worker.wait_for('"assigned ')
        run.faults += 1
        run.pause(run.sizes["every"])
    rebalances = run.fleet.assignments() - before - run.faults
    run.finish()
    run.row["rebalances"] = rebalances
    run.bar(rebalances == 0, "nobody but the worker itself is assigned anything")
    return run.usual_bars()


def twin(options, services, name="twin"):
    """A second worker starts with the id of a running one. With transactions, or as a static member, the older worker
    must exit with an error line."""
    fenced = options.delivery == "exactly-once" or options.static

    def inject(run, number):
        older = run.fleet.workers[-1]
        younger = rig.Worker(run.fleet, f"{run.name}-younger{number}", older.id)
        run.fleet.workers.append(younger)
        if fenced:
            older.asked = 1
        younger.start()
        younger.wait_for('"assigned ')
        run.pause(run.sizes["every"])
        if fenced and older.look():
            run.row["broken"].append("the older twin lives")
        if fenced and older.logged("another worker uses this worker's id (--worker-id") + \
                older.logged("another worker joined the group as --group-instance") == 0:
            run.row["broken"].append("the older twin does not say why it ends")

    overlap = options.static and options.delivery == "at-least-once"
    return under_load(options, services, name, 2, inject).usual_bars(overlap=overlap)


def replaced(options, services):
    """A second worker starts with the static member name of a running one."""
    return twin(as_static_members(options), services, "replaced")


def long(options, services):
    """Requests that run for a minute with max.poll.interval.ms=10000 must cause no rebalance."""
    run = Run(options, services, "long", 1, "--poll-interval-max", "10s", "--kv-memory", "1GiB",
              model=rig.DEPS / "model/SmolLM2-135M-Instruct.Q4_1.gguf")
    run.load(8, 0, lambda n: request(run.fleet, n, run.sizes["long_tokens"]), wait_s=600)
    while run.busy():
        run.pause(0.5)
    rebalances = run.fleet.workers[0].logged('"assigned ') + run.fleet.workers[0].logged('"revoked ') - 1
    longest_ms = max((result["timings_ms"]["total"] for result in rig.records(run.fleet, "results")), default=0)
    run.finish()
    run.row.update(rebalances=rebalances, longest_ms=round(longest_ms))
    if not options.small:
        run.bar(longest_ms >= LONG_MS, "a request of 60 s")
    run.bar(rebalances == 0, "no rebalance")
    return run.usual_bars(600)


def backlog(options, services):
    """A backlog of 100 kB prompts: too long ones are rejected, the others answered, and memory stays bounded."""
    run = Run(options, services, "backlog", 1)
    run.row["may_refuse"] = True
    worker = run.fleet.workers[0]
    run.pause(2)
    base = highest = worker.rss_bytes()
    pad = words(7, 17000)[:100_000]

    def make(number):
        fields = request(run.fleet, number, 20)
        return fields | ({"prompt": pad} if number % 3 else {"padding": pad})

    worker.end()
    run.producer = rig.Producer(run.fleet, run.sizes["backlog"], 0, make)
    run.producer.start()
    run.producer.join()  # the whole backlog is in Kafka before the worker returns
    worker.start()
    worker.wait_for('"assigned ')
    run.checker = rig.Checker(run.fleet, run.sizes["backlog"], 90)
    while run.busy():
        if worker.look():
            highest = max(highest, worker.rss_bytes())
        run.pause(0.1)
    run.finish()
    grown = (highest - base) / 1e6
    run.row.update(rss_base_mb=round(base / 1e6), rss_grown_mb=round(grown))
    run.bar(grown <= 200, "memory within its start + 200 MB")
    return run.usual_bars(600)


def broker_away(options, services):
    """The broker is down at the start and again later: the worker waits without using CPU time or memory."""
    run = Run(options, services, "broker-away", 0)
    services.call("kafka_stop")
    worker = rig.Worker(run.fleet, "broker-away-w1")
    run.fleet.workers.append(worker)
    worker.start()
    run.pause(15)
    services.call("kafka_restart")
    worker.wait_for('"assigned ')
    half = run.sizes["requests"] // 2
    run.load(half, run.sizes["rate"])
    run.wait_answered(half)
    run.row["first_half"] = run.checker.figures()["answered"]
    base = worker.rss_bytes()
    services.call("kafka_stop")
    run.pause(3)
    cpu_s, began = worker.cpu_seconds(), time.monotonic()
    run.pause(run.sizes["away"])
    cpu_s = worker.cpu_seconds() - cpu_s
    away_s = time.monotonic() - began
    grown = (worker.rss_bytes() - base) / 1e6
    services.call("kafka_restart")
    offset = 1_000_000
    run.load(half, run.sizes["rate"], lambda n: request(run.fleet, offset + n), before=half)
    run.finish()
    run.row.update(away_s=round(away_s, 1), away_cpu_s=round(cpu_s, 2), away_grown_mb=round(grown, 1),
                   log_lines=worker.logged("\n"))
    run.bar(cpu_s <= 0.05 * away_s, "under 5 % of a core while the broker is away")
    run.bar(grown <= 50, "memory bounded while the broker is away")
    return run.usual_bars(600)


SCENARIOS = {"kill": kill, "kills": kills, "rolling": rolling, "stop": stop, "broker": broker, "outage": outage,
             "churn": churn, "comeback": comeback, "twin": twin, "replaced": replaced, "long": long, "backlog": backlog,
             "broker-away": broker_away}


def show(rows):
    columns = ("scenario", "faults", "requests", "answered", "results", "duplicates", "later_attempt", "tokens_again",
               "late_token_records", "commits", "stall_ms", "span_ms")
    print(" | ".join(columns + ("abnormal ends", "verdict")))
    for row in rows:
        cells = [str(row.get(column, "")) for column in columns]
        verdict = "; ".join(row["broken"]) if row["broken"] else "ok"
        print(" | ".join(cells + [str(len(row["abnormal"])), verdict]))
        for bar in row.get("bars", []):
            print(f"    {'holds ' if bar['holds'] else 'MISSED'} {bar['bar']}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--small", action="store_true")
    parser.set_defaults(**vars(rig.OPTIONS))
    parser.add_argument("--delivery")
    parser.add_argument("--millrace")
    parser.add_argument("--model")
    parser.add_argument("--session", type=int, help="session timeout in seconds")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--every", type=float, help="seconds between two faults")
    parser.add_argument("--times", type=int, help="faults in all")
    parser.add_argument("--hours", type=float, default=1.0, help="of the scenario kills")
    parser.add_argument("--static", action="store_true", help="workers are static members of their group")
    parser.add_argument("--redis", action="store_true", help="with a Redis: answers continue after a kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, help="of each answer")
    parser.add_argument("--flags", help="more words for the workers' command")
    parser.add_argument("--library", help="folder of a librdkafka.so.1 for the workers")
    parser.add_argument("--wrap", help="words before the worker's command, such as: setarch -R")
    parser.add_argument("--malloc-check", action="store_true", help="glibc's own checks of the heap")
    parser.add_argument("--json", help="write all figures to this file as well")
    parser.add_argument("--logs", help="keep the workers' logs in this folder")
    options = parser.parse_args()
    options.sizes = dict(SMALL if options.small else FULL)
    if options.small:
        options.hours = 1 / 60
    for name in ("requests", "rate", "every", "tokens"):
        if getattr(options, name):
            options.sizes[name] = getattr(options, name)
    for name in options.scenarios:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name}")
        if options.times:
            options.sizes[name] = options.times
    return options


def main():
    options = arguments()
    rows = []
    with rig.Services(options.logs) as services:
        if options.redis:
            options.redis_url = services.start_redis()
        for name in options.scenarios or [name for name in SCENARIOS if name != "kills"]:
            began = time.monotonic()
            row = SCENARIOS[name](options, services)
            row["seconds"] = round(time.monotonic() - began, 1)
            rows.append(row)
            show(rows[-1:])
            for end in row["abnormal"]:
                print(json.dumps(end, indent=1))
            for line in row["messages"]:
                print("   ", line)
            sys.stdout.flush()
    print()
    show(rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row["broken"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
