/* encoding - which of the two encodings a record is in (CONTRACT section 2).
 *
 * Threads: any (pure functions). Memory: none. Errors: MR_UNSUPPORTED_ENCODING for a content-type
 * this program does not read, MR_MALFORMED when neither header nor first byte tells. */
#ifndef MR_CODEC_WIRE_ENCODING_H
#define MR_CODEC_WIRE_ENCODING_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_encoding { MR_ENCODING_MSGPACK, MR_ENCODING_JSON };

/* content_type: the header's value, empty when absent. Where the answer is an error *out is
 * MR_ENCODING_JSON, the encoding a person can read. */
enum mr_status mr_encoding_detect(struct mr_text content_type, struct mr_text record,
                                  enum mr_encoding *out, struct mr_error *err);

/* The content-type this program writes. Static text. */
const char *mr_encoding_content_type(enum mr_encoding encoding);

#endif
