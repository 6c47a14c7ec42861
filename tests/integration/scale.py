#!/usr/bin/env python3
"""A fleet that sleeps when nothing waits: starts and stops real workers by the figure of `millrace lag`, as KEDA would (`make
scale`). Four loads, each into an empty fleet:

    first   one request; no result exists yet, so the figure has no history
    again   one request
    burst   many requests at once: several workers
    late    one request whose deadline has passed: nobody is started
    marked  with --kafka: requests in transactions, of which one is aborted. The markers of the transactions are no requests

Each load must be answered once and whole, and afterwards the figure must be 0 and every worker must have ended with exit code
0. `millrace lag` is restarted between the loads. Prints JSON: the seconds until the figure, until the first and the last answer, and
until no worker ran; how many workers ran; the first forecast, the number of workers that it is for, and the seconds that it took.

Needs what docker/deps.sh test installs (confluent_kafka in .deps/python)."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps")) / "python"), str(ROOT / "tests/bench")]

import confluent_kafka  # noqa: E402
import fleet  # noqa: E402

POLL_SECONDS = 0.2
PARTITIONS = 8
WAIT_SECONDS = 120


class Figure:
    """`millrace lag --listen`; value() is the page /lag, None if it does not answer."""

    def __init__(self, options, brokers):
        self.address = f"127.0.0.1:{fleet.free_port()}"
        self.process = subprocess.Popen([str(word) for word in (
            options.millrace, "lag", "--brokers", brokers, "--listen", self.address, "--interval", "200ms", "--target",
            f"{options.target}s", "--start-time", "2s")], stderr=subprocess.DEVNULL)

    def value(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/lag", timeout=10) as page:
                return json.load(page)
        except (urllib.error.URLError, ConnectionError):
            return None

    def close(self):
        fleet.stop(self.process)


class Scaler:
    """Starts a worker at once when more are wanted, and stops one when for `quiet` seconds fewer were wanted. The last one ends
    when nothing has waited for that long."""

    def __init__(self, options, brokers):
        self.options, self.brokers = options, brokers
        self.folder = tempfile.TemporaryDirectory()
        self.figure = None
        self.workers = []  # (process, time of its start)
        self.ended, self.most, self.worker_seconds = 0, 0, 0.0
        self.wanted = []  # (time, number) of the last `quiet` seconds

    def start(self):
        name = f"w{self.ended + len(self.workers)}"
        command = (self.options.worker or self.options.millrace, "serve", "--model", self.options.model, "--brokers",
                   self.brokers, "--worker-id", name, "--http", "off", "--threads", "1", "--kv-memory", "64MiB", "--max-sequences",
                   "8", "--session-timeout", "6s", "--log-format", "json", "--delivery", self.options.delivery)
        with open(pathlib.Path(self.folder.name) / name, "w") as log:
            self.workers.append((subprocess.Popen([str(word) for word in command], stderr=log), time.monotonic()))
        self.most = max(self.most, len(self.workers))

    def end(self):
        process, began = self.workers.pop()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        self.ended += 1
        self.worker_seconds += time.monotonic() - began
        assert code == 0, f"a worker ended with {code}: {self.log(process)}"

    def log(self, process):
        return "\n".join(path.read_text()[-2000:] for path in pathlib.Path(self.folder.name).iterdir())

    def look(self):
        """One look at the figure, which is returned."""
        for process, _ in self.workers:
            assert process.poll() is None, f"a worker ended by itself: {self.log(process)}"
        figure, now = self.figure.value(), time.monotonic()
        if figure is None:  # unknown is not 0
            return None
        self.wanted = [(at, number) for at, number in self.wanted if now - at < self.options.quiet]
        self.wanted.append((now, min(figure["workers_wanted"], self.options.most)))
        while len(self.workers) < self.wanted[-1][1]:
            self.start()
        if now - self.wanted[0][0] > 0.8 * self.options.quiet and len(self.workers) > max(number for _, number in self.wanted):
            self.end()
        return figure

    def close(self):
        for process, _ in self.workers:
            process.kill()
            process.wait()


class Topic:
    """A producer of requests, and the results so far by id."""

    def __init__(self, brokers):
        self.brokers = brokers
        self.producer = confluent_kafka.Producer({"bootstrap.servers": brokers})
        self.consumer = confluent_kafka.Consumer({"bootstrap.servers": brokers, "group.id": "readers",
                                                  "enable.auto.commit": False, "auto.offset.reset": "earliest"})
        self.consumer.assign([confluent_kafka.TopicPartition("millrace.results", number, confluent_kafka.OFFSET_BEGINNING)
                              for number in range(PARTITIONS)])
        self.results = {}

    def send(self, names, producer=None, **fields):
        producer = producer or self.producer
        for name in names:
            producer.produce("millrace.requests", key=name, value=json.dumps({"id": name, "prompt": "Why?", **fields}))
        assert producer.flush(30) == 0

    def send_marked(self, names, **fields):
        """The requests in one transaction, after one that is aborted."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.brokers, "transactional.id": "scale"})
        producer.init_transactions(60)
        producer.begin_transaction()
        self.send(["aborted"], producer, **fields)
        producer.abort_transaction(60)
        producer.begin_transaction()
        self.send(names, producer, **fields)
        producer.commit_transaction(60)

    def read(self):
        while (record := self.consumer.poll(0)) is not None:
            if not record.error():
                value = json.loads(record.value())
                self.results.setdefault(value["id"], []).append(value)
        return self.results


