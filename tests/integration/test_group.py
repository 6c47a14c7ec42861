#!/usr/bin/env python3
"""Tests request topics with an Apache Kafka: turns by weight and priority, limits on wait and run, a cancel before its
request, a log whose beginning was deleted, offsets set by hand, a topic that is deleted. Then a dead-letter topic that
refuses records without a key, reply topics, and the readiness of a worker."""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import rig
from fleet import wait_until

ADMIN = "kafka_run org.apache.kafka.tools"
SLOW_MODEL = rig.DEPS / "model/SmolLM2-135M-Instruct.Q4_1.gguf"  # a request takes longer than a fetch or an acknowledgement


def send(services, topic, records):
    """records: (key, fields) of each."""
    lines = "".join(f"{key}\t{json.dumps(fields)}\n" for key, fields in records)
    subprocess.run([rig.TOOLS / "produce", services.brokers, topic], input=lines, text=True, check=True, timeout=60)


def requests(fleet, name, count, **fields):
    return [(f"{name}-{n}", {"prompt": f"{fleet.name} {n}", "max_tokens": 4, "ignore_eos": True, **fields})
            for n in range(count)]


def results(fleet, count):
    """The results in the order in which they were written."""
    until = time.monotonic() + 60
    while True:
        fleet.look()
        found = rig.records(fleet, "results") if f"{fleet.prefix}.results" in topics(fleet) else []
        if len(found) >= count:
            assert len(found) == count, f"{len(found)} results instead of {count}"
            return found
        assert time.monotonic() < until, f"{len(found)} of {count} results"
        time.sleep(0.3)


def topics(fleet):
    listed = subprocess.run(["kcat", "-L", "-J", "-b", fleet.services.brokers], check=True, stdout=subprocess.PIPE)
    return {topic["topic"] for topic in json.loads(listed.stdout)["topics"]}


@contextlib.contextmanager
def fleet_of(services, name, *flags, partitions=1, request_topics=("requests",), model=None, options=rig.OPTIONS):
    fleet = rig.Fleet(options, services, name, *flags, model=model)
    for topic in [*request_topics, "results", "cancel"]:
        services.call(f"kafka_topic {fleet.prefix}.{topic} {partitions if topic in request_topics else 1}")
    try:
        yield fleet
    finally:
        fleet.close()
    assert not fleet.abnormal, json.dumps(fleet.abnormal, indent=1)


def topic_flags(name, options=rig.OPTIONS, **limits):
    prefix = f"{name}-{options.delivery}"
    return [word for topic, text in limits.items() for word in ("--requests-topic", f"{prefix}.{topic},{text}")]


def order_of_turns(services, name, flags, first, second):
    """Fills the topics with 40 requests each and answers them one at a time; returns the topic of each answer, in order."""
    with fleet_of(services, name, *flags, "--max-sequences", "1", request_topics=(first, second),
                  model=SLOW_MODEL) as fleet:
        for topic in (second, first):
            send(services, f"{fleet.prefix}.{topic}", requests(fleet, topic, 40))
        fleet.add(1)
        return [result["id"].split("-")[0] for result in results(fleet, 80)]


def check_weights(services):
    """Checks the part of the order in which both topics have requests."""
    order = order_of_turns(services, "weights", [*topic_flags("weights", heavy="weight=3", light="weight=1"),
                                                 "--queue-requests", "1"], "heavy", "light")
    names = ("heavy", "light")
    both = order[max(map(order.index, names)):80 - max(map(order[::-1].index, names))]
    share = both.count("heavy") / len(both)
    assert len(both) >= 24 and 0.68 < share < 0.82, f"{share} for three quarters of the weight: {order}"
    print(f"weights 3 and 1: {both.count('heavy')} of {len(both)}", flush=True)


def check_priorities(services):
    order = order_of_turns(services, "priorities", [*topic_flags("priorities", urgent="priority=20", low="priority=-10"),
                                                    "--queue-requests", "8"], "urgent", "low")
    mean = {topic: sum(place for place, name in enumerate(order) if name == topic) / 40 for topic in ("urgent", "low")}
    assert mean["urgent"] + 20 < mean["low"], f"{mean}: {order}"
    print(f"priorities 20 and -10: mean places {mean['urgent']:.0f} and {mean['low']:.0f} of 80", flush=True)


