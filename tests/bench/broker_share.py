#!/usr/bin/env python3
"""Compares the throughput through Kafka with that of the engine alone: the same requests (32 to 512 prompt and 64 output
tokens, all sent at once) through `millrace broker` and `millrace serve`, and through `millrace bench --engine`, in turns.
Bars: at least 95 % of the throughput of the engine alone; token records are in the producer's queue within 5 ms after
the step."""

import fleet


def through_broker(options, requests):
    with fleet.Broker(options) as broker, fleet.Worker(options, broker) as worker:
        figures = fleet.Bench(options, "--brokers", broker.address, "--mix", "--requests", requests, "--warmup", 2,
                              "--timeout", "300s").wait(requests=requests)
        return figures, worker.metrics()


def engine_alone(options, requests):
    figures = fleet.Bench(options, "--engine", "--mix", "--requests", requests, "--repetitions", 1, "--model",
                          options.model, "--dtype", options.dtype, "--threads", options.threads).wait()
    return min(test["best"] for test in figures["tests"])


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--requests", type=int, default=200)
    options = parser.parse_args()
    alone, fleets = [], []
    for _ in range(max(options.repetitions, 1)):
        alone.append(engine_alone(options, options.requests))
        fleets.append(through_broker(options, options.requests))
    figures, metrics = min(fleets, key=lambda pair: pair[0]["duration"])
    tokens = options.requests * 64
    delay = "millrace_publish_delay_seconds"
    records = metrics[delay + "_count"]
    fleet.report(options, "broker_share", {
        "requests": options.requests, "engine_s": round(min(alone), 3), "engine_s_all": [round(s, 3) for s in alone],
        "broker_s": round(figures["duration"], 3), "broker_s_all": [round(f["duration"], 3) for f, _ in fleets],
        "engine_tok_s": round(tokens / min(alone), 1), "broker_tok_s": round(tokens / figures["duration"], 1),
        "share": round(min(alone) / figures["duration"], 4), "share_bar": 0.95,
        "median_ttft_ms": round(figures["median_ttft_ms"], 1), "p99_itl_ms": round(figures["p99_itl_ms"], 1),
        "publish_delay_mean_ms": round(metrics[delay + "_sum"] / records * 1000, 3),
        "publish_delay_within_5_ms": round(metrics[delay + '_bucket{le="0.005"}'] / records, 4)})


if __name__ == "__main__":
    main()
