/* kafka_errors - what an error code of Kafka or librdkafka means for a record that was to be
 * written: one table of all codes.
 *
 * librdkafka itself retries what passes by itself until its delivery timeout. So a code that
 * reaches the table is its last word on this record, and the verdict says whether producing the
 * record again can end differently. A code that the table does not list, from a newer broker,
 * counts as MR_KAFKA_RETRY; whoever retries bounds how often (worker/publish/writer.h).
 *
 * Threads: any (a constant table). Memory: none. Errors: none. */
#ifndef MR_WORKER_KAFKA_KAFKA_ERRORS_H
#define MR_WORKER_KAFKA_KAFKA_ERRORS_H

#include "codec/status.h"

enum mr_kafka_verdict {
    MR_KAFKA_DONE,    /* no error */
    MR_KAFKA_RETRY,   /* the same record may be accepted later */
    MR_KAFKA_REFUSED, /* this record is never accepted as it is; other records may be */
    MR_KAFKA_FATAL,   /* this producer or consumer can do nothing any more: the worker ends */
    MR_KAFKA_FENCED   /* like FATAL, because another worker has taken this worker's place */
};

enum mr_kafka_verdict mr_kafka_verdict(int code);
/* The status that corresponds to the code:
 *   DONE     MR_OK.
 *   RETRY    MR_FULL, MR_TIMEOUT, MR_CLOSED, MR_UNREACHABLE (no connection); MR_AGAIN: the broker
 *            answered, but refused for now.
 *   REFUSED  MR_RECORD_TOO_LARGE; MR_BAD_CONFIG: there is no such topic or partition, or no right
 *            to write to it; MR_MALFORMED: anything else.
 *   FATAL, FENCED  MR_BACKEND. */
enum mr_status mr_kafka_status(int code);
/* The code's name in the table, without RD_KAFKA_RESP_ERR_; NULL: the table does not list it. */
const char *mr_kafka_error_name(int code);

#endif
