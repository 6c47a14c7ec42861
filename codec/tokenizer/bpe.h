/* bpe - byte pair encoding of one piece of text: Sennrich, Haddow and Birch, "Neural machine
 * translation of rare words with subword units", 2016.
 *
 * The piece is split into characters (or bytes). Then the adjacent pair with the lowest rank is
 * merged, the leftmost first, until no pair has a rank. A short piece is an array that is scanned
 * for every merge; a long piece is a linked list with a queue of pairs, O(n log n) for any text.
 * A scratch (working memory of a thread) caches the ids of recent short pieces.
 *
 * Threads: immutable; each thread encodes with its own scratch.
 * Memory:  a hash table of pairs, at most half full; a scratch as large as its longest piece.
 * Errors:  MR_BAD_FILE at creation, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_BPE_H
#define MR_CODEC_TOKENIZER_BPE_H

#include "codec/tokenizer/vocab.h"

struct mr_bpe;
struct mr_bpe_scratch;

/* A rule to merge the adjacent tokens left and right to the token result. The merge with the lowest
 * rank comes first, and of equal ranks the leftmost in the text. */
struct mr_merge {
    uint32_t left, right, result;
    uint32_t rank;
};

struct mr_bpe_options {
    /* text is encoded as bytes, and the vocabulary is in the byte alphabet (byte_alphabet.h) */
    bool bytes;
    /* a piece of text that is a token of the vocabulary is not built from merges */
    bool ignore_merges;
    bool byte_fallback; /* a character without a token becomes the tokens <0xHH> of its bytes */
    bool fuse_unk;      /* adjacent unknown characters become one unknown token */
    uint32_t unk_id;    /* id of the unknown token; MR_TOKEN_NONE: unknown characters are dropped */
};

/* Borrows vocab, which must outlive *out. If a pair has two merges, the later one is used. */
enum mr_status mr_bpe_create(struct mr_bpe **out, const struct mr_vocab *vocab,
                             const struct mr_merge *merges, size_t merge_count,
                             const struct mr_bpe_options *options, struct mr_error *err);
void mr_bpe_destroy(struct mr_bpe *bpe);

/* Makes a scratch for this bpe only, because the scratch caches ids. NULL when memory is out. */
struct mr_bpe_scratch *mr_bpe_scratch_create(const struct mr_bpe *bpe);
void mr_bpe_scratch_destroy(struct mr_bpe_scratch *scratch);

/* Adds the token ids of a piece of text to out, or only the first ones if they are enough. piece
 * has at least one byte and is shorter than 4 GiB. Without options.bytes the piece is valid UTF-8.
 */
enum mr_status mr_bpe_encode(const struct mr_bpe *bpe, struct mr_bpe_scratch *scratch,
                             struct mr_text piece, struct mr_id_list *out, struct mr_error *err);

#endif
