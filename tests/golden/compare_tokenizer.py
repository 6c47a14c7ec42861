#!/usr/bin/env python3
"""Compares millrace's tokenizer with the reference, string by string and id by id.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 mistral-common==1.13.1 gguf
    tests/golden/compare_tokenizer.py build/golden_test_tokenizer FILE [--strings N] [--seed S] [--gguf]

FILE is a tokenizer.json, a SentencePiece model (.model), a tekken*.json, or a GGUF model of the SmolLM
family, from which an equivalent tokenizer.json is made for the reference. --gguf converts a tokenizer.json to the
arrays of a GGUF, to compare the other way of loading. Each string is encoded with and without begin tokens, and with
special tokens read or treated as text. These ids and random ids are decoded with and without special tokens. Prints one
line of figures; exits 1 when anything differs.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer

EDGES = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", "\r\n", "\r", "\x00", "\x0b\x0c",
    "Hello world", " Hello world", "Hello World", " Hello World!", "Hello, world!", "Hello,y'all",
    "Hello,   y'all!  How are you\n\n\n ? ", "this is 123 45,678.90 tests", "1234567890 12 123 1234",
    "w048 7tuijk dsdfhu", "3\n33\n333\n3333\n33333", "\u00b2\u00b3\u00bd", "0\u0660\u0966\uff10",
    "I'm you're we'VE they'LL he'D it'S don'T", "'s't're've'm'll'd", "\u017f '\u017f 'S 's", "\u2019s",
    "a\u0301\u0316\u0301 e\u0301 \u00e9 \u1100\u1161\u11a8 \uac01", "\u212b \u2126 \ufb01 \u1e9b\u0323",
    "\u0344\u0345\u0f73\u0f75\u0958\u0f43\u2adc", "\u0390\u03b0\u1fee", "\ufdfa", "\u0130i\u0307",
    "\x1f-a", "\u00bc-a", "\u00bd-a", "\u00be-a", "a \u3007b", "\u2165-a", "\ufeff//", "C\u0103n a",
    "\u00a0aC", "\u00a0\u00a0a", "\u2029 \ua3e4", "a\u2029b", "\U000ac517", "\u2581", "\u2581\u2581a \u2581b",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
    "\u1780\u17b6\u1793\u17cb\u178f\u17c2\u1796\u17b7\u179f\u17c1\u179f", "\U0001f680 (normal) \U0001f636\u200d\U0001f32b\ufe0f",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "\u05d0\u05b7\u05d1 \u0627\u0644\u0644\u0651\u064e\u0647",
    "C\u1eeda Vi\u1ec7t", "\u180e \u180ea \u200b \u200ba \u2060", "\u0085a \u0085\n", "\u3000\u3000a\u3000",
    "one <mask> two <mask>", "a </s> b", "<s>a</s>", "<unk> <|endoftext|>", " <|im_start|>user\n hi<|im_end|> ",
    "!!!!!! ????? ....", "$$ ~~~ ^^ ``` ```python\n    x = 1\n\ty\n```", "https://example.org/a?b=c&d=%20#e",
    "    for (int i = 0; i < n; i++) {\n\t\treturn a[i] /* x */;\n    }\n\n\n", "a" * 300, " " * 300, "\n" * 200,
    "aA" * 100, "\u00e9" * 100, "1" * 100, "'" * 50, "\U0001f600" * 50, " \n" * 60, " a" * 100, "ab " * 100,
]


def chars_of(r, population, low=1, high=40):
    return "".join(r.choice(population) for _ in range(r.randint(low, high)))


def assigned(r):
    while True:
        c = r.randint(1, 0x2FFFF) if r.random() < 0.9 else r.randint(0x30000, 0x10FFFF)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


class HuggingFace:
    """A tokenizer.json as PyPI `tokenizers` reads it. Flags of an encoding: 1 begin and end tokens, 2 special tokens are read."""

    flags = (2, 3, 0)

    def __init__(self, path):
        self.t = Tokenizer.from_file(path)
        self.t.no_truncation()
        self.t.no_padding()
        self.size = self.t.get_vocab_size()
        # In a stream a later byte may still make a run of <0xHH> tokens invalid; see codec/tokenizer/detokenizer.h.
        self.ids = [] if '"byte_fallback":true' in self.t.to_str() else range(self.size + 2)

    def words(self):
        vocab = self.t.get_vocab(with_added_tokens=False)
        return [self.t.decode([i], skip_special_tokens=False) for i in sorted(vocab.values())]

    def added(self):
        return [t.content for t in self.t.get_added_tokens_decoder().values()]

    def encode(self, strings, flags):
        self.t.encode_special_tokens = flags & 2 == 0
        return [e.ids for e in self.t.encode_batch_fast(strings, add_special_tokens=flags & 1 == 1)]

    def decode(self, lists, skip):
        return [t.encode() for t in self.t.decode_batch(lists, skip_special_tokens=skip)]


class SentencePiece:
    """A tokenizer.model as PyPI `sentencepiece` reads it, which never reads a control token in a text."""

    flags = (0, 1)

    def __init__(self, path):
        import sentencepiece
        self.p = sentencepiece.SentencePieceProcessor(model_file=path)
        self.size = self.p.get_piece_size()
        self.ids = [i for i in range(self.size) if not self.p.is_control(i) and not self.p.is_unknown(i) and not self.p.is_byte(i)]

    def words(self):
        return [self.p.id_to_piece(i).replace("\u2581", " ") for i in self.ids]

    def added(self):
        return [self.p.id_to_piece(i) for i in range(self.size) if self.p.is_control(i) or self.p.is_unknown(i)]

    def encode(self, strings, flags):
        first = [self.p.bos_id()] if flags & 1 and self.p.bos_id() >= 0 else []
        return [first + ids for ids in self.p.encode(strings)]

    def decode(self, lists, skip):
        return [self.p.decode([i for i in ids if not self.p.is_control(i)]).encode() for ids in lists]

    def decodable(self, ids):
        return not any(self.p.is_unknown(i) or self.p.is_control(i) for i in ids)


class Tekken:
    """A tekken.json as PyPI `mistral-common` reads it."""

    flags = (0, 1)

    def __init__(self, path):
        from mistral_common.tokens.tokenizers.tekken import SpecialTokenPolicy, Tekkenizer
        self.t, self.policy = Tekkenizer.from_file(path), SpecialTokenPolicy
        self.size = self.t.n_words
        self.ids = range(self.size)

    def words(self):
        return [self.t.id_to_byte_piece(i, self.policy.KEEP).decode("utf-8", "replace") for i in range(self.t.num_special_tokens, self.size)]

    def added(self):
        return [self.t.id_to_piece(i) for i in range(min(30, self.t.num_special_tokens))]

    def encode(self, strings, flags):
        return [self.t.encode(s, bos=flags & 1 == 1, eos=False) for s in strings]

    def decode(self, lists, skip):
        policy = self.policy.IGNORE if skip else self.policy.KEEP
        return [self.t.decode(ids, special_token_policy=policy).encode() for ids in lists]


class Generators:
    """The kinds of strings that have broken tokenizers before."""

    def __init__(self, oracle, seed):
        self.r = random.Random(seed)
        self.words = [w for w in oracle.words() if w and "\ufffd" not in w] or ["a"]
        self.chars = sorted(set("".join(self.words)))
        self.added = oracle.added() or ["<s>"]
        self.pieces = EDGES + self.added
        self.ascii = [chr(c) for c in range(1, 128)]
        self.spaces = list(" \t\n\r\x0b\x0c\u00a0\u2003\u3000\u0085\u2028\u200b\u180e")

    def edges(self):
        yield from EDGES
        for t in self.added[:300]:
            for left in ("", " ", "  ", "\n", "a"):
                for right in ("", " ", "  ", "\n", "a"):
                    yield left + t + right

    def unicodes(self):
        for c in range(0x30000):
            if not 0xD800 <= c <= 0xDFFF:
                yield self.r.choice(("", "a", " ", "1", "\u00e9", "'")) + chr(c) + self.r.choice(("", "a", " ", "1", "\u0301", "\n"))

    def ascii_lr_strip(self):
        return self.r.choice(self.ascii) + self.r.choice(self.ascii) + self.r.choice(self.words) + self.r.choice(self.ascii) + self.r.choice(self.ascii)

    def apostrophe(self):
        tails = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "M", "lL", "D", "\u017f", "x", ""]
        marks = ["'", "\u2019", "''", " '", "`"]
        return "".join(self.r.choice(self.words[:2000]) + self.r.choice(marks) + self.r.choice(tails) for _ in range(self.r.randint(1, 4)))

    def added_lr_strip(self):
        spaces = ["", " ", "  ", "\n", "\r\n", "\t ", "\u00a0"]
        return "".join(self.r.choice(spaces) + self.r.choice(self.added) for _ in range(self.r.randint(1, 4))) + self.r.choice(spaces)

    def added_mixed(self):
        out = []
        for _ in range(self.r.randint(1, 6)):
            token = self.r.choice(self.added)
            cut = self.r.randint(0, len(token))
            out.append(self.r.choice((token, token[:cut], token[cut:], self.r.choice(self.words), " ")))
        return "".join(out)

    def random_ascii(self):
        return chars_of(self.r, self.ascii)

    def random_unicodes(self):
        return "".join(assigned(self.r) for _ in range(self.r.randint(1, 20)))

    def random_spaces(self):
        return "".join(self.r.choice(self.spaces) if self.r.random() < 0.6 else self.r.choice(self.words) for _ in range(self.r.randint(1, 20)))

    def random_marks(self):
        marks = [chr(c) for c in range(0x300, 0x370)] + ["\u3099", "\u0f71", "\u0f72", "\u05b0", "\u0651", "\u1161", "\u11a8"]
        return "".join(self.r.choice(marks) if self.r.random() < 0.6 else self.r.choice("aeiouAEIOU\u1100\u304b\u0627 ") for _ in range(self.r.randint(2, 24)))

    def vocab_words(self):
        return self.r.choice(self.words)

    def random_vocab_words(self):
        return "".join(self.r.choice(self.words) + self.r.choice(("", "", " ")) for _ in range(self.r.randint(1, 12)))

    def random_vocab_chars(self):
        return chars_of(self.r, self.chars)

    def long_text(self):
        many = self.r.randint(200, 2000) if self.r.random() < 0.02 else 30
        return "".join(self.r.choice(self.words) + self.r.choice(("", " ", "\n")) for _ in range(many))

    def long_run(self):
        many = self.r.randint(100, 3000) if self.r.random() < 0.02 else 40
        return chars_of(self.r, self.r.choice(("ab", "aeiourstln", "0123456789", " \n", "\u4e00\u4e8c\u5927", "=-_*#")), many, many)

    def random_mix(self):
        return "".join(self.r.choice(self.pieces) if self.r.random() < 0.3 else self.r.choice(self.words) for _ in range(self.r.randint(1, 6)))

    def all(self, count):
        yield from self.edges()
        yield from self.unicodes()
        yield from self.words
        kinds = [self.ascii_lr_strip, self.apostrophe, self.added_lr_strip, self.added_mixed, self.random_ascii, self.random_unicodes, self.random_spaces,
                 self.random_marks, self.vocab_words, self.random_vocab_words, self.random_vocab_chars, self.random_mix, self.long_text, self.long_run]
        for i in range(count):
            yield kinds[i % len(kinds)]()


def smollm_json(path):
    """The tokenizer.json equivalent to the GGUF of a SmolLM model."""
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": kinds[i] == 3} for i in range(len(tokens)) if kinds[i] in (3, 4)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {t: i for i, t in enumerate(tokens)}, "merges": fields["tokenizer.ggml.merges"].contents()}}


def text(s):
    b = s.encode()
    return struct.pack("<I", len(b)) + b


def spec_of(file):
    """The arrays of a GGUF in the form that golden_test_tokenizer reads: the contents of tokenizer.json without the
    components."""
    model, added = file["model"], file["added_tokens"]
    size = 1 + max(list(model["vocab"].values()) + [t["id"] for t in added])
    tokens, kinds, scores = [f"[unused{i}]" for i in range(size)], [5] * size, [0.0] * size
    for t, i in model["vocab"].items():
        tokens[i], kinds[i] = t, 1
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    dump = json.dumps(file["pre_tokenizer"])
    spm = model.get("byte_fallback", False)
    pre = "" if spm else "smollm" if "Digits" in dump else "deepseek-v3" if "{P}" in dump else "gpt-4o" if "{Lu}" in dump else "llama-bpe" if "{1,3}" in dump else "qwen2" if "Split" in dump else "gpt2"
    if spm:
        for rank, m in reversed(list(enumerate(merges))):
            i = model["vocab"][m.replace(" ", "")]
            if scores[i] == 0.0 or -rank - 1.0 > scores[i]:
                scores[i] = -rank - 1.0
        for i in range(size):
            if len(tokens[i]) == 6 and tokens[i].startswith("<0x"):
                kinds[i] = 6
    for t in added:
        tokens[t["id"]], kinds[t["id"]] = t["content"], 3 if t["special"] else 4
    out = text("llama" if spm else "gpt2") + text(pre) + struct.pack("<I", size)
    for i in range(size):
        out += text(tokens[i]) + struct.pack("<If", {1: 0, 3: 1, 4: 2, 6: 3, 5: 4}[kinds[i]], scores[i])
    out += struct.pack("<I", 0 if spm else len(merges)) + b"".join(text(m) for m in ([] if spm else merges))
    single = (file["post_processor"] or {}).get("single") or []
    bos = next((file["post_processor"]["special_tokens"][p["SpecialToken"]["id"]]["ids"][0] for p in single[:1] if "SpecialToken" in p), 0xFFFFFFFF)
    unk = model["vocab"].get(model.get("unk_token") or "", 0xFFFFFFFF)
    prefix = "Prepend" in json.dumps(file["normalizer"])
    return out + struct.pack("<IIIIII", bos, 0xFFFFFFFF, unk, bos != 0xFFFFFFFF, 0, prefix)


def oracle_of(path):
    if path.endswith(".model"):
        return SentencePiece(path)
    return Tekken(path) if os.path.basename(path).startswith("tekken") else HuggingFace(path)


def run(program, tokenizer_file, requests):
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        for r in requests:
            source.write(r)
        source.seek(0)
        subprocess.run([program, "compare", tokenizer_file], stdin=source, stdout=sink, check=True)
        sink.seek(0)
        return sink.read()


def encode_request(s, flags):
    b = s.encode()
    return struct.pack("<cBI", b"E", flags, len(b)) + b


def decode_request(ids, skip):
    return struct.pack("<cBI", b"D", skip, len(ids)) + struct.pack(f"<{len(ids)}I", *ids)


def id_lists(answer):
    at = 0
    while at < len(answer):
        n = struct.unpack_from("<I", answer, at)[0]
        if n == 0xFFFFFFFF:
            yield None
            at += 4
            continue
        yield list(struct.unpack_from(f"<{n}I", answer, at + 4))
        at += 4 + 4 * n


def texts(answer):
    at = 0
    while at < len(answer):
        n = struct.unpack_from("<I", answer, at)[0]
        yield answer[at + 4:at + 4 + n]
        at += 4 + n


def show(kind, examples):
    for e in examples[:8]:
        print(f"  {kind}: " + " | ".join(repr(x)[:300] for x in e))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("file")
    p.add_argument("--strings", type=int, default=200000)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--gguf", action="store_true")
    a = p.parse_args()
    with tempfile.NamedTemporaryFile("wb", suffix=".spec") as spec, tempfile.NamedTemporaryFile("w", suffix=".json") as made:
        mine = reference = a.file
        if a.file.endswith(".gguf"):
            json.dump(smollm_json(a.file), made)
            made.flush()
            reference = made.name
        if a.gguf:
            with open(reference) as f:
                spec.write(spec_of(json.load(f)))
            spec.flush()
            mine = spec.name
        oracle = oracle_of(reference)
        g = Generators(oracle, a.seed)
        strings = list(g.all(a.strings))
        wrong_ids, wrong_texts, decoded = [], [], 0
        lists = []
        for flags in oracle.flags:
            some = strings if flags == oracle.flags[0] else strings[::5]
            want = oracle.encode(some, flags)
            got = list(id_lists(run(a.program, mine, (encode_request(s, flags) for s in some))))
            assert len(got) == len(want)
            wrong_ids += [(s, w, h) for s, w, h in zip(some, want, got) if w != h]
            lists += want if flags == oracle.flags[0] else want[::10]
        if hasattr(oracle, "decodable"):
            lists = [ids for ids in lists if oracle.decodable(ids)]
        lists += [[g.r.choice(oracle.ids) for _ in range(g.r.randint(1, 12))] for _ in range(20000)] if oracle.ids else []
        for skip in (0, 1):
            some = lists if skip == 0 else lists[::5]
            want = oracle.decode(some, skip == 1)
            got = list(texts(run(a.program, mine, (decode_request(i, skip) for i in some))))
            assert len(got) == len(want)
            decoded += len(some)
            wrong_texts += [(i, w, h) for i, w, h in zip(some, want, got) if w != h]
    print(f"{a.file}: {len(strings)} strings, {len(wrong_ids)} differing ids, {decoded} decodings, {len(wrong_texts)} differing, seed {a.seed}")
    show("string, wanted, got", wrong_ids)
    show("ids, wanted, got", wrong_texts)
    sys.exit(1 if wrong_ids or wrong_texts else 0)


if __name__ == "__main__":
    main()
