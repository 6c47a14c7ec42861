/* print_record - records for people and programs: a record's value as one line of JSON, and the
 * line that says how an answer ended.
 *
 * Owner: caller. Memory: none kept. Errors: MR_MALFORMED for a value that is no record. */
#ifndef MR_WORKER_CLIENT_PRINT_RECORD_H
#define MR_WORKER_CLIENT_PRINT_RECORD_H

#include "codec/records/result.h"

#include <stdio.h>

/* The value as JSON, whatever encoding it came in, and a line break. */
enum mr_status mr_print_json(struct mr_text value, enum mr_encoding encoding, FILE *out,
                             struct mr_error *err);
/* "finish_reason length, prompt 12 tokens (8 cached), output 34 tokens, ..." */
void mr_print_summary(const struct mr_result *result, FILE *out);

#endif
