/* ticket_intake - the part of a ticket (worker/ticket/ticket.h) that belongs to the intake thread.
 *
 * Two other threads touch it, each while it has the ticket: the engine thread sets `request` when
 * it returns an unstarted request, just before it posts the ticket to intake. The transactions
 * thread reads `ready_next` while it runs a transaction.
 *
 * Owner: intake thread. Memory: a field of the ticket. */
#ifndef MR_WORKER_TICKET_TICKET_INTAKE_H
#define MR_WORKER_TICKET_TICKET_INTAKE_H

#include "codec/hash_table.h"
#include "codec/records/request.h"
#include "ops/sampling/sample.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_partition;
struct mr_ticket;
struct mr_found_mail;
struct mr_refusal_mail;
struct mr_adapter_version;

/* Crashes in earlier attempts, and progress in recording the start of this attempt
 * (worker/intake/starts.h). */
struct mr_start_state {
    uint8_t crashes;        /* number of workers that crashed while they ran the request */
    bool crashed;           /* the last attempt ended with a crash */
    bool crashed_alone;     /* only this request can have caused the last crash */
    bool released;          /* the worker stopped the running request on purpose */
    bool pending;           /* the ticket is in the list of starts that are not durable yet */
    struct mr_ticket *next; /* link in that list */
    /* The start is durable when this version of the partition's ledger is committed; UINT64_MAX:
     * the request was released before its start was durable. */
    uint64_t version;
    bool in_redis;              /* Redis has stored the start */
    struct mr_found_mail *note; /* the message in which Redis will confirm the start; NULL: none */
    uint64_t note_until_ns;     /* time at which intake stops waiting for that message */
};

struct mr_ticket_intake {
    struct mr_partition *partition;
    struct mr_hash_entry table_entry; /* in a table of tickets (worker/intake/ticket_table.h) */
    struct mr_ticket *next;           /* link in a list of tickets */
    struct mr_ticket *followers; /* later records of the same request, ended by the same result */
    /* exactly-once delivery: link in the ready list or in the running transaction */
    struct mr_ticket *ready_next;
    struct mr_request *request; /* the decoded request; NULL once the engine has taken it */
    uint64_t deadline_ns;
    uint64_t start_by_ns; /* latest time of the start, from the topic's queue limit; 0: none */
    int32_t priority;
    bool submitted; /* the engine has the request */
    bool refused;   /* publish has the refusal */
    bool running;   /* the start is counted in the ledger */
    bool sealed;    /* exactly-once delivery: marked finished in the ledger */
    bool copy;      /* the same request was in flight when the record was taken */
    /* memory that is charged to the tenant while the ticket waits for another request of its id
     * (worker/intake/flight.h); 0: it does not wait */
    size_t waiting_bytes;
    struct mr_adapter_version *adapter; /* held (worker/adapters/adapters.h); NULL: none */
    bool adapter_pinned;
    uint64_t quota_tokens; /* reserved of the tenant's quota (worker/intake/quota.h) */
    bool uncounted; /* parked, and at that time a copy or a suspect (worker/intake/flight.h) */
    struct mr_start_state start;
    struct mr_found_mail *lookup; /* Redis lookup that the request waits for; NULL: none */
    uint64_t lookup_until_ns;     /* time at which intake stops waiting for the answer of Redis */
    struct mr_sample *kept;       /* [kept_count] tokens of earlier attempts, until submission */
    /* error answer that is not posted yet: for a request that may turn out to have crashed too many
     * workers, or held until another request of its id has ended (worker/intake/flight.h) */
    struct mr_refusal_mail *refusal;
};

#endif
