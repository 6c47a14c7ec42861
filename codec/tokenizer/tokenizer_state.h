/* tokenizer_state - the fields of a tokenizer. Only tokenizer.c, which runs it, and
 * tokenizer_assemble.c, which fills it, include this. Immutable once assembled. */
#ifndef MR_CODEC_TOKENIZER_TOKENIZER_STATE_H
#define MR_CODEC_TOKENIZER_TOKENIZER_STATE_H

#include "codec/tokenizer/tokenizer_parts.h"

/* Far above what normalization makes of the longest text. */
#define MR_TOKENIZER_BUFFER_BYTES_MAX ((size_t)2 << 30)

struct mr_tokenizer {
    struct mr_vocab *vocab; /* texts as in the file */
    struct mr_bpe *bpe;
    struct mr_normalizer *normalizer;
    struct mr_pretokenizer *pretokenizer;
    struct mr_added_tokens *added_raw;        /* searched for in the original text */
    struct mr_added_tokens *added_normalized; /* searched for in the normalized text */
    struct mr_vocab *decoded; /* decoded bytes of each id; not used for lookups by text */
    uint8_t *is_special;      /* [size] */
    uint32_t size;            /* highest id + 1 */
    uint32_t first[MR_FRAME_IDS_MAX], last[MR_FRAME_IDS_MAX]; /* added around a text */
    size_t first_count, last_count;
    uint32_t bos_id, eos_id;
    bool strips_first_space;
};

#endif
