/* tokenizer - text to token ids and token ids to bytes, for byte-level BPE and SentencePiece-style
 * BPE. A tokenizer is created once, from a tokenizer.json (codec/tokenizer/tokenizer_json.c) or
 * from a specification with the metadata of a GGUF file (codec/tokenizer/tokenizer_spec.c).
 *
 * Ids are the same as those of the reference implementation (PyPI `tokenizers`). An unknown
 * component is an error.
 *
 * Threads: immutable after creation, shared by any number of threads; each thread that encodes
 *          owns one mr_tokenizer_scratch.
 * Memory:  the tokenizer copies what it needs.
 * Errors:  MR_BAD_FILE for an inconsistent or unknown specification, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_TOKENIZER_H
#define MR_CODEC_TOKENIZER_TOKENIZER_H

#include "codec/status.h"
#include "codec/text.h"
#include "codec/tokenizer/token_ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_tokenizer;
struct mr_tokenizer_scratch;

enum mr_token_kind {
    MR_TOKEN_NORMAL,
    MR_TOKEN_CONTROL,
    MR_TOKEN_USER_DEFINED,
    MR_TOKEN_BYTE,
    MR_TOKEN_UNUSED
};

/* What a GGUF file says about its tokenizer. Arrays are borrowed during _create only. */
struct mr_tokenizer_spec {
    struct mr_text model; /* value of tokenizer.ggml.model: "gpt2" or "llama" */
    struct mr_text pre;   /* value of tokenizer.ggml.pre: smollm, gpt2, llama-bpe, qwen2 ... */
    /* [token_count] texts as stored; of model gpt2 in the byte alphabet */
    const struct mr_text *tokens;
    const enum mr_token_kind *kinds; /* [token_count]; NULL: all tokens are normal */
    const float *scores; /* [token_count] scores of SentencePiece; NULL for other models */
    uint32_t token_count;
    const struct mr_text *merges; /* [merge_count] merges, each "left right" */
    uint32_t merge_count;
    uint32_t bos_id, eos_id, unk_id; /* MR_TOKEN_NONE when the file has none */
    bool add_bos, add_eos, add_space_prefix;
};

enum mr_status mr_tokenizer_create(struct mr_tokenizer **out, const struct mr_tokenizer_spec *spec,
                                   struct mr_error *err);
/* Makes a tokenizer from json, the bytes of a tokenizer.json, and config, the bytes of a
 * tokenizer_config.json, which may be empty. */
enum mr_status mr_tokenizer_from_json(struct mr_tokenizer **out, struct mr_text json,
                                      struct mr_text config, struct mr_error *err);
void mr_tokenizer_destroy(struct mr_tokenizer *tokenizer);

struct mr_tokenizer_scratch *mr_tokenizer_scratch_create(const struct mr_tokenizer *tokenizer);
void mr_tokenizer_scratch_destroy(struct mr_tokenizer_scratch *scratch);

struct mr_encode_options {
    bool add_special; /* add the begin and end tokens of the model */
    /* a special token written in the text becomes its id; false: it is encoded as plain text */
    bool parse_special;
    /* [barred_count] ranges of the text, in ascending order, in which no control token
     * (codec/tokenizer/added_tokens.h) is found; text around them is encoded as without them */
    const struct mr_text_range *barred;
    size_t barred_count;
};

/* Encodes text. Sets out to the ids; out->count is the number of all ids; above out->max the
 * status is MR_PROMPT_TOO_LONG and out->ids has the first ones. MR_MALFORMED when text is not
 * valid UTF-8. */
enum mr_status mr_tokenizer_encode(const struct mr_tokenizer *tokenizer,
                                   struct mr_tokenizer_scratch *scratch, struct mr_text text,
                                   struct mr_encode_options options, struct mr_id_list *out,
                                   struct mr_error *err);

uint32_t mr_tokenizer_vocab_size(const struct mr_tokenizer *tokenizer);
uint32_t mr_tokenizer_bos_id(const struct mr_tokenizer *tokenizer);
uint32_t mr_tokenizer_eos_id(const struct mr_tokenizer *tokenizer);
/* The bytes that a token adds to decoded text, valid as long as the tokenizer. Empty for an id out
 * of range, and with skip_special for a control token. */
struct mr_text mr_tokenizer_bytes(const struct mr_tokenizer *tokenizer, uint32_t id,
                                  bool skip_special);
/* True when decoding removes one space at the start of the whole text (SentencePiece). */
bool mr_tokenizer_strips_first_space(const struct mr_tokenizer *tokenizer);

#endif
