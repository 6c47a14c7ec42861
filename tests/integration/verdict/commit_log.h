/* commit_log - decodes a record of the topic __consumer_offsets, in which Kafka stores the commits
 * of all groups. Formats: the message schemas OffsetCommitKey and OffsetCommitValue of Apache
 * Kafka.
 *
 * Threads: any (pure function). Memory: texts are borrowed from the record. */
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

/* False if the record is not a commit: group metadata, a tombstone or an unknown version. */
bool commit_log_decode(struct commit_entry *entry, struct mr_text key, struct mr_text value);

#endif
