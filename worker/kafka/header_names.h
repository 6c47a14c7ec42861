/* header_names - the name of every Kafka record header that millrace reads or writes. No other
 * source file contains a header name. */
#ifndef MR_WORKER_KAFKA_HEADER_NAMES_H
#define MR_WORKER_KAFKA_HEADER_NAMES_H

/* Headers read from requests. A comment marks those that are copied unchanged to every answer. */
#define MR_HEADER_CONTENT_TYPE    "content-type"
#define MR_HEADER_DEADLINE        "millrace-deadline"   /* milliseconds since 1970 as text */
#define MR_HEADER_CORRELATION     "kafka_correlationId" /* copied to every answer */
#define MR_HEADER_REPLY_TOPIC     "kafka_replyTopic"
#define MR_HEADER_REPLY_PARTITION "kafka_replyPartition" /* 4 bytes, most significant first */
#define MR_HEADER_REPLY           "millrace-reply"       /* the text MR_HEADER_REPLY_TOKENS */
#define MR_HEADER_REPLY_TOKENS    "tokens"      /* token records go to the reply topic as well */
#define MR_HEADER_TRACE_PARENT    "traceparent" /* W3C Trace Context; copied to every answer */
#define MR_HEADER_TRACE_STATE     "tracestate"  /* copied to every answer */
#define MR_HEADER_BAGGAGE         "baggage"     /* W3C Baggage; copied to every answer */

/* Headers of CloudEvents in binary mode. The trace context of such a request is copied to its
 * answers as traceparent and tracestate. */
#define MR_HEADER_EVENT_VERSION      "ce_specversion"
#define MR_HEADER_EVENT_ID           "ce_id"
#define MR_HEADER_EVENT_TRACE_PARENT "ce_traceparent"
#define MR_HEADER_EVENT_TRACE_STATE  "ce_tracestate"

/* Headers written to answers, which also have content-type. */
#define MR_HEADER_ID            "millrace-id"
#define MR_HEADER_ATTEMPT       "millrace-attempt"
#define MR_HEADER_GENERATION    "millrace-generation"
#define MR_HEADER_WORKER        "millrace-worker"
#define MR_HEADER_INDEX         "millrace-index"
#define MR_HEADER_FINISH_REASON "millrace-finish-reason"
/* In a result, or in a dead letter without a result: the request that the record ends, as
 * topic/partition/offset and consumer group (read by worker/offsets/recovery.h). */
#define MR_HEADER_SOURCE "millrace-source"
#define MR_HEADER_GROUP  "millrace-group"
/* In every record of an answer: the request's tenant, unless that is the default one. In a cancel
 * record: the tenant whose request is cancelled. */
#define MR_HEADER_TENANT "millrace-tenant"

/* Headers written to dead letters: the names of Kafka Connect, of Spring, and our own. */
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
/* size of the request's value, if the dead letter does not hold that value */
#define MR_HEADER_VALUE_BYTES "millrace-value-bytes"

#endif
