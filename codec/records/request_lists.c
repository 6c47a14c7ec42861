#include "codec/records/request_lists.h"

#include "codec/limits.h"
#include "codec/tokenizer/token_ids.h"

#include <ctype.h>

/* ---- prompts ---- */

enum mr_status mr_request_read_prompt(struct mr_request_reader *reader, const char *field,
                                      struct mr_value value)
{
    if (mr_value_kind(value) != MR_VALUE_TEXT)
        return mr_request_wrong_type(reader, field, "text", value);
    struct mr_text text = mr_value_text(value);
    if (text.length == 0) return mr_fail(reader->err, MR_EMPTY_PROMPT, "prompt is empty");
    return mr_request_copy_text(reader, text, &reader->request->prompt);
}

/* Reads one token id. Accepts every id that any vocabulary can have. Intake rejects ids outside of
 * the model's vocabulary later. */
static enum mr_status read_id(struct mr_request_reader *reader, const char *field,
                              struct mr_value value, uint32_t *out)
{
    enum mr_value_kind kind = mr_value_kind(value);
    int64_t id = INT64_MAX;
    if (kind != MR_VALUE_BIG && !mr_value_integer(value, &id))
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must hold token ids, not %s", field,
                       mr_value_kind_name(kind));
    if (id < 0 || id >= MR_TOKEN_NONE)
        return mr_fail(reader->err, MR_INVALID_TOKEN_ID,
                       "%s holds an id outside of every vocabulary", field);
    *out = (uint32_t)id;
    return MR_OK;
}

/* Takes zeroed memory for the `count` entries of a field, at most count_max. */
static enum mr_status take_entries(struct mr_request_reader *reader, const char *field,
                                   size_t count, size_t count_max, size_t size, void **out)
{
    *out = NULL;
    if (count <= count_max) return mr_request_take(reader, count, size, out);
    return mr_fail(reader->err, MR_INVALID_REQUEST, "%s has %zu entries, at most %zu are allowed",
                   field, count, count_max);
}

enum mr_status mr_request_read_ids(struct mr_request_reader *reader, const char *field,
                                   struct mr_value value, size_t count_max, const uint32_t **ids,
                                   size_t *count)
{
    if (mr_value_kind(value) != MR_VALUE_ARRAY)
        return mr_request_wrong_type(reader, field, "an array of token ids", value);
    size_t length = mr_value_count(value);
    void *memory;
    enum mr_status status = take_entries(reader, field, length, count_max, sizeof **ids, &memory);
    uint32_t *taken = memory;
    for (size_t i = 0; i < length && status == MR_OK; i++)
        status = read_id(reader, field, mr_value_at(value, i), &taken[i]);
    if (status != MR_OK) return status;
    *ids = taken;
    *count = length;
    return MR_OK;
}

enum mr_status mr_request_read_prompt_ids(struct mr_request_reader *reader, const char *field,
                                          struct mr_value value)
{
    struct mr_request *request = reader->request;
    enum mr_status status = mr_request_read_ids(reader, field, value, MR_NODES_MAX,
                                                &request->token_ids, &request->token_count);
    if (status != MR_OK) return status;
    if (request->token_count == 0)
        return mr_fail(reader->err, MR_EMPTY_PROMPT, "prompt_token_ids is empty");
    request->has_token_ids = true;
    return MR_OK;
}

/* ---- maps to arrays of structs ---- */

struct map_format {
    const char *wanted; /* the expected type, for the error sentence "must be <wanted>" */
    size_t count_max, entry_bytes;
    enum mr_status (*read)(struct mr_request_reader *reader, const struct mr_member *member,
                           void *entry);
};

