#include "worker/intake/identity.h"

#include "worker/kafka/header_names.h"

#include <string.h>

static void add(struct mr_sha256 *hash, const char *tag, struct mr_text text)
{
    mr_sha256_add_field(hash, tag, text.bytes, text.length);
}

static struct mr_text correlation_of(const struct mr_envelope *envelope)
{
    for (size_t i = 0; i < envelope->echo_count; i++) {
        const struct mr_kafka_header *header = &envelope->echo[i];
        if (strcmp(header->name, MR_HEADER_CORRELATION) == 0)
            return (struct mr_text){header->value, header->length};
    }
    return (struct mr_text){0};
}

void mr_identity_of(struct mr_identity *identity, struct mr_sha256 *hash,
                    const struct mr_kafka_record *record, const struct mr_envelope *envelope)
{
    unsigned char digest[MR_SHA256_BYTES];
    mr_sha256_begin(hash);
    add(hash, "value", record->value);
    add(hash, "content-type", envelope->content_type);
    add(hash, "reply topic", envelope->reply_topic);
    add(hash, "correlation", correlation_of(envelope));
    mr_sha256_add_field(hash, "reply partition", &envelope->reply_partition,
                        sizeof envelope->reply_partition);
    if (envelope->reply_tokens) add(hash, "reply", (struct mr_text){MR_HEADER_REPLY_TOKENS, 6});
    mr_sha256_add_field(hash, "deadline", &envelope->deadline_ms, sizeof envelope->deadline_ms);
    mr_sha256_end(hash, digest);
    memcpy(identity->bytes, digest, sizeof identity->bytes);
}

bool mr_identity_equal(const struct mr_identity *a, const struct mr_identity *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
