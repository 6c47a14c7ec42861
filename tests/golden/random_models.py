#!/usr/bin/env python3
"""Draws models at random and compares the worker with PyPI transformers 5 (torch, safetensors), in fp32 on the CPU.

    random_models.py [--seed N] [--count N] [--backend cpu|torch|both] [--gguf LLAMA_CPP] [--keep FOLDER] RUNNER [FAMILY...]

RUNNER is the program golden_test_logits; for encoders golden_test_texts next to it (random_texts.py). For each family (default: all rows of families/*.py) the script draws `count`
configurations, gives every parameter a random value, saves the model, and writes the logits of 64 positions and 64
greedy tokens of transformers. RUNNER opens the folder and compares: logits within 1e-4 at every position, in chunks of
7 rows, one row after the other and in steps of other shapes, and the same 64 tokens. --gguf also converts each model
with llama.cpp's converter (a source tree) where its row says that GGUF can express it.

A model that the worker refuses counts as refused when its row lists the reason, and as failed otherwise. The same seed
draws the same models. --keep: leaves the models in FOLDER. The exit status is 1 when a model failed.
"""
import argparse
import copy
import importlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, CONFIG_MAPPING
from transformers.utils import logging

import make_gguf
import make_logits
import random_texts

POSITIONS, CONTINUATION, PROMPTS = 64, 64, 40
ROUNDING = 5e-5
MARGIN = 1e-3  # greedy tokens are compared where the best logit is ahead of the second by more


def all_rows():
    rows = {}
    for path in sorted((pathlib.Path(__file__).parent / "families").glob("*.py")):
        rows.update(getattr(importlib.import_module("families." + path.stem), "FAMILIES", {}))
    return rows


# ---- drawing ----

def draw_options(row, chance):
    drawn = {}
    options = row["options"]
    for key, choices in options.items():
        if not callable(choices):
            drawn[key] = chance.choice(choices) if isinstance(choices, list) else choices
    for key, choices in options.items():
        if callable(choices):
            value = choices(chance, drawn)
            drawn.update(value if key.startswith("+") else {key: value})
    return drawn


def published(config, chance):
    """Half of the folders get the keys that files had before transformers 5."""
    rope = config.get("rope_parameters")
    if not rope or "full_attention" in rope or chance.random() < 0.5:
        return config
    del config["rope_parameters"]
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
    return config


def fill(model, row, generator):
    """Gives every parameter and every buffer that is saved a random value, norms around 1 (around 0 where the family
    stores them less 1), so that no number is neutral."""
    saved = model.state_dict().keys()
    for module_name, module in model.named_modules():
        norm = "norm" in type(module).__name__.lower()
        for name, number in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            full = f"{module_name}.{name}"
            if full not in saved or not number.is_floating_point() or any(p in full for p in row.get("keep", ())):
                continue
            noise = torch.randn(number.shape, generator=generator)
            chosen = [value for part, value in row.get("scale", {}).items() if part in full]
            if norm and name == "weight":
                number.data.copy_((0.0 if row.get("norm_zero") else 1.0) + 0.3 * noise)
            else:
                usual = 0.3 if number.dim() < 2 else number.shape[-1] ** -0.5
                number.data.copy_((chosen[0] if chosen else usual) * noise)


def make_model(folder, family, row, chance):
    """Writes a random model; returns its options and the model as transformers reads it from the folder."""
    generator = torch.Generator().manual_seed(chance.getrandbits(32))
    options = draw_options(row, chance)
    loader = row.get("loader", AutoModelForCausalLM)
    model = loader.from_config(CONFIG_MAPPING[family](**row.get("config", dict)(options)))
    fill(model, row, generator)
    model.to(torch.float32).save_pretrained(folder)
    config = published(json.loads((folder / "config.json").read_text()), chance)
    config = row.get("edit", dict)(config)
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    if "tensors" in row:
        path = folder / "model.safetensors"
        save_file(row["tensors"](load_file(path), options), path, metadata={"format": "pt"})
    make_logits.write_tokenizer(folder)
    model = loader.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                   **row.get("reads", {})).float().eval()
    return options, model, generator


# ---- the reference ----

def clear_greedy(model, tokens, cached):
    """True when no greedy token is a near tie."""
    with torch.inference_mode():
        for logits in make_logits.greedy_logits(model, tokens, CONTINUATION, cached):
            best = logits.topk(2).values
            if float(best[0] - best[1]) < MARGIN:
                return False
    return True


def is_settled(model, exact, tokens):
    """True when the reference's own rounding is small: logits in fp32 are those in fp64. The norm of an output that is
    nearly zero can raise it above the bound of the comparison."""
    with torch.inference_mode():
        step = torch.tensor([tokens])
        return float((model(step, use_cache=False).logits.double() - exact(step, use_cache=False).logits).abs().max()) <= ROUNDING


