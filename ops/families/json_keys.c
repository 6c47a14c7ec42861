#include "ops/families/json_keys.h"

bool mr_json_given(const struct mr_json_value *value)
{
    return !mr_json_is_null(value);
}

double mr_json_number_or(const struct mr_json_value *object, const char *key, double fallback)
{
    double value = fallback;
    mr_json_number(mr_json_get(object, key), &value);
    return value;
}

bool mr_json_bool_or(const struct mr_json_value *object, const char *key, bool fallback)
{
    bool value = fallback;
    mr_json_bool(mr_json_get(object, key), &value);
    return value;
}
