/* follow - one answer as a reader sees it: token records in, text out, every byte once.
 *
 * Token records come in order within an attempt; a higher attempt starts over and replaces the
 * lower one, or goes on where its first record says (`resumed_at`): then of the lower ones stays
 * what came before the first record with that index. What it repeats is not shown again; where it
 * differs, the reader is told by a line break and the text begins anew. The result has the whole
 * text: what is missing then is shown.
 *
 * Owner:  the caller. Memory: the text shown so far, at most MR_FOLLOW_BYTES_MAX; what exceeds it
 * is shown but can no longer be compared, nor gone on behind. Errors: none. */
#ifndef MR_WORKER_CLIENT_FOLLOW_H
#define MR_WORKER_CLIENT_FOLLOW_H

#include "codec/records/result.h"

#include <stdio.h>

#define MR_FOLLOW_BYTES_MAX ((size_t)16 << 20)

struct mr_follow {
    FILE *out;
    char *shown; /* malloc'ed */
    size_t shown_length, shown_capacity;
    uint32_t attempt;
    size_t attempt_bytes; /* text of this attempt seen so far */
    uint32_t next_index;  /* of choice 0 in this attempt */
    bool gap;             /* a token record was missed: wait for the result */
    size_t *begins;       /* [begins_count] where in the text the first record of an index begins */
    size_t begins_count, begins_room;
    uint32_t token_records;
};

void mr_follow_init(struct mr_follow *follow, FILE *out);
void mr_follow_free(struct mr_follow *follow);
/* Shows what is new of choice 0. */
void mr_follow_tokens(struct mr_follow *follow, const struct mr_token_record *record);
/* Shows the rest. */
void mr_follow_result(struct mr_follow *follow, const struct mr_result *result);

#endif