def run(options, brokers, topic, scaler, name, count, **fields):
    """One load from an empty fleet to an empty fleet; its figures."""
    names = [f"{name}-{number}" for number in range(count)]
    scaler.figure = Figure(options, brokers)  # one that knows nothing yet
    fleet.wait_until("the figure", lambda: (figure := scaler.look()) is not None and figure["workers_wanted"] == 0, WAIT_SECONDS)
    assert not scaler.workers, "the fleet is not empty"
    expects = "deadline_ms" not in fields
    scaler.most, before = 0, scaler.worker_seconds
    began = time.monotonic()
    (topic.send_marked if name == "marked" else topic.send)(names, ignore_eos=True, **fields)
    times, forecast = {}, None
    while True:
        figure = scaler.look()
        results, now = topic.read(), round(time.monotonic() - began, 2)
        assert now < WAIT_SECONDS, f"{name}: {len(results)} results, {figure}"
        if figure is not None and figure["workers_wanted"] > 0:
            times.setdefault("figure_s", now)
            present = figure["workers"] in (None, len(scaler.workers))
            if figure["seconds"] is not None and forecast is None and figure["started"] > 0 and present:
                forecast = now, figure["seconds"], figure["workers"]
        if any(each in results for each in names):
            times.setdefault("first_answer_s", now)
        if all(each in results for each in names):
            times.setdefault("answered_s", now)
        if not expects and figure is not None and figure["expired"] == count and now > 2 * options.quiet:
            break
        if "answered_s" in times and figure is not None and figure["waiting"] == 0:
            times.setdefault("figure_0_s", now)
            if not scaler.workers:
                times["asleep_s"] = now
                break
        time.sleep(POLL_SECONDS)
    scaler.figure.close()
    if not expects:
        assert scaler.most == 0 and not any(each in results for each in names), f"{name}: a worker was started for nobody"
        return {"requests": count, "workers": 0}
    for each in names:
        assert len(results[each]) == 1, f"{each}: {len(results[each])} results"
        assert results[each][0]["finish_reason"] == "length", results[each]
        assert results[each][0]["usage"]["completion_tokens"] == fields["max_tokens"], results[each]
    found = {"requests": count, "workers": scaler.most, **times, "worker_s": round(scaler.worker_seconds - before, 1)}
    if forecast:
        found["forecast"] = {"at_s": forecast[0], "workers": forecast[2], "seconds": round(forecast[1], 1),
                             "took_s": round(times["answered_s"] - forecast[0], 1)}
    return found


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--worker", help="another program as worker, such as build/bench_transport")
    parser.add_argument("--requests", type=int, default=200, help="requests of the burst")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--target", type=int, default=3, help="seconds in which what waits is to be done")
    parser.add_argument("--most", type=int, default=3, help="most workers")
    parser.add_argument("--delivery", default="at-least-once")
    parser.add_argument("--quiet", type=float, default=4, help="seconds after which a worker that is not wanted ends")
    options = parser.parse_args()
    with fleet.Broker(options) as broker:
        environment = dict(os.environ, MILLRACE_BROKERS=broker.address)
        kafka = ("--replicas", "1") if options.kafka else ()
        subprocess.run([options.millrace, "topics", "create", "--requests-partitions", str(PARTITIONS), *kafka], check=True,
                       env=environment, stdout=subprocess.DEVNULL)
        topic, scaler = Topic(broker.address), Scaler(options, broker.address)
        try:
            counts = {"first": 1, "again": 1, "burst": options.requests, **({"marked": 3} if options.kafka else {})}
            loads = {name: run(options, broker.address, topic, scaler, name, count, max_tokens=options.tokens)
                     for name, count in counts.items()}
            loads["late"] = run(options, broker.address, topic, scaler, "late", 1, deadline_ms=int(time.time() * 1000) + 1)
        finally:
            scaler.close()
            topic.consumer.close()
            if scaler.figure:
                scaler.figure.close()
    assert loads["burst"]["workers"] > 1, "the burst started one worker only"
    assert "aborted" not in topic.results, "an aborted request was answered"
    fleet.report(options, "scale", {"lost": 0, "ended": scaler.ended, **loads})


if __name__ == "__main__":
    main()
