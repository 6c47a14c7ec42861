/* detokenizer - turns the token ids of one answer into valid UTF-8, id by id.
 *
 * Each id adds its bytes to the text. At most 3 bytes of an incomplete character are held back
 * until the next id. Invalid bytes become U+FFFD, one for each maximal invalid subpart, as Unicode
 * 15 section 3.9 recommends. No byte is decoded twice, and the parts together equal the text of
 * decoding all ids at once.
 *
 * Owner:  the owner of the sequence. Memory: the struct, no allocation. Errors: none. */
#ifndef MR_CODEC_TOKENIZER_DETOKENIZER_H
#define MR_CODEC_TOKENIZER_DETOKENIZER_H

#include "codec/tokenizer/tokenizer.h"

struct mr_detokenizer {
    const struct mr_tokenizer *tokenizer;
    unsigned char pending[4]; /* first bytes of an incomplete character */
    uint8_t pending_count;    /* number of bytes in `pending` */
    bool skip_special;
    bool at_start; /* no byte of the answer's text has been decoded yet */
};

void mr_detokenizer_init(struct mr_detokenizer *detokenizer, const struct mr_tokenizer *tokenizer,
                         bool skip_special);
/* Writes the text that this id completes to out and returns its length in bytes. out has room for
 * mr_detokenizer_bound(detokenizer, id) bytes. */
size_t mr_detokenizer_push(struct mr_detokenizer *detokenizer, uint32_t id, char *out);
size_t mr_detokenizer_bound(const struct mr_detokenizer *detokenizer, uint32_t id);
/* Ends the text: writes one U+FFFD to out for an incomplete character and returns its length, else
 * 0. out has room for 12 bytes. */
size_t mr_detokenizer_finish(struct mr_detokenizer *detokenizer, char *out);

#endif
