#include "worker/config/config_file.h"

#include "worker/config/options_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define NAME_BYTES_MAX ((size_t)64)
#define NAMES_MAX      ((size_t)128)
#define PAIR_BYTES_MAX ((size_t)4096)

struct reader {
    const char *path;
    yaml_parser_t parser;
    yaml_event_t event; /* the current YAML event; valid while has_event */
    bool has_event;
    mr_config_file_set *set;
    void *context;
    char names[NAMES_MAX][NAME_BYTES_MAX]; /* keys read so far, to find a repeated key */
    size_t name_count;
    char joined[PAIR_BYTES_MAX]; /* elements of a list that is one value */
    struct mr_error *err;
};

static uint32_t line_of(const struct reader *reader)
{
    size_t line = reader->has_event ? reader->event.start_mark.line : reader->parser.mark.line;
    return (uint32_t)line + 1;
}

static enum mr_status bad(struct reader *reader, const char *reason)
{
    return mr_fail(reader->err, MR_BAD_CONFIG, "%s, line %u: %s", reader->path, line_of(reader),
                   reason);
}

static void drop_event(struct reader *reader)
{
    if (reader->has_event) yaml_event_delete(&reader->event);
    reader->has_event = false;
}

/* Parses the next YAML event into reader->event. */
static enum mr_status advance(struct reader *reader)
{
    drop_event(reader);
    if (!yaml_parser_parse(&reader->parser, &reader->event)) {
        return bad(reader, reader->parser.problem ? reader->parser.problem : "not YAML");
    }
    reader->has_event = true;
    if (reader->event.type == YAML_ALIAS_EVENT) return bad(reader, "aliases are not supported");
    return MR_OK;
}

static const char *scalar_of(const struct reader *reader)
{
    const yaml_event_t *event = &reader->event;
    const char *text = (const char *)event->data.scalar.value;
    return strlen(text) == event->data.scalar.length ? text : NULL;
}