/* Reads each member of a map into one entry. *entries is NULL unless the status is MR_OK. */
static enum mr_status read_map(struct mr_request_reader *reader, const char *field,
                               struct mr_value map, const struct map_format *format, void **entries,
                               size_t *count)
{
    *entries = NULL;
    if (mr_value_kind(map) != MR_VALUE_MAP)
        return mr_request_wrong_type(reader, field, format->wanted, map);
    size_t members = mr_value_count(map);
    void *memory;
    enum mr_status status =
        take_entries(reader, field, members, format->count_max, format->entry_bytes, &memory);
    char *entry = memory;
    struct mr_member member = {0};
    for (; status == MR_OK && mr_value_next(map, &member); entry += format->entry_bytes)
        status = format->read(reader, &member, entry);
    if (status != MR_OK) return status;
    *entries = memory;
    *count = members;
    return MR_OK;
}

/* ---- lists of texts and ids ---- */

static enum mr_status read_short_text(struct mr_request_reader *reader, const char *field,
                                      struct mr_value value, struct mr_text *out)
{
    if (mr_value_kind(value) != MR_VALUE_TEXT)
        return mr_request_wrong_type(reader, field, "text or an array of texts", value);
    struct mr_text text = mr_value_text(value);
    if (text.length == 0 || text.length > MR_STOP_BYTES_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "each text in %s must be 1 to %zu bytes",
                       field, MR_STOP_BYTES_MAX);
    return mr_request_copy_text(reader, text, out);
}

/* Reads a field that is one text or an array of texts. */
enum mr_status mr_request_read_texts(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value, size_t count_max,
                                     const struct mr_text **texts, size_t *count)
{
    bool array = mr_value_kind(value) == MR_VALUE_ARRAY;
    size_t length = array ? mr_value_count(value) : 1;
    void *memory;
    enum mr_status status = take_entries(reader, field, length, count_max, sizeof **texts, &memory);
    struct mr_text *taken = memory;
    for (size_t i = 0; i < length && status == MR_OK; i++)
        status = read_short_text(reader, field, array ? mr_value_at(value, i) : value, &taken[i]);
    if (status != MR_OK) return status;
    *texts = taken;
    *count = length;
    return MR_OK;
}

enum mr_status mr_request_read_allowed_ids(struct mr_request_reader *reader, const char *field,
                                           struct mr_value value)
{
    struct mr_sampling *sampling = &reader->request->sampling;
    enum mr_status status =
        mr_request_read_ids(reader, field, value, MR_ALLOWED_TOKENS_MAX,
                            &sampling->allowed_token_ids, &sampling->allowed_token_count);
    if (status == MR_OK && sampling->allowed_token_count == 0)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s is empty: no token would be allowed",
                       field);
    return status;
}

/* Parses a token id from decimal digits without sign or leading zero, so that every id has one
 * spelling. */
static bool parse_id(struct mr_text text, uint32_t *out)
{
    uint64_t id = 0;
    if (text.length == 0 || text.length > 10 || (text.bytes[0] == '0' && text.length > 1))
        return false;
    for (size_t i = 0; i < text.length; i++) {
        if (!isdigit((unsigned char)text.bytes[i])) return false;
        id = id * 10 + (uint64_t)(text.bytes[i] - '0');
    }
    *out = (uint32_t)id;
    return id < MR_TOKEN_NONE;
}

static enum mr_status read_bias(struct mr_request_reader *reader, const struct mr_member *member,
                                void *entry)
{
    struct mr_logit_bias *bias = entry;
    enum mr_value_kind kind = mr_value_kind(member->value);
    if (!parse_id(member->name, &bias->token_id))
        return mr_fail(reader->err, MR_INVALID_TOKEN_ID,
                       "logit_bias has a name that is not a token id");
    if (kind != MR_VALUE_INT && kind != MR_VALUE_FLOAT)
        return mr_request_wrong_type(reader, "a value of logit_bias", "a number", member->value);
    double number = mr_value_number(member->value);
    if (!(number >= -100 && number <= 100))
        return mr_fail(reader->err, MR_INVALID_REQUEST, "logit_bias must be within -100 and 100");
    bias->bias = (float)number;
    return MR_OK;
}

