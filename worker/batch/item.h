/* item - one line of a batch's input: a call in OpenAI's Batch format, {custom_id, method, url,
 * body}, or the body alone.
 *
 * A body alone has its endpoint from its members (codec/openai/endpoint.h), and the custom_id
 * line-N, where N is its line number.
 *
 * Owner:  one thread. Memory: the parsed line, until _close; it borrows the bytes of the line.
 * Errors: MR_MALFORMED, MR_INVALID_REQUEST, MR_UNSUPPORTED, MR_RECORD_TOO_LARGE, all of them faults
 *         of the line; MR_NOMEM. */
#ifndef MR_WORKER_BATCH_ITEM_H
#define MR_WORKER_BATCH_ITEM_H

#include "codec/openai/call.h"
#include "codec/wire/document.h"

#include <stdint.h>

struct mr_batch_item {
    struct mr_document *document;
    struct mr_text custom_id; /* empty: the line has none */
    char generated[32];       /* the custom_id of a body alone */
    enum mr_openai_endpoint endpoint;
    struct mr_value body;
};

/* How the records of a batch are made from its lines. */
struct mr_batch_item_rules {
    const char *priority; /* of a body without one */
    int64_t timeout_ms;   /* of a body without a deadline */
    size_t record_bytes_max;
    int64_t now_ms; /* Unix time, to check deadline_ms of a body */
};

/* Parses the line. After an error too the caller calls _close, and custom_id is set if the line has
 * one. */
enum mr_status mr_batch_item_open(struct mr_batch_item *item, struct mr_text line, uint64_t number,
                                  struct mr_error *err);
void mr_batch_item_close(struct mr_batch_item *item);
/* Encodes the request record. The caller frees *record, which is NULL on an error. */
enum mr_status mr_batch_item_record(const struct mr_batch_item *item,
                                    const struct mr_batch_item_rules *rules, struct mr_text id,
                                    char **record, size_t *length, struct mr_error *err);
/* Checks the line as a worker would: decodes the record. *warnings: how many members of it have no
 * effect. */
enum mr_status mr_batch_item_check(const struct mr_batch_item *item,
                                   const struct mr_batch_item_rules *rules, size_t *warnings,
                                   struct mr_error *err);

#endif
