"""Measures vLLM on the CPU in this process, by timing LLM.generate with token prompts."""
import argparse
import json
import time

from vllm import LLM, SamplingParams

import workload


def timed(llm, prompts, count):
    params = SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, detokenize=False)
    begin = time.perf_counter()
    llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], params, use_tqdm=False)
    return time.perf_counter() - begin


def decode(llm, sequences):
    """The time of 128 decode steps: that of 129 output tokens minus that of 1."""
    prompts = [workload.tokens(16, seed) for seed in range(sequences)]
    return 128 * sequences / (timed(llm, prompts, 129) - timed(llm, prompts, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    options = parser.parse_args()
    llm = LLM(model=options.folder, dtype="bfloat16", max_model_len=4096, max_num_seqs=64,
              enable_prefix_caching=False, seed=0)
    row = {}
    for name, call in [("prefill 512", lambda: 512 / timed(llm, [workload.tokens(512)], 1)),
                       ("prefill 2048", lambda: 2048 / timed(llm, [workload.tokens(2048)], 1)),
                       ("decode 1", lambda: decode(llm, 1)), ("decode 8", lambda: decode(llm, 8)),
                       ("decode 16", lambda: decode(llm, 16)), ("decode 32", lambda: decode(llm, 32)),
                       ("mix", lambda: timed(llm, workload.mix_prompts(), workload.MIX_OUTPUT))]:
        values = [call() for _ in range(options.repetitions + 1)]
        row[name] = min(values) if name == "mix" else max(values)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
