#!/usr/bin/env python3
"""Measures the page /metrics of a worker while it rejects requests of 20 tenants as fast as it can: the size of the
page, and the time of a GET. Bars: 10,000 rejections a second, 1 MB, 50 ms.

All requests are in the broker before the worker starts (with --kafka in Apache Kafka, else in the embedded broker,
which keeps 5 MiB a partition). They are rejected for five reasons. There are 20 GETs a second, one after the other.
Only those between the first and the last rejection count. Broker, worker and this program share the machine's cores."""

import http.client
import statistics
import subprocess
import time

import fleet

TENANTS = 20
BYTES_MAX, PAGE_MS_MAX, REFUSALS_PER_S = 1_000_000, 50, 10_000
REFUSED = ("{", '{"prompt":7}', '{"prompt":""}', '{"prompt":"x","model":"y"}', '{"prompt":"x","max_tokens":-1}')
FINISHED = b"millrace_requests_finished_total{"


def publish(options, broker, topics):
    """Publishes the requests, an equal number to each topic."""
    for topic in topics:
        lines = "".join(f"{topic}-{n}\t{REFUSED[n % len(REFUSED)]}\n" for n in range(options.requests // TENANTS))
        subprocess.run([fleet.ROOT / "build/produce", broker.address, topic], input=lines, text=True, check=True)


def ended(page):
    return sum(float(line.rsplit(b" ", 1)[1]) for line in page.splitlines() if line.startswith(FINISHED))


def get(address):
    """One page, and the milliseconds from the request to the last byte of the page. The time to connect is not
    included."""
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.connect()
    began = time.monotonic()
    connection.request("GET", "/metrics")
    page = connection.getresponse().read()
    took = 1000 * (time.monotonic() - began)
    connection.close()
    return page, took


def measure(options, worker):
    pages, counts, until = [], [], time.monotonic() + 80
    while time.monotonic() < until and (not counts or counts[-1][1] < options.requests):
        page, took = get(worker.http)
        count = ended(page)
        if counts or count:
            counts.append((time.monotonic(), count))
            pages.append((took, len(page)))
        time.sleep(0.05)
    assert counts and counts[-1][1] == options.requests, f"{counts[-1:]} of {options.requests} are refused"
    (first_s, first), (last_s, last) = counts[0], counts[-1]
    times = sorted(took for took, _ in pages)
    return {"refusals_per_s": round((last - first) / (last_s - first_s)), "pages": len(pages),
            "page_bytes_max": max(size for _, size in pages), "page_ms_median": round(statistics.median(times), 1),
            "page_ms_p99": round(fleet.percentile(times, 0.99), 1), "page_ms_max": round(times[-1], 1)}


def main():
    parser = fleet.arguments(__doc__)
    parser.set_defaults(threads="1")
    parser.add_argument("--requests", type=int, default=200_000)
    options = parser.parse_args()
    topics = [f"page.team-{number:02}" for number in range(TENANTS)]
    flags = [word for topic in topics for word in ("--requests-topic", f"{topic},tenant={topic[5:]}")]
    with fleet.Broker(options) as broker:
        publish(options, broker, topics)
        with fleet.Worker(options, broker, "--prefix", "page", "--group", "page", *flags) as worker:
            figures = measure(options, worker)
    fleet.report(options, "metrics_page", {"bars": {"refusals_per_s": REFUSALS_PER_S, "page_bytes_max": BYTES_MAX,
                                                    "page_ms": PAGE_MS_MAX}, **figures})


if __name__ == "__main__":
    main()
