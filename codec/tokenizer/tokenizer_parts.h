/* tokenizer_parts - what a tokenizer is assembled from, whichever file it came from. Shared by
 * tokenizer.c (assembles and runs), tokenizer_json.c and tokenizer_spec.c (read the two kinds of
 * file), and by no other.
 *
 * Owner: the function that reads the file; everything is copied by _assemble except the two
 * components, which it takes. */
#ifndef MR_CODEC_TOKENIZER_TOKENIZER_PARTS_H
#define MR_CODEC_TOKENIZER_TOKENIZER_PARTS_H

#include "codec/tokenizer/added_tokens.h"
#include "codec/tokenizer/bpe.h"
#include "codec/tokenizer/normalizer.h"
#include "codec/tokenizer/pretokenizer.h"

#define MR_FRAME_IDS_MAX       8 /* tokens put in front of or behind a text */
#define MR_DECODE_REPLACES_MAX 4

/* How a token's text becomes the bytes it stands for. */
struct mr_token_decoder {
    bool byte_level;    /* characters of the byte alphabet */
    bool byte_fallback; /* <0xHH> */
    bool strips_first_space;
    struct mr_text from[MR_DECODE_REPLACES_MAX], to[MR_DECODE_REPLACES_MAX];
    size_t replace_count;
};

struct mr_tokenizer_parts {
    struct mr_vocab *vocab; /* taken */
    struct mr_merge *merges;
    size_t merge_count;
    struct mr_added_token *added;
    size_t added_count;
    struct mr_bpe_options model;          /* bytes is set by _assemble */
    struct mr_normalizer *normalizer;     /* taken */
    struct mr_pretokenizer *pretokenizer; /* taken */
    struct mr_token_decoder decoder;
    uint32_t first[MR_FRAME_IDS_MAX], last[MR_FRAME_IDS_MAX];
    size_t first_count, last_count;
    uint32_t bos_id, eos_id;
};

/* Takes vocab, normalizer and pretokenizer from parts, also when it fails. */
enum mr_status mr_tokenizer_assemble(struct mr_tokenizer **out, struct mr_tokenizer_parts *parts,
                                     struct mr_error *err);
/* Frees what _assemble has not taken. */
void mr_tokenizer_parts_drop(struct mr_tokenizer_parts *parts);

/* left and right are texts of the vocabulary whose joined text is one as well. */
enum mr_status mr_tokenizer_resolve_merge(const struct mr_vocab *vocab, struct mr_text left,
                                          struct mr_text right, struct mr_merge *out,
                                          struct mr_error *err);

#endif
