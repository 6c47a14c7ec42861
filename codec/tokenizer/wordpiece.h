/* wordpiece - the longest tokens of a word from left to right: Schuster and Nakajima, "Japanese and
 * Korean voice search", 2012, as BERT uses it.
 *
 * The first token of a word is the longest one at its start; each further token is the longest one
 * with the prefix ("##") at the place that was reached. A word with a place where no token fits, or
 * of more characters than a limit, is one unknown token.
 *
 * Threads: immutable. Memory: none but the object itself. Errors: MR_BAD_FILE at creation,
 * MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_WORDPIECE_H
#define MR_CODEC_TOKENIZER_WORDPIECE_H

#include "codec/tokenizer/vocab.h"

#define MR_WORDPIECE_PREFIX_BYTES_MAX 16u
#define MR_WORDPIECE_CHARS_MAX        1024u /* largest limit of a word's characters */

struct mr_wordpiece {
    const struct mr_vocab *vocab; /* borrowed */
    uint32_t unk_id;
    uint32_t chars_max; /* a longer word is unknown */
    char prefix[MR_WORDPIECE_PREFIX_BYTES_MAX];
    size_t prefix_length;
};

/* Adds the token ids of a word to out. word is valid UTF-8 and has at least one byte. */
void mr_wordpiece_encode(const struct mr_wordpiece *wordpiece, struct mr_text word,
                         struct mr_id_list *out);

#endif
