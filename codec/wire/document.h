/* document - one record, opened for reading: bytes in either encoding to a root map of values
 * (codec/wire/value.h). Both encodings are bounded before anything is allocated from what they
 * declare: MR_NESTING_MAX, MR_NODES_MAX, duplicate names, UTF-8.
 *
 * Owner:  the caller, one thread at a time.
 * Memory: about 24 (msgpack) to 64 (JSON) bytes a value until _close; the record's bytes must
 *         outlive the document.
 * Errors: MR_MALFORMED with a reason, MR_NOMEM. */
#ifndef MR_CODEC_WIRE_DOCUMENT_H
#define MR_CODEC_WIRE_DOCUMENT_H

#include "codec/wire/encoding.h"
#include "codec/wire/json.h"
#include "codec/wire/value.h"

struct mr_document;

/* The root is a map, or the record is malformed. */
enum mr_status mr_document_open(struct mr_document **out, struct mr_text record,
                                enum mr_encoding encoding, struct mr_error *err);
/* document may be NULL. */
void mr_document_close(struct mr_document *document);
struct mr_value mr_document_root(const struct mr_document *document);
/* The bytes of the root map's member as they were written; false when there is none. */
bool mr_document_raw_member(const struct mr_document *document, const char *name,
                            struct mr_text *raw);

/* A value of a JSON document as a neutral value, valid as long as the JSON document. */
struct mr_value mr_document_json_value(const struct mr_json_value *value);

#endif
