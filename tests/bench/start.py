#!/usr/bin/env python3
"""Measures the start of `millrace serve`: its own time from exec to the line "started in", the time until /readyz answers 200
(the broker's group has then assigned partitions: the embedded broker, as Kafka's default, waits 3 s for other members),
resident memory at rest, lines of output. Bars: started within 2 s; resident memory at most twice the model file + the KV
pool + 200 MB; at most 15 lines. With `--dtype auto`, for a GGUF file of 4 to 8 bits: within 3 s, 1.15 times the file + the
KV pool + 200 MB."""

import os
import pathlib
import re
import time

import fleet

KV_MIB = 256


def model_bytes(path):
    path = pathlib.Path(path)
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else os.stat(path).st_size


def main():
    options = fleet.arguments(__doc__).parse_args()
    starts, ready = [], []
    with fleet.Broker(options) as broker:
        for _ in range(max(options.repetitions, 1)):
            with fleet.Worker(options, broker, "--kv-memory", f"{KV_MIB}MiB") as worker:
                starts.append(float(re.search(r"^started in ([\d.]+) s$", "".join(worker.ready_lines), re.MULTILINE)[1]))
                ready.append(worker.start_s)
                time.sleep(1)
                resident, peak = worker.status_bytes("VmRSS"), worker.status_bytes("VmHWM")
                huge = worker.huge_page_bytes()
                anonymous, lines = worker.status_bytes("RssAnon"), worker.ready_lines
    keeps = options.dtype == "auto"
    allowed = (1.15 if keeps else 2) * model_bytes(options.model) + KV_MIB * 2**20 + 200 * 10**6
    fleet.report(options, "start", {
        "start_s": min(starts), "start_s_all": starts, "start_s_bar": 3 if keeps else 2,
        "readyz_s_all": [round(s, 3) for s in ready],
        "resident_mb": round(resident / 1e6, 1), "resident_anonymous_mb": round(anonymous / 1e6, 1),
        "anonymous_huge_pages_mb": round(huge / 1e6, 1),
        "resident_peak_mb": round(peak / 1e6, 1), "resident_mb_bar": round(allowed / 1e6, 1),
        "model_mb": round(model_bytes(options.model) / 1e6, 1), "kv_pool_mb": round(KV_MIB * 2**20 / 1e6, 1),
        "lines": len(lines), "lines_bar": 15, "banner": [line.rstrip() for line in lines]})


if __name__ == "__main__":
    main()
