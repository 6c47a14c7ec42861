#!/usr/bin/env python3
"""Measures the ceiling of the transport: a worker whose model costs nothing (build/bench_transport), so that only
Kafka, intake, scheduling, text and records cost time. Bar: 12 us of CPU time of the whole worker per token record.

Each of three loads gets a new worker. streams: as many token records as possible, from 64 sequences. paced: 32
sequences whose steps take 20 ms, as on a device, so that the few records of a step are sent at once. short: as many
requests as possible, without token records. Broker and reader share the machine's cores, so the throughputs are lower
bounds. The CPU times are those of the worker alone. bytes: the growth of the topics' logs on the disk (only with
--kafka)."""

import fleet

BAR_US = 12
PACED_US = 20000


def log_bytes(broker, name):
    """The bytes in the logs of the topics that a worker writes to; 0 with the embedded broker, which writes no files."""
    return sum(log.stat().st_size for log in broker.logs(f"{name}.*") if ".requests-" not in str(log))


def measure(options, broker, name, requests, tokens, *flags, step_us=0, sequences=64):
    environment = {"TRANSPORT_STEP_US": str(step_us)} if step_us else {}
    worker_flags = ("--prefix", name, "--group", name, "--max-sequences", sequences, "--kv-memory", "512MiB")
    with fleet.Worker(options, broker, *worker_flags, program=options.transport, environment=environment) as worker:
        before = worker.cpu_seconds()
        bench = fleet.Bench(options, "--brokers", broker.address, "--prefix", name, "--requests", requests,
                            "--prompt-tokens", 32, "--output-tokens", tokens, "--concurrency", 2 * sequences,
                            "--warmup", 0, "--timeout", "80s", *flags).wait(requests=requests)
        after, metrics, written = worker.cpu_seconds(), worker.metrics(), log_bytes(broker, name)
    records = int(metrics["millrace_token_records_total"])
    spent = {thread: 1e6 * (after[thread] - before.get(thread, 0.0)) / (records or requests) for thread in after}
    return {"requests": requests, "token_records": records, "requests_per_s": round(bench["request_throughput"], 1),
            "token_records_per_s": round(records / bench["duration"]),
            "written_bytes_per_s": round(written / bench["duration"]),
            "cpu_us_per_record" if records else "cpu_us_per_request": round(sum(spent.values()), 2),
            "cpu_us_by_thread": {thread: round(each, 2) for thread, each in sorted(spent.items()) if each >= 0.05}}


def main():
    parser = fleet.arguments(__doc__)
    parser.set_defaults(threads="1", dtype="auto")
    parser.add_argument("--transport", default=fleet.ROOT / "build/bench_transport")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--only", choices=("streams", "paced", "short"), help="one of the loads")
    options = parser.parse_args()
    loads = {"streams": lambda: measure(options, broker, "streams", options.requests, 256),
             "paced": lambda: measure(options, broker, "paced", 128, 128, step_us=PACED_US, sequences=32),
             "short": lambda: measure(options, broker, "short", 4 * options.requests, 1, "--no-stream")}
    with fleet.Broker(options) as broker:
        figures = {name: load() for name, load in loads.items() if options.only in (None, name)}
    fleet.report(options, "transport", {"bar_us": BAR_US, **figures})


if __name__ == "__main__":
    main()
