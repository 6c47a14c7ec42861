#!/usr/bin/env python3
"""Writes the small tokenizers and expected results of tests/golden/tokenizer/ with the reference.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 mistral-common==1.13.1 gguf
    tests/golden/make_tokenizer.py .deps/model/SmolLM2-135M-Instruct.Q4_1.gguf

Trains tokenizers like those of Llama 3, Qwen, Llama 2 (SentencePiece) and T5 (Unigram), and one with rare components,
on generated text. Writes them as NAME_style.json. For each of them and for the model's own tokenizer, writes the
reference's ids and texts of some hundred strings as NAME.golden.json.
"""
import base64
import io
import json
import os
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from compare_tokenizer import EDGES, Generators, HuggingFace, SentencePiece, Tekken, smollm_json

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


# Rules of a character map: NFKC's replacements of a few characters, a sequence, a removal.
RULES = [("\uff21", "A"), ("\ufb01", "fi"), ("e\u0301", "\u00e9"), ("\u1100\u1161", "\uac00"), ("\u3000", " "), ("\t", " "), ("\u200b", ""), ("\u00bd", "1/2"),
         ("...", "\u2026")]


def sentencepiece_model(**options):
    """The bytes of a model that SentencePiece trains on the corpus, and on made-up words."""
    r = random.Random(3)
    parts = [a + b for a in "b c d f g l m n p r s t v st tr pl ch".split() for b in "a e i o u an er in on \u00e9 \u00fc".split()]
    words = ["".join(r.choice(parts) for _ in range(r.randint(1, 3))) for _ in range(700)]
    lines = [line.replace("\n", " ") for line in corpus(11)]
    lines += [" ".join(r.choice(words) for _ in range(r.randint(3, 10))) + r.choice((".", "", " 12", "  x", "(\ufb01)", "\uff21", "\u00bd")) for _ in range(3000)]
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w") as rules:
        for source, target in RULES:
            rules.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
        rules.flush()
        if options.pop("with_rules", False):
            options["normalization_rule_tsv"] = rules.name
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, num_threads=1, minloglevel=2, hard_vocab_limit=False, **options)
    return out.getvalue()


def t5_style():
    model = parsed(sentencepiece_model(model_type="unigram", vocab_size=600, character_coverage=0.99, with_rules=True))
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    charsmap = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    frame = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
             "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": model.pieces[i].piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                             for i in range(3)],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": charsmap},
                                                               {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}, "post_processor": frame, "decoder": space,
            "model": {"type": "Unigram", "unk_id": 0, "vocab": [[p.piece, p.score] for p in model.pieces], "byte_fallback": False}}


def parsed(data):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(data)
    return proto


def reference(file):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as copy:
        json.dump(file, copy)
        copy.flush()
        return HuggingFace(copy.name)


def without_control_pieces(file):
    """The file of a Unigram model whose control tokens occur in no text. The reference scores them 0, so it turns the
    text "</s>" into one even where special tokens are not read; millrace does not."""
    if file["model"]["type"] != "Unigram":
        return file
    control = {token["content"] for token in file["added_tokens"] if token["special"]}
    vocab = [[chr(0x10F000 + i) if text in control else text, score] for i, (text, score) in enumerate(file["model"]["vocab"])]
    return file | {"model": file["model"] | {"vocab": vocab}}


def golden(file, seed):
    oracle = reference(file)
    t = oracle.t
    unread = reference(without_control_pieces(file)).t
    unread.encode_special_tokens = True
    g = Generators(oracle, seed)
    texts = EDGES + [x + c + y for c in g.added[:20] for x in ("", " ", "a") for y in ("", "  ", "a")] + list(g.all(240))[-240:]
    texts += ["zebra quux zebra quuxes Zebra", "a cat. concat cats cat", "CAFE\u0301S caf\u00e9s", "x <mask><right>  y <mask>\n <right> z", "a\n\n \n\nb 12345678"]
    if file["model"]["type"] == "Unigram":
        texts += ["\uff21\ufb01 e\u0301... \u1100\u1161\u11a8 \u3000\u200b\u00bd\t..\u00bd", "\u200b", "\u1100\u1161", " cafe\u0301\u0301 "]
    fallback = file["model"]["byte_fallback"]
    encode, decode = [], []
    for text in texts:
        one = {"text": text, "plain": t.encode(text, add_special_tokens=False).ids, "framed": t.encode(text).ids}
        one["unread"] = unread.encode(text, add_special_tokens=False).ids
        encode.append(one)
    lists = [e["framed"] for e in encode]
    if not fallback:  # see compare_tokenizer.py
        lists += [[g.r.randrange(t.get_vocab_size() + 2) for _ in range(g.r.randint(1, 12))] for _ in range(200)]
    for ids in lists:
        decode.append({"ids": ids, "whole": t.decode(ids, skip_special_tokens=False), "without_special": t.decode(ids, skip_special_tokens=True)})
    return {"encode": encode, "decode": decode}


