/* encoding - finds the encoding of a record, msgpack or JSON: from the content-type header, or else
 * from the first byte.
 *
 * Threads: any (pure functions). Memory: none.
 * Errors:  MR_UNSUPPORTED_ENCODING for another content-type; MR_MALFORMED for a record without
 *          content-type whose first byte starts neither a JSON object nor a msgpack map. */
#ifndef MR_CODEC_WIRE_ENCODING_H
#define MR_CODEC_WIRE_ENCODING_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_encoding { MR_ENCODING_MSGPACK, MR_ENCODING_JSON };

/* content_type: the value of the Kafka header, empty when absent. On an error *out is
 * MR_ENCODING_JSON, so that the error result is readable as text. */
enum mr_status mr_encoding_detect(struct mr_text content_type, struct mr_text record,
                                  enum mr_encoding *out, struct mr_error *err);

/* The value of the content-type header of records in this encoding. Static text. */
const char *mr_encoding_content_type(enum mr_encoding encoding);

#endif
