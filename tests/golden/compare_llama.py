#!/usr/bin/env python3
"""Compares llama.cpp with the reference on the tiny GGUF files: logits at every position and greedy continuations.

    pip install llama-cpp-python==0.3.36 gguf==0.19.0 numpy
    compare_llama.py [NAME...]      files of tests/golden/gguf, all by default

llama.cpp multiplies weights of 16 bits or less with rounded activations, so it gets copies of the files whose numbers are
all F32; it computes with fp32 KV and without flash attention. Prints the largest difference to expected.bin, with which
golden_test_logits compares millrace, and how many greedy tokens differ. Exit status 1 if a difference is above its
limit, or if a greedy token differs whose margin is above the limit. gpt_oss_mxfp4 is printed without a limit, because
llama.cpp rounds the limits of its yarn. With "truncate": true, which the released models do not have, it is within 2e-5
of transformers.
"""
import pathlib
import struct
import sys
import tempfile

import gguf
import llama_cpp
import numpy

HERE = pathlib.Path(__file__).resolve().parent
# llama.cpp has GELU as a table in fp16.
LIMITS = {"gemma": 3e-3, "gemma2": 3e-3, "gemma3_published": 3e-3}
LIMIT = 1e-4
NOT_JUDGED = "gpt_oss_mxfp4"


def read_expected(path):
    """(tokens, first position with logits, continuation, logits [position][vocabulary]) of each prompt."""
    data = path.read_bytes()
    assert data[:8] == b"MRLOGIT1"
    vocabulary, count = struct.unpack_from("<II", data, 8)
    at, prompts = 16, []
    for _ in range(count):
        tokens, first, more = struct.unpack_from("<III", data, at)
        ids = numpy.frombuffer(data, "<u4", tokens + more, at + 12).tolist()
        at += 12 + 4 * (tokens + more)
        rows = tokens - first
        logits = numpy.frombuffer(data, "<f4", rows * vocabulary, at).reshape(rows, vocabulary)
        at += 4 * rows * vocabulary
        prompts.append((ids[:tokens], first, ids[tokens:], logits))
    return prompts


def write_f32(source, path):
    """A copy of a GGUF file in which every tensor is F32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, inner)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, numbers.astype(numpy.float32).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Model:
    def __init__(self, path):
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        options.use_extra_bufts = False
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        assert self.model, path
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def logits(self, tokens, first):
        """The logits of the positions from `first` on, computed as one batch."""
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = max(256, len(tokens))
        options.n_threads = options.n_threads_batch = 2
        options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
        options.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = llama_cpp.llama_init_from_model(self.model, options)
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, True
        assert llama_cpp.llama_decode(context, batch) == 0
        rows = [numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i), (self.vocabulary,)).copy()
                for i in range(first, len(tokens))]
        llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(context)
        return numpy.stack(rows)


def compare(name):
    limit, worst, positions, greedy, other, wrong = LIMITS.get(name, LIMIT), 0.0, 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        write_f32(HERE / "gguf" / (name + ".gguf"), pathlib.Path(scratch) / "f32.gguf")
        model = Model(pathlib.Path(scratch) / "f32.gguf")
    for tokens, first, continuation, expected in read_expected(HERE / "models" / name / "expected.bin"):
        logits = model.logits(tokens + continuation[:-1], first)
        rows = len(tokens) - first
        worst = max(worst, float(numpy.abs(logits[:rows] - expected).max()))
        positions += rows
        for row, token in zip(logits[rows - 1:], continuation):
            greedy += 1
            if row.argmax() != token:
                other += 1
                wrong += row.max() - row[token] > limit
    print(f"{name}: {positions} positions, largest difference {worst:.2g} (limit {limit:g}), "
          f"{other} of {greedy} greedy tokens differ", flush=True)
    return name == NOT_JUDGED or (worst <= limit and wrong == 0)


if __name__ == "__main__":
    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, None)
    names = sys.argv[1:] or sorted(path.stem for path in (HERE / "gguf").glob("*.gguf"))
    sys.exit(not all([compare(name) for name in names]))
