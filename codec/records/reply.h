/* reply - reading answers: token and result records back into their structs, for client commands
 * and tests. The other half of codec/records/result.h.
 *
 * Owner:  the caller, one thread at a time.
 * Memory: everything the record points to is in the arena given; the bytes may go afterwards.
 * Errors: MR_MALFORMED naming the field that is missing or of the wrong type; MR_NOMEM, also when
 *         the arena is too small. Members that are not known are passed over. */
#ifndef MR_CODEC_RECORDS_REPLY_H
#define MR_CODEC_RECORDS_REPLY_H

#include "codec/arena.h"
#include "codec/records/result.h"

enum mr_status mr_token_record_decode(struct mr_token_record *out, struct mr_text bytes,
                                      enum mr_encoding encoding, struct mr_arena *arena,
                                      struct mr_error *err);
/* Without `choices` the top level is the one choice. An error code this program does not know
 * becomes MR_INTERNAL. metadata stays in the record's encoding. */
enum mr_status mr_result_decode(struct mr_result *out, struct mr_text bytes,
                                enum mr_encoding encoding, struct mr_arena *arena,
                                struct mr_error *err);

#endif
