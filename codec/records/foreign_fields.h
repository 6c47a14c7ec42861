/* foreign_fields - one table of the fields of OpenAI's API (chat completions, completions) and of
 * vLLM that millrace does not serve. Requests written for those APIs may contain them; millrace
 * never ignores them silently.
 *
 * A field with a neutral value changes nothing and is accepted. With any other value, a field
 * marked `refused` rejects the request, because the answer would be wrong without it. Any other
 * field is named in the result's warnings, or rejects the request on a strict topic. The fields
 * that are served are in codec/records/request_fields.c. docker/guide/fields.md lists both;
 * tests/integration/test_fields.py compares the lists.
 *
 * Threads: any (pure functions). Memory: static. Errors: none. */
#ifndef MR_CODEC_RECORDS_FOREIGN_FIELDS_H
#define MR_CODEC_RECORDS_FOREIGN_FIELDS_H

#include "codec/wire/value.h"

struct mr_foreign_field {
    const char *name;
    /* neutral values, separated by a space: true, false, an integer, [] or {} (empty), "" (empty
     * text), a text, * (every value); NULL: none */
    const char *neutral;
    bool refused;
    const char *hint; /* the alternative, or the reason why the field has no effect */
};

/* The field with this name; NULL if neither API has it or millrace serves it. */
const struct mr_foreign_field *mr_foreign_field_find(struct mr_text name);
/* True if the value changes nothing; always true for null. */
bool mr_foreign_field_is_neutral(const struct mr_foreign_field *field, struct mr_value value);

#endif
