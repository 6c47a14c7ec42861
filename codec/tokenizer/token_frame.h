/* token_frame - the special tokens around an encoded text or a pair of texts. A value. */
#ifndef MR_CODEC_TOKENIZER_TOKEN_FRAME_H
#define MR_CODEC_TOKENIZER_TOKEN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_FRAME_IDS_MAX 8 /* most tokens added at one place of a text or a pair of texts */

/* [first] text [last], or for a pair of texts [first] text [middle] text [last]. */
struct mr_token_frame {
    uint32_t first[MR_FRAME_IDS_MAX], middle[MR_FRAME_IDS_MAX], last[MR_FRAME_IDS_MAX];
    size_t first_count, middle_count, last_count;
    bool pairs; /* the file says how pairs are encoded */
    bool types; /* the second text of a pair and the tokens after it have token type 1 */
};

#endif
