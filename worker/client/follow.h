/* follow - prints one answer from its token records and its result, every byte once.
 *
 * Token records arrive in order within an attempt. The records of a request that is run again have
 * a higher attempt number and replace those of the lower attempt. The new attempt starts over, or,
 * if its first record has `resumed_at`, continues at token `index` of that record. Text that the
 * new attempt repeats is not printed again. Where the text differs, a line break and the new text
 * are printed. The result has the whole text, and the part that was not yet printed is printed
 * then.
 *
 * Owner:  the caller. Memory: the text printed so far, at most MR_FOLLOW_BYTES_MAX; text beyond
 * that is printed but not compared with later attempts. Errors: none. */
#ifndef MR_WORKER_CLIENT_FOLLOW_H
#define MR_WORKER_CLIENT_FOLLOW_H

#include "codec/records/result.h"

#include <stdio.h>

#define MR_FOLLOW_BYTES_MAX ((size_t)16 << 20)

struct mr_follow {
    FILE *out;
    bool escapes; /* out is a terminal: control characters except line feed and tab are escaped */
    char *shown;  /* malloc'ed; the text printed so far */
    size_t shown_length, shown_capacity;
    uint32_t attempt;
    size_t attempt_bytes; /* bytes of this attempt received so far */
    uint32_t next_index;  /* index of the next token of choice 0 in this attempt */
    bool gap;             /* a token record is missing: print nothing before the result */
    /* [begins_count], by token index: byte of the answer where the token's record begins */
    size_t *begins;
    size_t begins_count, begins_capacity;
    uint32_t token_records; /* number of token records received */
};

/* Sets escapes to false. */
void mr_follow_init(struct mr_follow *follow, FILE *out);
/* Prints text of an answer as `escapes` says. */
void mr_follow_print(const struct mr_follow *follow, struct mr_text text);
void mr_follow_free(struct mr_follow *follow);
/* Prints the part of the token record's text that was not printed yet; only choice 0 (the first
 * completion) is printed. */
void mr_follow_tokens(struct mr_follow *follow, const struct mr_token_record *record);
/* Discards the printed text, which belonged to another request. Further text begins on a new
 * line. */
void mr_follow_restart(struct mr_follow *follow);
/* Prints the part of the whole answer in the result that was not printed yet. */
void mr_follow_result(struct mr_follow *follow, const struct mr_result *result);

#endif
