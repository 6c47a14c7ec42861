#!/usr/bin/env python3
"""LoRA adapters that are added, replaced and removed while requests for them arrive: every request is answered, by a version of
its adapter that was in the folder, and no cached prefix of another adapter or version changes an answer.

Needs what docker/deps.sh test installs (confluent_kafka in .deps/python). --seconds N: length of the load, 15 by default."""

import argparse
import contextlib
import json
import pathlib
import random
import shutil
import tempfile
import time

import embedded_rig
from embedded_rig import REQUESTS, ROOT, Broker, Worker, confluent_kafka

NAME = "llama3_rope_sharded"
GOLDEN = ROOT / "tests/golden/adapters" / NAME
# The versions of the adapters: a golden adapter with another alpha computes something else.
VERSIONS = {"one": [("a00", 9), ("a00", -9)], "two": [("a00", 30), ("a00", -30)], "three": [("a01", 40), ("a01", -40)]}
PROMPT = "The same words for all adapters, so that a shared prefix would be found. " * 4
WAIT_SECONDS = 60


def put(folder, name, version):
    """Moves a finished adapter into place."""
    golden, alpha = VERSIONS[name][version]
    made, place = pathlib.Path(tempfile.mkdtemp(dir=folder.parent)), folder / name
    shutil.copy(GOLDEN / golden / "adapter_model.safetensors", made)
    config = json.loads((GOLDEN / golden / "adapter_config.json").read_text())
    config.update(lora_alpha=alpha, alpha_pattern={})
    (made / "adapter_config.json").write_text(json.dumps(config))
    shutil.rmtree(place, ignore_errors=True)
    made.rename(place)


class Client:
    """Sends requests and collects their results."""

    def __init__(self, stack, broker):
        self.broker, self.sent, self.results = broker, {}, {}
        self.consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": "t",
                                                  "auto.offset.reset": "earliest"})
        stack.callback(self.consumer.close)
        self.consumer.subscribe(["millrace.results"])

    def send(self, model):
        name = f"r{len(self.sent)}"
        self.sent[name] = model
        body = {"id": name, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True, "stream": False}
        self.broker.send(REQUESTS, json.dumps({**body, **({"model": model} if model else {})}), key=name)
        return name

    def poll(self, seconds):
        record = self.consumer.poll(seconds)
        if record is None or record.error():
            return
        value = json.loads(record.value())
        assert value["id"] not in self.results, f"a second result: {value}"
        self.results[value["id"]] = value

    def answer(self, model):
        name, end = self.send(model), time.monotonic() + WAIT_SECONDS
        while name not in self.results:
            assert time.monotonic() < end, f"no result of {name}"
            self.poll(0.1)
        return self.results[name]


def text_of(result):
    return result.get("text") if result["finish_reason"] == "length" else None


def learn(client, folder):
    """The text of the base and of each version, each served alone."""
    texts = {None: {text_of(client.answer(None))}}
    for name, versions in VERSIONS.items():
        texts[name] = set()
        for version in range(len(versions)):
            put(folder, name, version)
            end = time.monotonic() + WAIT_SECONDS
            while (text := text_of(client.answer(name))) is None or text in texts[name]:
                assert time.monotonic() < end, f"{name} {version} is not served, or answers as another version"
                time.sleep(0.5)
            texts[name].add(text)
    known = [text for found in texts.values() for text in found]
    assert len(set(known)) == len(known) == 1 + sum(map(len, VERSIONS.values())), f"equal texts: {texts}"
    return texts


def load(client, folder, seconds):
    rng, end, change = random.Random(1), time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        if time.monotonic() >= change:
            name = rng.choice(list(VERSIONS))
            if rng.random() < 0.3:
                shutil.rmtree(folder / name, ignore_errors=True)
            else:
                put(folder, name, rng.randrange(2))
            change = time.monotonic() + 1.5
        client.send(rng.choice([None, *VERSIONS]))
        client.poll(0.02)
    end = time.monotonic() + WAIT_SECONDS
    while len(client.results) < len(client.sent):
        assert time.monotonic() < end, f"{len(client.sent) - len(client.results)} requests have no result"
        client.poll(0.5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=15)
    args = parser.parse_args()
    embedded_rig.MODEL = ROOT / "tests/golden/models" / NAME
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "adapters"
        folder.mkdir()
        broker = Broker(stack)
        worker = Worker(stack, broker, "--adapters", folder, "--dtype", "fp32", "--model-name", "base")
        client = Client(stack, broker)
        texts = learn(client, folder)
        load(client, folder, args.seconds)
        answered = refused = 0
        for name, result in client.results.items():
            model = client.sent[name]
            if result["finish_reason"] == "rejected":
                assert model and result["error"]["code"] == "model_not_found", result
                refused += 1
                continue
            assert text_of(result) in texts[model], f"{model} answered {result}, not one of {texts[model]}"
            assert result["model"] == (model or "base"), result
            answered += 1
        series = worker.series()
        assert series["millrace_adapter_loads_total"] >= len(VERSIONS), series
        assert answered > refused, f"{answered} answered, {refused} rejected"
        print(f"{answered} requests answered, {refused} rejected after their adapter was removed, "
              f"{series['millrace_adapter_loads_total']:.0f} loads")


if __name__ == "__main__":
    main()
