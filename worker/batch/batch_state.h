/* batch_state - the state of a running batch, for the files of worker/batch that share it.
 *
 * Owner: the thread of mr_batch_run. Memory, errors: as worker/batch/batch.h. */
#ifndef MR_WORKER_BATCH_BATCH_STATE_H
#define MR_WORKER_BATCH_BATCH_STATE_H

#include "codec/buffer.h"
#include "worker/batch/batch.h"
#include "worker/batch/batch_progress.h"
#include "worker/batch/in_flight.h"
#include "worker/batch/job.h"
#include "worker/batch/output_files.h"
#include "worker/batch/pace.h"
#include "worker/batch/survey.h"
#include "worker/client/client.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_reader.h"

#define MR_BATCH_LINE_BYTES   ((size_t)16 << 20) /* longest line that is read whole */
#define MR_BATCH_WINDOW_MAX   8192u              /* requests in flight */
#define MR_BATCH_FLIGHT_BYTES ((size_t)16 << 20) /* bytes of their lines */

struct mr_batch {
    const struct mr_batch_options *options;
    struct mr_config config; /* the caller's; its first requests topic is that of --topic */
    const char *topic;       /* requests topic */
    struct mr_unpacked *input;
    struct mr_batch_output output;
    struct mr_batch_item_rules rules;
    struct mr_survey survey;
    struct mr_batch_job job;
    struct mr_bits done; /* lines with a line in the output or the error file */
    uint64_t fault_count;

    struct mr_client *client;
    struct mr_kafka_options kafka; /* of the producer */
    struct mr_kafka_out *out;
    struct mr_kafka_reader *reader; /* of the results topic */
    /* the next offset of each partition: after the last record of ours that is known, and after the
     * last result that was read */
    struct mr_batch_job_offsets sent, read;
    struct mr_batch_flight flight;
    struct mr_pace pace;
    struct mr_lines lines; /* where sending is */
    bool is_sent;          /* the last line was sent */
    bool is_stopping;      /* nothing more is sent */
    uint64_t end_ns;       /* when the deadline is over */
    uint64_t silence_ns;   /* when to say that no answer has come */
    uint64_t save_ns;      /* when the state file is written next */
    struct mr_batch_progress progress;
    uint64_t tokens;         /* generated, of the answers of this run */
    struct mr_buffer line;   /* the line that is written */
    struct mr_error failure; /* of a callback of librdkafka; ends the run */
};

/* ---- recall.c ---- */

/* Finds out what earlier runs have sent and what was answered meanwhile. Then the flight has the
 * lines that were sent and have no answer, and `sent` and `read` are at the ends of the topics. */
enum mr_status mr_batch_recall(struct mr_batch *batch, struct mr_error *err);
/* Sets the offsets of a new job to the present ends of the topics. */
enum mr_status mr_batch_begin(struct mr_batch *batch, struct mr_kafka_admin *admin,
                              struct mr_error *err);
/* Writes the state file, after the output is durable. */
enum mr_status mr_batch_save(struct mr_batch *batch, struct mr_error *err);

/* ---- sender.c ---- */

enum mr_status mr_batch_open_producer(struct mr_batch *batch, struct mr_error *err);
/* Sends the record of an entry, whose line is loaded. MR_FULL: try again later. */
enum mr_status mr_batch_send(struct mr_batch *batch, struct mr_batch_flight_entry *entry,
                             struct mr_error *err);
/* Sends what is due and new lines while the window has room. */
enum mr_status mr_batch_fill(struct mr_batch *batch, struct mr_error *err);
/* Cancels all requests in flight, and writes a line with batch_cancelled for each. */
enum mr_status mr_batch_cancel(struct mr_batch *batch, struct mr_error *err);

/* ---- answers.c ---- */

/* Handles a record of the results topic, of this batch or not. */
enum mr_status mr_batch_take(struct mr_batch *batch, const struct mr_kafka_record *record,
                             struct mr_error *err);
/* Writes the line of a line of the input that no worker answers, and removes its entry. entry:
 * NULL, or that of the line. */
enum mr_status mr_batch_give_up(struct mr_batch *batch, const struct mr_line *line,
                                const char *code, const char *message, struct mr_error *err);
/* Writes a line with the fault of a line, as OpenAI's API would answer it. */
enum mr_status mr_batch_write_fault(struct mr_batch *batch, uint64_t line,
                                    const struct mr_batch_item *item, const struct mr_error *fault,
                                    struct mr_error *err);
struct mr_batch_progress_counts mr_batch_counts(const struct mr_batch *batch);

#endif
