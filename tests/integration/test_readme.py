#!/usr/bin/env python3
"""Runs every command and every program of README.md as written there, over the embedded broker; only PORT is replaced.
A command without a match in CHECKS fails the test. docker/guide/results.md must have a row for every error code and
finish reason, and docker/guide/reference.md must equal the output of docker/reference.py for this program.
(tests/tidy/pages.py checks links, files, options and metrics that pages name.)"""

import ast
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docker"))

import reference  # noqa: E402

BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "build/millrace")).resolve()
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps")).resolve()
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docker/guide/results.md").read_text()
LINES_MAX = 180
FIRST_SCREEN_LINES = 30
SECONDS_MAX = 60  # of one command

ENVIRONMENT = dict(os.environ, PYTHONPATH=str(DEPS / "python"), **reference.EVERY_PART)


# --- the text of the pages --------------------------------------------------------------------------------------------

def blocks(language):
    """The fenced blocks of README.md in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def commands():
    """The commands of all sh blocks, in order. A line that ends in | or \\ continues in the next one."""
    text = re.sub(r"(\||\\)\n", "\\1\0", "".join(blocks("sh")))
    return [line.replace("\0", "\n") for line in text.splitlines()]


def documents(text):
    """JSON values one after the other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def table_rows(heading):
    """Names in backticks in the first column of every table of docker/guide/results.md under this column heading."""
    names, inside = [], False
    for line in RESULTS.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[0] == heading:
            inside = True
        elif inside and not cells[0].startswith("---"):
            assert len(cells) >= 3 and all(cells), f"an empty cell: {line}"
            names += re.findall(r"`([^`]+)`", cells[0])
    assert len(names) == len(set(names)), f"{heading}: a name has two rows"
    return set(names)


def must_equal(rows, names, what):
    assert names, f"no {what} found"
    assert rows == names, f"{what}: without a row {sorted(names - rows)}, unknown {sorted(rows - names)}"


def check_tables():
    codes = re.findall(r'X\([A-Z_]+, [A-Z]+, "([a-z_]+)"', (ROOT / "codec/status.h").read_text())
    reasons = re.findall(r'^    X\([A-Z_]+, "([a-z_]+)"\)', (ROOT / "codec/records/result.h").read_text(), re.M)
    must_equal(table_rows("error code"), set(codes), "error codes")
    must_equal(table_rows("finish reason"), set(reasons), "finish reasons")


def check_size():
    lines = README.splitlines()
    assert len(lines) <= LINES_MAX, f"README.md has {len(lines)} lines"
    assert all(re.search(rf"^make {target}\b", "\n".join(lines[:FIRST_SCREEN_LINES]), re.M) for target in ("demo", "test"))


# --- processes -----------------------------------------------------------------------------------------------------

class Place:
    """A folder that looks like the repository after a build, and the processes that the README's commands left running
    in it."""

    def __init__(self, folder, stack):
        self.folder, self.stack = pathlib.Path(folder), stack
        self.port, self.http, self.answers = "PORT", None, {}
        for name, target in (("build", BIN.parent), (".deps", DEPS), ("docker", ROOT / "docker")):
            (self.folder / name).symlink_to(target)
        self.programs = re.findall(r"`(\w+\.py)`[^`]*\n\n```python\n(.*?)^```$", README, re.M | re.S)
        assert len(self.programs) == len(blocks("python")), "a program without a name"

    def fill(self, text):
        return text.replace("PORT", self.port)

    def set_port(self, port):
        """The port of the broker; the files that README.md shows are saved with it."""
        self.port = port
        for name, text in [("millrace.yaml", blocks("yaml")[0]), *self.programs]:
            (self.folder / name).write_text(self.fill(text))

    def run(self, command, code=0):
        """Standard output and standard error of a command that must end with this exit code."""
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=ENVIRONMENT, capture_output=True,
                              text=True, timeout=SECONDS_MAX)
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout, done.stderr

    def start(self, command, name):
        """Starts a command that runs until the test ends; returns a function that reads what it has printed."""
        path = self.folder / f"{name}.out"
        with path.open("w") as out:
            process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.folder, env=ENVIRONMENT, stdout=out,
                                       stderr=out, start_new_session=True)
        self.stack.callback(stop, process)
        return lambda: (process.poll(), path.read_text(errors="replace"))


