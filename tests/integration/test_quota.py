#!/usr/bin/env python3
"""--tenant-quota: a tenant above its tokens a minute waits and is answered later; another tenant is answered meanwhile.

Needs what docker/deps.sh test installs (confluent_kafka in .deps/python)."""

import contextlib
import json
import time

from embedded_rig import Broker, Worker, confluent_kafka

REDS, BLUES = ("red-1", "red-2", "red-3"), ("blue-1", "blue-2", "blue-3")
TOKENS = 40  # of an answer, without its prompt
QUOTA = 60  # two requests exceed it by more than 20 tokens, which takes 20 s to refill
WAIT_SECONDS = 120


def main():
    with contextlib.ExitStack() as stack:
        broker = Broker(stack)
        worker = Worker(stack, broker, "--requests-topic", "millrace.red,tenant=red", "--requests-topic", "millrace.blue,tenant=blue",
                        "--tenant-quota", f"red={QUOTA}/minute")
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "t", "auto.offset.reset": "earliest"})
        stack.callback(consumer.close)
        consumer.subscribe(["millrace.results"])
        request = {"prompt": "One two", "ignore_eos": True, "max_tokens": TOKENS, "stream": False}
        for name in REDS + BLUES[:2]:
            broker.send(f"millrace.{name.split('-')[0]}", json.dumps({"id": name, **request}), key=name)
        times, until, sent = {}, time.monotonic() + WAIT_SECONDS, False
        while len(times) < len(REDS + BLUES):
            assert time.monotonic() < until, f"answered: {times}; {worker.logged()}"
            if sum(name in times for name in REDS) == 2 and not sent:  # red waits now
                broker.send("millrace.blue", json.dumps({"id": BLUES[2], **request}), key=BLUES[2])
                sent = True
            record = consumer.poll(0.5)
            if record is not None and not record.error():
                value = json.loads(record.value())
                assert value["finish_reason"] == "length", value
                times[value["id"]] = record.timestamp()[1] / 1000
        _, second, third = sorted(times[name] for name in REDS)  # the partitions of the topic are read in any order
        assert third - second >= 2 * TOKENS - QUOTA, f"the third request did not wait: {times}"
        assert times[BLUES[2]] < third, f"the other tenant waited: {times}"
        print(f"the third request of red ended {third - second:.1f} s after the second")


if __name__ == "__main__":
    main()
