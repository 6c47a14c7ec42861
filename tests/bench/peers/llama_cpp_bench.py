"""Measures llama.cpp through the low-level calls of llama-cpp-python: one context, sequences decoded together."""
import argparse
import ctypes
import json
import time

import llama_cpp as lc

import workload


class Bench:
    def __init__(self, path, threads):
        lc.llama_backend_init()
        self.model = lc.llama_model_load_from_file(path.encode(), lc.llama_model_default_params())
        self.threads = threads
        self.context = None
        self.batch = lc.llama_batch_init(2048, 0, 1)

    def open(self, sequences, tokens):
        """Creates a context for `sequences` sequences of `tokens` tokens each."""
        if self.context:
            lc.llama_free(self.context)
        params = lc.llama_context_default_params()
        params.n_ctx = sequences * tokens
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = self.threads
        params.kv_unified = False
        self.context = lc.llama_init_from_model(self.model, params)

    def decode(self, rows):
        """rows: (token, position, sequence, wants logits)."""
        for begin in range(0, len(rows), 512):
            part = rows[begin:begin + 512]
            self.batch.n_tokens = len(part)
            for i, (token, position, sequence, logits) in enumerate(part):
                self.batch.token[i] = token
                self.batch.pos[i] = position
                self.batch.n_seq_id[i] = 1
                self.batch.seq_id[i][0] = sequence
                self.batch.logits[i] = logits
            if lc.llama_decode(self.context, self.batch):
                raise SystemExit("llama_decode failed")
        lc.llama_synchronize(self.context)

    def prefill(self, count):
        self.open(1, 4096)
        prompt = workload.tokens(count)
        self.decode([(t, i, 0, i == 15) for i, t in enumerate(prompt[:16])])
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)
        begin = time.perf_counter()
        self.decode([(t, i, 0, i == count - 1) for i, t in enumerate(prompt)])
        return count / (time.perf_counter() - begin)

    def generate(self, sequences):
        self.open(sequences, 256)
        for s in range(sequences):
            self.decode([(t, i, s, i == 15) for i, t in enumerate(workload.tokens(16, s))])
        begin = time.perf_counter()
        for step in range(128):
            self.decode([(100 + step, 16 + step, s, True) for s in range(sequences)])
        return 128 * sequences / (time.perf_counter() - begin)

    def mix(self):
        """Continuous batching as in the llama.cpp server: decode rows first, prompts fill the rest of the batch."""
        self.open(64, 640)
        waiting = [(s, p, 0) for s, p in enumerate(workload.mix_prompts())]
        running = {}
        begin = time.perf_counter()
        while waiting or running:
            rows = [(100, position, s, True) for s, (position, _) in running.items()]
            for s in list(running):
                position, left = running[s]
                running[s] = (position + 1, left - 1)
                if left == 1:
                    del running[s]
            started = []
            while waiting and len(rows) < 512:
                s, prompt, done = waiting.pop(0)
                end = min(len(prompt), done + 512 - len(rows))
                rows += [(prompt[i], i, s, i == len(prompt) - 1) for i in range(done, end)]
                if end == len(prompt):
                    started.append((s, len(prompt)))
                else:
                    waiting.insert(0, (s, prompt, end))
            self.decode(rows)
            for s, length in started:
                running[s] = (length, workload.MIX_OUTPUT - 1)
        return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--tests", required=True)
    options = parser.parse_args()
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
    lc.llama_log_set(quiet, None)
    bench = Bench(options.gguf, options.threads)
    row = {}
    for test in options.tests.split(","):
        kind, _, count = test.partition(" ")
        row[test] = (bench.mix() if kind == "mix" else bench.prefill(int(count)) if kind == "prefill"
                     else bench.generate(int(count)))
    print(json.dumps(row))


main()
