/* writer - produces the records of tickets and follows each record until the broker has
 * acknowledged it.
 *
 * Nothing here blocks. When the producer's queue is full, a token record stays with the caller. A
 * terminal record (result, reply, dead letter) belongs to the writer from _write on. When the queue
 * is full, memory is out, or the reply topic is being looked up, _retry tries the record again; a
 * record that the broker refused for now is produced again every half second. What happens to a
 * record that its topic refuses for good is said at mr_terminal_refused
 * (worker/publish/terminal.h): a reply and a dead letter are given up, for a result the worker
 * fails.
 *
 * Owner:  publish's thread. Memory: lists that link the tickets; one encoded record. Errors:
 *         `failed` is called once when nothing can be written any more. */
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
    uint64_t now_ns; /* time of this step */
    bool full;       /* the producer's queue was full in this step */
    bool attending;  /* delivery reports ring the wake */
    bool has_failed; /* options.failed was called */
    /* tickets with a record still to produce, oldest first */
    struct mr_ticket *unsent, **unsent_end;
    /* tickets with a record that the broker refused, or that the write gate held back */
    struct mr_ticket *refused;
    uint64_t refused_ns;       /* when the records of `refused` are produced again */
    struct mr_ticket *written; /* tickets that _take_written will return */
};

/* Opens the producer. `wake` is notified when _serve has something to do. */
enum mr_status mr_writer_open(struct mr_writer *writer, const struct mr_writer_options *options,
                              const struct mr_producer_opener *opener, const struct mr_wake *wake,
                              struct mr_error *err);
/* Closes the producer; records that are not acknowledged are dropped. */
void mr_writer_close(struct mr_writer *writer);

/* Handles the delivery reports that have arrived, which may free space in the producer's queue.
 * Call this first in each step. */
void mr_writer_serve(struct mr_writer *writer, uint64_t now_ns);
/* A record that would tell nothing is not written (worker/publish/deltas.h).
 * False: the producer's queue has no space or memory is out, and nothing has changed. True: the
 * token record was produced, or is counted as lost. */
bool mr_writer_write_tokens(struct mr_writer *writer, struct mr_tokens_mail *mail, uint64_t now_ns);
/* Writes one terminal record, if the ticket's terminal message (result or refusal) asks for that
 * record. The request was admitted by its write gate; the gate is asked again each time before this
 * or another of its records is produced: while it is held the record waits, and once it is closed
 * the record is dropped and the ticket marked as dropped. */
void mr_writer_write(struct mr_writer *writer, struct mr_ticket *ticket, enum mr_part kind);
/* Produces the unsent records again; with `refused` also the records that the broker refused, once
 * half a second has passed. */
void mr_writer_retry(struct mr_writer *writer, uint64_t now_ns, bool refused);
/* Whether delivery reports ring the wake; call at the end of each step. `awaited`: somebody waits
 * for one; the writer knows itself whether it waits for room, or to try a record again. True: some
 * have arrived meanwhile, so the next step should follow at once. */
bool mr_writer_attend(struct mr_writer *writer, bool awaited);
/* When _retry should be called again; UINT64_MAX: no record has to be tried again. */
uint64_t mr_writer_retry_ns(const struct mr_writer *writer, uint64_t now_ns, bool refused);

/* True when every record of the ticket that was to be written is acknowledged or lost. */
bool mr_writer_is_idle(const struct mr_ticket *ticket);
/* Adds the ticket to the list of _take_written if the ticket is idle and has its terminal
 * message. */
void mr_writer_queue_if_written(struct mr_writer *writer, struct mr_ticket *ticket);
/* Returns the tickets whose records are written, linked by publish.advance_next, and empties that
 * list; NULL: none. */
struct mr_ticket *mr_writer_take_written(struct mr_writer *writer);
/* Number of records produced and not reported yet. */
uint32_t mr_writer_unreported(const struct mr_writer *writer);
/* True when no record waits for queue space, for a topic lookup or for its delivery report. Records
 * that the broker refused or the write gate held back may be left. */
bool mr_writer_is_flushed(const struct mr_writer *writer);

void mr_writer_fail(struct mr_writer *writer, const struct mr_error *err);

#endif
