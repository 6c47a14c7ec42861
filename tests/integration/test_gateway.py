#!/usr/bin/env python3
"""millrace gateway before a worker with the small real model: plain answers and streams, the other endpoints, errors with
their statuses, keys and their limits, a client that leaves, and OpenAI's Python client where it is installed."""

import contextlib
import hashlib
import http.client
import json
import signal
import subprocess
import sys
import tempfile
import time

from embedded_rig import BINARY, Broker, Worker, wait_until

MESSAGES = [{"role": "user", "content": "Hi"}]


class Gateway:
    """A gateway that is ready and ends with the stack."""

    def __init__(self, stack, broker, *options):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([BINARY, "gateway", "--brokers", broker.address, "--listen", "127.0.0.1:0", *options],
                                        stderr=self.log)
        stack.callback(self.end)
        self.port = wait_until("gateway ready", self.find_port)

    def find_port(self):
        self.log.seek(0)
        for line in self.log.read().decode().splitlines():
            if '"gateway ready"' in line:
                return int(json.loads(line)["port"])
        assert self.process.poll() is None
        return None

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0

    def open(self, method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, body=text, headers=dict(headers))
        return connection, connection.getresponse()

    def call(self, path, body=None, method=None, headers=()):
        """The response, and its body as JSON, or as text if it is none."""
        connection, response = self.open(method or ("GET" if body is None else "POST"), path, body, headers)
        with contextlib.closing(connection):
            text = response.read().decode()
        with contextlib.suppress(ValueError):
            return response, json.loads(text)
        return response, text

    def stream(self, path, body):
        """The JSON values of the events; the last line of a stream of chunks is checked."""
        response, text = self.call(path, {**body, "stream": True})
        assert response.status == 200 and response.headers["content-type"].startswith("text/event-stream"), text
        assert response.headers["x-accel-buffering"] == "no"
        data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        if path != "/v1/responses":
            assert data.pop() == "[DONE]"
        return [json.loads(line) for line in data]

    def metric(self, name):
        page = self.call("/metrics")[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name))


def check_error(answer, status, code, param=None):
    response, body = answer
    assert response.status == status, (response.status, body)
    assert set(body["error"]) == {"message", "type", "param", "code"}, body
    assert body["error"]["code"] == code and body["error"]["param"] == param, body


def check_answers(gateway):
    asked = {"messages": MESSAGES, "max_tokens": 8, "temperature": 0}
    response, plain = gateway.call("/v1/chat/completions", asked)
    assert response.status == 200 and response.headers["x-request-id"] in plain["id"], plain
    choice = plain["choices"][0]
    assert choice["message"]["role"] == "assistant" and choice["finish_reason"] == "length", plain
    assert plain["usage"]["completion_tokens"] == 8

    chunks = gateway.stream("/v1/chat/completions", {**asked, "stream_options": {"include_usage": True}})
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1]) == choice["message"]["content"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 8
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1

    several = gateway.stream("/v1/chat/completions", {**asked, "n": 2, "logprobs": True, "top_logprobs": 1})
    assert {c["choices"][0]["index"] for c in several} == {0, 1}
    assert any(c["choices"][0]["logprobs"] for c in several)

    text = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
    whole = gateway.call("/v1/completions", text)[1]["choices"][0]["text"]
    assert "".join(c["choices"][0]["text"] for c in gateway.stream("/v1/completions", text)) == whole

    own = {"input": "Hi", "max_output_tokens": 8, "temperature": 0}
    answer = gateway.call("/v1/responses", own)[1]
    events = gateway.stream("/v1/responses", own)
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created" and events[-1]["type"] == "response.incomplete"
    assert "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta") \
        == answer["output"][0]["content"][0]["text"] == choice["message"]["content"]

    vector = gateway.call("/v1/embeddings", {"input": "Hi", "encoding_format": "base64"})[1]
    assert isinstance(vector["data"][0]["embedding"], str), vector
    models = gateway.call("/v1/models")[1]["data"]
    assert [m["id"] for m in models] == [plain["model"]]
    assert gateway.call(f"/v1/models/{plain['model']}")[1]["id"] == plain["model"]
    assert "<html" in gateway.call("/")[1]


def check_errors(gateway):
    path = "/v1/chat/completions"
    check_error(gateway.call(path, "{"), 400, "invalid_request")
    check_error(gateway.call(path, {"messages": MESSAGES, "temperature": -1}), 400, "invalid_request", "temperature")
    check_error(gateway.call(path, {"messages": MESSAGES, "temperature": -1, "stream": True}), 400, "invalid_request",
                "temperature")
    check_error(gateway.call(path, {"messages": MESSAGES, "model": "no"}), 404, "model_not_found")
    check_error(gateway.call("/v1/models/no"), 404, "model_not_found")
    check_error(gateway.call("/v1/nothing", {}), 404, "invalid_request")
    check_error(gateway.call(path, method="GET"), 405, "invalid_request")
    check_error(gateway.call(path, {"messages": MESSAGES, "user": "x" * (3 << 20)}), 413, "record_too_large")
    late = {"messages": MESSAGES, "max_tokens": 2000, "ignore_eos": True}
    answer = gateway.call(path, late, headers={"x-timeout-ms": "300"})
    check_error(answer, 504, "deadline_exceeded")
    assert answer[0].headers["x-should-retry"] == "false"


