/* kafka_errors - the meaning of each error code of Kafka and librdkafka for a record to be written:
 * one table of all codes.
 *
 * librdkafka itself retries temporary errors until its delivery timeout. So a code in a delivery
 * report is final for that attempt, and the verdict says whether producing the record again can
 * succeed. A code that the table does not list, from a newer broker, is MR_KAFKA_RETRY; the caller
 * limits the number of retries (worker/publish/writer.h).
 *
 * Threads: any (a constant table). Memory: none. Errors: none. */
#ifndef MR_WORKER_KAFKA_KAFKA_ERRORS_H
#define MR_WORKER_KAFKA_KAFKA_ERRORS_H

#include "codec/status.h"

enum mr_kafka_verdict {
    MR_KAFKA_DONE,    /* no error */
    MR_KAFKA_RETRY,   /* the same record may be accepted later */
    MR_KAFKA_REFUSED, /* this record is never accepted as it is; other records may be */
    MR_KAFKA_FATAL,   /* this producer or consumer can no longer be used: the worker ends */
    MR_KAFKA_FENCED   /* like FATAL, because another worker replaced this one */
};

enum mr_kafka_verdict mr_kafka_verdict(int code);
/* The status that corresponds to the code:
 *   DONE     MR_OK.
 *   RETRY    MR_FULL, MR_TIMEOUT, MR_CLOSED, MR_UNREACHABLE (no connection); MR_AGAIN: the broker
 *            answered, but refused for now.
 *   REFUSED  MR_RECORD_TOO_LARGE; MR_BAD_CONFIG: the topic or partition does not exist, or writing
 *            to it is not allowed; MR_MALFORMED: any other refusal.
 *   FATAL, FENCED  MR_BACKEND. */
enum mr_status mr_kafka_status(int code);
/* The code's name in the table, without RD_KAFKA_RESP_ERR_; NULL: the table does not list it. */
const char *mr_kafka_error_name(int code);

#endif
