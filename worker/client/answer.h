/* answer - prints the answer to one request for a person. Text is printed while it is computed.
 * With several choices each has a heading, and only the first is printed while it is computed. A
 * vector or scores are printed as JSON.
 *
 * Owner: the caller. Memory, errors: as worker/client/follow.h. */
#ifndef MR_WORKER_CLIENT_ANSWER_H
#define MR_WORKER_CLIENT_ANSWER_H

#include "worker/client/client.h"
#include "worker/client/follow.h"

struct mr_answer {
    struct mr_follow follow;
    FILE *out;
    bool several; /* the request has n above 1 */
    bool headed;  /* the heading of the first choice was printed */
};

void mr_answer_init(struct mr_answer *answer, FILE *out, bool several);
void mr_answer_free(struct mr_answer *answer);
void mr_answer_tokens(struct mr_answer *answer, const struct mr_token_record *record);
/* Prints the rest of the answer, and the end of its last line. event: of kind MR_CLIENT_RESULT. */
void mr_answer_result(struct mr_answer *answer, const struct mr_client_event *event);

#endif
