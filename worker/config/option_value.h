/* option_value - parses and formats the values of options: sizes, durations, booleans and numbers.
 *
 * Threads: any (pure functions). Memory: none. Errors: parsing returns false for malformed text. */
#ifndef MR_WORKER_CONFIG_OPTION_VALUE_H
#define MR_WORKER_CONFIG_OPTION_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses a size such as "2GiB", "2Gi", "512 MiB", "64k" (64,000 bytes) or "1048576" to a whole
 * number of bytes. */
bool mr_parse_bytes(const char *text, uint64_t *bytes);
/* Parses a duration such as "25s", "250ms", "5m", "1h", "1.5s" or "10us"; a number without a unit
 * is refused unless it is 0. */
bool mr_parse_duration(const char *text, uint64_t *ns);
/* Parses true/false, yes/no, on/off or 1/0. */
bool mr_parse_bool(const char *text, bool *value);
/* Parses a decimal integer; false if other characters follow. */
bool mr_parse_int(const char *text, int64_t *value);
bool mr_parse_uint(const char *text, uint64_t *value);
/* Parses a finite decimal number; false if other characters follow. */
bool mr_parse_double(const char *text, double *value);

/* Formats in the largest unit that divides the value exactly: "2GiB", "1500ms". out has at least 32
 * bytes. */
void mr_format_bytes(uint64_t bytes, char *out, size_t out_bytes);
void mr_format_duration(uint64_t ns, char *out, size_t out_bytes);

#endif
