#!/usr/bin/env python3
"""Wrong command lines, files and environments. Each ends with one line on stderr that names the cause, its place (flag,
variable, file and line, or argument) and the remedy, with the documented exit code, and before anything is started.

    tests/integration/test_usage.py          MILLRACE_BIN names the binary, build/millrace by default"""

import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = os.environ.get("MILLRACE_BIN", str(ROOT / "build/millrace"))
MODEL = str(ROOT / "tests/golden/models/grouped_tied")
B = ["--brokers", "127.0.0.1:1"]
SERVE = ["serve", "--model", MODEL, *B]
USAGE, MODEL_CODE = 2, 4

# (words, environment, text of the file for --config or None, exit code, what the line must contain, in this order)
CASES = [
    # commands and arguments
    (["serv"], {}, None, USAGE, ["unknown command serv", "did you mean serve?"]),
    (["frobnicate"], {}, None, USAGE, ["unknown command frobnicate", "millrace --help"]),
    (["help", "sand"], {}, None, USAGE, ["unknown command sand"]),
    (SERVE + ["extra"], {}, None, USAGE, ["serve takes no argument extra", "serve --help"]),
    (["cancel", *B], {}, None, USAGE, ["usage: millrace cancel [options] ID..."]),
    (["topics", *B, "creat"], {}, None, USAGE, ["topics creat", "create or check", "did you mean create?"]),
    (["completion", "csh"], {}, None, USAGE, ["bash, zsh or fish", "csh"]),
    (["bench", "--compare", "one"], {}, None, USAGE, ["bench takes two files with --compare", "bench --help"]),
    # required options
    (["serve", *B], {}, None, USAGE, ["serve needs --model PATH", "MILLRACE_MODEL", "--config"]),
    (["serve", "--model", MODEL], {}, None, USAGE, ["serve needs --brokers", "MILLRACE_BROKERS", "--config"]),
    (["send", "hi"], {}, None, USAGE, ["send needs --brokers"]),
    (["send", *B, "--id", "a\tb", "hi"], {}, None, USAGE, ["request id", "printable ASCII"]),
    # flags
    (SERVE + ["--kv-memry", "1GiB"], {}, None, USAGE, ["unknown option --kv-memry", "did you mean --kv-memory?"]),
    (SERVE + ["--no-reusme"], {}, None, USAGE, ["unknown option --no-reusme", "did you mean --no-resume?"]),
    (SERVE + ["--xyzzyplugh"], {}, None, USAGE, ["unknown option --xyzzyplugh", "serve --help"]),
    (SERVE + ["-q"], {}, None, USAGE, ["unknown flag -q", "options begin with --"]),
    (SERVE + ["--rate", "5"], {}, None, USAGE, ["serve takes no option --rate", "serve --help"]),
    (SERVE + ["--threads"], {}, None, USAGE, ["--threads needs a value", "--threads N"]),
    (SERVE + ["--group", "--strict"], {}, None, USAGE, ["--group needs a value", "--group=--strict"]),
    (["send", *B, "--no-wait=1", "x"], {}, None, USAGE, ["--no-wait takes no value", "leave out"]),
    # values of flags
    (SERVE + ["--threads", "many"], {}, None, USAGE, ["--threads many", "not a whole number"]),
    (SERVE + ["--threads", "-1"], {}, None, USAGE, ["--threads -1", "must not be below 0"]),
    (SERVE + ["--threads", "257"], {}, None, USAGE, ["--threads 257", "must not be above 256"]),
    (SERVE + ["--kv-memory", "2Gx"], {}, None, USAGE, ["--kv-memory 2Gx", "not a size such as 512MiB"]),
    (SERVE + ["--kv-memory", "1k"], {}, None, USAGE, ["--kv-memory 1k", "must not be below 1MiB"]),
    (SERVE + ["--drain-timeout", "25"], {}, None, USAGE, ["--drain-timeout 25", "not a time such as 25s"]),
    (SERVE + ["--dtype", "fp64"], {}, None, USAGE, ["--dtype fp64", "auto|fp32|bf16"]),
    (SERVE + ["--delivery", "maybe"], {}, None, USAGE, ["--delivery maybe", "at-least-once|exactly-once"]),
    (SERVE + ["--device", "tpu"], {}, None, USAGE, ["--device tpu", "cpu, cuda, cuda:N"]),
    (SERVE + ["--http", "127.0.0.1:PORT"], {}, None, USAGE, ["--http 127.0.0.1:PORT", "HOST:PORT", "0 to 65535"]),
    (["send", "--brokers", "127.0.0.1:PORT", "x"], {}, None, USAGE,
     ["--brokers 127.0.0.1:PORT", "HOST:PORT", "1 to 65535"]),
    (SERVE + ["--kafka", "novalue"], {}, None, USAGE, ["--kafka novalue", "not NAME=VALUE"]),
    (SERVE + ["--kafka", "sasl.password=@/none"], {}, None, USAGE, ["--kafka sasl.password=***", "/none", "No such file"]),
    (SERVE + ["--kafka", "sasl.password=env:NONE"], {}, None, USAGE,
     ["--kafka sasl.password=***", "environment variable NONE is not set"]),
    (SERVE + ["--requests-topic", "a,colour=red"], {}, None, USAGE,
     ["--requests-topic a,colour=red", "colour=red is none of", "priority="]),
    (SERVE + ["--reply-topic", "*"], {}, None, USAGE, ["--reply-topic *", "every topic", "at least one letter"]),
    (SERVE + ["--prefix", "a b"], {}, None, USAGE, ["--prefix a b", "not a topic name"]),
    (SERVE + ["--tenant-weight", "gold=2"], {}, None, USAGE, ["--tenant-weight gold=2", "tenant=gold"]),
    (SERVE + ["--on-revoke", "drain", "--revoke-timeout", "1h", "--poll-interval-max", "1m"], {}, None, USAGE,
     ["--revoke-timeout", "half of --poll-interval-max", "lower"]),
    (SERVE + ["--trace-endpoint", "https://user:secret@otel"], {}, None, USAGE,
     ["--trace-endpoint https://user:***@otel", "https is not supported", "collector"]),
    # the environment
    (SERVE, {"MILLRACE_THREADS": "x"}, None, USAGE, ["MILLRACE_THREADS=x", "not a whole number"]),
    (SERVE, {"MILLRACE_MODLE": "x"}, None, USAGE, ["environment variable MILLRACE_MODLE", "MILLRACE_MODEL?"]),
    (SERVE, {"MILLRACE_HELP": "1"}, None, USAGE, ["MILLRACE_HELP", "command line only"]),
    (SERVE, {"MILLRACE_HTTP": "9464"}, None, USAGE, ["MILLRACE_HTTP=9464", "HOST:PORT"]),
    # the file
    (SERVE + ["--config", "/none.yaml"], {}, None, USAGE, ["--config /none.yaml", "No such file", "YAML"]),
    (SERVE, {}, "threads: 2\nkv-memory: lots\n", USAGE, ["FILE, line 2", "kv-memory: lots", "not a size"]),
    (SERVE, {}, "max-sequence: 5\n", USAGE, ["FILE, line 1", "max-sequence", "did you mean max-sequences?"]),
    (SERVE, {}, "model:\n  path: x\n", USAGE, ["FILE, line 2", "nested sections", "NAME: VALUE"]),
    (SERVE, {}, "print-config: true\n", USAGE, ["FILE, line 1", "cannot be set in a file", "--print-config"]),
    (SERVE, {}, "group: a\nrequests-topic:\n  - ok\n  - a/b\n", USAGE, ["FILE, line 4", "a/b", "not a topic name"]),
    (SERVE, {}, "group: [a, b]\n", USAGE, ["FILE, line 1", "one value, not a list"]),
    (SERVE, {}, "threads: 1\nthreads: 2\n", USAGE, ["FILE, line 2", "given twice"]),
    # the files that the options name
    (["serve", "--model", "/none.gguf", *B], {}, None, MODEL_CODE, ["/none.gguf"]),
    (["tokenize", "--model", "/none.gguf", "x"], {}, None, MODEL_CODE, ["/none.gguf"]),
    (SERVE + ["--state-dir", "/none/deeper"], {}, None, USAGE, ["--state-dir /none/deeper", "/none", "create"]),
    (SERVE + ["--redis", "redis://h:1", "--redis-key-file", "/none"], {}, None, USAGE, ["/none"]),
    (["replay", *B, "--speed", "-1", "t"], {}, None, USAGE, ["--speed -1", "must not be below 0"]),
]


