/* writer - produces the records of tickets and tracks each record until the broker has acknowledged
 * it.
 *
 * Nothing here blocks. When the producer's queue is full, the caller keeps a token record and
 * repeats the call. A terminal record (result, reply, dead letter) belongs to the writer after
 * _write: _retry produces it when the queue was full, memory was out, or the reply topic was being
 * looked up, and every half second if the broker refused it with a temporary error.
 * mr_terminal_refused (worker/publish/terminal.h) decides about permanent refusals.
 *
 * Owner:  publish thread. Memory: lists that link the tickets; one encoded record.
 * Errors: `failed` is called once when writing is no longer possible. */
#ifndef MR_WORKER_PUBLISH_WRITER_H
#define MR_WORKER_PUBLISH_WRITER_H

#include "worker/base/log.h"
#include "worker/kafka/kafka_producer_port.h"
#include "worker/publish/publish_stats.h"

struct mr_writer_options {
    struct mr_output_options output;
    struct mr_log *log;
    struct mr_metrics *metrics;
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

struct mr_writer {
    struct mr_writer_options options;
    struct mr_producer_port producer;
    struct mr_output output;
    struct mr_publish_stats stats;
    uint64_t now_ns;                        /* time of this step */
    bool full;                              /* the producer's queue was full in this step */
    bool attending;                         /* delivery reports ring the wake */
    bool has_failed;                        /* options.failed was called */
    struct mr_ticket *unsent, **unsent_end; /* tickets with a record to produce, oldest first */
    /* tickets with a record that the broker refused or that the write gate held back */
    struct mr_ticket *refused;
    uint64_t refused_ns;       /* when the records of `refused` are produced again */
    struct mr_ticket *written; /* tickets that _take_written will return */
};

/* Opens the producer. `wake` rings when _serve has something to do. */
enum mr_status mr_writer_open(struct mr_writer *writer, const struct mr_writer_options *options,
                              const struct mr_producer_opener *opener, const struct mr_wake *wake,
                              struct mr_error *err);
/* Closes the producer; records that are not acknowledged are dropped. */
void mr_writer_close(struct mr_writer *writer);

/* Handles the delivery reports that have arrived, which frees space in the producer's queue. Call
 * it first in each step. */
void mr_writer_serve(struct mr_writer *writer, uint64_t now_ns);
/* Produces a token record. True: it was produced, was counted as lost, or is empty
 * (mr_deltas_is_void). False: the producer's queue has no space, memory is out, or the reply topic
 * of a request with `reply_tokens` is being looked up; repeat the call. */
bool mr_writer_write_tokens(struct mr_writer *writer, struct mr_tokens_mail *mail, uint64_t now_ns);
/* Writes one terminal record, if the ticket needs it (mr_terminal_wants). The write gate must have
 * admitted the request. The gate is read again before each attempt to produce: while it is held the
 * record waits, and once it is closed the record and the ticket are dropped. */
void mr_writer_write(struct mr_writer *writer, struct mr_ticket *ticket, enum mr_part kind);
/* Produces the unsent records; with `refused` also the refused ones, when half a second has passed.
 */
void mr_writer_retry(struct mr_writer *writer, uint64_t now_ns, bool refused);
/* Sets whether delivery reports ring the wake: if the caller waits for one (`awaited`), or the
 * writer waits for space or has records to produce again. Call at the end of each step. True:
 * reports have arrived in the meantime, so the next step should follow at once. */
bool mr_writer_attend(struct mr_writer *writer, bool awaited);
/* When to call _retry again; UINT64_MAX: there is nothing to retry. */
uint64_t mr_writer_retry_ns(const struct mr_writer *writer, uint64_t now_ns, bool refused);

/* True when every record of the ticket so far is acknowledged or lost. */
bool mr_writer_is_idle(const struct mr_ticket *ticket);
/* Adds the ticket to the list of _take_written if it is idle and has its terminal message. */
void mr_writer_queue_if_written(struct mr_writer *writer, struct mr_ticket *ticket);
/* Returns the tickets whose records are written, linked by publish.advance_next, and empties the
 * list. NULL: none. */
struct mr_ticket *mr_writer_take_written(struct mr_writer *writer);
/* Number of records produced and not reported yet. */
uint32_t mr_writer_unreported(const struct mr_writer *writer);
/* True when no record waits for queue space, for a topic lookup or for its delivery report. Refused
 * and held records may be left. */
bool mr_writer_is_flushed(const struct mr_writer *writer);

/* Calls `failed`, once. */
void mr_writer_fail(struct mr_writer *writer, const struct mr_error *err);

#endif
