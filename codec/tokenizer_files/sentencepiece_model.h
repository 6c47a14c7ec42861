/* sentencepiece_model - reads a tokenizer.model, the file of SentencePiece: a Protocol Buffers
 * message ModelProto as in sentencepiece_model.proto of its sources, with the vocabulary and the
 * rules of normalization.
 *
 * Only the wire format is read here (varints, 32-bit, 64-bit and length-delimited fields); unknown
 * fields are skipped. Every length is checked against the bytes that are left.
 *
 * Threads: any. Memory: arrays of the model; texts are borrowed from the bytes of the file.
 * Errors:  MR_BAD_FILE, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H
#define MR_CODEC_TOKENIZER_FILES_SENTENCEPIECE_MODEL_H

#include "codec/status.h"
#include "codec/text.h"
#include "codec/tokenizer_files/token_kind.h"

#include <stdbool.h>
#include <stdint.h>

enum mr_sentencepiece_type { /* the values of the file */
                             MR_SENTENCEPIECE_UNIGRAM = 1,
                             MR_SENTENCEPIECE_BPE = 2,
                             MR_SENTENCEPIECE_WORD = 3,
                             MR_SENTENCEPIECE_CHAR = 4
};

struct mr_sentencepiece_model {
    struct mr_text *tokens;    /* [token_count] texts by id */
    float *scores;             /* [token_count] */
    enum mr_token_kind *kinds; /* [token_count]; the unknown token is a control token */
    uint32_t token_count;
    uint32_t unk_id;         /* the token of type "unknown" */
    uint32_t bos_id, eos_id; /* MR_TOKEN_NONE when there is none */
    enum mr_sentencepiece_type type;
    bool byte_fallback;
    struct mr_text charsmap; /* precompiled_charsmap; may be empty */
    bool add_dummy_prefix, space_as_suffix, remove_extra_spaces, escape_spaces;
};

enum mr_status mr_sentencepiece_model_parse(struct mr_sentencepiece_model *out,
                                            struct mr_text bytes, struct mr_error *err);
void mr_sentencepiece_model_drop(struct mr_sentencepiece_model *model);

#endif