def stop(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(look, pattern, seconds=SECONDS_MAX):
    until = time.monotonic() + seconds
    while True:
        ended, text = look()
        found = re.search(pattern, text, re.M)
        if found:
            return found
        assert ended is None and time.monotonic() < until, f"exit code {ended}, no '{pattern}' in:\n{text[-2000:]}"
        time.sleep(0.1)


# --- one check for each kind of command ----------------------------------------------------------------------------

def check_make(place, command):
    """Only checks that the target exists: the targets in README.md build and test everything, including this test."""
    dry_run = command.replace("make ", f"make -n -C {ROOT} ", 1)
    done = subprocess.run(["bash", "-c", dry_run], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_demo(place, command):
    out, _ = place.run(command)
    answer = out.split("> Why is the sky blue?\n\n", 1)[1].split("\n\n", 1)[0]
    assert len(answer) > 40 and "finish reason" in out, out
    place.answers["demo"] = answer


def check_broker(place, command):
    place.set_port(wait_for(place.start(command, "broker"), r"^bootstrap 127\.0\.0\.1:(\d+)$")[1])


def check_serve(place, command):
    look = place.start(command, "serve")
    place.http = "127.0.0.1:" + wait_for(look, r'"http_port":(\d+)')[1]
    wait_for(look, r'"assigned":[1-9]')


def check_send(place, command):
    out, summary = place.run(command)
    demo = place.answers["demo"]
    assert "finish_reason" in summary and out.startswith(demo), f"not the answer of demo:\n{demo}\n{out}{summary}"


def check_follow(place, command):
    place.answers["follow"] = place.start(command, "follow")


def shape(value):
    """Types, and the keys of objects."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return shape(value[0]) if value else None
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def check_reader(place, command):
    place.answers["reader"] = place.start(command, "reader")


def check_produce(place, command):
    """The readers started before print the tokens, and a result like the one README.md shows."""
    request, shown = documents("".join(blocks("json")))
    sent = re.search(r"^request = (\{.*\})$", dict(place.programs)["ask.py"], re.M)[1]
    assert ast.literal_eval(sent) == request, "the request shown is not the one sent"
    place.run(command)
    until = time.monotonic() + SECONDS_MAX
    text, result = "", None
    while result is None or text != result["text"]:
        ended, out = place.answers["follow"]()
        assert ended is None and time.monotonic() < until, f"exit code {ended}, no whole answer in:\n{out[-2000:]}"
        lines = re.findall(r"^(millrace\.\S+) (\S+) (\{.*\})\n", out, re.M)
        ours = [(topic, json.loads(value)) for topic, key, value in lines if key == shown["id"]]
        text = "".join(value["text"] for topic, value in ours if topic == "millrace.tokens")
        result = next((value for topic, value in ours if topic == "millrace.results"), None)
        time.sleep(0.1)
    assert shape(result) == shape(shown), f"README.md shows {shown}, it is {result}"
    wait_for(place.answers["reader"], re.escape(f"{shown['id']} {result['finish_reason']} {result['text']!r}"))


def check_client(place, command):
    out, summary = place.run(command)
    assert out.startswith(place.answers["demo"]) and "completion_tokens" in summary, out + summary


def check_check(place, command):
    out, _ = place.run(command, code=3)  # port of a Redis that does not exist
    failed = re.findall(r"^FAIL +(\w+)", out, re.M)
    assert failed == ["redis"] and re.search(r"^ok +model", out, re.M) and re.search(r"^ok +broker", out, re.M), out


def check_print(place, command):
    out, _ = place.run(command)
    written = re.findall(r"^([a-z-]+):", blocks("yaml")[0], re.M)
    for name in written:
        origin = "environment" if f"MILLRACE_{name.upper().replace('-', '_')}" in ENVIRONMENT else "file"
        assert re.search(rf"^{name} .*# {origin}$", out, re.M), f"{name} is not from the {origin}:\n{out}"


# Beginnings of commands and their checks; the first match is used. A pattern without a command in README.md fails the
# test.
CHECKS = (
    (r"make (demo|test)\b", check_make),
    (r"build/millrace demo ", check_demo),
    (r"build/millrace broker\b", check_broker),
    (r"build/millrace serve --config .* --print-config", check_print),
    (r"build/millrace serve ", check_serve),
    (r"build/millrace send ", check_send),
    (r"kcat ", check_follow),
    (r"python3 read\.py", check_reader),
    (r"python3 ask\.py ", check_produce),
    (r"python3 docker/clients/client\.py ", check_client),
    (r"build/millrace check ", check_check),
)


def run_commands(place):
    unused = dict(CHECKS)
    for command in commands():
        pattern = next((pattern for pattern, _ in CHECKS if re.match(pattern, command, re.S)), None)
        assert pattern, f"README.md has a command that this test does not know: {command}"
        unused.pop(pattern, None)
        began = time.monotonic()
        try:
            dict(CHECKS)[pattern](place, place.fill(command))
        except (AssertionError, LookupError, ValueError, subprocess.TimeoutExpired) as error:
            raise SystemExit(f"FAILED: {command}\n{type(error).__name__}: {error}") from error
        print(f"{time.monotonic() - began:5.1f} s  {command}", flush=True)
    assert not unused, f"README.md has no command for {list(unused)}"


def check_reference(place):
    with urllib.request.urlopen(f"http://{place.http}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    commands, _ = place.run("build/millrace help")
    wanted, found = reference.page(metrics, commands).splitlines(), reference.PAGE.read_text().splitlines()
    differing = [line for line in wanted if line not in found] + [line for line in found if line not in wanted]
    assert wanted == found, "docker/guide/reference.md is not up to date: run docker/reference.py\n" + "\n".join(differing[:10])


def main():
    check_size()
    check_tables()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        place = Place(folder, stack)
        run_commands(place)
        check_reference(place)


if __name__ == "__main__":
    main()
