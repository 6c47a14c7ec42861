#!/usr/bin/env python3
"""millrace top in a terminal: it shows the requests of a worker, those of one tenant after the key t, and cancels the
request that the user selects. --once --json prints the same figures for programs.

Needs the packages of docker/deps.sh test (confluent_kafka in .deps/python)."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import termios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from embedded_rig import BINARY, Broker, Worker, wait_until  # noqa: E402
from test_metrics import labels_of  # noqa: E402

RUNNING = ("red-1", "blue-1", "blue-2")


class Top:
    """millrace top in a pseudo terminal of 160 columns."""

    def __init__(self, stack, *options):
        self.terminal, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen([BINARY, "top", "--interval", "200ms", *options], stdin=side, stdout=side)
        os.close(side)
        self.text = ""
        stack.callback(self.process.wait)
        stack.callback(self.process.terminate)

    def screen(self):
        """The last whole screen."""
        while select.select([self.terminal], [], [], 0)[0]:
            self.text += os.read(self.terminal, 65536).decode(errors="replace")
        screens = self.text.split("\x1b[H\x1b[2J")
        return re.sub(r"\x1b\[[0-9]*m", "", screens[-2]) if len(screens) > 2 else ""

    def press(self, keys):
        os.write(self.terminal, keys.encode())

    def wait(self, what, *texts, absent=()):
        def look():
            screen = self.screen()
            return all(text in screen for text in texts) and not any(text in screen for text in absent) and screen
        return wait_until(what, look)


def send(broker, key):
    tenant = key.split("-")[0]
    request = {"id": key, "prompt": "One two three", "ignore_eos": True, "max_tokens": 4000, "stream": False}
    broker.send(f"millrace.{tenant}", json.dumps(request), key=key)


def ends(worker, **wanted):
    return sum(value for name, value in worker.series().items()
               if name.startswith("millrace_requests_finished_total{") and wanted.items() <= labels_of(name).items())


def check_keys(stack, broker, worker):
    top = Top(stack, worker.http, "--brokers", broker.address)
    top.press("s")
    top.wait("three requests", *RUNNING, "j k choose")
    top.press("t")
    top.wait("those of blue", "of the tenant blue", "blue-1", "blue-2", absent=["red-1"])
    top.press("t")
    screen = top.wait("those of red", "of the tenant red", "red-1", absent=["blue-1", "blue-2"])
    assert re.search(r"submitted +red +" + re.escape(worker.http) + " +red-1", screen), screen
    top.press("t")
    top.wait("all", *RUNNING, absent=["of the tenant"])
    top.press("jc")  # the second request of the list, which is sorted by age
    question = top.wait("the question", "cancel the request ")
    victim = re.search(r"cancel the request (\S+)\?", question)[1]
    assert victim == RUNNING[1], question
    top.press("n")
    top.wait("no question", "j k choose", absent=["cancel the request"])
    top.press("c")
    top.wait("the question", f"cancel the request {victim}?")
    top.press("y")
    top.wait("the cancel", f"cancelled {victim}")
    wait_until("its end", lambda: ends(worker, reason="cancelled", tenant="blue") == 1)
    assert ends(worker, reason="cancelled") == 1
    top.press("o")  # the next key removes the note
    top.wait("two requests", "red-1", "blue-2", absent=["blue-1"])
    top.press("q")
    assert top.process.wait(30) == 0


def check_once(worker):
    command = [BINARY, "top", "--once", "--json", "--interval", "200ms", worker.http]
    row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert row["worker"] == worker.http and row["ready"] == 1 and row["running"] == 2, row
    assert row["output_tokens_per_second"] > 0 and row["redis_up"] is None, row


def main():
    with contextlib.ExitStack() as stack:
        broker = Broker(stack)
        worker = Worker(stack, broker, "--requests-topic", "millrace.red,tenant=red", "--requests-topic",
                        "millrace.blue,tenant=blue", "--kv-memory", "1GiB", "--context-tokens", "5000")
        for number, key in enumerate(RUNNING):
            send(broker, key)
            wait_until(key, lambda: worker.series()["millrace_requests_running"] == number + 1)
        check_keys(stack, broker, worker)
        check_once(worker)


if __name__ == "__main__":
    main()
