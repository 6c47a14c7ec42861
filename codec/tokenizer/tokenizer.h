/* tokenizer - text to token ids and token ids to bytes, for byte-level BPE, SentencePiece-style
 * BPE, Unigram and WordPiece. The readers of codec/tokenizer_files create it, each from one kind of
 * file.
 *
 * Ids are the same as those of the reference implementation of the file's format (PyPI `tokenizers`
 * and `sentencepiece`).
 *
 * Threads: immutable after creation, shared by any number of threads; each thread that encodes
 *          owns one mr_tokenizer_scratch.
 * Memory:  the tokenizer copies all data that it needs.
 * Errors:  MR_MALFORMED and MR_PROMPT_TOO_LONG for a text, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_TOKENIZER_H
#define MR_CODEC_TOKENIZER_TOKENIZER_H

#include "codec/status.h"
#include "codec/text.h"
#include "codec/tokenizer/first_space.h"
#include "codec/tokenizer/token_frame.h"
#include "codec/tokenizer/token_ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_tokenizer;
struct mr_tokenizer_scratch;

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

/* Encodes text. Sets out to the ids. out->count is the number of all ids, or with out->enough at
 * least that many. When it is above out->max, the status is MR_PROMPT_TOO_LONG and out->ids has the
 * first ids; out->enough is at least out->max, or 0. MR_MALFORMED when text is not valid UTF-8. */
enum mr_status mr_tokenizer_encode(const struct mr_tokenizer *tokenizer,
                                   struct mr_tokenizer_scratch *scratch, struct mr_text text,
                                   struct mr_encode_options options, struct mr_id_list *out,
                                   struct mr_error *err);

uint32_t mr_tokenizer_vocab_size(const struct mr_tokenizer *tokenizer);
/* The tokens that add_special adds. */
const struct mr_token_frame *mr_tokenizer_frame(const struct mr_tokenizer *tokenizer);
uint32_t mr_tokenizer_bos_id(const struct mr_tokenizer *tokenizer);
uint32_t mr_tokenizer_eos_id(const struct mr_tokenizer *tokenizer);
/* The bytes that a token adds to decoded text, valid as long as the tokenizer. Empty for an id out
 * of range, and with skip_special for a control token. */
struct mr_text mr_tokenizer_bytes(const struct mr_tokenizer *tokenizer, uint32_t id,
                                  bool skip_special);
/* Which spaces at the start of the whole text decoding removes. */
enum mr_first_space mr_tokenizer_first_space(const struct mr_tokenizer *tokenizer);

#endif
