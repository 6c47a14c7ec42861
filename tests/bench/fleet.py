"""Shared by measurements and tests: starts `millrace broker`, `millrace serve` and `millrace bench` and stops them
afterwards. Uses only Python's standard library."""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def arguments(description):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # processes started; stopped at exit
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--millrace", default=os.environ.get("MILLRACE_BIN", ROOT / "build/millrace"))
    models = sorted((ROOT / ".deps/model").glob("*.gguf"))
    parser.add_argument("--model", default=models[0] if models else None, required=not models)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--threads", default=str(os.cpu_count()))
    parser.add_argument("--repetitions", type=int, default=1, help="the best one counts")
    parser.add_argument("--kafka", action="store_true", help="an Apache Kafka instead of the embedded broker")
    parser.add_argument("--json", help="write the figures to this file as well")
    return parser


def machine():
    model = platform.machine()
    with contextlib.suppress(OSError):
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} x {model}, Linux {platform.release()}"


METRICS_SECONDS = 0.1  # a worker makes a new page /metrics at most this often


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, look, seconds=120):
    """Calls look() every 20 ms until it returns something true, which is the result."""
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return found


def percentile(values, share):
    """The value at this share of the sorted values, such as 0.99; None if there are none."""
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def rotated(names, turn):
    """The names, rotated in each turn so that every name is first equally often."""
    names = list(names)
    return names[turn % len(names):] + names[:turn % len(names)]


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Broker:
    """The embedded broker, or with --kafka the Apache Kafka of the integration tests."""

    def __init__(self, options):
        self.services = None
        if options.kafka:
            sys.path.insert(0, str(ROOT / "tests/integration"))
            import rig
            self.services = rig.Services()
            self.address = self.services.brokers
            return
        self.process = subprocess.Popen([options.millrace, "broker"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("bootstrap "):
            raise RuntimeError("the broker did not start")
        self.address = line.split()[1]

    def logs(self, topic):
        """The log segments of a topic, whose name may have wildcards; none with the embedded broker, which writes no files."""
        return sorted((self.services.folder / "kafka-data").glob(f"{topic}-*/*.log")) if self.services else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.services:
            self.services.close()
            return
        stop(self.process)
        self.process.stdout.close()


class Worker:
    """One `serve`. start_s: time from exec until /readyz answers 200; ready_lines: its output until then."""

    def __init__(self, options, broker, *flags, program=None, environment=None):
        self.http = f"127.0.0.1:{free_port()}"
        self.log = []
        command = [program or options.millrace, "serve", "--brokers", broker.address, "--model", options.model, "--dtype",
                   options.dtype, "--threads", options.threads, "--http", self.http, "--stats-interval", "0",
                   "--log-format", "text", *flags]
        began = time.monotonic()
        self.process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        while self.get("/readyz")[0] != 200:
            if self.process.poll() is not None or time.monotonic() - began > 120:
                stop(self.process)
                raise RuntimeError("serve is not ready:\n" + "".join(self.log))
            time.sleep(0.005)
        self.start_s = time.monotonic() - began
        time.sleep(0.2)
        self.ready_lines = list(self.log)

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def metrics(self):
        """The value of each series by its name, with labels as on the page, no older than this call."""
        values = {}
        time.sleep(METRICS_SECONDS)
        for line in self.get("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def by_label(self, name):
        """The values of a metric that has one label, by the label's value."""
        return {series.split('"')[1]: value for series, value in self.metrics().items() if series.startswith(name + "{")}

    def cpu_seconds(self):
        """The CPU time of the threads by name; librdkafka's threads are added up."""
        sums = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            name = "librdkafka" if name.startswith("rdk:") else name
            sums[name] = sums.get(name, 0.0) + int((task / "schedstat").read_text().split()[0]) / 1e9
        return sums

    def status_bytes(self, field):
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
        raise KeyError(field)

    def huge_page_bytes(self):
        """Anonymous memory of the process in huge pages, such as the KV pool and the weights."""
        with open(f"/proc/{self.process.pid}/smaps_rollup") as rollup:
            return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("AnonHugePages:"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)
        self.reader.join(5)
        self.process.stderr.close()


class Bench:
    """`millrace bench` in the background; wait() returns its figures."""

    def __init__(self, options, *flags):
        self.folder = tempfile.TemporaryDirectory()
        self.output = pathlib.Path(self.folder.name) / "figures.json"
        command = [options.millrace, "bench", *flags, "--output", self.output]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)

    def wait(self, timeout_s=600, requests=None):
        """requests: that many must succeed, and none may fail."""
        error = self.process.communicate(timeout=timeout_s)[1]
        if self.process.returncode != 0:
            raise RuntimeError(f"bench failed: {error}")
        figures = json.loads(self.output.read_text())
        self.folder.cleanup()
        if requests is not None and (figures["failed"] or figures["completed"] != requests):
            raise RuntimeError(f"{figures['failed']} requests failed, {figures['completed']} of {requests} succeeded")
        return figures


def report(options, name, figures):
    figures = {"benchmark": name, "machine": machine(), "dtype": options.dtype,
               "broker": "Apache Kafka" if options.kafka else "embedded", **figures}
    print(json.dumps(figures, indent=1))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
