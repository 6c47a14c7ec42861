#!/usr/bin/env python3
"""Draws random LoRA adapters for tiny models of tests/golden/models, and writes the logits that PEFT computes with them.

    pip install torch transformers peft
    random_adapters.py OUT [--seed N] [--model NAME]... [--count N] [--small]

For each model OUT/NAME gets adapters in the folders a00, a01, ..., and expected.bin, with which golden_test_adapters
compares millrace: "MRADAPT1", then as u32 the vocabulary, the number of adapters and the number of tokens, the tokens as
u32, and the logits of all positions as fp32 [1 + adapters][tokens][vocabulary], the base first.

Adapter i has a rank between 4 and 64. Every third has the root of the rank in its scale, every fourth has modules with
ranks and alphas of their own, and every fifth changes only the attention. The others change all linear layers, the token
embedding and the output layer. --small: adapters of rank 2, as they are committed
(--small --count 2 --model llama3_rope_sharded).
"""
import argparse
import json
import pathlib
import struct

import numpy
import peft
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["llama3_rope_sharded", "grouped_tied", "qwen3_head_norm", "gemma3", "qwen3_moe", "phi3", "granite"]
RANKS = [4, 64, 8, 16, 24, 6, 32, 48, 12, 4, 40, 64]
TOKENS = 14
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj"]


def linears(model):
    """Last names of the modules that PEFT can change: linear layers, and the embedding."""
    kinds = (torch.nn.Linear, torch.nn.Embedding)
    return sorted({name.split(".")[-1] for name, module in model.named_modules() if isinstance(module, kinds)})


def expert_parameters(model):
    return sorted({".".join(name.split(".")[-3:]) for name, value in model.named_parameters()
                   if value.dim() == 3 and ".experts." in name})


def config_of(model, index, small):
    names, rank = linears(model), 2 if small else RANKS[index % len(RANKS)]
    options = dict(r=rank, lora_alpha=rank + 3 * index + 1, target_modules=names, lora_dropout=0.0, bias="none",
                   init_lora_weights=False, task_type="CAUSAL_LM")
    if index % 3 == 2 or small:
        options.update(use_rslora=True, lora_alpha=3 + index)
    if index % 4 == 3 or small:
        options["rank_pattern"] = {"layers.0.self_attn.o_proj": rank // 2}
        options["alpha_pattern"] = {"o_proj": 5}
    if index % 5 == 4 or small and index > 0:
        options["target_modules"] = [name for name in names if name in ATTENTION]
    elif expert_parameters(model):
        options["target_parameters"] = expert_parameters(model)
    return peft.LoraConfig(**options)


def draw(model, generator):
    for name, value in model.named_parameters():
        if "lora_" in name:
            value.data = torch.randn(value.shape, generator=generator) * 0.1


@torch.no_grad()
def logits_of(model, tokens):
    return model(torch.tensor([tokens])).logits[0].float().numpy()


def load(name):
    return transformers.AutoModelForCausalLM.from_pretrained(
        HERE / "models" / name, dtype=torch.float32, attn_implementation="eager").eval()


def write(out, name, args):
    generator = torch.Generator().manual_seed(args.seed)
    base = load(name)
    vocabulary = base.config.vocab_size
    tokens = torch.randint(0, vocabulary, [TOKENS], generator=generator).tolist()[:5 if args.small else None]
    rows = [logits_of(base, tokens)]
    for i in range(args.count):
        model = peft.get_peft_model(load(name), config_of(base, i, args.small))
        draw(model, generator)
        rows.append(logits_of(model, tokens))
        folder = out / f"a{i:02d}"
        model.save_pretrained(folder, save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)
        settings = json.loads((folder / "adapter_config.json").read_text())
        settings["base_model_name_or_path"] = f"tests/golden/models/{name}"
        (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
        change = numpy.abs(rows[-1] - rows[0]).max()
        assert change > 0.1, f"{name}: adapter {i} changes the logits by {change} only"
    head = struct.pack("<III", vocabulary, args.count, len(tokens)) + struct.pack(f"<{len(tokens)}I", *tokens)
    body = numpy.stack(rows).astype("<f4").tobytes()
    (out / "expected.bin").write_bytes(b"MRADAPT1" + head + body)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", action="append")
    parser.add_argument("--count", type=int, default=len(RANKS))
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    for name in args.model or MODELS:
        write(args.out / name, name, args)
        print(name)


main()
