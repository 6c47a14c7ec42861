"""Requests to one worker with the small real model, at the embedded broker. Needs what docker/deps.sh test installs
(confluent_kafka in .deps/python); MILLRACE_BIN names the binary, build/millrace by default."""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps"))
BINARY = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "build/millrace")).resolve()
sys.path.insert(0, str(DEPS / "python"))

import confluent_kafka  # noqa: E402

MODEL = next((DEPS / "model").glob("*.gguf"))
REQUESTS = "millrace.requests"


def serve(bodies, *options, topic_of=lambda name: REQUESTS):
    """The result and the list of token records, each by id, of the requests {id: body}: each goes to the topic that
    topic_of says of its id. The worker gets the options besides those that name its model and broker."""
    broker = subprocess.Popen([BINARY, "broker"], stdout=subprocess.PIPE, text=True)
    worker = None
    try:
        brokers = broker.stdout.readline().split()[1]
        worker = subprocess.Popen([BINARY, "serve", "--model", MODEL, "--brokers", brokers, "--http", "127.0.0.1:0",
                                   *options], stderr=subprocess.DEVNULL)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": brokers, "group.id": "test",
                                             "auto.offset.reset": "earliest"})
        producer = confluent_kafka.Producer({"bootstrap.servers": brokers})
        consumer.subscribe(["millrace.results", "millrace.tokens"])
        for name, body in bodies.items():
            producer.produce(topic_of(name), key=name, value=json.dumps({"id": name, **body}))
        producer.flush(30)
        results, tokens, end, quiet = {}, {}, time.monotonic() + 300 + len(bodies), False
        while len(results) < len(bodies) or not quiet:  # the topics are read in no order
            assert worker.poll() is None, f"the worker ended with {worker.poll()} after {len(results)} of {len(bodies)} results"
            if time.monotonic() >= end:
                missing = [name for name in bodies if name not in results]
                raise AssertionError(f"{len(missing)} of {len(bodies)} requests timed out, the first: {missing[:10]}")
            record = consumer.poll(2)
            quiet = record is None
            if record is not None and not record.error():
                value = json.loads(record.value())
                if record.topic() == "millrace.results":
                    results[value["id"]] = value
                else:
                    tokens.setdefault(value["id"], []).append(value)
        consumer.close()
        return results, tokens
    finally:
        for process in (worker, broker):
            if process:
                process.terminate()
                process.wait()
