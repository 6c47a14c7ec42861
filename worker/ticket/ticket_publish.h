/* ticket_publish - the part of a ticket (worker/ticket/ticket.h) that belongs to the publish
 * thread.
 *
 * With exactly-once delivery the transactions thread owns this part while it runs a transaction
 * with the ticket.
 *
 * Owner: publish thread. Memory: a field of the ticket, which owns `terminal` and `messages`. */
#ifndef MR_WORKER_TICKET_TICKET_PUBLISH_H
#define MR_WORKER_TICKET_TICKET_PUBLISH_H

#include "codec/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_mail;
struct mr_message;
struct mr_ticket;

/* The kinds of records that the worker writes for a request. */
enum mr_part {
    MR_PART_RESULT,
    MR_PART_REPLY,
    MR_PART_DEAD_LETTER,
    MR_PART_TOKENS, /* all token records of the request together */
    MR_PARTS
};

/* Delivery state of one terminal record, or of all token records together. librdkafka's delivery
 * report carries the address of this struct. */
struct mr_ticket_part {
    struct mr_ticket *ticket;
    enum mr_part kind;
    bool pending; /* the record is to be written and is not acknowledged yet */
    /* not produced yet: the producer's queue is full, or the reply topic is being looked up */
    bool unsent;
    bool refused; /* the broker refused the record; publish produces it again after a pause */
    bool bare;    /* too large for the broker: produced without log-probabilities */
    bool shrunk;  /* still too large: produced without text, tokens and metadata */
    bool keyed;   /* dead letter: its topic refuses records without a key, so the id is the key */
    bool lost;    /* abandoned: no further attempt to write the record */
    /* reply, and token records in the reply topic: the topic was looked up and exists */
    bool topic_exists;
    /* reply: when it was first tried; other records: when first refused; 0: not yet */
    uint64_t trying_since_ns;
};

/* Progress of a request's terminal records (result, reply, dead letter). */
enum mr_terminal_phase {
    MR_TERMINAL_WAITING, /* for the token records, or for the partition's write gate */
    MR_TERMINAL_REPLY,   /* the reply and the dead letter are being written */
    MR_TERMINAL_RESULT   /* the result, the last record of a request, is being written */
};

struct mr_ticket_publish {
    struct mr_ticket_part parts[MR_PARTS];
    struct mr_mail *terminal; /* the result or refusal, until its records are on the broker */
    enum mr_terminal_phase phase;
    /* unix ms when `terminal` arrived; every terminal record has a later timestamp */
    int64_t terminal_ms;
    uint32_t tokens_pending; /* token records produced whose delivery is not reported yet */
    uint64_t token_ns;       /* when the last token of choice 0 was generated */
    uint32_t generated;      /* tokens generated when the last token record was produced */
    /* Counts of token records produced and acknowledged. The first `readable` tokens are on the
     * broker for certain. Once `mark_produced` records are acknowledged, the first `mark_generated`
     * tokens are on the broker too. */
    uint32_t records_produced, records_acknowledged, mark_produced, mark_generated, readable;
    struct mr_message *messages[MR_CHOICES_MAX]; /* worker/publish/deltas.h */
    bool tokens_lost; /* a token record was lost; the loss is logged once */
    /* The ticket is in the list linked by unsent_next, refused_next or advance_next. */
    bool unsent, refused, advancing;
    struct mr_ticket *unsent_next, *refused_next, *advance_next;
    struct mr_ticket *older, *newer; /* links in the list of tickets whose `terminal` is set */
};

#endif
