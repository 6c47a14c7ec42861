/* commit_log - a record of Kafka's own topic of commits, __consumer_offsets: which group committed
 * what, and when. Formats: the message schemas OffsetCommitKey and OffsetCommitValue of Apache
 * Kafka.
 *
 * Pure. Memory: texts are borrowed from the record. */
#ifndef MR_TESTS_COMMIT_LOG_H
#define MR_TESTS_COMMIT_LOG_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct commit_entry {
    struct mr_text group, topic, metadata;
    int32_t partition;
    int64_t offset, time_ms;
};

/* False for anything but a commit: group metadata, a tombstone, a version not known here. */
bool commit_log_decode(struct commit_entry *entry, struct mr_text key, struct mr_text value);

#endif