def check_limits(services):
    flags = topic_flags("limits", waits="queue=1s", runs="run=1s", free="priority=0")
    with fleet_of(services, "limits", *flags, request_topics=("waits", "runs", "free"), model=SLOW_MODEL) as fleet:
        send(services, f"{fleet.prefix}.waits", requests(fleet, "old", 3))
        time.sleep(2)
        send(services, f"{fleet.prefix}.runs", requests(fleet, "long", 3, max_tokens=900))
        send(services, f"{fleet.prefix}.free", requests(fleet, "free", 3))
        fleet.add(1)
        ended = {result["id"]: result for result in results(fleet, 9)}
    for name, result in ended.items():
        if name.startswith("free"):
            assert result["finish_reason"] == "length", result
            continue
        assert result["finish_reason"] == "deadline" and result["error"]["code"] == "deadline_exceeded", result
        assert bool(result["token_ids"]) == name.startswith("long"), result
    print("limits: a request that waited too long is not started, one that runs too long keeps its text", flush=True)


def check_cancel_before(services):
    with fleet_of(services, "cancel") as fleet:
        fleet.add(1)
        send(services, f"{fleet.prefix}.cancel", [("gone-0", {})])
        send(services, f"{fleet.prefix}.requests", requests(fleet, "there", 1))
        results(fleet, 1)
        send(services, f"{fleet.prefix}.requests", requests(fleet, "gone", 2))
        ended = {result["id"]: result["finish_reason"] for result in results(fleet, 3)}
    assert ended == {"there-0": "length", "gone-0": "cancelled", "gone-1": "length"}, ended
    print("a cancel before its request: cancelled", flush=True)


def delete_records(services, topic, before):
    text = json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": before}], "version": 1})
    (services.folder / "deleted.json").write_text(text)
    services.call(f'{ADMIN}.DeleteRecordsCommand --bootstrap-server "$KAFKA_BROKERS" '
                  '--offset-json-file "$SERVICES/deleted.json" >/dev/null')


def set_offset(services, fleet, topic, offset):
    services.call(f'{ADMIN}.consumer.group.ConsumerGroupCommand --bootstrap-server "$KAFKA_BROKERS" --execute '
                  f'--reset-offsets --group {fleet.prefix} --topic {topic} --to-offset {offset} >/dev/null')


def check_truncation(services):
    """Deletes the beginning of the log up to an offset after the committed one, and then resets the offset by hand."""
    with fleet_of(services, "truncation") as fleet:
        topic = f"{fleet.prefix}.requests"
        send(services, topic, requests(fleet, "a", 5))
        worker = fleet.add(1)[0]
        results(fleet, 5)
        worker.end()
        send(services, topic, requests(fleet, "b", 10))
        delete_records(services, topic, 12)
        worker.start()
        found = [result["id"] for result in results(fleet, 8)][5:]
        assert sorted(found) == [f"b-{n}" for n in range(7, 10)], found
        worker.end()
        worker.start()
        send(services, topic, requests(fleet, "c", 1))
        assert results(fleet, 9)[8]["id"] == "c-0", "what was answered runs again"
        worker.end()
        time.sleep(rig.OPTIONS.session / 2)
        set_offset(services, fleet, topic, 14)
        worker.start()
        again = results(fleet, 11)[9:]
        assert sorted(result["id"] for result in again) == ["b-9", "c-0"], again
    print("a log whose beginning was deleted is read from its first record; an offset set by hand is used", flush=True)


def check_deleted_topic(services):
    """A topic is deleted while its request runs. The offset of that request is in a transaction with the results of
    others. These must not wait until the group has noticed that the topic is gone, which takes about a minute."""
    options = argparse.Namespace(**{**vars(rig.OPTIONS), "delivery": "exactly-once"})
    flags = topic_flags("deleted", options, kept="priority=0", gone="priority=0")
    with fleet_of(services, "deleted", *flags, request_topics=("kept", "gone"), model=SLOW_MODEL,
                  options=options) as fleet:
        worker = fleet.add(1)[0]
        send(services, f"{fleet.prefix}.gone", requests(fleet, "gone", 1, max_tokens=2500))
        subprocess.run(["kcat", "-C", "-b", services.brokers, "-t", f"{fleet.prefix}.tokens", "-c", "1", "-q"], check=True,
                       stdout=subprocess.DEVNULL, timeout=60)  # it runs
        services.call(f'{ADMIN}.TopicCommand --bootstrap-server "$KAFKA_BROKERS" --delete --topic {fleet.prefix}.gone')
        began = time.monotonic()
        send(services, f"{fleet.prefix}.cancel", [("gone-0", {})])
        send(services, f"{fleet.prefix}.kept", requests(fleet, "kept", 4))
        wait_until("five results", lambda: len(keys(services, f"{fleet.prefix}.results")) == 5, 30)
        assert worker.logged("partition 0 no longer exists: its offset is not committed") == 1, worker.tail()
        print(f"a deleted topic: results of another one after {time.monotonic() - began:.0f} s", flush=True)
        worker.end(signal.SIGKILL)  # librdkafka 2.0.2 does not close such a consumer


