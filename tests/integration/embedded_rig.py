"""Shared by tests of one worker with the small real model at the embedded broker. Needs the packages of docker/deps.sh test
(confluent_kafka in .deps/python). MILLRACE_BIN names the binary, build/millrace by default."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps"))
BINARY = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "build/millrace")).resolve()
sys.path[:0] = [str(DEPS / "python"), str(ROOT / "tests/bench")]

import confluent_kafka  # noqa: E402
from fleet import METRICS_SECONDS, free_port, wait_until  # noqa: E402

MODEL = next((DEPS / "model").glob("*.gguf"))
REQUESTS = "millrace.requests"


class Broker:
    """The embedded broker and a producer; both end with the stack."""

    def __init__(self, stack):
        self.process = subprocess.Popen([BINARY, "broker"], stdout=subprocess.PIPE, text=True)
        stack.callback(self.process.wait)
        stack.callback(self.process.terminate)
        self.address = self.process.stdout.readline().split()[1]
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.address})

    def send(self, topic, value, key=None, headers=()):
        self.producer.produce(topic, value=value, key=key, headers=list(headers))
        assert self.producer.flush(30) == 0


class Worker:
    """A worker that is ready and ends with the stack."""

    def __init__(self, stack, broker, *options):
        self.http = f"127.0.0.1:{free_port()}"
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BINARY, "serve", "--model", MODEL, "--brokers", broker.address, "--http", self.http, "--kv-memory", "64MiB",
             "--session-timeout", "6s", "--group-instance", "one", "--worker-id", "one", *options],
            stderr=self.log)
        stack.callback(self.end)
        try:
            wait_until("ready", self.is_ready)
        except AssertionError:
            print(self.logged(), file=sys.stderr)
            raise

    def logged(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def end(self, kill=False):
        self.process.kill() if kill else self.process.terminate()
        self.process.wait()

    def is_ready(self):
        assert self.process.poll() is None, self.logged()
        try:
            return urllib.request.urlopen(f"http://{self.http}/readyz", timeout=10).status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def page(self):
        """The page /metrics, no older than this call."""
        time.sleep(METRICS_SECONDS)
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10) as page:
            return page.read().decode()

    def series(self):
        """Every series of the page /metrics with its value."""
        found = {}
        for line in self.page().splitlines():
            if line.startswith("#"):
                continue
            name, value = line.rsplit(" ", 1)
            assert name not in found, f"two lines for {name}"
            found[name] = float(value)
        return found


def serve(bodies, *options, topic_of=lambda name: REQUESTS):
    """Sends the requests {id: body} to one worker that has these options. topic_of(id) is the topic of a request. Returns
    the result and the list of token records, each by id."""
    with contextlib.ExitStack() as stack:
        broker = Broker(stack)
        worker = Worker(stack, broker, "--kv-memory", "1GiB", *options)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "test",
                                             "auto.offset.reset": "earliest"})
        stack.callback(consumer.close)
        consumer.subscribe(["millrace.results", "millrace.tokens"])
        for name, body in bodies.items():
            broker.producer.produce(topic_of(name), key=name, value=json.dumps({"id": name, **body}))
        broker.producer.flush(30)
        results, tokens, end, quiet = {}, {}, time.monotonic() + 300 + len(bodies), False
        while len(results) < len(bodies) or not quiet:  # the order of reads from the two topics is undefined
            assert worker.process.poll() is None, f"ended after {len(results)} of {len(bodies)} results: {worker.logged()}"
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
        return results, tokens