def golden_without_special(path, seed):
    """Results of a reference that never reads special tokens in a text, only for texts without any."""
    oracle = SentencePiece(path) if path.endswith(".model") else Tekken(path)
    g = Generators(oracle, seed)
    texts = EDGES + list(g.all(300))[-300:] + ["\uff21\ufb01 e\u0301... \u3000\u200b\u00bd\t", " the  the <mask><mask>", "  caf\u00e9  na\u00efve   x ", "   ", "\u4e00a\u4e01"]
    texts = [t for t in texts if not any(a in t for a in oracle.added())]
    texts = [t if t else " " for t in texts]
    plain, framed = oracle.encode(texts, 0), oracle.encode(texts, 1)
    encode = [{"text": t, "plain": p, "framed": f, "unread": p} for t, p, f in zip(texts, plain, framed)]
    lists = [ids for ids in plain if not hasattr(oracle, "decodable") or oracle.decodable(ids)]
    lists += [[g.r.choice(oracle.ids) for _ in range(g.r.randint(1, 12))] for _ in range(320)]
    whole, without = oracle.decode(lists, False), oracle.decode(lists, True)
    decode = [{"ids": i, "whole": a.decode(), "without_special": b.decode()} for i, a, b in zip(lists, whole, without)]
    return {"encode": encode, "decode": decode}


def tekken():
    """A tekken.json: the vocabulary of a byte-level BPE, as bytes."""
    t = train(byte_level(LLAMA3), 900, pre_tokenizers.ByteLevel.alphabet(), [])
    alphabet = {c: b for b, c in bytes_of_alphabet().items()}
    words = [bytes(alphabet[c] for c in text) for text, _ in sorted(t.get_vocab().items(), key=lambda entry: entry[1])]
    words = [bytes([b]) for b in range(256)] + [w for w in words if len(w) > 1]
    entries = [{"rank": i, "token_bytes": base64.b64encode(w).decode(), "token_str": None} for i, w in enumerate(words)]
    special = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(("<unk>", "<s>", "</s>", "[INST]", "[/INST]"))]
    return {"config": {"pattern": LLAMA3, "num_vocab_tokens": len(entries), "default_vocab_size": len(entries) - 20 + 10, "default_num_special_tokens": 10,
                       "version": "v3"}, "vocab": entries, "special_tokens": special}


def bytes_of_alphabet():
    """The character that stands for each byte in byte-level vocabularies (GPT-2)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


# Options of the SentencePiece trainer for the committed models.
MODELS = {
    "sentencepiece_unigram": dict(model_type="unigram", vocab_size=600, character_coverage=0.99, with_rules=True),
    "sentencepiece_unigram_bytes": dict(model_type="unigram", vocab_size=700, byte_fallback=True, remove_extra_whitespaces=False, character_coverage=0.98,
                                        normalization_rule_name="identity", user_defined_symbols=["<mask>", "\u2581\u2581\u2581", "na\u00efve"]),
    "sentencepiece_bpe": dict(model_type="bpe", vocab_size=500, character_coverage=0.98, with_rules=True, treat_whitespace_as_suffix=True),
    "sentencepiece_bpe_bytes": dict(model_type="bpe", vocab_size=700, byte_fallback=True, remove_extra_whitespaces=False, character_coverage=0.98,
                                    normalization_rule_name="identity", allow_whitespace_only_pieces=True, split_digits=True,
                                    user_defined_symbols=["<mask>", "\u2581\u2581", "naive"]),
}


def write(name, value):
    with open(os.path.join(FOLDER, name), "w") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, make in (("llama3", llama3_style), ("qwen", qwen_style), ("llama2", llama2_style), ("odd", odd_style), ("t5", t5_style)):
        file = make()
        write(f"{name}_style.json", file)
        write(f"{name}_style.golden.json", golden(file, 5))
    for name, options in MODELS.items():
        path = os.path.join(FOLDER, name + ".model")
        with open(path, "wb") as f:
            f.write(sentencepiece_model(**options))
        write(f"{name}.golden.json", golden_without_special(path, 5))
    write("tekken_small.json", tekken())
    write("tekken_small.golden.json", golden_without_special(os.path.join(FOLDER, "tekken_small.json"), 5))
    write("smollm2.golden.json", golden(smollm_json(sys.argv[1]), 5))


main()