# ---- other topics, and pages over HTTP ----

def keys(services, topic):
    """The keys of the topic's records."""
    out = subprocess.run(["kcat", "-C", "-b", services.brokers, "-t", topic, "-e", "-q", "-f", "%k\n"], check=True,
                         capture_output=True, text=True).stdout
    return out.splitlines()


def check_compacted_dead_letters(services):
    """A record that is not a request and has no key. A compacted topic refuses a dead letter without a key."""
    with fleet_of(services, "compacted") as fleet:
        dlq, requested = f"{fleet.prefix}.dlq", f"{fleet.prefix}.requests"
        services.call(f'{ADMIN}.TopicCommand --bootstrap-server "$KAFKA_BROKERS" --create --topic {dlq} --partitions 1 '
                      '--replication-factor 1 --config cleanup.policy=compact >/dev/null')
        fleet.add(1)
        subprocess.run(["kcat", "-P", "-b", services.brokers, "-t", requested], input="no request\n", text=True, check=True)
        wait_until("a dead letter", lambda: keys(services, dlq), 60)
        assert keys(services, dlq) == [f"{requested}/0/0"], keys(services, dlq)
    print("a compacted dead-letter topic: the dead letter has the request id as key", flush=True)


def check_reply_topics(services):
    """The broker creates topics that clients request. A worker requests a reply topic without creating it."""
    with fleet_of(services, "replies", "--reply-topic", "absent", "--reply-topic", "there") as fleet:
        services.call("kafka_topic there")
        worker = fleet.add(1)[0]
        for n, topic in enumerate(("absent", "there", "absent", "there")):
            subprocess.run(["kcat", "-P", "-b", services.brokers, "-t", f"{fleet.prefix}.requests", "-k", f"{n}-{topic}",
                            "-H", f"kafka_replyTopic={topic}"], input=json.dumps({"prompt": topic, "max_tokens": 4}),
                           text=True, check=True)
        results(fleet, 4)
        assert "absent" not in topics(fleet), "the worker has created a reply topic"
        assert sorted(keys(services, "there")) == ["1-there", "3-there"], keys(services, "there")
        assert worker.logged("reply not written: topic absent has 0 partitions") == 2, worker.tail()
    print("reply topics: one that exists is written to, one that does not is not created", flush=True)


def ready(port):
    """Status and page of /readyz; status 0 while the port is closed."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


def says_no(port, name, text):
    """Whether the worker is not ready and this check failed with this text."""
    status, page = ready(port)
    checks = {check["name"]: check for check in json.loads(page)["checks"]} if status == 503 else {}
    return name in checks and not checks[name]["ok"] and checks[name]["text"].startswith(text)


def check_readiness(services):
    port = services.call("free_ports 1")
    with fleet_of(services, "readiness", "--http", f"127.0.0.1:{port}") as fleet:
        fleet.add(1)
        wait_until("ready", lambda: ready(port)[0] == 200, 60)
        services.call("kafka_stop")
        wait_until("not ready without a broker", lambda: says_no(port, "broker", "answered "), 60)
        services.call("kafka_restart")
        wait_until("ready again", lambda: ready(port)[0] == 200, 60)
    print("a worker is ready with a broker, and not without", flush=True)


def check_top(services):
    """millrace top finds workers through the description of their group."""
    port = services.call("free_ports 1")
    with fleet_of(services, "top", "--http", f"127.0.0.1:{port}") as fleet:
        fleet.add(1)
        wait_until("ready", lambda: ready(port)[0] == 200, 60)
        command = [rig.OPTIONS.millrace, "top", "--once", "--json", "--interval", "200ms", "--brokers", services.brokers,
                   "--http-port", port, "--group"]
        row = json.loads(subprocess.run([*command, fleet.prefix], check=True, capture_output=True, text=True).stdout)
        assert row["worker"] == f"127.0.0.1:{port}" and row["ready"] == 1, row
        nobody = subprocess.run([*command, "nobody"], capture_output=True, text=True)
        assert nobody.returncode == 3 and "the group nobody has no workers" in nobody.stderr, nobody
    print("top finds the worker of a group", flush=True)


@contextlib.contextmanager
def logs_of_failure(services):
    try:
        yield
    except BaseException:
        for log in services.folder.glob("*-w*.log"):
            print(f"-- {log.name}\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
        raise


def main():
    with rig.Services() as services, logs_of_failure(services):
        for check in (check_weights, check_priorities, check_limits, check_cancel_before, check_truncation,
                      check_deleted_topic, check_compacted_dead_letters, check_reply_topics, check_top, check_readiness):
            if len(sys.argv) == 1 or check.__name__ in sys.argv[1:]:
                check(services)


if __name__ == "__main__":
    main()
