/* json_keys - reads single keys of a config.json.
 *
 * Threads: any (pure functions). Memory: none. Errors: none; a value of another type is ignored. */
#ifndef MR_OPS_FAMILIES_JSON_KEYS_H
#define MR_OPS_FAMILIES_JSON_KEYS_H

#include "codec/wire/json.h"

/* False when the value is absent or null. */
bool mr_json_given(const struct mr_json_value *value);
/* The number under `key`, or the fallback when the key has none; object may be NULL. */
double mr_json_number_or(const struct mr_json_value *object, const char *key, double fallback);
bool mr_json_bool_or(const struct mr_json_value *object, const char *key, bool fallback);

#endif