def write_reference(path, model, row, generator):
    """A prompt whose continuation has no near tie, and a short one."""
    cached = row.get("cached", True)
    exact = None
    if row.get("settled"):
        exact = copy.deepcopy(model).double()
        exact.set_experts_implementation("eager")  # the default has no products in fp64
    for _ in range(PROMPTS):
        tokens = torch.randint(0, 263, (row.get("positions", POSITIONS),), generator=generator).tolist()
        if (not exact or is_settled(model, exact, tokens)) and clear_greedy(model, tokens, cached):
            break
    else:
        raise RuntimeError(f"each of {PROMPTS} prompts has near ties in its continuation, or rounding errors")
    make_logits.write_expected(path, model, [(tokens, 0, CONTINUATION), (tokens[:20], 0, 0)], cached)


# ---- comparing ----

def run(runner, backend, model, expected):
    which = ["torch", "cpu", "fp32", "off"] if backend == "torch" else []
    return result_of([runner, *which, str(model), str(expected)])


def result_of(command):
    """Returns the largest difference, or the error as text."""
    done = subprocess.run(command, capture_output=True, text=True)
    text = done.stdout + done.stderr
    found = re.findall(r"largest difference ([0-9.e+-]+)", text)
    if done.returncode == 0 and found:
        return float(found[0])
    lines = [line.replace("[  ERROR   ] --- ", "") for line in text.splitlines() if "ERROR" in line or "differs" in line]
    return (lines or text.splitlines()[-3:] or ["no output"])[0].strip()


def compare_texts(args, family, row, index, folder):
    chance = random.Random(f"{args.seed} {family} {index}")
    options = random_texts.write_model(folder, family, row, draw_options, fill, chance)
    runner = pathlib.Path(args.runner).with_name("golden_test_texts")
    return options, [(f"{family} {index} {backend}", result_of([runner, *["torch"][:backend == "torch"], folder]))
                     for backend in args.backend]


def edit_config(path, edit):
    """Replaces the link to a config.json by an edited copy, unless edit is None."""
    if edit:
        config = edit(json.loads(path.read_text()))
        path.unlink()
        path.write_text(json.dumps(config))


def compare(args, family, row, index, folder):
    """Returns a list of results: (what, number or text)."""
    if row.get("texts"):
        return compare_texts(args, family, row, index, folder)
    chance = random.Random(f"{args.seed} {family} {index}")
    options, model, generator = make_model(folder, family, row, chance)
    expected = folder / "expected.bin"
    write_reference(expected, model, row, generator)
    results = [(f"{family} {index} {backend}", run(args.runner, backend, folder, expected))
               for backend in args.backend]
    if args.gguf and "gguf" in row and row["gguf"](options):
        name = f"{family}-{index}"
        with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
            make_gguf.with_plain_tokenizer(folder, pathlib.Path(scratch))
            edit_config(pathlib.Path(scratch) / "config.json", row.get("gguf_edit"))
            make_gguf.convert(pathlib.Path(scratch), name, folder.parent, "f32")
        results += [(f"{family} {index} {backend} GGUF",
                     run(args.runner, backend, folder.parent / (name + ".gguf"), expected)) for backend in args.backend]
    return options, results


def judge(row, result):
    if isinstance(result, float):
        return "equal" if result <= 1e-4 else "failed"
    return "refused" if any(re.search(reason, result) for reason in row.get("refused", ())) else "failed"


def try_family(args, family, row, root):
    verdicts, worst = [], 0.0
    for index in range(args.count):
        folder = root / f"{family}-{index}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            options, results = compare(args, family, row, index, folder)
        except Exception as error:  # transformers or the converter refuses the configuration
            options, results = {}, [(f"{family} {index}", f"{type(error).__name__}: {error}")]
        for what, result in results:
            verdict = judge(row, result)
            verdicts.append(verdict)
            if isinstance(result, float):
                worst = max(worst, result)
            if args.verbose or verdict != "equal":
                print(f"{what}: {verdict}: {result}\n    {options}", flush=True)
    counts = ", ".join(f"{verdicts.count(kind)} {kind}" for kind in ("equal", "refused", "failed") if kind in verdicts)
    print(f"{family}: {counts}; largest difference {worst:.1e}", flush=True)
    return "failed" not in verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--backend", choices=["cpu", "torch", "both"], default="both")
    parser.add_argument("--gguf", metavar="LLAMA_CPP")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("runner")
    parser.add_argument("family", nargs="*")
    args = parser.parse_args()
    args.backend = ["cpu", "torch"] if args.backend == "both" else [args.backend]
    if args.gguf:
        sys.path[:0] = [args.gguf + "/gguf-py", args.gguf]
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    rows = all_rows()
    unknown = [name for name in args.family if name not in rows]
    if unknown:
        sys.exit(f"no row for {', '.join(unknown)}; there are {', '.join(rows)}")
    with tempfile.TemporaryDirectory() as scratch:
        good = [try_family(args, name, rows[name], args.keep or pathlib.Path(scratch))
                for name in args.family or rows]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
