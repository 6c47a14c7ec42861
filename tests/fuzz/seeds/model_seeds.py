"""Seeds of the targets that read the files of models: tokenizers, GGUF, safetensors, configurations."""
import base64
import glob
import json
import os
import struct

from seed_files import GOLDEN, golden, put

BYTES = {}  # the byte alphabet of byte-level tokenizers
for value in range(256):
    printable = 33 <= value <= 126 or 161 <= value <= 172 or 174 <= value <= 255
    BYTES[value] = chr(value) if printable else chr(256 + len([v for v in BYTES if ord(BYTES[v]) > 255]))


def small_tokenizer(**parts):
    vocab = {"a": 0, "b": 1, BYTES[32]: 2, "ab": 3, BYTES[32] + "a": 4, "<s>": 5, BYTES[0xC3]: 6, BYTES[0xA9]: 7,
             "1": 8, BYTES[10]: 9}
    file = {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": 5, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True},
                             {"id": 10, "content": "New", "normalized": True, "special": False}],
            "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": False, "vocab": vocab, "merges": ["a b", [BYTES[32], "a"]]}}
    file.update(parts)
    return json.dumps(file, ensure_ascii=False)


def split(pattern, behavior="Isolated", invert=False, key="Regex"):
    return {"type": "Split", "pattern": {key: pattern}, "behavior": behavior, "invert": invert}


