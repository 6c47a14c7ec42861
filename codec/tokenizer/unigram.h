/* unigram - the most probable segmentation of a piece of text into tokens: Kudo, "Subword
 * regularization", 2018.
 *
 * Each token has a score, the logarithm of its probability. The best path through all tokens that
 * occur in the text is found from left to right (Viterbi). If two paths have equal scores, the one
 * found first is kept, whose last token is longer, as in `sentencepiece` and `tokenizers`. A
 * character that no path covers costs the score of the unknown token; adjacent ones become one
 * unknown token, or the tokens <0xHH> of their bytes.
 *
 * Threads: immutable; each thread encodes with its own scratch.
 * Memory:  the ids sorted by text; a scratch of 16 bytes for each byte of its longest piece.
 * Errors:  MR_BAD_FILE at creation, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_UNIGRAM_H
#define MR_CODEC_TOKENIZER_UNIGRAM_H

#include "codec/tokenizer/vocab.h"

#include <stdbool.h>

/* Longest token: a text of n bytes costs O(n) steps of at most this many bytes each. */
#define MR_UNIGRAM_TOKEN_BYTES_MAX ((size_t)4096)

struct mr_unigram;
struct mr_unigram_scratch;

struct mr_unigram_options {
    double unk_score; /* score of an unknown character */
    uint32_t unk_id;  /* id of the unknown token */
    /* an unknown character becomes the tokens <0xHH> of its bytes, if the vocabulary has them */
    bool byte_fallback;
    /* the score of a path is rounded to float, as `sentencepiece` does; `tokenizers` does not */
    bool float_sums;
};

/* Borrows vocab, which must outlive *out. scores[id] for each id of vocab; a token whose score is
 * NaN never occurs in a segmentation. */
enum mr_status mr_unigram_create(struct mr_unigram **out, const struct mr_vocab *vocab,
                                 const double *scores, const struct mr_unigram_options *options,
                                 struct mr_error *err);
void mr_unigram_destroy(struct mr_unigram *unigram);

/* NULL when memory is out. */
struct mr_unigram_scratch *mr_unigram_scratch_create(void);
void mr_unigram_scratch_destroy(struct mr_unigram_scratch *scratch);

/* Adds the token ids of a piece of text to out. piece is valid UTF-8, has at least one byte and is
 * shorter than 4 GiB. */
enum mr_status mr_unigram_encode(const struct mr_unigram *unigram,
                                 struct mr_unigram_scratch *scratch, struct mr_text piece,
                                 struct mr_id_list *out, struct mr_error *err);

#endif
