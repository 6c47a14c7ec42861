/* document - one open record: its bytes in JSON or msgpack, readable as a map of values
 * (codec/wire/value.h). Before memory is allocated for a declared length, both encodings check
 * nesting (MR_NESTING_MAX), number of values (MR_NODES_MAX), duplicate names and UTF-8.
 *
 * Owner:  the caller, one thread at a time.
 * Memory: about 24 (msgpack) or 64 (JSON) bytes for each value until _close; the record's bytes
 * must outlive the document. Errors: MR_MALFORMED with a reason, MR_NOMEM. */
#ifndef MR_CODEC_WIRE_DOCUMENT_H
#define MR_CODEC_WIRE_DOCUMENT_H

#include "codec/wire/encoding.h"
#include "codec/wire/json.h"
#include "codec/wire/value.h"

struct mr_document;

/* Opens a record. MR_MALFORMED also when its root is not a map. */
enum mr_status mr_document_open(struct mr_document **out, struct mr_text record,
                                enum mr_encoding encoding, struct mr_error *err);
/* Opens JSON text that a model has written, by the rules of Python's json.loads
 * (mr_json_parse_wide). */
enum mr_status mr_document_open_wide(struct mr_document **out, struct mr_text json,
                                     struct mr_error *err);
/* document may be NULL. */
void mr_document_close(struct mr_document *document);
struct mr_value mr_document_root(const struct mr_document *document);
/* Sets *raw to the encoded bytes of a member of the root map; false when there is no such
 * member. */
bool mr_document_raw_member(const struct mr_document *document, const char *name,
                            struct mr_text *raw);

/* Wraps a value of a JSON document, which must outlive the result. */
struct mr_value mr_document_json_value(const struct mr_json_value *value);

#endif
