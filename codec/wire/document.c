#include "codec/wire/document.h"

#include "codec/limits.h"
#include "codec/wire/wire.h"

#include <stdlib.h>

struct mr_document {
    enum mr_encoding encoding;
    struct mr_text record;
    struct mr_wire *wire;
    struct mr_json *json;
};

/* ---- values over JSON nodes ---- */

static enum mr_value_kind json_kind(const void *node)
{
    static const enum mr_value_kind kinds[] = {
        [MR_JSON_NULL] = MR_VALUE_NULL,  [MR_JSON_BOOL] = MR_VALUE_BOOL,
        [MR_JSON_INT] = MR_VALUE_INT,    [MR_JSON_REAL] = MR_VALUE_FLOAT,
        [MR_JSON_TEXT] = MR_VALUE_TEXT,  [MR_JSON_ARRAY] = MR_VALUE_ARRAY,
        [MR_JSON_OBJECT] = MR_VALUE_MAP, [MR_JSON_BIG] = MR_VALUE_BIG,
    };
    return kinds[mr_json_kind(node)];
}

static int64_t json_integer(const void *node)
{
    bool truth = false;
    int64_t value = 0;
    if (mr_json_bool(node, &truth)) return truth;
    mr_json_int(node, &value);
    return value;
}

static double json_number(const void *node)
{
    double value = 0;
    mr_json_number(node, &value);
    return value;
}

static struct mr_text json_text(const void *node)
{
    struct mr_text text = {"", 0};
    mr_json_text(node, &text);
    return text;
}

static struct mr_text json_big(const void *node, char scratch[24])
{
    struct mr_text text = {"0", 1};
    (void)scratch;
    mr_json_big(node, &text);
    return text;
}

static size_t json_count(const void *node)
{
    return mr_json_count(node);
}

static struct mr_value json_at(const void *node, size_t index)
{
    return mr_document_json_value(mr_json_at(node, index));
}

static bool json_next(const void *node, struct mr_member *member)
{
    struct mr_json_member json = {.cursor = member->cursor};
    if (!mr_json_next(node, &json)) return false;
    member->cursor = json.cursor;
    member->name = json.name;
    member->value = mr_document_json_value(json.value);
    return true;
}

static const struct mr_value_ops json_ops = {json_kind, json_integer, json_number, json_text,
                                             json_big,  json_count,   json_at,     json_next};

struct mr_value mr_document_json_value(const struct mr_json_value *value)
{
    return (struct mr_value){&json_ops, value};
}

/* ---- opening ---- */

static enum mr_status open_json(struct mr_document *document, bool lenient, struct mr_error *err)
{
    struct mr_json_limits limits = {document->record.length, MR_NODES_MAX, MR_NESTING_MAX};
    enum mr_status status = (lenient ? mr_json_parse_wide : mr_json_parse)(
        &document->json, document->record, &limits, err);
    if (status == MR_RECORD_TOO_LARGE) {
        /* the same status as for msgpack records with too many values or too much nesting */
        status = MR_MALFORMED;
        if (err) err->status = status;
    }
    if (status == MR_OK && mr_json_kind(mr_json_root(document->json)) != MR_JSON_OBJECT)
        status = mr_fail(err, MR_MALFORMED, "JSON record that is not an object");
    return status;
}

static enum mr_status open_as(struct mr_document **out, struct mr_text record,
                              enum mr_encoding encoding, bool lenient, struct mr_error *err)
{
    *out = NULL;
    struct mr_document *document = calloc(1, sizeof *document);
    if (!document) return mr_fail(err, MR_NOMEM, "no memory to open a record");
    document->encoding = encoding;
    document->record = record;
    enum mr_status status = encoding == MR_ENCODING_JSON
                                ? open_json(document, lenient, err)
                                : mr_wire_open(&document->wire, record, err);
    if (status != MR_OK) {
        mr_document_close(document);
        return status;
    }
    *out = document;
    return MR_OK;
}

enum mr_status mr_document_open(struct mr_document **out, struct mr_text record,
                                enum mr_encoding encoding, struct mr_error *err)
{
    return open_as(out, record, encoding, false, err);
}

enum mr_status mr_document_open_wide(struct mr_document **out, struct mr_text json,
                                     struct mr_error *err)
{
    return open_as(out, json, MR_ENCODING_JSON, true, err);
}

void mr_document_close(struct mr_document *document)
{
    if (!document) return;
    mr_wire_close(document->wire);
    mr_json_destroy(document->json);
    free(document);
}

struct mr_value mr_document_root(const struct mr_document *document)
{
    if (document->wire) return mr_wire_root(document->wire);
    return mr_document_json_value(mr_json_root(document->json));
}

bool mr_document_raw_member(const struct mr_document *document, const char *name,
                            struct mr_text *raw)
{
    return document->wire ? mr_wire_raw_member(document->record, name, raw)
                          : mr_json_raw_member(document->record, name, raw);
}