def run(words, environment, text):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MILLRACE_")}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        if text is not None:
            file.write(text)
            file.flush()
            words = words + ["--config", file.name]
        done = subprocess.run([BIN, *words], env={**clean, "MILLRACE_LOG_FORMAT": "text", **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        return done, done.stderr.replace(file.name, "FILE")


def check(case):
    words, environment, text, code, wanted = case
    done, stderr = run(words, environment, text)
    what = f"{' '.join(words)} {environment} {text!r}: exit code {done.returncode}\n{done.stdout}{stderr}"
    assert done.returncode == code, what
    lines = stderr.strip("\n").splitlines()
    assert len(lines) == 1 and not done.stdout, f"not one line: {what}"
    at = 0
    for part in wanted:
        found = lines[0].find(part, at)
        assert found >= 0, f"no {part!r}: {what}"
        at = found + len(part)
    assert not re.search("secret@|hunter", stderr), f"a secret: {what}"


def main():
    failed = []
    for case in CASES:
        try:
            check(case)
        except AssertionError as error:
            failed.append(str(error))
    for text in failed:
        print(text)
    assert not failed, f"{len(failed)} of {len(CASES)}"
    print(f"{len(CASES)} wrong command lines, files and environments: each ends with one line that helps")


if __name__ == "__main__":
    main()
