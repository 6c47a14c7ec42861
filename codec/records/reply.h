/* reply - decodes token and result records into the structs of codec/records/result.h, for the
 * client commands and for tests.
 *
 * Owner:  the caller, one thread at a time.
 * Memory: in the arena; the bytes of the record may be freed after the call.
 * Errors: MR_MALFORMED with the name of a field that is missing or has a wrong type; MR_NOMEM, also
 *         when the arena is too small. Unknown members are ignored. */
#ifndef MR_CODEC_RECORDS_REPLY_H
#define MR_CODEC_RECORDS_REPLY_H

#include "codec/arena.h"
#include "codec/records/result.h"

enum mr_status mr_token_record_decode(struct mr_token_record *out, struct mr_text bytes,
                                      enum mr_encoding encoding, struct mr_arena *arena,
                                      struct mr_error *err);
/* Decodes a result record. A record without `choices` has one choice, in the members of the root
 * map. An unknown error code becomes MR_INTERNAL. metadata stays in the encoding of the record. */
enum mr_status mr_result_decode(struct mr_result *out, struct mr_text bytes,
                                enum mr_encoding encoding, struct mr_arena *arena,
                                struct mr_error *err);

#endif
