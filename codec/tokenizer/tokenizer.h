/* tokenizer - text to token ids and token ids to bytes, for byte-level BPE and SentencePiece-style
 * BPE. Built once from a specification, which comes from a tokenizer.json (mr_tokenizer_from_json)
 * or from GGUF metadata (ops/files/gguf_tokenizer.c fills the specification).
 *
 * Ids are identical to the reference implementation's (PyPI `tokenizers`); a component this program
 * does not know makes loading fail, it is never guessed. codec/tokenizer/tokenizer_json.c and
 * codec/tokenizer/tokenizer_spec.c read the two sources.
 *
 * Threads: immutable after creation, shared by any number of threads; each thread that encodes
 *          owns one mr_tokenizer_scratch.
 * Memory:  the tokenizer copies what it needs from the specification.
 * Errors:  MR_BAD_FILE for a specification that is inconsistent or unknown, MR_NOMEM. */
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

/* What GGUF metadata says. Arrays are borrowed during _create only. */
struct mr_tokenizer_spec {
    struct mr_text model;            /* tokenizer.ggml.model: "gpt2" or "llama" */
    struct mr_text pre;              /* tokenizer.ggml.pre: smollm, gpt2, llama-bpe, qwen2 ... */
    const struct mr_text *tokens;    /* [token_count] as stored (byte-level alphabet for gpt2) */
    const enum mr_token_kind *kinds; /* [token_count] or NULL: all normal */
    const float *scores;             /* [token_count] or NULL; SentencePiece only */
    uint32_t token_count;
    const struct mr_text *merges; /* [merge_count] "left right" */
    uint32_t merge_count;
    uint32_t bos_id, eos_id, unk_id; /* MR_TOKEN_NONE when absent */
    bool add_bos, add_eos, add_space_prefix;
};

enum mr_status mr_tokenizer_create(struct mr_tokenizer **out, const struct mr_tokenizer_spec *spec,
                                   struct mr_error *err);
/* json: the bytes of a tokenizer.json; config: those of tokenizer_config.json, may be empty. */
enum mr_status mr_tokenizer_from_json(struct mr_tokenizer **out, struct mr_text json,
                                      struct mr_text config, struct mr_error *err);
void mr_tokenizer_destroy(struct mr_tokenizer *tokenizer);

struct mr_tokenizer_scratch *mr_tokenizer_scratch_create(const struct mr_tokenizer *tokenizer);
void mr_tokenizer_scratch_destroy(struct mr_tokenizer_scratch *scratch);

struct mr_encode_options {
    bool add_special;   /* the model's own begin/end tokens, as the reference does by default */
    bool parse_special; /* special tokens written in the text become their ids */
};

/* Encodes text into out, from its beginning. out->count is the number of tokens of the whole text
 * even when it exceeds out->max (then MR_PROMPT_TOO_LONG and out->ids holds the first of them).
 * Text that is not valid UTF-8 is MR_MALFORMED. */
enum mr_status mr_tokenizer_encode(const struct mr_tokenizer *tokenizer,
                                   struct mr_tokenizer_scratch *scratch, struct mr_text text,
                                   struct mr_encode_options options, struct mr_id_list *out,
                                   struct mr_error *err);

uint32_t mr_tokenizer_vocab_size(const struct mr_tokenizer *tokenizer);
uint32_t mr_tokenizer_bos_id(const struct mr_tokenizer *tokenizer);
uint32_t mr_tokenizer_eos_id(const struct mr_tokenizer *tokenizer);
/* The raw bytes this id stands for in decoded text; empty for control tokens when skip_special.
 * Valid as long as the tokenizer. id out of range: empty. */
struct mr_text mr_tokenizer_bytes(const struct mr_tokenizer *tokenizer, uint32_t id,
                                  bool skip_special);
/* True where decoding drops one leading space of the whole text (SentencePiece). */
bool mr_tokenizer_strips_first_space(const struct mr_tokenizer *tokenizer);

#endif
