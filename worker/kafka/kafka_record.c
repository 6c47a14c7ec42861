#include "worker/kafka/kafka_record.h"

#include <string.h>

const struct mr_kafka_header *mr_kafka_record_header(const struct mr_kafka_record *record,
                                                     const char *name)
{
    for (size_t i = record->header_count; i > 0; i--)
        if (strcmp(record->headers[i - 1].name, name) == 0) return &record->headers[i - 1];
    return NULL;
}
