/* option_value - parses and formats sizes, durations, booleans and numbers.
 *
 * Threads: any (pure functions). Memory: none. Errors: false for malformed text. */
#ifndef MR_WORKER_CONFIG_OPTION_VALUE_H
#define MR_WORKER_CONFIG_OPTION_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "2GiB", "512 MiB", "64k" (1,000), "1048576": whole bytes. */
bool mr_parse_bytes(const char *text, uint64_t *bytes);
/* "25s", "250ms", "5m", "1h", "1.5s", "10us"; a bare number is refused unless it is 0. */
bool mr_parse_duration(const char *text, uint64_t *ns);
/* true/false, yes/no, on/off, 1/0. */
bool mr_parse_bool(const char *text, bool *value);
/* A decimal integer without further characters. */
bool mr_parse_int(const char *text, int64_t *value);
bool mr_parse_uint(const char *text, uint64_t *value);
/* A finite decimal number without further characters. */
bool mr_parse_double(const char *text, double *value);

/* In the largest unit that divides exactly: "2GiB", "1500ms". out has at least 32 bytes. */
void mr_format_bytes(uint64_t bytes, char *out, size_t out_bytes);
void mr_format_duration(uint64_t ns, char *out, size_t out_bytes);

#endif
