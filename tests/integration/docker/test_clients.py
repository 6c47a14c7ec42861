#!/usr/bin/env python3
"""The programs of docker/clients with Apache Kafka. Each one streams an answer, receives one in a reply topic, and
cancels one, by itself and at Ctrl-C. The kcat commands of their README do the same. Then the worker is stopped, and this
script writes the records of three attempts with duplicates: every program prints them as docker/guide/results.md
describes under "Reading a stream".

Needs the packages of docker/deps.sh test."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rig  # noqa: E402

sys.path.insert(0, str(rig.DEPS / "python"))
import confluent_kafka  # noqa: E402
from fleet import wait_until  # noqa: E402

CLIENTS = rig.ROOT / "docker/clients"
LINES_MAX = 60
SECONDS_MAX = 120
MODEL = rig.DEPS / "model/SmolLM2-135M-Instruct.Q4_1.gguf"
JVM = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
JARS = "kafka-clients jackson-core jackson-databind jackson-annotations slf4j-api lz4-java snappy-java zstd-jni".split()


# --- the programs ---------------------------------------------------------------------------------------------------

def check_files():
    """The programs are short, and their lists of dependencies name the versions that docker/deps.lock pins."""
    programs = [path for path in CLIENTS.iterdir() if path.suffix in (".py", ".js", ".java", ".go")]
    assert {path.suffix for path in programs} == {".py", ".js", ".java", ".go"}
    for path in programs:
        assert len(path.read_text().splitlines()) <= LINES_MAX, f"{path.name} has more than {LINES_MAX} lines"
    lock = (rig.ROOT / "docker/deps.lock").read_text()
    modules = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    jars = re.findall(r"<artifactId>(.*)</artifactId>\s*<version>(.*)</version>\s*</dependency>",
                      (CLIENTS / "pom.xml").read_text())
    pinned = [f" {line} " for line in (CLIENTS / "requirements.txt").read_text().split()]
    pinned += [f" {name}@{version} " for name, version in modules.items()]
    pinned += [f" {name}-{version}.jar\n" for name, version in jars]
    assert len(pinned) == 4, pinned
    for name in pinned:
        assert name in lock, f"docker/deps.lock has no '{name.strip()}'"


def build(folder):
    """Starts to build the programs in this folder. Returns the commands, and the builds that must end first."""
    jars = [str(path) for name in JARS for path in (rig.DEPS / "kafka").glob(f"{name}-[0-9]*.jar")]
    assert len(jars) == len(JARS), jars
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CLIENTS, folder, ignore=shutil.ignore_patterns("node_modules", "jars"))
    (folder / "node_modules").symlink_to(rig.DEPS.resolve() / "node/node_modules")
    (folder / "vendor").symlink_to(rig.DEPS.resolve() / "go/vendor")
    environment = dict(os.environ, GOFLAGS="-mod=vendor", GOPROXY="off", GOCACHE=str(rig.TOOLS / "go-cache"))
    builds = [
        ["go", "build", "-o", "client", "."],
        [*JVM, "-jar", *map(str, (rig.DEPS / "kafka").glob("ecj-*.jar")), "-17", "-nowarn", "-cp", ":".join(jars),
         "Client.java"],
    ]
    started = [rig.started(subprocess.Popen(command, cwd=folder, env=environment)) for command in builds]
    return {
        "Python": [sys.executable, "client.py"],
        "JavaScript": [str(rig.DEPS.resolve() / "node/bin/node"), "client.js"],
        "Java": [*JVM, "-cp", ":".join([".", *jars]), "Client"],
        "Go": ["./client"],
    }, started


class Run:
    """One run of a program. Its prompt names the language at {}, so that its request can be found. With
    interrupt it gets SIGINT when it has printed something."""

    def __init__(self, place, language, prompt, *options, interrupt=False):
        self.language, self.prompt = language, prompt.format(language)
        self.name = f"{language} {' '.join(options)}"
        self.errors = tempfile.TemporaryFile()
        self.process = rig.started(subprocess.Popen(
            [*place.commands[language], "--brokers", place.services.brokers, *options, self.prompt], cwd=place.folder,
            env=dict(os.environ, PYTHONPATH=str(rig.DEPS.resolve() / "python")), stdout=subprocess.PIPE,
            stderr=self.errors))
        self.out, self.interrupt = b"", interrupt
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            self.out += chunk
            if self.interrupt:
                self.process.send_signal(signal.SIGINT)
                self.interrupt = False

    def logged(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def wait_for(self, text):
        def look():
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}: {self.logged()}"
            return self.out.startswith(text.encode())
        wait_until(f"{self.name} printed '{text}'", look)

    def end(self, *codes):
        """Waits for the end, which must have one of these exit codes. Returns stdout and stderr."""
        wait_until(f"{self.name} ended", lambda: self.process.poll() is not None)
        self.reader.join()
        assert self.process.returncode in codes, f"{self.name}: exit code {self.process.returncode}: {self.logged()}"
        return self.out.decode(), self.logged()


# --- the records of the topics ----------------------------------------------------------------------------------------

class Place:
    def __init__(self, services, folder, commands):
        self.services, self.folder, self.commands = services, folder, commands
        self.producer = confluent_kafka.Producer({"bootstrap.servers": services.brokers, "log_level": 0})

    def records(self, topic):
        """(key, value, headers) of each record of a topic."""
        out = subprocess.run(["kcat", "-C", "-b", self.services.brokers, "-t", topic, "-e", "-q", "-J"], check=True,
                             capture_output=True, text=True).stdout
        found = []
        for line in map(json.loads, filter(None, out.split("\n"))):
            headers = line.get("headers", [])
            found.append((line["key"], json.loads(line["payload"]), dict(zip(headers[::2], headers[1::2]))))
        return found

    def request_of(self, run):
        """(key, value, headers) of the request that a run has sent, or None. There is never more than one."""
        found = [record for record in self.records("millrace.requests")
                 if record[1].get("messages", [{"content": ""}])[0]["content"] == run.prompt]
        assert len(found) <= 1, f"{run.name}: {len(found)} requests"
        return found[0] if found else None

    def result_of(self, run, topic="millrace.results"):
        """The result for a run, and the headers with which it came."""
        request_id = self.request_of(run)[0]
        (value, headers), = [record[1:] for record in self.records(topic) if record[0] == request_id]
        return value, headers

    def write(self, topic, key, *values):
        """Writes records at once, so that they are read together."""
        for value in values:
            self.producer.produce(topic, key=key, value=json.dumps(value))
        assert self.producer.flush(30) == 0


def check_end(run, result, *codes):
    """Asserts that a run printed the text of its result, and the finish reason with the usage."""
    out, errors = run.end(*codes)
    assert out == result["text"] + "\n", f"{run.name}: printed {out!r}, the result has {result['text']!r}"
    tokens = result["usage"]["completion_tokens"]
    assert result["finish_reason"] in errors and re.search(rf"completion_tokens\W+{tokens}\b", errors), errors


def check_answers(place):
    """Each program streams an answer, and one whose result comes to a reply topic."""
    streams = [Run(place, language, "Hello, {}!") for language in place.commands]
    replies = [Run(place, language, "Good morning, {}!", "--reply-topic", "replies") for language in place.commands]
    for run in streams + replies:
        run.end(0)
    for run in streams:
        result, headers = place.result_of(run)
        assert result["finish_reason"] in ("eos", "length") and "kafka_correlationId" not in headers
        check_end(run, result, 0)
    for run in replies:
        key, _, headers = place.request_of(run)
        assert headers["kafka_replyTopic"] == "replies" and key in headers["kafka_correlationId"], headers
        reply, replied = place.result_of(run, "replies")
        assert replied["kafka_correlationId"] == headers["kafka_correlationId"]
        check_end(run, reply, 0)


def check_cancels(place):
    """Each program cancels its request after five tokens, and when it is interrupted while it prints an answer."""
    story = "Write a long story about a {} ship."
    counted = [Run(place, language, story, "--cancel-after", "5") for language in place.commands]
    interrupted = [Run(place, language, f"{story} And a bird.", interrupt=True) for language in place.commands]
    for run in counted + interrupted:
        run.end(0, 130)
        result, _ = place.result_of(run)
        assert result["finish_reason"] == "cancelled" and result["usage"]["completion_tokens"] >= 1, result
        check_end(run, result, 0, *([130] if run.language == "Java" and run in interrupted else []))  # 128 + SIGINT


def check_kcat(place):
    """The commands of docker/clients/README.md, as written: the first request is cancelled, the second gets a reply."""
    block, = re.findall(r"^```sh\n(.*?)^```$", (CLIENTS / "README.md").read_text(), re.M | re.S)
    subprocess.run(["bash", "-e", "-c", block.replace("127.0.0.1:PORT", place.services.brokers)], check=True,
                   stdout=subprocess.DEVNULL, timeout=SECONDS_MAX)
    cancelled, = [key for key, value, _ in place.records("millrace.requests") if "prompt" in value]
    wait_until("kcat's reply", lambda: [headers for _, _, headers in place.records("replies")
                                        if headers["kafka_correlationId"] == "order-17"])
    reasons = wait_until("kcat's cancel", lambda: [value["finish_reason"] for key, value, _ in
                                                   place.records("millrace.results") if key == cancelled])
    assert reasons == ["cancelled"], reasons


def check_attempts(place):
    """Records with duplicates, a resumed attempt, a late record of a replaced worker, an attempt with another text, a
    gap before a token record, and two results."""
    runs = [Run(place, language, "Good evening, {}!") for language in place.commands]
    keys = [wait_until(f"{run.name} sent", lambda: place.request_of(run))[0] for run in runs]
    for key in keys:
        for attempt, index, text, more in [
                (1, 0, "Hello", {}), (1, 1, " wor", {}), (1, 1, " wor", {}),
                (2, 1, " wor", {"resumed_at": 1}), (1, 2, "st", {}), (2, 2, "ld", {}),
                (3, 0, "Hello", {}), (3, 1, " there", {}), (3, 9, "?", {})]:
            place.write("millrace.tokens", "another", "no object")
            place.write("millrace.tokens", key, {"id": key, "attempt": attempt, "choice": 0, "index": index,
                                                 "token_ids": [7], "text": text, **more})
    for run, key in zip(runs, keys):
        run.wait_for("Hello world\nHello there")
        place.write("millrace.results", key, *({"id": key, "attempt": 3, "finish_reason": "eos", "text": text,
                                                "usage": {"completion_tokens": 4}} for text in ("Hello there!", "No.")))
    for run in runs:
        out, _ = run.end(0)
        assert out == "Hello world\nHello there!\n", f"{run.name}: {out!r}"


def main():
    check_files()
    folder = rig.TOOLS / "clients"  # always the same folder, so that Go's cache has the modules
    commands, builds = build(folder)
    with rig.Services() as services:
        subprocess.run([rig.OPTIONS.millrace, "topics", "create", "--brokers", services.brokers, "--reply-topic", "replies",
                        "--requests-partitions", "2", "--replicas", "1"], check=True, stdout=subprocess.DEVNULL)
        fleet = rig.Fleet(rig.OPTIONS, services, "clients", "--reply-topic", "replies", "--speculation", "off", model=MODEL)
        fleet.prefix = "millrace"  # of the topics that the programs use
        fleet.add()
        assert [process.wait(SECONDS_MAX) for process in builds] == [0, 0]
        place = Place(services, folder, commands)
        for check in (check_answers, check_cancels, check_kcat):
            check(place)
        fleet.close()  # check_attempts writes in place of the worker
        check_attempts(place)
        assert not fleet.abnormal, fleet.abnormal


if __name__ == "__main__":
    main()
