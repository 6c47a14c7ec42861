/* identity - a digest of the parts of a record that determine the request and the address of its
 * answer: the value and the headers content-type, millrace-deadline, kafka_replyTopic,
 * kafka_replyPartition and kafka_correlationId. Two records of one tenant with one id are the same
 * request exactly when their digests are equal. The digest is the first 16 bytes of a SHA-256, so a
 * second record with the digest of a known one cannot be constructed.
 *
 * Threads: a hash belongs to one thread. Memory: none. Errors: none. */
#ifndef MR_WORKER_INTAKE_IDENTITY_H
#define MR_WORKER_INTAKE_IDENTITY_H

#include "codec/sha256.h"
#include "worker/intake/envelope.h"

void mr_identity_of(struct mr_identity *identity, struct mr_sha256 *hash,
                    const struct mr_kafka_record *record, const struct mr_envelope *envelope);
bool mr_identity_equal(const struct mr_identity *a, const struct mr_identity *b);

#endif