def tokenizers():
    text = ("ab a\u00e9 <s>  1 New\n a b " + "ab" * 300 + " A\u0301\u1100\u1161").encode()
    level = {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False, "trim_offsets": True}
    stages = [split("(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"),
              {"type": "Digits", "individual_digits": True}, {"type": "Whitespace"},
              {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "WhitespaceSplit"},
              {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
              split("a", "Removed", True, "String"), split(" ", "MergedWithPrevious"),
              split("b", "MergedWithNext", False, "String"), split("\\h+|\\X|[[:alpha:]&&[^a]]", "Contiguous")]
    normalizers = [{"type": "NFC"}, {"type": "NFKC"}, {"type": "NFD"}, {"type": "NFKD"}, {"type": "Lowercase"},
                   {"type": "Prepend", "prepend": "\u2581"}, {"type": "StripAccents"},
                   {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                   {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "_"},
                   {"type": "Strip", "strip_left": True, "strip_right": True}]
    posts = [{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                        {"Sequence": {"id": "A", "type_id": 0}}],
              "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
             {"type": "BertProcessing", "sep": ["<s>", 5], "cls": ["<s>", 5]},
             {"type": "RobertaProcessing", "sep": ["<s>", 5], "cls": ["<s>", 5], "trim_offsets": True,
              "add_prefix_space": False}, level]
    config = b'{"bos_token":"<s>","eos_token":{"content":"New"},"add_bos_token":true,"unk_token":null}'
    files = [small_tokenizer()]
    files += [small_tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [one, level]}) for one in stages]
    files += [small_tokenizer(pre_tokenizer=one) for one in stages[:6]]
    files += [small_tokenizer(normalizer=one) for one in normalizers]
    files += [small_tokenizer(normalizer={"type": "Sequence", "normalizers": normalizers[:6]})]
    files += [small_tokenizer(post_processor=one) for one in posts]
    files += [small_tokenizer(post_processor={"type": "Sequence", "processors": posts[:1] + posts[3:]})]
    decoder = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    model = {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True, "merges": ["\u2581 a"],
             "vocab": {"<unk>": 0, "<0x0A>": 1, "<0xC3>": 2, "\u2581": 3, "a": 4, "\u2581a": 5}}
    files += [small_tokenizer(added_tokens=[], decoder=decoder, model=model, pre_tokenizer=None,
                              normalizer={"type": "Sequence", "normalizers": [normalizers[5], normalizers[7]]})]
    flags = [{"id": 5, "content": "<s>", "lstrip": True, "rstrip": True, "special": True},
             {"id": 10, "content": "a", "single_word": True, "normalized": False}, {"id": 11, "content": "a b"},
             {"id": 12, "content": "  ", "lstrip": True, "rstrip": True}]
    files += [small_tokenizer(added_tokens=flags), small_tokenizer(added_tokens=flags, normalizer={"type": "NFC"})]
    merging = json.loads(small_tokenizer())["model"]
    files += [small_tokenizer(model=dict(merging, ignore_merges=True)),
              small_tokenizer(model=dict(merging, merges=["a b", "ab ab"], vocab=dict(merging["vocab"], abab=11))),
              small_tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [
                  split("\\v|\\u00e9|\\x41|\\P{Lu}|[\\p{L}\\d&&a]|\\S+|\\W|(?!a)b|\\.|\\A"), level]})]
    files += [small_tokenizer(added_tokens=[], decoder={"type": "Metaspace", "replacement": "\u2581"}, model=model)]
    charsmap = base64.b64encode(character_map()).decode()
    scored = [["<unk>", 0.0], ["\u2581", -3.0], ["a", -4.0], ["b", -4.5], ["ab", -2.0], ["<s>", 0.0], ["\u2581a", -1.0], ["<0x0A>", 0.0]]
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": scored, "byte_fallback": True}
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    mapped = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    for change in [{}, {"normalizer": mapped}, {"normalizer": {"type": "Sequence", "normalizers": [mapped, {"type": "Nmt"}]}},
                   {"normalizer": {"type": "Precompiled"}}, {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "*"}},
                   {"model": dict(unigram, unk_id=None)}, {"model": dict(unigram, vocab=[])}, {"model": dict(unigram, vocab=[["a"]])},
                   {"model": dict(unigram, byte_fallback=1)}, {"decoder": dict(space, prepend_scheme="never")}, {"decoder": dict(space, replacement="")}]:
        files += [small_tokenizer(**{"model": unigram, "pre_tokenizer": space, "decoder": space, **change})]
    files += [small_tokenizer(model=dict(merging, **change)) for change in (
        {"dropout": 0.5}, {"continuing_subword_prefix": "##"}, {"end_of_word_suffix": "</w>"}, {"vocab": []}, {"vocab": {"a": -1}},
        {"vocab": {"a": 1, "b": 1}}, {"merges": 1}, {"merges": ["a"]}, {"merges": [["a"]]}, {"type": "WordPiece"}, {"type": "WordLevel"})]
    files += [small_tokenizer(pre_tokenizer=one) for one in (
        {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "-"}, {"type": "UnicodeScripts"}, {"type": "Metaspace"},
        dict(space, add_prefix_space=True, prepend_scheme="never"), split("a" * 200, key="String"), {"type": "Digits"},
        {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}] * 20},
        {"type": "Sequence", "pretokenizers": [split("a")] * 20}, {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, level]})]
    files += [small_tokenizer(normalizer=one) for one in (
        level, {"type": "Nmt"}, {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 20}, {"type": "z"})]
    files += [small_tokenizer(decoder=one) for one in (
        {"type": "WordPiece"}, {"type": "z"}, {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Replace"}]},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x", "start": 1, "stop": 0}]})]
    many = [{"SpecialToken": {"id": "<s>", "type_id": 0}}] * 40 + [{"Sequence": {"id": "A", "type_id": 0}}]
    files += [small_tokenizer(post_processor=one) for one in (
        dict(posts[0], single=many), dict(posts[0], special_tokens={"<s>": {"ids": [99]}}), dict(posts[0], special_tokens={}),
        {"type": "Sequence", "processors": [posts[0], posts[1]]}, {"type": "z"})]
    names = ["<|a|>", "<\uff5cb\uff5c>", "<|im_end|>", "Hello"]
    files += [small_tokenizer(added_tokens=[{"id": 10 + i, "content": name, "special": False} for i, name in enumerate(names)]),
              small_tokenizer(added_tokens=[{"id": -1, "content": "x"}]), small_tokenizer(added_tokens=[{"content": "x"}])]
    for file in files:
        put("tokenizer", file.encode() + b"\0" + config + b"\0" + text)
    controls = "\x01\x0b\x7f\t\u200b\u2028 \u2581 \ufeff a\u0301\ufb01 \u4e2d\u6587 <|a|> <\uff5cb\uff5c>".encode()
    for file in files[-60:]:
        put("tokenizer", file.encode() + b"\0" + config + b"\0" + controls)
    for _, data in golden("tokenizer/odd_style.json"):
        put("tokenizer", data)
    for _, data in golden("models/qwen2/tokenizer.json"):
        put("tokenizer", data + b"\0" + config + b"\0" + text)


