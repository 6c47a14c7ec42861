/* tokenizer_parts - the parts of a tokenizer, in the same form for every source file.
 * tokenizer_json.c and tokenizer_spec.c fill them, tokenizer_assemble.c builds the tokenizer from
 * them.
 *
 * Owner:  the function that reads the source.
 * Memory: vocab, normalizer and pretokenizer pass to the tokenizer; the rest is copied.
 * Errors: MR_BAD_FILE. */
#ifndef MR_CODEC_TOKENIZER_TOKENIZER_PARTS_H
#define MR_CODEC_TOKENIZER_TOKENIZER_PARTS_H

#include "codec/tokenizer/added_tokens.h"
#include "codec/tokenizer/bpe.h"
#include "codec/tokenizer/first_space.h"
#include "codec/tokenizer/normalizer.h"
#include "codec/tokenizer/pretokenizer.h"
#include "codec/tokenizer/token_frame.h"
#include "codec/tokenizer/unigram.h"
#include "codec/tokenizer/wordpiece.h"

#define MR_DECODE_REPLACES_MAX 4

/* How a token's text becomes the bytes it stands for. */
struct mr_token_decoder {
    bool byte_level;    /* the token's text is in the byte alphabet (byte_alphabet.h) */
    bool byte_fallback; /* a token <0xHH> stands for one byte */
    enum mr_first_space first_space;
    /* replaces from[i] by to[i] in the token's text */
    struct mr_text from[MR_DECODE_REPLACES_MAX], to[MR_DECODE_REPLACES_MAX];
    size_t replace_count;
};

struct mr_tokenizer_parts {
    struct mr_vocab *vocab;
    struct mr_merge *merges; /* of a BPE model */
    size_t merge_count;
    double *scores; /* [size of vocab] scores of a Unigram model; NULL: the model is BPE */
    struct mr_unigram_options unigram;
    struct mr_wordpiece wordpiece; /* chars_max 0: the model is another; `vocab` is set later */
    struct mr_added_token *added;
    size_t added_count;
    struct mr_bpe_options model; /* the field `bytes` is set by mr_tokenizer_assemble */
    struct mr_normalizer *normalizer;
    struct mr_pretokenizer *pretokenizer;
    struct mr_token_decoder decoder;
    struct mr_token_frame frame;
    uint32_t bos_id, eos_id;
};

/* Frees the members that parts still owns. mr_tokenizer_assemble takes some of them. */
void mr_tokenizer_parts_drop(struct mr_tokenizer_parts *parts);

/* Fills a merge: looks up the ids of left, right and the joined text. Errors: MR_BAD_FILE when the
 * vocabulary lacks one of the three, MR_NOMEM. The caller sets the rank. */
enum mr_status mr_tokenizer_resolve_merge(const struct mr_vocab *vocab, struct mr_text left,
                                          struct mr_text right, struct mr_merge *out,
                                          struct mr_error *err);

#endif
