/* tokenizer_state - the fields of a tokenizer. Only tokenizer.c, which uses the
 * tokenizer, and tokenizer_assemble.c, which fills the fields, include this header. A tokenizer is
 * immutable once assembled. */
#ifndef MR_CODEC_TOKENIZER_TOKENIZER_STATE_H
#define MR_CODEC_TOKENIZER_TOKENIZER_STATE_H

#include "codec/tokenizer/tokenizer_parts.h"

/* Most bytes of a scratch buffer: far above the normalized size of the longest text. */
#define MR_TOKENIZER_BUFFER_BYTES_MAX ((size_t)2 << 30)

struct mr_tokenizer {
    struct mr_vocab *vocab; /* tokens with their texts as in the file */
    struct mr_bpe *bpe;     /* the model is one of these; the others are NULL */
    struct mr_unigram *unigram;
    struct mr_wordpiece *wordpiece;
    struct mr_normalizer *normalizer;
    struct mr_pretokenizer *pretokenizer;
    struct mr_added_tokens *added_raw; /* added tokens to search for in the original text */
    /* added tokens to search for in the normalized text */
    struct mr_added_tokens *added_normalized;
    struct mr_vocab *decoded; /* decoded bytes of each id; never searched by text */
    uint8_t *is_special;      /* [size] 1: the token with this id is special */
    uint32_t size;            /* highest token id + 1 */
    struct mr_token_frame frame;
    uint32_t bos_id, eos_id;
    enum mr_first_space first_space;
};

#endif