def check_leaving(gateway):
    """A client that closes its connection cancels its request, streamed or not."""
    for streams in (True, False):
        before = gateway.metric("millrace_gateway_requests_cancelled_total")
        body = json.dumps({"messages": MESSAGES, "max_tokens": 2000, "ignore_eos": True, "stream": streams})
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        connection.request("POST", "/v1/chat/completions", body=body)
        if streams:
            assert connection.getresponse().readline().startswith(b"data: ")
        else:
            wait_until("in flight", lambda: gateway.metric("millrace_gateway_calls_in_flight") == 1)
        connection.close()
        wait_until("cancelled", lambda: gateway.metric("millrace_gateway_requests_cancelled_total") == before + 1)
        wait_until("idle", lambda: gateway.metric("millrace_gateway_calls_in_flight") == 0)


def check_keys(stack, broker, served):
    keys = stack.enter_context(tempfile.NamedTemporaryFile("w"))
    digest = hashlib.sha256(b"secret").hexdigest()
    keys.write(f"alice sha256:{digest} requests=2 models=other\n")
    keys.flush()
    gateway = Gateway(stack, broker, "--key-file", keys.name)
    body = {"messages": MESSAGES, "max_tokens": 1}
    known = {"authorization": "Bearer secret"}
    wait_until("healthy", lambda: gateway.call("/health")[0].status == 200)
    check_error(gateway.call("/v1/chat/completions", body), 401, "invalid_request")
    check_error(gateway.call("/v1/chat/completions", body, headers={"authorization": "Bearer other"}), 401, "invalid_request")
    check_error(gateway.call("/v1/chat/completions", {**body, "model": "m"}, headers=known), 404, "model_not_found")
    check_error(gateway.call("/v1/chat/completions", body, headers=known), 404, "model_not_found")
    keys.seek(0)
    keys.write(f"alice sha256:{digest} requests=2 models=other,{served}\n")
    keys.flush()
    gateway.process.send_signal(signal.SIGHUP)
    body["model"] = served
    wait_until("the new list", lambda: gateway.call("/v1/chat/completions", body, headers=known)[0].status == 200)
    assert gateway.call("/v1/chat/completions", body, headers=known)[0].status == 200
    answer = gateway.call("/v1/chat/completions", body, headers=known)
    check_error(answer, 429, "rate_limit_exceeded")
    assert 1 <= int(answer[0].headers["retry-after"]) <= 30
    open_to_all = subprocess.run([BINARY, "gateway", "--brokers", broker.address, "--listen", "0.0.0.0:0"], timeout=60,
                                 capture_output=True, text=True)
    assert open_to_all.returncode == 2 and "--key-file" in open_to_all.stderr, open_to_all.stderr


def check_client(gateway):
    """OpenAI's Python client, unchanged but for the base URL."""
    try:
        import openai
    except ImportError:
        print("OpenAI's client is not installed: not tried")
        return
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    asked = {"model": model, "messages": MESSAGES, "max_tokens": 8, "temperature": 0}
    plain = client.chat.completions.create(**asked)
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        assert stream.current_completion_snapshot.choices[0].message.content == plain.choices[0].message.content
    schema = {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {"enum": [1, 2]}}}
    answer = client.chat.completions.create(**{**asked, "max_tokens": 40}, response_format={
        "type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": schema}})
    assert json.loads(answer.choices[0].message.content)["a"] in (1, 2)
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    called = client.chat.completions.create(**{**asked, "max_tokens": 60}, tools=[tool], tool_choice="required")
    assert called.choices[0].finish_reason == "tool_calls"
    assert json.loads(called.choices[0].message.tool_calls[0].function.arguments)["a"] in (1, 2)
    with client.chat.completions.stream(**{**asked, "max_tokens": 60}, tools=[tool], tool_choice="required") as stream:
        for _ in stream:
            pass
        streamed = stream.current_completion_snapshot.choices[0]
    assert streamed.message.tool_calls[0].function.arguments == called.choices[0].message.tool_calls[0].function.arguments
    assert len(client.chat.completions.create(**asked, n=2, stop=["x"]).choices) == 2
    assert len(client.embeddings.create(model=model, input="Hi").data[0].embedding) > 100
    assert client.responses.create(model=model, input="Hi", max_output_tokens=16).output_text
    try:
        client.chat.completions.create(**{**asked, "model": "no"})
        raise AssertionError("no error")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"


def main():
    with contextlib.ExitStack() as stack:
        broker = Broker(stack)
        empty = Gateway(stack, broker)
        check_error(empty.call("/health"), 503, "internal")
        check_error(empty.call("/v1/chat/completions", {"messages": MESSAGES}), 503, "internal")
        Worker(stack, broker, "--kv-memory", "256MiB")
        gateway = Gateway(stack, broker)
        wait_until("healthy", lambda: gateway.call("/health")[0].status == 200)
        for check in (check_answers, check_errors, check_leaving, check_client):
            began = time.monotonic()
            check(gateway)
            print(f"{check.__name__}: {time.monotonic() - began:.1f} s")
        check_keys(stack, broker, gateway.call("/v1/models")[1]["data"][0]["id"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