def number(value):
    """A varint of Protocol Buffers."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def message(field, data):
    return number(field << 3 | 2) + number(len(data)) + data


def character_map():
    """A character map of one entry, "a" to "b": see test_charsmap.c."""
    units = [256 << 10] + [0] * 511
    units[256 ^ 97], units[256 ^ 97 ^ 128] = 1 << 8 | 128 << 10 | 97, 1 << 31
    return struct.pack("<I512I", 2048, *units) + b"b\0"


def sentencepiece_models():
    tokens = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("\u2581", -3, 1), ("a", -4, 1), ("b", -4, 1), ("ab", -2, 1), ("\u2581a", -1, 1),
              ("<0x0A>", 0, 6), ("x y", 0, 4), ("bb", -1, 5), ("\u00e9", -6, 1)]
    charsmap = character_map()
    text = ("ab a\u00e9 <s>  x y New\n a b bb " + "ab" * 200).encode()
    for kind in (1, 2, 3):
        for flags in range(8):
            pieces = b"".join(message(1, message(1, t.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([of])) for t, score, of in tokens)
            trainer = b"\x18" + bytes([kind]) + number(24 << 3) + bytes([flags & 1]) + number(35 << 3) + bytes([flags >> 1 & 1])
            normalizer = (message(2, charsmap) if flags & 4 else b"") + b"\x18" + bytes([flags & 1 ^ 1]) + b"\x20" + bytes([flags >> 1 & 1])
            model = pieces + message(2, trainer) + message(3, normalizer)
            config = b'{"bos_token":"<s>","legacy":true,"added_tokens_decoder":{"12":{"content":"New","special":true}}}'
            put("sentencepiece", struct.pack("<H", len(model)) + model + (config if flags & 1 else b"") + b"\0" + b'{"c d":13}\0' + text)
    for _, model in golden("tokenizer/sentencepiece_*.model"):
        put("sentencepiece", struct.pack("<H", len(model)) + model + b"\0\0" + text)


def tekkens():
    """A small tekken.json, whole and with damage."""
    vocab = [{"rank": i, "token_bytes": base64.b64encode(b).decode()} for i, b in enumerate([bytes([b]) for b in range(256)] + [b"ab", b"abc"])]
    config = {"pattern": "\\w+|\\W", "default_vocab_size": 263, "default_num_special_tokens": 5}
    special = [{"rank": 1, "token_str": "<s>", "is_control": True}, {"rank": 2, "token_str": "</s>"}]
    file = {"config": config, "vocab": vocab, "special_tokens": special}
    for change in ({}, {"special_tokens": None}, {"vocab": vocab[1:]}, {"config": dict(config, default_vocab_size=100)}, {"vocab": vocab + [{"rank": 258}]}):
        put("tokenizer", json.dumps({**file, **change}, separators=(",", ":")).encode() + b"\0{\"add_eos_token\":true}\0abcab <s> \xff")


def gguf_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(kind, value):
    packs = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
    return gguf_text(value) if kind == 8 else struct.pack("<" + packs[kind], value)


def gguf_file(keys, tensors, version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        if isinstance(value, list):
            out += gguf_text(name) + struct.pack("<IIQ", 9, kind, len(value))
            out += b"".join(gguf_value(kind, one) for one in value)
        else:
            out += gguf_text(name) + struct.pack("<I", kind) + gguf_value(kind, value)
    offset, data = 0, b""
    for name, dims, kind, size in tensors:
        out += gguf_text(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        out += struct.pack("<IQ", kind, offset)
        data += bytes(range(256))[:size] * 1 + bytes(max(0, size - 256)) + bytes(-size % alignment)
        offset += size + -size % alignment
    return out + bytes(-len(out) % alignment) + data


def gguf_files():
    def keys(family, model, pre, extra=()):
        tokens = ["a", "b", BYTES[32], "ab", "1", "<s>", BYTES[0xC3], BYTES[0xA9]]
        if model == "llama":
            tokens = ["<unk>", "<s>", "\u2581", "a", "\u2581a", "<0x0A>", "b", "1"]
        listed = [("general.architecture", 8, family), ("general.name", 8, "tiny"),
                  (family + ".block_count", 4, 2), (family + ".context_length", 4, 64),
                  (family + ".embedding_length", 4, 32), (family + ".feed_forward_length", 4, 64),
                  (family + ".attention.head_count", 4, 4), (family + ".attention.head_count_kv", 4, 2),
                  (family + ".attention.layer_norm_rms_epsilon", 6, 1e-5),
                  (family + ".rope.dimension_count", 4, 8), (family + ".rope.freq_base", 6, 10000.0),
                  ("tokenizer.ggml.model", 8, model), ("tokenizer.ggml.pre", 8, pre),
                  ("tokenizer.ggml.tokens", 8, tokens),
                  ("tokenizer.ggml.token_type", 5, [2, 3, 1, 1, 1, 6, 1, 1] if model == "llama"
                   else [1, 1, 1, 1, 1, 3, 1, 4]),
                  ("tokenizer.ggml.bos_token_id", 4, 5 if model == "gpt2" else 1),
                  ("tokenizer.ggml.eos_token_id", 4, 5), ("tokenizer.ggml.unknown_token_id", 4, 0),
                  ("tokenizer.ggml.add_bos_token", 7, 1), ("tokenizer.ggml.add_eos_token", 7, 0),
                  ("tokenizer.ggml.add_space_prefix", 7, 1),
                  ("tokenizer.chat_template", 8, "{{ messages[0].content }}")]
        listed += [("tokenizer.ggml.scores", 6, [0.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0])
                   if model == "llama" else ("tokenizer.ggml.merges", 8, ["a b"])]
        return listed + list(extra)

    tensors = [("token_embd.weight", [32, 8], 0, 1024), ("output_norm.weight", [32], 0, 128),
               ("blk.0.a", [32, 2], 1, 128), ("blk.0.b", [32, 2], 30, 128), ("blk.0.c", [32, 2], 2, 36),
               ("blk.0.d", [32, 2], 3, 40), ("blk.0.e", [32, 2], 6, 44), ("blk.0.f", [32, 2], 7, 48),
               ("blk.0.g", [32, 2], 8, 68), ("blk.0.k", [32, 2], 20, 36), ("blk.0.l", [32, 2], 39, 34)]
    tensors += [("blk.1.%d" % kind, [256, 1], kind, size)
                for kind, size in [(10, 84), (11, 110), (12, 144), (13, 176), (14, 210), (23, 136)]]
    tensors += [("blk.0.h", [256, 1], 15, 292)]
    for family, model, pre in [("llama", "gpt2", "smollm"), ("llama", "llama", "default"), ("qwen2", "gpt2", "qwen2"),
                               ("qwen3", "gpt2", "qwen2"), ("mistral", "llama", "default"),
                               ("llama", "gpt2", "llama-bpe"), ("llama", "gpt2", "gpt-2"), ("gemma", "gpt2", "x")]:
        put("gguf", gguf_file(keys(family, model, pre), tensors[:3]))
    put("gguf", gguf_file([], tensors))
    put("gguf", gguf_file([], tensors[:-1]))
    put("gguf", gguf_file([], [(name, dims, kind, size) for name, dims, kind, size in reversed(tensors[2:-1])], 2))
    put("gguf", gguf_file([("general.alignment", 4, 64), ("n", 12, 0.5), ("q", 10, 1 << 40), ("i", 11, -3),
                           ("list", 2, [1, 2]), ("texts", 8, ["x", ""])], tensors[:2], 2, 64))
    for extra in [[("llama.rope.scaling.type", 8, "linear"), ("llama.rope.scaling.factor", 6, 2.0)],
                  [("llama.attention.key_length", 4, 16), ("llama.attention.value_length", 4, 16)],
                  [("llama.vocab_size", 4, 8), ("tokenizer.ggml.eot_token_id", 4, 4), ("llama.expert_count", 4, 2)],
                  [("llama.attention.sliding_window", 4, 16), ("llama.rope.scaling.attn_factor", 6, 1.0)],
                  [("general.file_type", 4, 1), ("tokenizer.ggml.padding_token_id", 4, 3)]]:
        put("gguf", gguf_file(keys("llama", "gpt2", "smollm", extra), tensors[:2]))
    put_families(keys, tensors)
    listed = keys("llama", "gpt2", "smollm")
    place = lambda number, count: [("split.no", 2, number), ("split.count", 2, count)]
    for first, second in [((0, 2), (1, 2)), ((0, 2), (0, 2)), ((0, 3), (1, 3)), ((1, 2), (1, 2)), ((0, 60000), (1, 60000)), ((0, 2), (1, 3))]:
        put("gguf", gguf_file(listed + place(*first), tensors[:1]) + gguf_file(place(*second), tensors[1:3]))


def put_families(keys, tensors):
    """A file of each family and kind of tokenizer, and each key that changes how a file is read."""
    with_router = tensors[:2] + [("blk.%d.%s.weight" % (layer, name), [32], 0, 128) for layer in (0, 1)
                                 for name in ("ffn_gate_inp", "ffn_up_shexp", "attn_q_norm")]
    factors = [("rope_factors_%s.weight" % name, [4], 0, 16) for name in ("long", "short")]
    for family in ("llama", "mistral3", "qwen2moe", "qwen3moe", "gemma", "gemma2", "gemma3", "phi3", "smollm3", "olmo2", "granite",
                   "granitemoe", "stablelm", "gpt-oss"):
        own = lambda name, kind, value: (family + "." + name, kind, value)
        for extra in [[], [own("embedding_scale", 6, 12.0), own("attention.scale", 6, 0.1), own("logit_scale", 6, 8.0)],
                      [own("rope.scaling.type", 8, "yarn"), own("rope.scaling.factor", 6, 4.0), own("rope.scaling.yarn_beta_fast", 6, 16.0)],
                      [own("expert_count", 4, 4), own("expert_used_count", 4, 2), own("expert_gating_func", 4, 2)],
                      [own("expert_count", 4, 4), own("expert_used_count", 4, 2), own("expert_shared_feed_forward_length", 4, 64)],
                      [own("attention.sliding_window", 4, 16), own("attention.sliding_window_pattern", 7, [1, 0])],
                      [own("attention.sliding_window", 4, 16), own("attention.sliding_window_pattern", 4, 2)],
                      [own("attention.layer_norm_epsilon", 6, 1e-5), own("attention.causal", 7, 0)], [own("rope.scaling.finetuned", 7, 0)],
                      [own("rope.freq_base_swa", 6, 100.0), own("attention.layer_norm_epsilon", 6, 1e-5)]]:
            put("gguf", gguf_file(keys(family, "gpt2", "smollm", extra), with_router))
    replaced = lambda changes: [changes.pop(key[0], key) for key in keys("llama", "gpt2", "smollm")]
    for name, kind, value in [
            ("llama.attention.head_count_kv", 5, [2, 2]), ("llama.attention.head_count_kv", 5, [2, 1]), ("llama.block_count", 1, 2),
            ("llama.context_length", 3, 64), ("llama.feed_forward_length", 12, 64.0), ("llama.block_count", 8, "x"),
            ("llama.attention.head_count", 4, [])]:
        put("gguf", gguf_file(replaced({name: (name, kind, value)}), tensors[:2]))
    for extra in [[("llama.rope.scaling.type", 8, "longrope")], [("llama.rope.scaling.type", 8, "z")], [("llama.rope.scale_linear", 6, 2.0)],
                  [("llama.nextn_predict_layers", 4, 1)], [("llama.attention.sliding_window_pattern", 6, [1.0, 0.0])],
                  [("tokenizer.ggml.eos_token_ids", 5, [4, 5, -1])], [("tokenizer.ggml.eos_token_ids", 4, [4, 5, 99])]]:
        put("gguf", gguf_file(keys("llama", "gpt2", "smollm", extra), tensors[:2] + factors))
    put("gguf", gguf_file(keys("phi3", "gpt2", "smollm"), tensors[:2] + factors))
    put("gguf", gguf_file(keys("llama", "gpt2", "smollm"), tensors[:2] + [("rope_freqs.weight", [4], 0, 16)]))
    put("gguf", gguf_file(keys("llama", "gpt2", "smollm"), tensors[:2] + [("rope_freqs.weight", [3], 0, 16)]))
    tokens = ["<unk>", "</s>", "<pad>", "\u2581", "a", "\u2581a", "<0x0A>", "<|im_end|>"]
    named = {"tokenizer.ggml.tokens": 8, "tokenizer.ggml.scores": 6, "tokenizer.ggml.token_type": 5}
    for changes in [{}, {"tokenizer.ggml.token_type": [1] * 8}, {"tokenizer.ggml.token_type": [9] * 8}, {"tokenizer.ggml.token_type": [1]},
                    {"tokenizer.ggml.scores": [-1.0] * 8}, {"tokenizer.ggml.scores": [-1.0]}, {"tokenizer.ggml.tokens": ["<|return|>", "<|call|>", "<|end|>"] + tokens[3:]}]:
        for model, extra in [("t5", [("tokenizer.ggml.precompiled_charsmap", 0, list(character_map()))]), ("t5", []), ("llama", []), ("gpt2", []),
                             ("bert", []), ("t5", [("tokenizer.ggml.remove_extra_whitespaces", 7, 1)])]:
            of = {"tokenizer.ggml.tokens": tokens, **changes}
            listed = [(key[0], named[key[0]], of[key[0]]) if key[0] in of else key for key in keys("llama", "llama", "default", extra)]
            put("gguf", gguf_file([("tokenizer.ggml.model", 8, model) if key[0] == "tokenizer.ggml.model" else key for key in listed], tensors[:2]))


def safetensors_files():
    def header(*tensors):
        out, at = {"__metadata__": {"format": "pt"}}, 0
        for name, kind, shape, size in tensors:
            out[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        return json.dumps(out).encode(), at

    for tensors in [[("a", "F32", [2, 4], 32), ("b", "BF16", [8], 16), ("c", "F16", [2, 2], 8)],
                    [("x", "I64", [1], 8), ("y", "U8", [4], 4)], [("one", "F32", [], 4)], []]:
        head, size = header(*tensors)
        put("safetensors", b"\1" + struct.pack("<H", size) + head)
        put("safetensors", b"\0" + struct.pack("<Q", len(head)) + head + bytes(size))
        index = {"metadata": {"total_size": size}, "weight_map": {t[0]: "a.safetensors" for t in tensors}}
        put("safetensors", b"\2" + json.dumps(index).encode() + b"\0" + struct.pack("<H", size) + head)
    put("safetensors", b"\2" + b'{"weight_map":{"a":"../a.safetensors"}}' + b"\0")
    data = lambda *numbers: struct.pack(f"<{len(numbers)}q", *numbers)
    configs = {1: [{"quant_method": "fp8", "weight_block_size": [8, 8]}, {"quant_method": "fp8", "weight_block_size": 1}],
               2: [{"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {
                   "weights": {"num_bits": 4, "group_size": 8, "block_structure": [4, 4]}, "format": "int-quantized"}}},
                   {"quant_method": "compressed-tensors", "format": "z"}, {"quant_method": "compressed-tensors", "sparsity_config": {"format": "z"}},
                   {"quant_method": "compressed-tensors", "config_groups": {"g": {"format": "z"}}}],
               3: [{"quant_method": "awq", "bits": 4, "group_size": 8}, {"quant_method": "awq", "w_bit": 4, "q_group_size": 8, "version": "GEMM"},
                   {"quant_method": "awq", "version": "gemv"}, {"quant_method": "awq", "bits": 8}],
               4: [{"quant_method": "gptq", "bits": 4, "group_size": 8}, {"quant_method": "gptq", "bits": 8, "checkpoint_format": "gptq_v2"},
                   {"quant_method": "gptq", "bits": 3}, {"quant_method": "gptq", "checkpoint_format": "marlin"}],
               5: [{"quant_method": "mxfp4"}, {"load_in_4bit": True}, {"load_in_8bit": True}, {"quant_method": "z"}, None, {}]}
    for form, tensors, values in [
            (b"\3\0\37", [("a.qweight", "I32", [32, 1], 128), ("a.qzeros", "I32", [1, 1], 4),
                           ("a.scales", "F16", [1, 8], 16)], b"\x21\x43" * 64 + b"\x11" * 4 + b"\0\x3c" * 8),
            (b"\4\0\37", [("a.qweight", "I32", [4, 8], 128), ("a.qzeros", "I32", [1, 1], 4), ("a.scales", "F16", [1, 8], 16)],
             b"\x21\x43" * 64 + b"\x11" * 4 + b"\0\x3c" * 4 + b"\1\2\0\x3c\xff\xff\0\xfc"),
            (b"\4\0\37", [("a.qweight", "I32", [4, 8], 128), ("a.qzeros", "I32", [1, 1], 4), ("a.scales", "BF16", [1, 8], 16),
                           ("a.g_idx", "I32", [32], 128)], b"\x21\x43" * 64 + b"\x11" * 4 + b"\x80\x3f" * 8),
            (b"\2\0\37", [("a.weight_shape", "I64", [2], 16), ("a.weight_packed", "I32", [8, 4], 128), ("a.weight_scale", "BF16", [8, 1], 16)],
             data(8, 32) + b"\x21\x43" * 64 + b"\x80\x3f" * 8),
            (b"\1\0\0", [("a.weight", "F8_E4M3", [8, 8], 64), ("a.weight_scale_inv", "F32", [8, 8], 256)], b""),
            (b"\2\0\7", [("a.weight_shape", "I64", [2], 16), ("a.weight_packed", "I32", [8, 2], 64),
                          ("a.weight_scale", "F16", [8, 2], 32), ("a.weight_zero_point", "I32", [1, 2], 8),
                          ("a.weight_g_idx", "I32", [16], 64)], data(8, 16)),
            (b"\2\0\0", [("a.weight", "I8", [4, 4], 16), ("a.weight_scale", "BF16", [4, 1], 8),
                          ("a.weight_zero_point", "I8", [4, 1], 4)], b""),
            (b"\3\0\7", [("a.qweight", "I32", [16, 1], 64), ("a.qzeros", "I32", [2, 1], 8),
                          ("a.scales", "F16", [2, 8], 32)], b""),
            (b"\4\2\7", [("a.qweight", "I32", [2, 8], 64), ("a.qzeros", "I32", [2, 1], 8),
                          ("a.scales", "F16", [2, 8], 32), ("a.g_idx", "I32", [16], 64)], b""),
            (b"\5\0\0", [("x_blocks", "U8", [2, 2, 1, 16], 64), ("x_scales", "U8", [2, 2, 1], 4)], b"")]:
        head, size = header(*tensors)
        rest = struct.pack("<H", len(head)) + head + values.ljust(size, b"\0")
        put("safetensors", b"\3" + form + rest)
        for config in configs[form[0]]:
            for key in ("quantization_config", "compression_config"):
                put("safetensors", b"\4" + json.dumps({key: config}).encode() + b"\0" + rest)


def configs():
    for folder in sorted(glob.glob(os.path.join(GOLDEN, "models/*/"))):
        parts = [open(folder + name, "rb").read()
                 for name in ("config.json", "generation_config.json", "tokenizer_config.json")]
        put("model_config", b"\0".join(parts))
        config = json.loads(parts[0])
        for change in [{"rope_scaling": {"type": "linear", "factor": 2.0}},
                       {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
                       {"eos_token_id": [1, 2, 3]}, {"num_key_value_heads": None}, {"hidden_act": "gelu"},
                       {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
                       {"layer_types": ["sliding_attention", "full_attention"]}, {"attention_bias": True}]:
            put("model_config", json.dumps(dict(config, **change)).encode() + b"\0"
                + b'{"temperature":0.6,"top_p":0.9,"top_k":20,"eos_token_id":[2,3]}\0'
                + b'{"bos_token":"<s>","eos_token":{"content":"</s>"},"chat_template":'
                + b'[{"name":"default","template":"{{ 1 }}"},{"name":"tool","template":"x"}]}')


def make():
    for part in (tokenizers, tekkens, sentencepiece_models, gguf_files, safetensors_files, configs):
        part()
