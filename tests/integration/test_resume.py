#!/usr/bin/env python3
"""Kills workers in the middle of answers, with Apache Kafka and Redis. The next worker must continue the answer,
readers must get one stream without a gap, and a request that crashed two workers must be dead-lettered, with and
without Redis. All scenarios run at the same time, each with its own workers.

    test_resume.py [--bars] [--tokens N] [SCENARIO...]

--bars: checks times too; run it on an otherwise idle machine."""

import argparse
import json
import re
import signal
import subprocess
import sys
import threading
import time

import rig

MODEL = rig.DEPS / "model/SmolLM2-135M-Instruct.Q4_1.gguf"
KEY = "1 " + "5a" * 32 + "\n"


class Fleet(rig.Fleet):
    def __init__(self, options, services, name, *flags):
        super().__init__(options, services, name, "--poll-interval-max", "30s", *flags, model=MODEL)

    def command(self, worker):
        """The default of --attempts-max."""
        words = super().command(worker)
        at = words.index("--attempts-max")
        return words[:at] + words[at + 2:]


class Reader:
    """Reads a topic in the background; a record is (broker time in ms, headers, value)."""

    def __init__(self, fleet, topic):
        self.records, self.changed = [], threading.Condition()
        self.process = rig.started(subprocess.Popen(
            ["kcat", "-C", "-u", "-q", "-b", fleet.services.brokers, "-t", f"{fleet.prefix}.{topic}", "-o", "beginning",
             "-X", "topic.metadata.refresh.interval.ms=500", "-X", "fetch.wait.max.ms=20", "-f", "%T\t%h\t%s\n"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            moment, headers, value = line.rstrip("\n").split("\t", 2)
            fields = dict(pair.split("=", 1) for pair in headers.split(",") if "=" in pair)
            with self.changed:
                self.records.append((int(moment), fields, json.loads(value) if value.startswith("{") else value))
                self.changed.notify_all()

    def wait(self, what, seconds, met):
        """Waits until met(records) is true; returns its value."""
        until = time.monotonic() + seconds
        with self.changed:
            while not (answer := met(self.records)):
                if not self.changed.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    raise AssertionError(f"{what}: not within {seconds} s ({len(self.records)} records)")
            return answer


class Scene:
    """Two workers with their topics and readers."""

    def __init__(self, options, services, name, *flags):
        self.options, self.name = options, name
        self.fleet = Fleet(options, services, name, *flags)
        self.fleet.add(2)
        self.tokens, self.results, self.dead = (Reader(self.fleet, topic) for topic in ("tokens", "results", "dlq"))
        self.row = {}

    def ask(self, id, tokens, **more):
        fields = {"id": id, "prompt": "Tell me the story of the old mill by the river.", "max_tokens": tokens,
                  "temperature": 0.8, "seed": 11, "ignore_eos": True} | more
        if "messages" in more:
            del fields["prompt"]
        subprocess.run([str(rig.TOOLS / "produce"), self.fleet.services.brokers, f"{self.fleet.prefix}.requests"],
                       input=f"{id}\t{json.dumps(fields)}\n", text=True, check=True)

    def wait_tokens(self, id, attempt, count, seconds=60):
        """Waits until this attempt has published the token at index count - 1."""
        return self.tokens.wait(f"{self.name}: token {count} of attempt {attempt} of {id}", seconds, lambda records: next(
            (record for record in records if record[2]["id"] == id and record[2]["attempt"] == attempt
             and record[2]["index"] + len(record[2]["token_ids"]) >= count), None))

    def kill_runner(self, headers):
        """Sends SIGKILL to the worker that wrote this record; returns the time, by the clock that the broker uses."""
        worker = next(worker for worker in self.fleet.workers if worker.name == headers["millrace-worker"])
        moment = time.time() * 1000
        worker.end(signal.SIGKILL)
        return worker, moment

    def result(self, id, seconds=60):
        return self.results.wait(f"{self.name}: result of {id}", seconds, lambda records: next(
            (record[2] for record in records if record[2]["id"] == id), None))

    def stream(self, id):
        """Assembles the stream like a client and asserts that no token is missing."""
        seen = []  # [(index, ids, text)] of the stream so far
        attempt, count, told = 0, 0, {}
        for moment, _, record in self.tokens.records:
            if record["id"] != id or record["attempt"] < attempt:
                continue
            index, ids = record["index"], record["token_ids"]
            if record["attempt"] > attempt:
                attempt = record["attempt"]
                begin = record.get("resumed_at", 0)
                assert begin == index if "resumed_at" in record else index == 0, f"{id}: begins at {index}: {record}"
                assert begin <= count, f"{id}: attempt {attempt} goes on at {begin}, {count} are published"
                told[attempt] = {"at": begin, "published": count, "moment": moment}
                kept = [piece for piece in seen if piece[0] < begin]
                told[attempt]["again"] = [token for piece in seen[len(kept):] for token in piece[1]]
                seen, count = kept, begin
            assert index == count, f"{id}: a gap: {count} is followed by {index}"
            if "again" in told[attempt]:
                before = told[attempt]["again"][index - told[attempt]["at"]:][:len(ids)]
                told[attempt].setdefault("same", True)
                told[attempt]["same"] &= ids[:len(before)] == before
            seen.append((index, ids, record["text"]))
            count += len(ids)
        return [token for piece in seen for token in piece[1]], "".join(piece[2] for piece in seen), told

    def assert_whole(self, result, tokens):
        """Checks that the answer is complete and equals the stream."""
        assert result["finish_reason"] == "length", result
        assert len(result["token_ids"]) == tokens and result["usage"]["completion_tokens"] == tokens, result["usage"]
        self.wait_tokens(result["id"], result["attempt"], tokens)  # each topic has its own reader
        ids, text, told = self.stream(result["id"])
        assert ids == result["token_ids"], f"{result['id']}: stream and result differ"
        assert text == result["text"], f"{result['id']}: texts differ"
        return told

    def lists_left(self, redis):
        """Checks that Redis has no resume data of answered requests."""
        left = subprocess.run(["redis-cli", "-u", redis, "--scan", "--pattern", "mr:p:*"], capture_output=True,
                              text=True, check=True).stdout.split()
        assert not left, f"{self.name}: left in Redis: {left}"
        return len(left)

    def close(self):
        self.fleet.close()
        assert not self.fleet.abnormal, self.fleet.abnormal


def crash(options, services, redis):
    """The worker of an answer is killed, and later the worker that continues the answer too."""
    key_file = services.folder / "keys"
    key_file.write_text(KEY)
    scene = Scene(options, services, "crash", "--redis", redis, "--redis-key-file", key_file, "--attempts-max", "3")
    n = options.tokens
    scene.ask("plain", 40, logprobs=2)
    plain = scene.result("plain")
    scene.ask("long", n, logprobs=2)
    first = scene.wait_tokens("long", 1, n // 2)
    victim, killed = scene.kill_runner(first[1])
    go_on = scene.wait_tokens("long", 2, n // 2)
    if not options.bars:
        second = scene.wait_tokens("long", 2, 3 * n // 4)
        scene.kill_runner(second[1])
        victim.start()
    result = scene.result("long", 90)
    told = scene.assert_whole(result, n)
    assert plain["token_ids"] == result["token_ids"][:40], "the same seed and prompt, and another beginning"
    assert len(result["logprobs"]) == n, len(result["logprobs"])
    log = "".join(worker.log.read_text() for worker in scene.fleet.workers)
    assert sorted(told) == ([1, 2] if options.bars else [1, 2, 3]), told
    published, at, again = told[2]["published"], told[2]["at"], len(told[2]["again"])
    behind = int(re.search(r'"attempt resumes".*"attempt":2,"kept_tokens":(\d+)', log)[1])
    drawn_again = max(0, published - behind)
    assert told[2]["same"], "what was published again is not the same"
    assert at > 0 and again <= published * 0.05, f"published again: {again} of {published}"
    assert drawn_again <= published * 0.05, f"drawn again: {drawn_again} of {published}"
    gap_ms = told[2]["moment"] - killed
    fresh = next(record for record in scene.tokens.records if record[2]["id"] == "long" and record[2]["attempt"] == 2
                 and record[2]["index"] + len(record[2]["token_ids"]) > published)
    scene.row = {"published": published, "kept": behind, "published again": again, "drawn again": drawn_again,
                 "kill to next record ms": round(gap_ms), "kill to next new token ms": round(fresh[0] - killed)}
    if options.bars:
        limit_ms = options.session * 1000 + 2000
        assert fresh[0] - killed <= limit_ms, f"{fresh[0] - killed:.0f} ms from kill to next token, {limit_ms} allowed"
    assert go_on[1]["millrace-attempt"] == "2", go_on
    scene.close()
    return scene.row | {"lists left": scene.lists_left(redis)}


def poison(options, services, name, *flags):
    """A request crashes its worker twice and is dead-lettered; a request that only waited is answered."""
    scene = Scene(options, services, name, *flags)
    scene.ask("bad", 2000, metadata={"mine": 1})
    for attempt in (1, 2):
        runs = scene.wait_tokens("bad", attempt, 20)
        victim, _ = scene.kill_runner(runs[1])
        victim.start()
    result = scene.result("bad", 90)
    assert result["finish_reason"] == "rejected" and result["error"]["code"] == "poison", result
    assert result["attempt"] == 3 and result["metadata"] == {"mine": 1}, result
    dead = scene.dead.wait(f"{name}: the dead letter", 20, lambda records: records and records[0])
    assert dead[2]["id"] == "bad" and dead[2]["max_tokens"] == 2000, dead
    assert "poison" in json.dumps(dead[1]) or "workers crashed" in json.dumps(dead[1]), dead[1]
    attempts = {record[2]["attempt"] for record in scene.tokens.records if record[2]["id"] == "bad"}
    assert attempts == {1, 2}, attempts
    scene.ask("good", 10)
    assert scene.result("good")["finish_reason"] == "length"
    scene.close()
    return {"attempts": sorted(attempts)}


def poison_redis(options, services, redis):
    return poison(options, services, "poison-redis", "--redis", redis)


def poison_plain(options, services, redis):
    return poison(options, services, "poison-plain")


def forgotten(options, services, redis):
    """Redis loses all data during an answer: after a crash the answer starts over, and no request is lost."""
    scene = Scene(options, services, "forgotten", "--redis", redis)
    scene.ask("long", 150)
    scene.wait_tokens("long", 1, 30)
    subprocess.run(["redis-cli", "-u", redis, "FLUSHDB"], check=True, stdout=subprocess.DEVNULL)
    first = scene.wait_tokens("long", 1, 70)
    scene.kill_runner(first[1])
    told = scene.assert_whole(scene.result("long"), 150)
    assert told[2]["at"] == 0, told
    scene.close()
    return {"began again at": 0}


def handed_over(options, services, redis):
    """A worker drains during an answer. That does not count as a crash, and the next worker continues the answer."""
    scene = Scene(options, services, "handed-over", "--redis", redis, "--drain-timeout", "0s")
    tokens = 1800  # enough that the answer runs on at the third drain, however fast the machine is
    scene.ask("long", tokens)
    for attempt, count in ((1, 50), (2, 1), (3, 1)):
        runs = scene.wait_tokens("long", attempt, count)
        worker = next(worker for worker in scene.fleet.workers if worker.name == runs[1]["millrace-worker"])
        worker.end(signal.SIGTERM)
        worker.start()
        worker.wait_for('"assigned ')
    told = scene.assert_whole(scene.result("long"), tokens)
    later = sorted(told)[1:]
    assert len(later) >= 3 and all(told[attempt]["at"] > 0 for attempt in later), told
    scene.close()
    return {"went on at": [told[attempt]["at"] for attempt in later], "lists left": scene.lists_left(redis)}


def constrained(options, services, redis):
    """The worker of a constrained answer is killed. The next one continues it, and the whole answer obeys the
    schema."""
    names = ["alpha", "beta", "gamma", "a longer name"]
    schema = {"type": "object", "required": ["names", "end"], "additionalProperties": False, "properties": {
        "names": {"type": "array", "items": {"enum": names}, "minItems": 70, "maxItems": 80}, "end": {"const": "of it"}}}
    scene = Scene(options, services, "constrained", "--redis", redis)
    scene.ask("json", 1500, ignore_eos=False, response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    first = scene.wait_tokens("json", 1, 60)
    scene.kill_runner(first[1])
    result = scene.result("json", 90)
    assert result["finish_reason"] == "eos" and result["attempt"] == 2, result
    answer = json.loads(result["text"])
    assert list(answer) == ["names", "end"] and answer["end"] == "of it", answer
    assert 70 <= len(answer["names"]) <= 80 and set(answer["names"]) <= set(names), answer
    scene.wait_tokens("json", 2, len(result["token_ids"]))
    ids, text, told = scene.stream("json")
    assert ids == result["token_ids"] and text == result["text"], "stream and result differ"
    assert told[2]["at"] > 0 and told[2]["same"], told
    scene.close()
    return {"went on at": told[2]["at"], "tokens": len(ids), "lists left": scene.lists_left(redis)}


def called(options, services, redis):
    """The worker of an answer with a tool call is killed. The next one continues the call, whose arguments obey the
    tool's schema. The joined deltas of both attempts equal the call in the result."""
    words = ["mill", "river", "wheel"]
    tool = {"type": "function", "function": {"name": "tell", "parameters": {
        "type": "object", "required": ["words"], "additionalProperties": False, "properties": {
            "words": {"type": "array", "items": {"enum": words}, "minItems": 70, "maxItems": 80}}}}}
    scene = Scene(options, services, "called", "--redis", redis)
    scene.ask("call", 1500, ignore_eos=False, messages=[{"role": "user", "content": "Tell me of the old mill."}],
              tools=[tool], tool_choice="required", parallel_tool_calls=False)
    first = scene.wait_tokens("call", 1, 60)
    scene.kill_runner(first[1])
    result = scene.result("call", 90)
    assert result["finish_reason"] == "eos" and result["attempt"] == 2, result
    assert result["stop_reason"] == "tool_calls" and len(result["tool_calls"]) == 1, result
    call = result["tool_calls"][0]["function"]
    arguments = json.loads(call["arguments"])
    assert call["name"] == "tell" and list(arguments) == ["words"], call
    assert 70 <= len(arguments["words"]) <= 80 and set(arguments["words"]) <= set(words), arguments
    scene.wait_tokens("call", 2, len(result["token_ids"]))
    ids, text, told = scene.stream("call")
    assert ids == result["token_ids"] and text == result["text"], "stream and result differ"
    assert told[2]["at"] > 0 and told[2]["same"], told
    records = [record for _, _, record in scene.tokens.records if record["id"] == "call"]
    pieces = "".join(delta["function"]["arguments"] for record in records
                     if record["attempt"] == 2 or record["index"] < told[2]["at"]
                     for delta in record.get("tool_calls", []))
    assert pieces == call["arguments"], "the deltas of the call are not its arguments"
    scene.close()
    return {"went on at": told[2]["at"], "tokens": len(ids), "lists left": scene.lists_left(redis)}


SCENARIOS = {"crash": crash, "poison-redis": poison_redis, "poison-plain": poison_plain, "forgotten": forgotten,
             "handed-over": handed_over, "constrained": constrained, "called": called}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--logs", help="keep the workers' logs in this folder")
    parser.set_defaults(**{**vars(rig.OPTIONS), "model": MODEL})
    return parser.parse_args()


def main():
    options = arguments()
    names = options.scenarios or (["crash"] if options.bars else list(SCENARIOS))
    failures = []

    def play(name):
        try:
            database = list(SCENARIOS).index(name)
            row = SCENARIOS[name](options, services, f"{redis[:-1]}{database}")
            print(f"{name}: {json.dumps(row)}", flush=True)
        except BaseException as error:  # the main thread sets the exit code
            failures.append(f"{name}: {type(error).__name__}: {error}")

    with rig.Services(options.logs) as services:
        redis = services.start_redis()
        threads = [threading.Thread(target=play, args=(name,), daemon=True) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
