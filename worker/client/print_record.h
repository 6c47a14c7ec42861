/* print_record - prints a record as one line of JSON, and a one-line summary of a result.
 *
 * Owner: caller. Memory: none kept. Errors: MR_MALFORMED for a value that is neither JSON nor
 * msgpack. */
#ifndef MR_WORKER_CLIENT_PRINT_RECORD_H
#define MR_WORKER_CLIENT_PRINT_RECORD_H

#include "codec/records/result.h"

#include <stdio.h>

/* Prints a record's value, which is JSON or msgpack, as one line of JSON. Control characters in its
 * strings are escaped, because the line may go to a terminal. */
enum mr_status mr_print_json(struct mr_text value, enum mr_encoding encoding, FILE *out,
                             struct mr_error *err);
/* Prints a member of a record as one line of JSON. MR_MALFORMED too if the record has no such
 * member. */
enum mr_status mr_print_member(struct mr_text value, enum mr_encoding encoding, const char *name,
                               FILE *out, struct mr_error *err);
/* Prints a summary such as "finish_reason length, prompt 12 tokens (8 cached), output 34 tokens,
 * ...", with control characters escaped. */
void mr_print_summary(const struct mr_result *result, FILE *out);

#endif
