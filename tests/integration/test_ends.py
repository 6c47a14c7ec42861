#!/usr/bin/env python3
"""Tests how requests and workers end with an Apache Kafka: a dead-letter topic that refuses records without a key,
reply topics."""

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


def topics(services):
    listed = subprocess.run(["kcat", "-L", "-J", "-b", services.brokers], check=True, stdout=subprocess.PIPE)
    return {topic["topic"] for topic in json.loads(listed.stdout)["topics"]}


def send(fleet, key, reply_topic=None, **fields):
    headers = ["-H", f"kafka_replyTopic={reply_topic}"] if reply_topic else []
    subprocess.run(["kcat", "-P", "-b", fleet.services.brokers, "-t", f"{fleet.prefix}.requests", "-k", key, *headers],
                   input=json.dumps({"prompt": key, "max_tokens": 4, **fields}), text=True, check=True)


def check_reply_topics(services):
    """The broker creates topics that clients write to; a worker does not write to a reply topic that is missing."""
    with fleet_of(services, "replies", "--reply-topic", "absent", "--reply-topic", "there") as fleet:
        services.call("kafka_topic there >/dev/null")
        fleet.add(1)
        for n, topic in enumerate(("absent", "there", "absent", "there")):
            send(fleet, f"{n}-{topic}", topic)
        wait_until(lambda: len(keys(fleet, "results")) == 4, "four results")
        assert "absent" not in topics(services), "the worker has created a reply topic"
        got = subprocess.run(["kcat", "-C", "-b", services.brokers, "-t", "there", "-e", "-q", "-f", "%k\n"], check=True,
                             capture_output=True, text=True).stdout.splitlines()
        assert sorted(got) == ["1-there", "3-there"], got
        assert fleet.workers[0].said("reply not written: topic absent has 0 partitions") == 2, fleet.workers[0].tail()
    print("reply topics: one that exists is written to, one that does not is not created", flush=True)


CHECKS = (check_compacted_dead_letters, check_reply_topics)


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
