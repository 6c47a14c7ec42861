/* tokenizer_spec - makes a tokenizer from the metadata of a GGUF file.
 *
 * Threads: any. Memory: the tokenizer copies all data that it needs.
 * Errors:  MR_BAD_FILE for an inconsistent or unknown specification, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_FILES_TOKENIZER_SPEC_H
#define MR_CODEC_TOKENIZER_FILES_TOKENIZER_SPEC_H

#include "codec/tokenizer/tokenizer.h"
#include "codec/tokenizer_files/token_kind.h"

/* A GGUF file's data about its tokenizer. Arrays are borrowed during _create only. */
struct mr_tokenizer_spec {
    /* value of tokenizer.ggml.model: "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5"
     * (SentencePiece Unigram) */
    struct mr_text model;
    struct mr_text pre; /* value of tokenizer.ggml.pre: smollm, gpt2, llama-bpe, qwen2 ... */
    /* [token_count] texts as stored; of model gpt2 in the byte alphabet */
    const struct mr_text *tokens;
    const enum mr_token_kind *kinds; /* [token_count]; NULL: all tokens are normal */
    const float *scores; /* [token_count] scores of SentencePiece; NULL for other models */
    uint32_t token_count;
    const struct mr_text *merges; /* [merge_count] merges, each "left right" */
    uint32_t merge_count;
    uint32_t bos_id, eos_id, unk_id; /* MR_TOKEN_NONE when the file has none */
    bool add_bos, add_eos, add_space_prefix;
    bool remove_extra_spaces; /* only for model t5, as are the members below: */
    struct mr_text charsmap;  /* the precompiled character map; may be empty */
};

enum mr_status mr_tokenizer_create(struct mr_tokenizer **out, const struct mr_tokenizer_spec *spec,
                                   struct mr_error *err);

#endif
