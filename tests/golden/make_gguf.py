#!/usr/bin/env python3
"""Converts the tiny models to GGUF with llama.cpp's own converter, so that the worker is tested with the names, keys
and layouts that this converter writes (a source tree of llama.cpp and the packages that make_logits.py needs).

    make_gguf.py LLAMA_CPP OUT TYPE FOLDER...     OUT/NAME.gguf for each folder; TYPE: bf16, f16 or f32

Against llama.cpp itself, in fp32 and without flash attention, these files give the logits of expected.bin within 2e-5;
with GELU, which llama.cpp reads from a table in fp16, within 3e-3; MXFP4 only roughly, because llama.cpp multiplies it
with activations rounded to 8 bits. llama.cpp cannot express llama_gelu, gemma2_scalar, gemma3 (its pattern), the
windows of phi3 and of the Mistral models, dense layers in a model with experts, nor attention_factor, beta_fast and
beta_slow of yarn. It rounds the limits of yarn in gpt-oss; the released models do not (with "truncate": true both
agree).

The tiny tokenizer is byte-level BPE with GPT-2's pattern. The converter does not recognize its hash and expects this
kind of tokenizer only in some families, so the script sets it.
"""
import json
import pathlib
import sys
import tempfile


def with_plain_tokenizer(folder, copy):
    """Links the files of folder into the folder `copy`, with a tokenizer that transformers reads in one way for all
    families: an end token that is a string, no tokenizer class of the family, and a word for every row of the
    embedding."""
    for file in folder.iterdir():
        (copy / file.name).symlink_to(file.resolve())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.update(eos_token="</s>", unk_token=None, pad_token=None,
                  tokenizer_class="PreTrainedTokenizerFast")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    sizes = json.loads((folder / "config.json").read_text())
    rows = sizes.get("text_config", sizes)["vocab_size"]
    words.update({token["content"]: token["id"] for token in tokenizer["added_tokens"]})
    words.update({f"[PAD{i}]": i for i in range(len(words), rows)})
    for name, content in (("tokenizer_config.json", config), ("tokenizer.json", tokenizer)):
        (copy / name).unlink()
        (copy / name).write_text(json.dumps(content))


def convert(folder, name, out, kind):
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    from conversion.base import TextModel
    from conversion.llama import LlamaModel
    architecture = get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT)
    model_class = get_model_class(architecture, mmproj=False)

    # Mistral Small's converter contains a second converter, so both functions are set for all.
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    LlamaModel.set_vocab = TextModel._set_vocab_gpt2

    class Converter(model_class):
        model_arch = model_class.model_arch
        no_mtp = True  # no layers that predict further tokens

        def set_vocab(self):
            if hasattr(self, "impl"):
                self.impl.set_vocab()
            else:
                TextModel._set_vocab_gpt2(self)

        def set_gguf_parameters(self):
            # GPT-NeoX's converter needs a key that transformers 5 has under another name.
            rope = self.hparams.get("rope_parameters") or {}
            self.hparams.setdefault("rotary_pct", rope.get("partial_rotary_factor"))
            super().set_gguf_parameters()

        def modify_tensors(self, *tensor):
            # StableLM's converter returns a generator from a generator, so it would write no tensor.
            more = yield from super().modify_tensors(*tensor)
            yield from more or ()

    types = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
             "bf16": gguf.LlamaFileType.MOSTLY_BF16}
    Converter(folder, types[kind], out / (name + ".gguf"), model_name="tiny").write()


if __name__ == "__main__":
    if len(sys.argv) < 5 or sys.argv[3] not in ("f32", "f16", "bf16"):
        sys.exit(__doc__)
    sys.path[:0] = [sys.argv[1] + "/gguf-py", sys.argv[1]]
    import torch
    to = pathlib.Path(sys.argv[2])
    to.mkdir(parents=True, exist_ok=True)
    for path in map(pathlib.Path, sys.argv[4:]):
        with torch.inference_mode(), tempfile.TemporaryDirectory() as scratch:
            with_plain_tokenizer(path, pathlib.Path(scratch))
            convert(pathlib.Path(scratch), path.name, to, sys.argv[3])
