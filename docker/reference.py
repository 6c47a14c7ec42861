#!/usr/bin/env python3
"""Writes docker/guide/reference.md: all commands, options, metrics, finish reasons and error codes. Options and codes come from the
tables of the source, metrics from the page /metrics of a worker that this script starts. tests/integration/test_readme.py compares
the page with a running worker.

    docker/reference.py      needs build/millrace (MILLRACE_BIN) and the small model in .deps (MILLRACE_DEPS)
"""

import os
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docker/guide/reference.md"
BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "build/millrace"))
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps"))
# A worker with every part: its metrics are on the page although no server listens at these addresses.
EVERY_PART = {"MILLRACE_HTTP": "127.0.0.1:0", "MILLRACE_KV_MEMORY": "256MiB", "MILLRACE_REDIS": "redis://127.0.0.1:1/0",
              "MILLRACE_TRACE_ENDPOINT": "http://127.0.0.1:1", "MILLRACE_ADAPTERS": str(ROOT / "docker")}
LABELS_LEFT_OUT = {"le"}
START_SECONDS_MAX = 120


# ---- tables of the source ----

def source_with(text):
    """The text of the one C file outside tests that contains this text."""
    found = [path for pattern in ("*.c", "*.h") for path in ROOT.glob(f"*/**/{pattern}")
             if path.relative_to(ROOT).parts[0] in ("worker", "codec") and text in path.read_text()]
    assert len(found) == 1, f"{text} is in {found}"
    return found[0].read_text()


