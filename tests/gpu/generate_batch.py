#!/usr/bin/env python3
"""The speed of transformers' continuous batching (generate_batch) on a model folder, as JSON: 64 prompts of 1,024 random
tokens with answers of --tokens tokens, minus the time of the same prompts with one token.

    generate_batch.py FOLDER [--rows 64] [--context 1024] [--tokens 128]"""

import argparse
import json
import time

import torch
import transformers


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    for name, value in (("rows", 64), ("context", 1024), ("tokens", 128)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = transformers.AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.bfloat16,
                                                              attn_implementation="sdpa").to(device).eval()
    source = torch.Generator().manual_seed(1)
    size = model.config.vocab_size
    prompts = [torch.randint(10, size, (options.context,), generator=source).tolist() for _ in range(options.rows)]

    def run(tokens):
        settings = transformers.GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=-1,
                                                 pad_token_id=0, use_cuda_graph=False)
        begin = time.monotonic()
        answers = model.generate_batch(inputs=prompts, generation_config=settings, progress_bar=False)
        took = time.monotonic() - begin
        return took, sum(len(answer.generated_tokens) for answer in answers.values())

    run(4)
    short, short_tokens = run(1)
    took, tokens = run(options.tokens)
    print(json.dumps({"rows": options.rows, "tokens": tokens, "seconds": round(took, 3),
                      "decode_tokens_per_s": round((tokens - short_tokens) / (took - short), 1)}))


main()
