#!/usr/bin/env python3
"""Runs promtool on docker/prometheus/rules.yaml: the file is valid; each alert is silent for a healthy fleet and fires,
with its labels and texts, on its series in CASES. Then promtool parses every expression of the dashboard.

Needs the packages of docker/deps.sh test (promtool; ruamel.yaml in .deps/python)."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEPS = pathlib.Path(os.environ.get("MILLRACE_DEPS", ROOT / ".deps"))
sys.path.insert(0, str(DEPS / "python"))

from ruamel.yaml import YAML  # noqa: E402

RULES = ROOT / "docker/prometheus/rules.yaml"
DASHBOARD = ROOT / "docker/grafana/millrace.json"

WORKER = 'job="millrace",instance="a"'
FINISHED = "millrace_requests_finished_total"
FIRST = "millrace_time_to_first_token_seconds_bucket"

# One value a minute: a+bxN counts up, cxN stays, _xN is a missing value. No alert fires at any minute of the hour.
HEALTHY = {
    f"millrace_ready{{{WORKER}}}": "1x60",
    'millrace_lag_up{job="millrace",instance="lag"}': "1x30 0x3 1x30",
    f"millrace_consumer_lag{{{WORKER}}}": "0x20 50 30 10 0x40",
    f"millrace_commit_lag_records{{{WORKER}}}": "3x60",
    f"millrace_requests_running{{{WORKER}}}": "2x60",
    f'{FINISHED}{{{WORKER},topic="t",reason="eos",code=""}}': "0+10x60",
    f'{FINISHED}{{{WORKER},topic="t",reason="deadline",code="deadline_exceeded"}}': "0x30 1x30",
    f'{FINISHED}{{{WORKER},topic="t",reason="rejected",code="poison"}}': "0x60",
    f"millrace_dead_letters_total{{{WORKER}}}": "0x60",
    f'{FIRST}{{{WORKER},topic="t",from="record",le="1"}}': "0+10x60",
    f'{FIRST}{{{WORKER},topic="t",from="record",le="+Inf"}}': "0+10x60",
    f"millrace_tier_up{{{WORKER}}}": "1x30 0x3 1x30",
    f"millrace_redeliveries_total{{{WORKER}}}": "0x60",
    f"process_start_time_seconds{{{WORKER}}}": "0x60",
    f"millrace_build_info{{{WORKER}}}": "1x60",
    f"millrace_transaction_age_seconds{{{WORKER}}}": "0 1 0x58",
}

# Alert: the minute at which it fires, its labels other than severity, and the series that replace those of HEALTHY.
# Alerts with `for` are silent in the minute before it has passed.
CASES = {
    "MillraceNoWorkerReady": (23, {}, {f"millrace_ready{{{WORKER}}}": "1x20 0x40"}),
    "MillraceLagGrows": (40, {}, {f"millrace_consumer_lag{{{WORKER}}}": "0x10 10+10x50"}),
    "MillraceLagUnknown": (26, {"job": "millrace", "instance": "lag"}, {'millrace_lag_up{job="millrace",instance="lag"}': "1x20 0x40"}),
    "MillraceCommitsStandStill": (31, {}, {f"millrace_requests_running{{{WORKER}}}": "2x20 0x40"}),
    "MillraceInternalErrors": (
        32, {"topic": "t"}, {f'{FINISHED}{{{WORKER},topic="t",reason="rejected",code="poison"}}': "0x30 1x30"}),
    "MillraceDeadLetters": (32, {"job": "millrace", "instance": "a"},
                            {f"millrace_dead_letters_total{{{WORKER}}}": "0x30 2x30"}),
    "MillraceDeadlinesMissed": (
        50, {"topic": "t"}, {f'{FINISHED}{{{WORKER},topic="t",reason="deadline",code="deadline_exceeded"}}': "0+1x60"}),
    "MillraceSlowFirstToken": (50, {"topic": "t"}, {
        f'{FIRST}{{{WORKER},topic="t",from="record",le="1"}}': "0x60",
        f'{FIRST}{{{WORKER},topic="t",from="record",le="10"}}': "0x60",
        f'{FIRST}{{{WORKER},topic="t",from="record",le="30"}}': "0+10x60"}),
    "MillraceRedisAway": (26, {"job": "millrace", "instance": "a"}, {f"millrace_tier_up{{{WORKER}}}": "1x20 0x40"}),
    "MillraceWorkersCrash": (33, {}, {  # the worker that takes the partition over has another address
        'millrace_redeliveries_total{job="millrace",instance="b"}': "_x30 1x30",
        'process_start_time_seconds{job="millrace",instance="b"}': "_x30 1800x30",
        'millrace_build_info{job="millrace",instance="b"}': "_x30 1x30"}),
    "MillraceTransactionHangs": (23, {"job": "millrace", "instance": "a"},
                                 {f"millrace_transaction_age_seconds{{{WORKER}}}": "0x20 20+60x40"}),
}


def promtool(*words):
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, f"promtool {words[:2]}:\n{done.stdout}{done.stderr}"


def series_of(changed):
    return [{"series": name, "values": values} for name, values in (HEALTHY | changed).items()]


def expected(rule, labels):
    """The expected alert, with the labels in its texts."""
    def fill(text):
        return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
    return {"exp_labels": labels | rule["labels"],
            "exp_annotations": {name: fill(text) for name, text in rule["annotations"].items()}}


def check_alerts(folder):
    groups = YAML(typ="safe", pure=True).load(RULES)["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    assert set(rules) == set(CASES), f"no case for {set(rules) ^ set(CASES)}"
    silent = [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []}
              for name in rules for minute in range(1, 60)]
    tests = [{"interval": "1m", "input_series": series_of({}), "alert_rule_test": silent},
             {"interval": "1m", "input_series": [], "alert_rule_test": [  # no worker at all
                 {"eval_time": "3m", "alertname": "MillraceNoWorkerReady",
                  "exp_alerts": [expected(rules["MillraceNoWorkerReady"], {})]}]}]
    for name, (minute, labels, changed) in CASES.items():
        tests.append({"interval": "1m", "input_series": series_of(changed), "alert_rule_test": [
            {"eval_time": "5m", "alertname": name, "exp_alerts": []},
            {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [expected(rules[name], labels)]}]})
    path = folder / "tests.yaml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", path)
    return len(rules)


def check_dashboard(folder):
    """Replaces Grafana's variables by values, as Grafana does."""
    expressions = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"]
                   for target in panel.get("targets", [])]
    filled = [re.sub(r"\$__rate_interval|\$__interval|\$__range", "5m", text) for text in expressions]
    rules = [{"record": f"panel:{number}", "expr": re.sub(r"\$\{?\w+(:\w+)?\}?", ".*", text)}
             for number, text in enumerate(filled)]
    path = folder / "dashboard.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", path)
    return len(rules)


def main():
    promtool("check", "rules", RULES)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print(f"{check_alerts(folder)} alerts fire and are silent; {check_dashboard(folder)} panels have valid expressions")


if __name__ == "__main__":
    main()
