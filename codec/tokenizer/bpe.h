/* bpe - byte pair encoding of one piece: Sennrich, Haddow and Birch, "Neural machine translation of
 * rare words with subword units", 2016.
 *
 * The piece is split into its characters (or bytes), then the adjacent pair with the lowest rank is
 * merged, leftmost first, until no pair has a rank. Short pieces scan an array; long ones use a
 * queue of pairs and a linked list, O(n log n) for any text. The pieces met last are remembered in
 * the scratch.
 *
 * Threads: immutable; each thread encodes with its own scratch.
 * Memory:  the pair table at most half full; a scratch as large as its longest piece.
 * Errors:  MR_BAD_FILE at creation, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_BPE_H
#define MR_CODEC_TOKENIZER_BPE_H

#include "codec/tokenizer/vocab.h"

struct mr_bpe;
struct mr_bpe_scratch;

/* left and right become result. Lower ranks go first; merges of the same rank go by their place in
 * the piece. */
struct mr_merge {
    uint32_t left, right, result;
    uint32_t rank;
};

struct mr_bpe_options {
    bool bytes;         /* pieces are bytes, the vocabulary is written in the byte alphabet */
    bool ignore_merges; /* a piece that is a token becomes that token at once */
    bool byte_fallback; /* a character without token becomes its bytes' <0xHH> tokens */
    bool fuse_unk;      /* neighbouring unknown characters become one unknown token */
    uint32_t unk_id;    /* MR_TOKEN_NONE: unknown characters vanish */
};

/* vocab is borrowed and must outlive the result. Of two merges of one pair the later one holds. */
enum mr_status mr_bpe_create(struct mr_bpe **out, const struct mr_vocab *vocab,
                             const struct mr_merge *merges, size_t merge_count,
                             const struct mr_bpe_options *options, struct mr_error *err);
void mr_bpe_destroy(struct mr_bpe *bpe);

/* For encoding with this bpe only: it remembers what words became. NULL when memory is out. */
struct mr_bpe_scratch *mr_bpe_scratch_create(const struct mr_bpe *bpe);
void mr_bpe_scratch_destroy(struct mr_bpe_scratch *scratch);

/* piece: at least one byte, valid UTF-8 unless options.bytes, shorter than 4 GiB. */
enum mr_status mr_bpe_encode(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch,
                             struct mr_text piece, struct mr_id_list *out, struct mr_error *err);

#endif
