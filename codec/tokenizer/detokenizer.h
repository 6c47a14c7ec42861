/* detokenizer - one answer's token ids to valid UTF-8, as they come.
 *
 * Works on bytes: each id's bytes are appended, at most 3 bytes of an unfinished character are held
 * back, bytes that can never become a character turn into U+FFFD (one for each maximal invalid
 * subpart, as Unicode 15 section 3.9 recommends). Nothing is ever decoded twice. The deltas joined
 * equal the text of decoding everything at once.
 *
 * Owner:  whoever owns the sequence. Memory: the struct itself, no allocation. Errors: none. */
#ifndef MR_CODEC_TOKENIZER_DETOKENIZER_H
#define MR_CODEC_TOKENIZER_DETOKENIZER_H

#include "codec/tokenizer/tokenizer.h"

struct mr_detokenizer {
    const struct mr_tokenizer *tokenizer;
    unsigned char pending[4];
    uint8_t pending_count;
    bool skip_special;
    bool at_start; /* the next byte is the first of the text */
};

void mr_detokenizer_init(struct mr_detokenizer *detokenizer, const struct mr_tokenizer *tokenizer,
                         bool skip_special);
/* Appends the text this id completes to out and returns its length in bytes; out must hold
 * mr_detokenizer_bound(detokenizer, id) bytes. */
size_t mr_detokenizer_push(struct mr_detokenizer *detokenizer, uint32_t id, char *out);
size_t mr_detokenizer_bound(const struct mr_detokenizer *detokenizer, uint32_t id);
/* Ends the text: an unfinished character becomes one U+FFFD. out must hold 12 bytes. */
size_t mr_detokenizer_finish(struct mr_detokenizer *detokenizer, char *out);

#endif
