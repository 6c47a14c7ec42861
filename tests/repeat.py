#!/usr/bin/env python3
"""Repeats the quick tests of the release build while other processes keep the CPU cores busy, to find tests that fail
only sometimes.

    repeat.py [--times N] [--threaded N] [--minutes M] [--jobs N] [--busy N] [NAME...]

Runs every test that is neither an integration test nor slow N times, and those with the label `threads` more often.
--minutes stops the repetition early: all tests have then run about the same part of their times. NAME is a part of the
names of the tests to run. A test never runs beside itself, since it may write to files in the build folder.

Prints each failure, then the slowest tests with the CPU time of one run; exit status 1 after a failure. BUILD is the
folder of the build. The output of a failed run is in build/repeat, in a file that has the name of the test and the
number of the run.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(TREE, "build")))
OUTPUT = os.path.join(BUILD, "repeat")
LEFT_OUT = {"integration", "slow"}
SLOWEST = 15  # tests in the table


class Test:
    def __init__(self, entry, times, threaded):
        properties = {item["name"]: item["value"] for item in entry["properties"]}
        labels = set(properties.get("LABELS", []))
        self.name, self.command = entry["name"], entry.get("command")
        self.is_quick = not labels & LEFT_OUT and self.command is not None
        self.target = threaded if "threads" in labels else times
        self.timeout = properties.get("TIMEOUT", 300)
        self.folder = properties.get("WORKING_DIRECTORY", TREE)
        self.environment = dict(os.environ, **dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", [])))
        self.started = self.failed = self.ended = 0
        self.is_running = False
        self.longest = self.cpu = 0.0

    def run(self, number):
        """Returns None, or why the run failed."""
        path = os.path.join(OUTPUT, f"{self.name}-{number}.txt")
        began = time.monotonic()
        with open(path, "wb") as output:
            child = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                     stdout=output, stderr=subprocess.STDOUT)
            is_late = threading.Event()
            timer = threading.Timer(self.timeout, lambda: (is_late.set(), child.kill()))
            timer.start()
            _, status, usage = os.wait4(child.pid, 0)
            timer.cancel()
            child.returncode = os.waitstatus_to_exitcode(status)
        self.longest = max(self.longest, time.monotonic() - began)
        self.cpu += usage.ru_utime + usage.ru_stime
        if child.returncode == 0:
            os.unlink(path)
            return None
        return f"no end within {self.timeout:.0f} s" if is_late.is_set() else f"exit status {child.returncode}"


def quick_tests(options):
    listing = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True, stdout=subprocess.PIPE)
    tests = [Test(entry, options.times, options.threaded) for entry in json.loads(listing.stdout)["tests"]]
    return [test for test in tests if test.is_quick and
            (not options.name or any(part in test.name for part in options.name))]


class Repetition:
    """Threads of a pool each take the test that has run the smallest part of its times."""

    def __init__(self, tests, until):
        self.tests, self.until = tests, until
        self.lock = threading.Condition()

    def next_test(self):
        with self.lock:
            while time.monotonic() < self.until:
                pending = [test for test in self.tests if test.started < test.target]
                if not pending:
                    return None
                idle = [test for test in pending if not test.is_running]
                if idle:
                    test = min(idle, key=lambda test: test.started / test.target)
                    test.is_running = True
                    test.started += 1
                    return test
                self.lock.wait(1)
            return None

    def work(self):
        while (test := self.next_test()) is not None:
            failure = test.run(test.started)
            with self.lock:
                test.is_running = False
                test.ended += 1
                if failure:
                    test.failed += 1
                    print(f"FAILED: {test.name}, run {test.started}: {failure}", flush=True)
                self.lock.notify_all()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    cores = os.cpu_count() or 2
    parser.add_argument("--times", type=int, default=300, help="runs of each test")
    parser.add_argument("--threaded", type=int, default=5000, help="runs of each test with threads")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after this time")
    parser.add_argument("--jobs", type=int, default=2 * cores, help="tests that run at the same time")
    parser.add_argument("--busy", type=int, default=2, help="processes that only use CPU time")
    parser.add_argument("name", nargs="*")
    options = parser.parse_args()
    tests = quick_tests(options)
    if not tests:
        sys.exit("repeat.py: no quick test has such a name")
    os.makedirs(OUTPUT, exist_ok=True)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    repetition = Repetition(tests, time.monotonic() + 60 * options.minutes)
    try:
        pool = [threading.Thread(target=repetition.work) for _ in range(options.jobs)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()
    finally:
        for process in busy:
            process.kill()
    print(f"{'test':44} {'runs':>6} {'longest s':>9} {'CPU s':>7}")
    for test in sorted(tests, key=lambda test: -test.longest)[:SLOWEST]:
        print(f"{test.name:44} {test.ended:6} {test.longest:9.1f} {test.cpu / max(test.ended, 1):7.1f}")
    failed = sum(test.failed for test in tests)
    cpu = sum(test.cpu / max(test.ended, 1) for test in tests)
    print(f"{len(tests)} tests, {sum(test.ended for test in tests)} runs (each test at least "
          f"{min(test.ended for test in tests)}), {cpu:.0f} s of CPU time for one run of each, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
