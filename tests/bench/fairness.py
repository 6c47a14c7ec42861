#!/usr/bin/env python3
"""Compares the wait of ten requests of one tenant while a thousand of another tenant are queued at the same worker with
their wait alone on half of the machine (half of the sequences, half of the threads). The wait is the time from sending
a request to its first token, as `millrace bench` measures it. It is measured twice: when both tenants start together,
and when the ten requests are sent some seconds after the thousand. Bar: at most twice the wait alone."""

import signal
import time

import fleet

PLACES = 8
TOPICS = ["--requests-topic", "a.requests,tenant=a", "--requests-topic", "b.requests,tenant=b"]


def bench(options, broker, topic, requests):
    return fleet.Bench(options, "--brokers", broker.address, "--requests-topic", topic, "--requests", requests,
                       "--prompt-tokens", 64, "--output-tokens", options.output_tokens, "--warmup", 0,
                       "--timeout", "240s")


def worker(options, broker, places, threads):
    command = fleet.argparse.Namespace(**{**vars(options), "threads": str(threads)})
    return fleet.Worker(command, broker, *TOPICS, "--max-sequences", places, "--session-timeout", "6s")


def alone(options):
    with fleet.Broker(options) as broker, worker(options, broker, PLACES // 2, max(int(options.threads) // 2, 1)):
        bench(options, broker, "b.requests", 1).wait()
        return bench(options, broker, "b.requests", options.few).wait()


def beside_a_flood(options, after_s):
    with fleet.Broker(options) as broker, worker(options, broker, PLACES, options.threads):
        bench(options, broker, "b.requests", 1).wait()
        flood = bench(options, broker, "a.requests", options.flood)
        time.sleep(after_s)
        figures = bench(options, broker, "b.requests", options.few).wait()
        flooding = flood.process.poll() is None
        flood.process.send_signal(signal.SIGINT)
        flood.process.communicate(timeout=30)
        if not flooding:
            raise RuntimeError("the flood ended before the few did: raise --flood")
        return figures


def main():
    parser = fleet.arguments(__doc__)
    parser.add_argument("--flood", type=int, default=1000)
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--output-tokens", type=int, default=32)
    options = parser.parse_args()
    half = alone(options)["mean_ttft_ms"]
    together = beside_a_flood(options, 0)["mean_ttft_ms"]
    later = beside_a_flood(options, 6)["mean_ttft_ms"]
    fleet.report(options, "fairness", {
        "flood": options.flood, "few": options.few, "output_tokens": options.output_tokens, "places": PLACES,
        "alone_on_half_ms": round(half, 1), "together_ms": round(together, 1), "later_ms": round(later, 1),
        "together_ratio": round(together / half, 2), "later_ratio": round(later / half, 2), "ratio_bar": 2})


if __name__ == "__main__":
    main()
