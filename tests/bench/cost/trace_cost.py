#!/usr/bin/env python3
"""Measures the cost of --trace-endpoint with every request sampled: the same streams through one worker without it and
one with it, in turns, over the embedded broker. Bar: 1 % of the throughput. Broker, reader and collector share the
cores, so the wall-clock time varies by more than the bar. `cpu` is the worker's CPU time per token, which is stable.
`tracer` is the CPU time per token of the thread that encodes and sends spans."""

import http.server
import statistics
import threading

import cost
import fleet  # cost sets the import path

BAR = 0.01


class Collector:
    """Accepts every body and counts the spans."""

    def __init__(self):
        self.spans = 0
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                collector.spans += self.rfile.read(int(self.headers["Content-Length"])).count(b'"spanId"')
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def rounds(options, broker, collector):
    def measure(variant):
        tok_s, cpu_us = cost.measure(options, broker, workers[variant], variant)
        return {"tok_s": tok_s, "cpu_us": sum(cpu_us.values()), "tracer_us": cpu_us.get("tracer", 0.0)}

    with cost.worker(options, broker, "without") as without, \
            cost.worker(options, broker, "with", "--trace-endpoint", collector.url) as traced:
        workers = {"without": without, "with": traced}
        yield from cost.rounds(options, workers, measure)


def main():
    options = cost.arguments(__doc__, tokens=64, repetitions=5).parse_args()
    collector = Collector()
    with fleet.Broker(options) as broker:
        all_rounds = list(rounds(options, broker, collector))
    if collector.spans < options.repetitions * options.requests * 5:
        raise RuntimeError(f"only {collector.spans} spans")
    costs = {"throughput": [1 - each["with"]["tok_s"] / each["without"]["tok_s"] for each in all_rounds],
             "cpu": [each["with"]["cpu_us"] / each["without"]["cpu_us"] - 1 for each in all_rounds],
             "tracer": [each["with"]["tracer_us"] / each["with"]["cpu_us"] for each in all_rounds]}
    fleet.report(options, "trace_cost", {
        "bar": BAR, "requests": options.requests, "output_tokens": options.tokens, "spans": collector.spans,
        "tok_s": {variant: [round(each[variant]["tok_s"]) for each in all_rounds] for variant in all_rounds[0]},
        **{f"cost_{name}": round(statistics.median(values), 5) for name, values in costs.items()},
        **{f"cost_{name}_all": [round(value, 4) for value in values] for name, values in costs.items()}})


if __name__ == "__main__":
    main()
