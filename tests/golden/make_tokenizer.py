#!/usr/bin/env python3
"""Writes the small tokenizers and expected results of tests/golden/tokenizer/ with the reference.

    pip install tokenizers==0.23.3 gguf
    tests/golden/make_tokenizer.py .deps/model/SmolLM2-135M-Instruct.Q4_1.gguf

Trains tokenizers like those of Llama 3, Qwen and Llama 2 (SentencePiece), and one of rare components, on
generated text. Writes them as NAME_style.json. For each of them and for the model's own tokenizer, writes
the reference's ids and texts of some hundred strings as NAME.golden.json.
"""
import json
import os
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from compare_tokenizer import EDGES, Generators, smollm_json

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer")
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
QWEN = LLAMA3.replace("{1,3}", "")
WORDS = ("the of and a to in is it that was for on are as with his they at be this have from or had by not word but what some we can "
         "out other were all there when up use your how said an each she which do their time if will way about many then them write "
         "would like so these her long make thing see him two has look more day could go come did number sound no most people my over "
         "know water than call first who may down side been now find caf\u00e9 na\u00efve stra\u00dfe \u00fcber ma\u00f1ana "
         "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u043a\u0430\u043a \u0434\u0435\u043b\u0430 \u4eca\u5929 \u5929\u6c14 \u5f88\u597d "
         "\u3053\u3093\u306b\u3061\u306f \uc548\ub155 \u0646\u0627\u0645 C\u1eeda Vi\u1ec7t don't I'm you're it's we'll int return void for(").split()


def corpus(seed):
    r = random.Random(seed)
    for _ in range(4000):
        line = " ".join(r.choice(WORDS) for _ in range(r.randint(3, 14)))
        line = r.choice((line, line.capitalize(), line.upper() if r.random() < 0.1 else line))
        yield line + r.choice((".", "!", "?", ", ", "\n", "\n\n", "  ", " 12", " 2024", " 3.14", ";\n\t", "...", ""))


def train(tokenizer, size, alphabet, special):
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(11), trainer)
    return tokenizer


def byte_level(pattern, normalizer=None):
    t = Tokenizer(models.BPE())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    return t


def llama3_style():
    t = train(byte_level(LLAMA3), 1000, pre_tokenizers.ByteLevel.alphabet(), ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    t.post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])
    file = json.loads(t.to_str())
    file["model"]["ignore_merges"] = True
    # Words that no merges produce: only ignore_merges finds them.
    for word in ("\u0120zebra", "quux"):
        file["model"]["vocab"][word] = len(file["model"]["vocab"])
    return file


def qwen_style():
    t = train(byte_level(QWEN, normalizers.NFC()), 1000, pre_tokenizers.ByteLevel.alphabet(), [])
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return json.loads(t.to_str())


def llama2_style():
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")  # for training: no token spans words
    train(t, 1200, [], ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    file = json.loads(t.to_str())
    file["pre_tokenizer"] = None
    file["added_tokens"] = file["added_tokens"][:3]
    return file


def odd_style():
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " "),
                                         normalizers.Strip(True, False)])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(False), pre_tokenizers.Split("e", "merged_with_previous"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=True), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    t.decoder = decoders.ByteLevel()
    train(t, 700, pre_tokenizers.ByteLevel.alphabet()[:200], ["<unk>"])
    t.add_tokens([AddedToken("<mask>", lstrip=True, special=True), AddedToken("<right>", rstrip=True), AddedToken("cat", single_word=True),
                  AddedToken("Caf\u00c9s", normalized=True), AddedToken("<mask><right>", normalized=False), AddedToken("\n\n", rstrip=True, normalized=False)])
    t.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(single="<unk> $A <unk>", special_tokens=[("<unk>", 0)])])
    return json.loads(t.to_str())


def golden(file, seed):
    t = Tokenizer.from_str(json.dumps(file))
    g = Generators(t, seed)
    texts = EDGES + [x + c + y for c in g.added[:20] for x in ("", " ", "a") for y in ("", "  ", "a")] + list(g.all(240))[-240:]
    texts += ["zebra quux zebra quuxes Zebra", "a cat. concat cats cat", "CAFE\u0301S caf\u00e9s", "x <mask><right>  y <mask>\n <right> z", "a\n\n \n\nb 12345678"]
    fallback = file["model"]["byte_fallback"]
    encode, decode = [], []
    for text in texts:
        t.encode_special_tokens = False
        one = {"text": text, "plain": t.encode(text, add_special_tokens=False).ids, "framed": t.encode(text).ids}
        t.encode_special_tokens = True
        one["unread"] = t.encode(text, add_special_tokens=False).ids
        encode.append(one)
    lists = [e["framed"] for e in encode]
    if not fallback:  # see compare_tokenizer.py
        lists += [[g.r.randrange(t.get_vocab_size() + 2) for _ in range(g.r.randint(1, 12))] for _ in range(200)]
    for ids in lists:
        decode.append({"ids": ids, "whole": t.decode(ids, skip_special_tokens=False), "without_special": t.decode(ids, skip_special_tokens=True)})
    return {"encode": encode, "decode": decode}


def write(name, value):
    with open(os.path.join(FOLDER, name), "w") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, make in (("llama3", llama3_style), ("qwen", qwen_style), ("llama2", llama2_style), ("odd", odd_style)):
        file = make()
        write(f"{name}_style.json", file)
        write(f"{name}_style.golden.json", golden(file, 5))
    write("smollm2.golden.json", golden(smollm_json(sys.argv[1]), 5))


main()