enum mr_status mr_request_read_logit_bias(struct mr_request_reader *reader, const char *field,
                                          struct mr_value value)
{
    static const struct map_format format = {"a map from id to number", MR_LOGIT_BIAS_MAX,
                                             sizeof(struct mr_logit_bias), read_bias};
    struct mr_sampling *sampling = &reader->request->sampling;
    void *entries;
    enum mr_status status =
        read_map(reader, field, value, &format, &entries, &sampling->logit_bias_count);
    sampling->logit_bias = entries;
    return status;
}

/* ---- continuations ---- */

/* One continuation: a text or an array of token ids, not empty. */
static enum mr_status read_continuation(struct mr_request_reader *reader, const char *field,
                                        struct mr_value value, struct mr_continuation *out)
{
    enum mr_status status;
    switch (mr_value_kind(value)) {
    case MR_VALUE_TEXT:
        if (mr_value_text(value).length == 0) break;
        return mr_request_copy_text(reader, mr_value_text(value), &out->text);
    case MR_VALUE_ARRAY:
        status = mr_request_read_ids(reader, field, value, MR_NODES_MAX, &out->token_ids,
                                     &out->token_count);
        if (status != MR_OK || out->token_count > 0) return status;
        break;
    default:
        return mr_request_wrong_type(reader, field, "an array of texts or of arrays of token ids",
                                     value);
    }
    return mr_fail(reader->err, MR_INVALID_REQUEST, "%s has an empty entry", field);
}

enum mr_status mr_request_read_continuations(struct mr_request_reader *reader, const char *field,
                                             struct mr_value value)
{
    if (mr_value_kind(value) != MR_VALUE_ARRAY)
        return mr_request_wrong_type(reader, field, "an array of texts or of arrays of token ids",
                                     value);
    const size_t count = mr_value_count(value);
    if (count == 0 || count > MR_CONTINUATIONS_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s must have 1 to %zu entries", field,
                       MR_CONTINUATIONS_MAX);
    void *memory;
    enum mr_status status = mr_request_take(reader, count, sizeof(struct mr_continuation), &memory);
    struct mr_continuation *taken = memory;
    for (size_t i = 0; i < count && status == MR_OK; i++)
        status = read_continuation(reader, field, mr_value_at(value, i), &taken[i]);
    if (status != MR_OK) return status;
    reader->request->continuations = taken;
    reader->request->continuation_count = count;
    return MR_OK;
}

/* ---- other maps ---- */

enum mr_status mr_request_read_cache(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value)
{
    if (mr_value_kind(value) != MR_VALUE_MAP)
        return mr_request_wrong_type(reader, field, "a map", value);
    struct mr_member member = {0};
    while (mr_value_next(value, &member)) {
        struct mr_nearest nearest = {.written = member.name};
        mr_nearest_consider(&nearest, "read");
        mr_nearest_consider(&nearest, "write");
        bool read = mr_text_is(member.name, "read");
        if (!read && !mr_text_is(member.name, "write")) {
            enum mr_status status = mr_request_unknown(reader, member.name, nearest);
            if (status != MR_OK) return status;
            continue;
        }
        if (mr_value_kind(member.value) != MR_VALUE_BOOL)
            return mr_request_wrong_type(reader, read ? "cache.read" : "cache.write",
                                         "true or false", member.value);
        bool *flag = read ? &reader->request->cache_read : &reader->request->cache_write;
        *flag = mr_value_bool(member.value);
    }
    return MR_OK;
}

/* Reads metadata. The result record repeats these bytes, so only their number is checked here.
 * mr_document_open has checked that they are valid. */
enum mr_status mr_request_read_metadata(struct mr_request_reader *reader, const char *field,
                                        struct mr_value value)
{
    (void)value;
    struct mr_text raw;
    if (!mr_document_raw_member(reader->document, field, &raw))
        return mr_fail(reader->err, MR_INTERNAL, "%s has no bytes", field);
    if (raw.length > MR_METADATA_BYTES_MAX)
        return mr_fail(reader->err, MR_INVALID_REQUEST, "%s is %zu bytes encoded, at most %zu",
                       field, raw.length, MR_METADATA_BYTES_MAX);
    return mr_request_copy_text(reader, raw, &reader->request->metadata);
}