def cells(row):
    """The initializers of a C struct without its braces: texts are Python texts, anything else is C."""
    found, depth, cell = [], 0, ""
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[(){},]|[^"(){},]+', row):
        if token == "," and depth == 0:
            found.append(cell.strip())
            cell = ""
            continue
        depth += token in "({"
        depth -= token in ")}"
        cell += token
    found.append(cell.strip())
    return ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', cell)).replace('\\"', '"') if cell.startswith('"') else cell for cell in found]


def options():
    """A dictionary for each option, by the names of the columns, in the order of the table."""
    text = source_with("const struct mr_option mr_options[] = {")
    columns = re.search(r"/\* columns: (.*?) \*/", text, re.S)[1]
    columns = [name.strip() for name in re.sub(r"\s+", " ", columns).split(",")]
    body = text.split("mr_options[] = {", 1)[1].split("\n};", 1)[0]
    rows = [dict(zip(columns, cells(row))) for row in re.findall(r"^ *\{(\".*?)\},?$", body, re.M | re.S)]
    defined = dict(re.findall(r"^#define +(\w+) +(.*?)(?: */\*.*)?$", text, re.M))
    for row in rows:
        row["commands"] = commands_of(row["commands"], defined)
    return rows


def commands_of(expression, defined):
    """The commands in a C expression of the column "commands"; `check` takes every option of `serve`."""
    while (names := [name for name in re.findall(r"\b[A-Z][A-Z_]+\b(?!\()", expression) if name in defined]):
        for name in names:
            expression = re.sub(rf"\b{name}\b(?!\()", f"({defined[name]})", expression)
        if "MR_COMMAND_COUNT" in expression:  # ALL, or all except some
            return ["every command"] if "~" not in expression else ["every command that has a configuration"]
    found = sorted({name.lower() for name in re.findall(r"BIT\((\w+)\)", expression)})
    return found + ["check"] if "serve" in found and "check" not in found else found


def codes(pattern, holder):
    return list(dict.fromkeys(code for code in re.findall(pattern, source_with(holder), re.M) if code))


def lag_metrics():
    """name: (kind, labels, help) of each metric of millrace lag, from its source: some are absent while a figure is unknown."""
    text = source_with("} figure_names[] = {")
    join = lambda words: "".join(re.findall(r'"([^"]*)"', words))  # noqa: E731
    topics = {name: ("gauge", ["tenant", "topic"], join(words)) for name, words in
              re.findall(r'\{"\w+", "(millrace_lag_\w+)",\s*((?:"[^"]*"\s*)+),', text)}
    return topics | {name: (kind, [], join(words)) for name, kind, words in
                     re.findall(r'put_value\(out, "(millrace_lag_\w+)", "(\w+)",\s*((?:"[^"]*"\s*)+),', text)}


# ---- the page ----

def escape(text):
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def option_row(option, with_commands):
    name = f"[no-]{option['name']}" if option["kind"] == "MR_OPTION_BOOL" and option["flag only"] == "false" else option["name"]
    value = "" if option["value"] in ("NULL", "") else f" {option['value']}"
    meaning = escape(option["help"])
    if option["choices"] not in ("NULL", "", "auto"):
        meaning += ": " + ", ".join(f"`{choice}`" for choice in option["choices"].split("|"))
    middle = [", ".join(option["commands"])] if with_commands else []
    default = f"`{option['default']}`" if option["default"] and option["flag only"] == "false" else "none"
    return "| " + " | ".join([f"`--{name}{value}`", *middle, default, meaning]) + " |"


def metrics(text):
    """name: (kind, labels, help) of each metric of a page in Prometheus' format."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    kinds = dict(re.findall(r"^# TYPE (\S+) (.*)$", text, re.M))
    labels = {name: set() for name in kinds}
    for name, inside in re.findall(r"^(\w+)\{(.*)\} ", text, re.M):
        base = name if name in kinds else re.sub(r"_(bucket|sum|count)$", "", name)
        labels[base] |= set(re.findall(r'(\w+)="', inside)) - LABELS_LEFT_OUT
    return {name: (kind, sorted(labels[name]), helps[name]) for name, kind in kinds.items()}


def page(metrics_text, commands_text):
    """The whole page, from the text of /metrics and of `millrace help`."""
    lines = ["<!-- docker/reference.py writes this page. -->", "# Reference", "",
             "Made from the program. [Operating](operating.md#options) explains how options are set, and [tuning](tuning.md) when to change "
             "them.", "", "- [Commands](#commands) · [Options of a worker](#options-of-a-worker) · "
             "[Options of the other commands](#options-of-the-other-commands) · [Metrics](#metrics) · "
             "[Finish reasons and error codes](#finish-reasons-and-error-codes)", "",
             "## Commands", "", "| command | what it does |", "|---|---|"]
    lines += [f"| `millrace {name}` | {escape(text)} |" for name, text in re.findall(r"^  ([a-z]+) +(\S.*)$", commands_text, re.M)]
    rows = options()
    serving = [row for row in rows if "serve" in row["commands"] or row["commands"][0].startswith("every")]
    lines += ["", "## Options of a worker", "", "Those of `millrace serve`; `millrace check` takes the same.", "",
              "| option | default | meaning |", "|---|---|---|"]
    lines += [option_row(row, False) for row in serving]
    lines += ["", "## Options of the other commands", "", "Options of a worker that other commands take too are not repeated.", "",
              "| option | commands | default | meaning |", "|---|---|---|---|"]
    lines += [option_row(row, True) for row in rows if row not in serving]
    lines += ["", "## Metrics", "", "On the page `/metrics` of a worker. Names in `_total` are counters: use `rate(NAME[5m])`. "
              "`millrace_tier_*` exist with `--redis` only, and `millrace_trace_*` with `--trace-endpoint` only. "
              "[Alerts](operating.md#alerts) and [Reading the metrics](tuning.md#reading-the-metrics) say what to do.", "",
              "| metric | kind | labels | meaning |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {escape(text)} |"
              for name, (kind, labels, text) in metrics(metrics_text).items()]
    lines += ["", "On the page `/metrics` of `millrace lag --listen`; a metric is absent while its value is unknown:", "",
              "| metric | kind | labels | meaning |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {escape(text)} |"
              for name, (kind, labels, text) in lag_metrics().items()]
    reasons = codes(r'^    X\([A-Z_]+, "([a-z_]+)"\)', "#define MR_FINISH_LIST(X)")
    errors = codes(r'X\([A-Z_]+, [A-Z]+, "([a-z_]*)"', "#define MR_STATUS_LIST(X)")
    lines += ["", "## Finish reasons and error codes", "", "[Results](results.md#finish-reasons) explains each.", "",
              "Finish reasons: " + ", ".join(f"`{reason}`" for reason in reasons) + ".", "",
              "Error codes: " + ", ".join(f"`{code}`" for code in errors) + "."]
    return "\n".join(lines) + "\n"


# ---- a worker ----

def worker_metrics():
    """The text of /metrics of a worker that has answered a request."""
    environment = dict(os.environ, **EVERY_PART)
    broker = subprocess.Popen([BIN, "broker"], stdout=subprocess.PIPE, text=True)
    worker = None
    try:
        brokers = broker.stdout.readline().split()[1]
        model = next((DEPS / "model").glob("*.gguf"))
        worker = subprocess.Popen([BIN, "serve", "--model", model, "--brokers", brokers, "--log-format", "json"],
                                  stderr=subprocess.PIPE, text=True, env=environment)
        port = next(found[1] for line in worker.stderr if (found := re.search(r'"http_port":(\d+)', line)))
        subprocess.run([BIN, "send", "--brokers", brokers, "max_tokens=5", "Hello"], check=True, timeout=START_SECONDS_MAX,
                       capture_output=True)
        time.sleep(2)  # statistics of librdkafka come every second
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return answer.read().decode()
    finally:
        for process in (worker, broker):
            if process:
                process.kill()
                process.wait()


if __name__ == "__main__":
    commands = subprocess.run([BIN, "help"], capture_output=True, text=True, check=True).stdout
    PAGE.write_text(page(worker_metrics(), commands))
