"""Shared by tests with an Apache Kafka: servers (by services.sh), workers, a producer and the checker. Adds tests/bench, where
fleet.py is, to the import path. Uses only Python's standard library."""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps"))
TOOLS = pathlib.Path(os.environ.get("MILLRACE_TOOLS", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "tests/bench"))
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


PROCESSES = []  # every process started; Services kills all of them at its end
OPTIONS = argparse.Namespace(delivery="at-least-once", millrace=os.environ.get("MILLRACE_BIN", TOOLS / "millrace"),
                             model=ROOT / "tests/golden/models/qwen2", session=6, static=False, flags="", library=None,
                             wrap="", malloc_check=False, logs=None)  # the defaults for a Fleet


def started(process):
    PROCESSES.append(process)
    return process


def kill_all():
    for process in PROCESSES:
        if process.poll() is None:
            process.kill()
            process.wait()


class Services:
    """A shell that has sourced services.sh. When its stdin closes, it stops the servers and exits. At the end of a with
    statement, all processes started are killed, and logs are copied to the folder `logs`, if there is one."""

    def __init__(self, logs=None):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers then stop too
        self.logs = logs
        environment = dict(os.environ, MILLRACE_DEPS=str(DEPS))
        self.shell = subprocess.Popen(["/bin/sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env=environment, cwd=ROOT)
        self.call(f". {shlex.quote(str(ROOT / 'tests/integration/services.sh'))}")
        # Record timestamps are set by the broker, so that the times of results and commits can be compared.
        self.call("KAFKA_PROPERTIES=log.message.timestamp.type=LogAppendTime")
        self.call("kafka_start")
        self.brokers = self.call('echo "$KAFKA_BROKERS"')
        self.folder = pathlib.Path(self.call('echo "$SERVICES"'))

    def call(self, command):
        self.shell.stdin.write(f"{{ {command}\n}} && echo '=ok' || echo '=failed'\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.startswith("="):
                if line.strip() != "=ok":
                    raise RuntimeError(f"services: {command}: {''.join(lines)}")
                return "".join(lines).strip()
            lines.append(line)
        raise RuntimeError(f"services ended at {command}")

    def start_redis(self):
        """Starts a Redis and returns its URL."""
        self.call("redis_start")
        return self.call('echo "$REDIS_URL"')

    def close(self):
        self.shell.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.shell.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        kill_all()
        if self.logs:
            folder = pathlib.Path(self.logs)
            folder.mkdir(parents=True, exist_ok=True)
            for log in self.folder.glob("*.log"):
                (folder / log.name).write_bytes(log.read_bytes())
        self.close()


class Worker:
    """One `serve`, which may be restarted. `abnormal` collects every end that the test did not cause."""

    def __init__(self, fleet, name, worker_id=None):
        self.fleet, self.name, self.id = fleet, name, worker_id or name
        self.log = fleet.folder / f"{name}.log"
        self.process = None
        self.asked = None  # expected exit code
        self.lives = 0
        self.begun = 0  # start of the log of the present process

    def start(self):
        self.begun = self.log.stat().st_size if self.log.exists() else 0
        self.asked = None
        self.lives += 1
        with self.log.open("ab") as log:
            self.process = started(subprocess.Popen(self.fleet.command(self.id), stdout=log, stderr=log,
                                                    env=self.fleet.environment, cwd=ROOT))

    def logged(self, text):
        with self.log.open("rb") as log:
            log.seek(self.begun)
            return log.read().count(text.encode())

    def logged_ever(self, text):
        """The log lines of all processes of this worker."""
        return self.log.read_bytes().count(text.encode())

    def wait_for(self, text, seconds=120):
        until = time.monotonic() + seconds
        while not self.logged(text):
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")
            if time.monotonic() > until:
                raise RuntimeError(f"{self.name} does not say '{text}':\n{self.tail()}")
            time.sleep(0.05)

    def tail(self, lines=15):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def send(self, number):
        """Sends a signal. After SIGTERM and SIGKILL the worker is expected to end."""
        if number == signal.SIGTERM:
            self.asked = 0
        if number == signal.SIGKILL:
            self.asked = -signal.SIGKILL
        self.process.send_signal(number)

    def look(self):
        """True while the process runs. Records an unexpected end in `abnormal`."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code is None:
            return True
        if code != self.asked:
            self.fleet.abnormal.append({"worker": self.name, "life": self.lives, "exit": code, "asked": self.asked,
                                        "log": self.tail()})
        self.process = None
        return False

    def end(self, number=signal.SIGTERM, seconds=60):
        if not self.look():
            return
        self.send(number)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fleet.abnormal.append({"worker": self.name, "life": self.lives, "exit": "does not end",
                                        "asked": self.asked, "log": self.tail()})
            self.asked = -signal.SIGKILL
            self.process.kill()
            self.process.wait()
        self.look()

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * PAGE_BYTES

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


class Fleet:
    """Workers of one consumer group, with topics of one prefix."""

    def __init__(self, options, services, name, *flags, model=None):
        self.options, self.services, self.name = options, services, name
        self.prefix = f"{name}-{options.delivery}"
        self.folder = services.folder
        self.abnormal = []
        self.workers = []
        self.flags = [str(flag) for flag in flags] + shlex.split(options.flags)
        self.model = str(model or options.model)
        self.environment = dict(os.environ)
        if options.library:
            self.environment["LD_LIBRARY_PATH"] = options.library
        if options.malloc_check:
            self.environment.update(LD_PRELOAD="libc_malloc_debug.so.0", GLIBC_TUNABLES="glibc.malloc.check=3")

    def command(self, worker):
        return [*shlex.split(self.options.wrap), str(self.options.millrace), "serve", "--model", self.model,
                "--brokers", self.services.brokers, "--prefix", self.prefix, "--group", self.prefix, "--worker-id",
                worker, "--delivery", self.options.delivery, "--http", "off", "--threads", "1", "--kv-memory", "64MiB",
                "--max-sequences", "16", "--session-timeout", f"{self.options.session}s", "--drain-timeout", "10s",
                "--attempts-max", "50", "--log-format", "json",
                *(["--group-instance", worker] if self.options.static else []), *self.flags]

    def add(self, count=1):
        new = [Worker(self, f"{self.name}-w{len(self.workers) + i + 1}") for i in range(count)]
        self.workers += new
        for worker in new:
            worker.start()
        for worker in new:
            worker.wait_for('"assigned ')
        return new

    def assignments(self):
        """The log lines of all processes of all workers."""
        return sum(worker.logged_ever('"assigned ') for worker in self.workers)

    def running(self):
        return [worker for worker in self.workers if worker.look()]

    def look(self):
        """Records unexpected ends and restarts those workers."""
        for worker in self.workers:
            if worker.process is not None and not worker.look() and worker.asked is None:
                worker.start()

    def close(self):
        for worker in self.workers:
            worker.end()


class Producer(threading.Thread):
    """Publishes requests at a rate. make(number) returns the fields of one; "id" is the key of its record."""

    def __init__(self, fleet, count, rate, make):
        super().__init__(daemon=True)
        self.count, self.rate, self.make = count, rate, make
        self.process = started(subprocess.Popen(
            [str(TOOLS / "produce"), fleet.services.brokers, f"{fleet.prefix}.requests"], stdin=subprocess.PIPE,
            text=True))
        self.failed = False

    def run(self):
        began = time.monotonic()
        try:
            for number in range(self.count):
                if self.rate:
                    time.sleep(max(0.0, began + number / self.rate - time.monotonic()))
                fields = self.make(number)
                self.process.stdin.write(f"{fields['id']}\t{json.dumps(fields)}\n")
                if self.rate:
                    self.process.stdin.flush()
            self.process.stdin.close()
        except OSError:
            self.failed = True
        self.failed |= self.process.wait() != 0


class Checker:
    """The checker, which waits for the answers in the background and reads only the topics."""

    def __init__(self, fleet, expect, wait_s=90):
        command = [TOOLS / "checker", fleet.services.brokers, "--prefix", fleet.prefix, "--group", fleet.prefix,
                   "--expect", str(expect), "--wait", str(wait_s)]
        if fleet.options.delivery == "exactly-once":
            command.append("--exactly-once")
        self.answered = 0
        self.messages = []
        self.process = started(subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            if line.startswith("answered "):
                self.answered = int(line.split()[1])
            else:
                self.messages.append(line.rstrip())

    def running(self):
        return self.process.poll() is None

    def figures(self):
        out = self.process.stdout.read()
        code = self.process.wait()
        self.reader.join(5)
        if not out:
            raise RuntimeError(f"the checker could not look ({code}): {self.messages}")
        return json.loads(out)


def records(fleet, topic):
    """The decoded records of one topic of the fleet."""
    out = subprocess.run(["kcat", "-C", "-b", fleet.services.brokers, "-t", f"{fleet.prefix}.{topic}", "-e", "-q"],
                         check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.split("\n") if line]  # a text may have other line separators


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)
