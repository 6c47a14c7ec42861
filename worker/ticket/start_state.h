/* start_state - what intake knows of one request's earlier attempts, and how far it is with
 * recording the start of this one (worker/intake/starts.h).
 *
 * Owner: intake thread. Memory: a field of the ticket. */
#ifndef MR_WORKER_TICKET_START_STATE_H
#define MR_WORKER_TICKET_START_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct mr_ticket;
struct mr_found_mail;

struct mr_start_state {
    uint8_t crashes;        /* workers that vanished while they ran the request */
    bool crashed;           /* the last attempt ended so */
    bool crashed_alone;     /* only this request can have caused the last crash */
    bool pending;           /* the start is in the list of those that are not durable yet */
    struct mr_ticket *next; /* link in that list */
    /* The start is durable when this version of the partition's ledger is committed; UINT64_MAX:
     * the request was released before its start was durable. */
    uint64_t version;
    bool in_redis;              /* Redis has stored the note of the start */
    struct mr_found_mail *note; /* the note of the start that Redis is storing; NULL: none */
    uint64_t note_until_ns;     /* time at which intake stops waiting for the note */
};

#endif