static bool is_null(const struct reader *reader)
{
    const char *text = scalar_of(reader);
    return reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && text &&
           (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

/* Passes one value of the file to the callback. */
static enum mr_status set_value(struct reader *reader, const char *name, const char *value)
{
    return reader->set(reader->context, name, value, line_of(reader), reader->err);
}

/* Passes the elements of a list of scalars to take(reader, name, element). */
static enum mr_status read_elements(struct reader *reader, const char *name,
                                    enum mr_status (*take)(struct reader *reader, const char *name,
                                                           const char *element))
{
    for (;;) {
        enum mr_status status = advance(reader);
        if (status != MR_OK) return status;
        if (reader->event.type == YAML_SEQUENCE_END_EVENT) return MR_OK;
        if (reader->event.type != YAML_SCALAR_EVENT || !scalar_of(reader))
            return bad(reader, "a list may hold plain values only");
        status = take(reader, name, scalar_of(reader));
        if (status != MR_OK) return status;
    }
}

/* Appends an element of the list to reader->joined, after a comma. */
static enum mr_status join(struct reader *reader, const char *name, const char *element)
{
    (void)name;
    size_t length = strlen(reader->joined);
    int added = snprintf(reader->joined + length, sizeof reader->joined - length, "%s%s",
                         length > 0 ? "," : "", element);
    if ((size_t)added < sizeof reader->joined - length) return MR_OK;
    return bad(reader, "the values are too long");
}

/* A list is for an option that may be given several times. The servers of --brokers are one value,
 * in which commas separate them. */
static enum mr_status read_list(struct reader *reader, const char *name)
{
    const struct mr_option *option = mr_option_find(name);
    if (!option || option->kind == MR_OPTION_LIST) return read_elements(reader, name, set_value);
    if (strcmp(option->name, "brokers") != 0)
        return bad(reader, "this option takes one value, not a list: write NAME: VALUE");
    reader->joined[0] = '\0';
    enum mr_status status = read_elements(reader, name, join);
    return status == MR_OK ? set_value(reader, name, reader->joined) : status;
}

static enum mr_status read_pairs(struct reader *reader, const char *name)
{
    for (;;) {
        char pair[PAIR_BYTES_MAX];
        enum mr_status status = advance(reader);
        if (status != MR_OK) return status;
        if (reader->event.type == YAML_MAPPING_END_EVENT) return MR_OK;
        if (reader->event.type != YAML_SCALAR_EVENT || !scalar_of(reader))
            return bad(reader, "a map may hold plain names only");
        int head = snprintf(pair, sizeof pair, "%s=", scalar_of(reader));
        status = advance(reader);
        if (status != MR_OK) return status;
        if (reader->event.type != YAML_SCALAR_EVENT || !scalar_of(reader))
            return bad(reader, "a map may hold plain values only");
        size_t length = strlen(scalar_of(reader));
        if ((size_t)head + length >= sizeof pair) return bad(reader, "the value is too long");
        memcpy(pair + head, scalar_of(reader), length + 1);
        status = set_value(reader, name, pair);
        if (status != MR_OK) return status;
    }
}

static enum mr_status read_value(struct reader *reader, const char *name)
{
    enum mr_status status = advance(reader);
    if (status != MR_OK) return status;
    switch (reader->event.type) {
    case YAML_SCALAR_EVENT:
        if (!scalar_of(reader)) return bad(reader, "the value has a zero byte");
        return is_null(reader) ? MR_OK : set_value(reader, name, scalar_of(reader));
    case YAML_SEQUENCE_START_EVENT:
        return read_list(reader, name);
    case YAML_MAPPING_START_EVENT:
        if (strcmp(name, "kafka") != 0)
            return bad(reader, "nested sections are not supported: write NAME: VALUE on one line");
        return read_pairs(reader, name);
    default:
        return bad(reader, "a value is missing");
    }
}

/* Stores the YAML key `text` in name, with '_' replaced by '-'; returns an error if the file has
 * the same key twice. */
static enum mr_status take_name(struct reader *reader, const char *text, char *name)
{
    if (!text || strlen(text) >= NAME_BYTES_MAX)
        return bad(reader, "no option has a name this long");
    size_t length = strlen(text);
    for (size_t i = 0; i <= length; i++)
        name[i] = text[i] == '_' ? '-' : text[i];
    for (size_t i = 0; i < reader->name_count; i++)
        if (strcmp(reader->names[i], name) == 0) return bad(reader, "the name is given twice");
    if (reader->name_count == NAMES_MAX) return bad(reader, "too many names");
    memcpy(reader->names[reader->name_count++], name, length + 1);
    return MR_OK;
}

static enum mr_status read_map(struct reader *reader)
{
    for (;;) {
        char name[NAME_BYTES_MAX];
        enum mr_status status = advance(reader);
        if (status != MR_OK) return status;
        if (reader->event.type == YAML_MAPPING_END_EVENT) return MR_OK;
        if (reader->event.type != YAML_SCALAR_EVENT) return bad(reader, "a name is missing");
        status = take_name(reader, scalar_of(reader), name);
        if (status == MR_OK) status = read_value(reader, name);
        if (status != MR_OK) return status;
    }
}

/* Reads a file of one YAML document that is one map; an empty file is valid. */
static enum mr_status read_document(struct reader *reader)
{
    enum mr_status status = advance(reader); /* the event: start of the YAML stream */
    if (status == MR_OK) status = advance(reader);
    if (status != MR_OK || reader->event.type == YAML_STREAM_END_EVENT) return status;
    status = advance(reader);
    if (status != MR_OK) return status;
    bool empty = reader->event.type == YAML_SCALAR_EVENT && is_null(reader);
    if (!empty && reader->event.type != YAML_MAPPING_START_EVENT)
        return bad(reader, "the file must have lines NAME: VALUE");
    if (!empty) status = read_map(reader);
    if (status == MR_OK) status = advance(reader); /* skip the event: end of the YAML document */
    if (status == MR_OK) status = advance(reader);
    if (status == MR_OK && reader->event.type != YAML_STREAM_END_EVENT)
        return bad(reader, "the file has more than one document");
    return status;
}

static enum mr_status open_file(const char *path, FILE **out, struct mr_error *err)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return mr_fail(err, MR_BAD_CONFIG, "--config %s: %s: use the path of a YAML file", path,
                       strerror(errno));
    if (fseek(file, 0, SEEK_END) != 0 || ftell(file) > MR_CONFIG_FILE_BYTES_MAX) {
        fclose(file);
        return mr_fail(err, MR_BAD_CONFIG, "--config %s: is not a regular file of at most 1 MiB",
                       path);
    }
    rewind(file);
    *out = file;
    return MR_OK;
}

enum mr_status mr_config_file_read(const char *path, mr_config_file_set *set, void *context,
                                   struct mr_error *err)
{
    FILE *file = NULL;
    enum mr_status status = open_file(path, &file, err);
    if (status != MR_OK) return status;
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader || !yaml_parser_initialize(&reader->parser)) {
        status = mr_fail(err, MR_NOMEM, "no memory to read %s", path);
        goto close;
    }
    reader->path = path;
    reader->set = set;
    reader->context = context;
    reader->err = err;
    yaml_parser_set_input_file(&reader->parser, file);
    status = read_document(reader);
    drop_event(reader);
    yaml_parser_delete(&reader->parser);
close:
    free(reader);
    fclose(file);
    return status;
}
