#!/usr/bin/env python3
"""Tests how requests and workers end with an Apache Kafka: a dead-letter topic that refuses records without a key."""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import time

import rig

OPTIONS = argparse.Namespace(delivery="at-least-once", millrace=rig.TOOLS / "millrace", session=6, static=False, wrap="",
                             flags="", library=None, malloc_check=False,
                             model=rig.ROOT / "tests/golden/models/qwen2")


def wait_until(condition, what, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"not within {seconds} s: {what}")
        time.sleep(0.1)


@contextlib.contextmanager
def fleet_of(services, name, *flags, compacted=None):
    """A fleet whose topics exist."""
    fleet = rig.Fleet(OPTIONS, services, name, *flags)
    for topic in ("requests", "tokens", "results", "cancel", "dlq"):
        services.call('kafka_run org.apache.kafka.tools.TopicCommand --bootstrap-server "$KAFKA_BROKERS" --create '
                      f'--topic {fleet.prefix}.{topic} --partitions 1 --replication-factor 1'
                      f'{" --config cleanup.policy=compact" if topic == compacted else ""} >/dev/null')
    try:
        yield fleet
    finally:
        fleet.close()
    assert not fleet.abnormal, json.dumps(fleet.abnormal, indent=1)


def keys(fleet, topic):
    """The keys of the topic's records."""
    out = subprocess.run(["kcat", "-C", "-b", fleet.services.brokers, "-t", f"{fleet.prefix}.{topic}", "-e", "-q", "-f",
                          "%k\n"], check=True, capture_output=True, text=True).stdout
    return out.splitlines()


def check_compacted_dead_letters(services):
    """A record that is no request and has no key: a compacted topic refuses a dead letter like it."""
    with fleet_of(services, "compacted", compacted="dlq") as fleet:
        requests = f"{fleet.prefix}.requests"
        fleet.add(1)
        subprocess.run(["kcat", "-P", "-b", services.brokers, "-t", requests], input="no request\n", text=True, check=True)
        wait_until(lambda: keys(fleet, "dlq"), "a dead letter")
        assert keys(fleet, "dlq") == [f"{requests}/0/0"], keys(fleet, "dlq")
    print("a compacted dead-letter topic: the dead letter has the request id as key", flush=True)


CHECKS = (check_compacted_dead_letters,)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    services = rig.Services()
    try:
        for check in CHECKS:
            if len(sys.argv) == 1 or check.__name__ in sys.argv[1:]:
                check(services)
    finally:
        rig.kill_all()
        for log in services.folder.glob("*-w*.log") if sys.exc_info()[0] else ():
            print(f"-- {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
        services.close()


if __name__ == "__main__":
    main()
