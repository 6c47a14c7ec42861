/* header_names - every header name that millrace reads or writes (CONTRACT section 6). No other
 * file of the product spells one. */
#ifndef MR_WORKER_KAFKA_HEADER_NAMES_H
#define MR_WORKER_KAFKA_HEADER_NAMES_H

/* Read from requests; those marked (echo) are copied unchanged to every answer. */
#define MR_HEADER_CONTENT_TYPE    "content-type"
#define MR_HEADER_DEADLINE        "millrace-deadline"   /* unix ms as text */
#define MR_HEADER_CORRELATION     "kafka_correlationId" /* (echo) */
#define MR_HEADER_REPLY_TOPIC     "kafka_replyTopic"
#define MR_HEADER_REPLY_PARTITION "kafka_replyPartition" /* 4 bytes, most significant first */
#define MR_HEADER_TRACE_PARENT    "traceparent"          /* (echo) W3C Trace Context */
#define MR_HEADER_TRACE_STATE     "tracestate"           /* (echo) */
#define MR_HEADER_BAGGAGE         "baggage"              /* (echo) W3C Baggage */

/* CloudEvents in binary mode. The trace context goes back under W3C's names. */
#define MR_HEADER_EVENT_VERSION      "ce_specversion"
#define MR_HEADER_EVENT_ID           "ce_id"
#define MR_HEADER_EVENT_TRACE_PARENT "ce_traceparent"
#define MR_HEADER_EVENT_TRACE_STATE  "ce_tracestate"

/* Written to answers, beside content-type. */
#define MR_HEADER_ID            "millrace-id"
#define MR_HEADER_ATTEMPT       "millrace-attempt"
#define MR_HEADER_GENERATION    "millrace-generation"
#define MR_HEADER_WORKER        "millrace-worker"
#define MR_HEADER_INDEX         "millrace-index"
#define MR_HEADER_FINISH_REASON "millrace-finish-reason"
/* The request that a result or a lone dead letter ends: topic/partition/offset and consumer group
 * (read by worker/intake/recovery.h). */
#define MR_HEADER_SOURCE "millrace-source"
#define MR_HEADER_GROUP  "millrace-group"

/* Written to dead letters: Kafka Connect's names, Spring's names, ours. */
#define MR_HEADER_CONNECT_TOPIC      "__connect.errors.topic"
#define MR_HEADER_CONNECT_PARTITION  "__connect.errors.partition"
#define MR_HEADER_CONNECT_OFFSET     "__connect.errors.offset"
#define MR_HEADER_CONNECT_CONNECTOR  "__connect.errors.connector.name"
#define MR_HEADER_CONNECT_TASK       "__connect.errors.task.id"
#define MR_HEADER_CONNECT_STAGE      "__connect.errors.stage"
#define MR_HEADER_CONNECT_CLASS      "__connect.errors.class.name"
#define MR_HEADER_CONNECT_EXCEPTION  "__connect.errors.exception.class.name"
#define MR_HEADER_CONNECT_MESSAGE    "__connect.errors.exception.message"
#define MR_HEADER_CONNECT_STACKTRACE "__connect.errors.exception.stacktrace"
#define MR_HEADER_SPRING_TOPIC       "kafka_dlt-original-topic"
#define MR_HEADER_SPRING_PARTITION   "kafka_dlt-original-partition"
#define MR_HEADER_SPRING_OFFSET      "kafka_dlt-original-offset"
#define MR_HEADER_SPRING_TIMESTAMP   "kafka_dlt-original-timestamp"
#define MR_HEADER_SPRING_TIME_TYPE   "kafka_dlt-original-timestamp-type"
#define MR_HEADER_SPRING_GROUP       "kafka_dlt-original-consumer-group"
#define MR_HEADER_SPRING_EXCEPTION   "kafka_dlt-exception-fqcn"
#define MR_HEADER_SPRING_MESSAGE     "kafka_dlt-exception-message"
#define MR_HEADER_SPRING_STACKTRACE  "kafka_dlt-exception-stacktrace"
#define MR_HEADER_VALUE_BYTES        "millrace-value-bytes" /* of a value that was left out */

#endif
