/* millrace tokenize [TEXT...]: prints the token ids of a text (of stdin when there are no
 * arguments); with --decode prints the text of token ids. */
#include "codec/tokenizer/detokenizer.h"
#include "codec/wire/json_writer.h"
#include "ops/files/model_files.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES_MAX ((size_t)64 << 20)
#define OUT_BYTES_MAX  ((size_t)1 << 30)

/* Reads all bytes of stdin, zero bytes included, to *text, which the caller frees. */
static enum mr_status read_stdin(char **text, size_t *length, struct mr_error *err)
{
    size_t capacity = 65536;
    ssize_t got;
    *length = 0;
    *text = malloc(capacity);
    while (*text && (got = read(STDIN_FILENO, *text + *length, capacity - *length)) > 0) {
        *length += (size_t)got;
        if (*length < capacity) continue;
        char *grown = capacity < TEXT_BYTES_MAX ? realloc(*text, capacity * 2) : NULL;
        if (!grown) {
            free(*text);
            *text = NULL;
        } else {
            *text = grown;
            capacity *= 2;
        }
    }
    if (!*text) return mr_fail(err, MR_RECORD_TOO_LARGE, "the text on stdin exceeds 64 MiB");
    return MR_OK;
}

static void print_ids(const struct mr_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                      bool json)
{
    struct mr_json_writer writer;
    char *bytes = NULL;
    size_t length = 0;
    for (size_t i = 0; !json && i < count; i++)
        printf("%s%" PRIu32, i > 0 ? " " : "", ids[i]);
    if (!json) {
        putchar('\n');
        return;
    }
    mr_json_writer_init(&writer, OUT_BYTES_MAX);
    mr_json_begin_object(&writer);
    mr_json_name(&writer, "ids");
    mr_json_begin_array(&writer);
    for (size_t i = 0; i < count; i++)
        mr_json_put_uint(&writer, ids[i]);
    mr_json_end(&writer);
    mr_json_name(&writer, "tokens");
    mr_json_begin_array(&writer);
    for (size_t i = 0; i < count; i++)
        mr_json_put_text(&writer, mr_tokenizer_bytes(tokenizer, ids[i], false));
    mr_json_end(&writer);
    mr_json_end(&writer);
    if (mr_json_writer_take(&writer, &bytes, &length, NULL) == MR_OK) puts(bytes);
    free(bytes);
}

static enum mr_status encode(const struct mr_tokenizer *tokenizer, const struct mr_config *config,
                             struct mr_error *err)
{
    char *text = NULL;
    size_t length = 0;
    enum mr_status status = MR_OK;
    if (config->argument_count > 0)
        text = mr_cli_join(config->arguments, config->argument_count);
    else
        status = read_stdin(&text, &length, err);
    if (status != MR_OK) return status;
    if (text && config->argument_count > 0) length = strlen(text);
    struct mr_id_list list = {.max = length + 8};
    list.ids = calloc(list.max, sizeof *list.ids);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_encode_options options = {.add_special = config->add_special,
                                        .parse_special = config->parse_special};
    if (!text || !list.ids || !scratch)
        status = mr_fail(err, MR_NOMEM, "no memory for the text");
    else
        status = mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){text, length}, options,
                                     &list, err);
    if (status == MR_OK) print_ids(tokenizer, list.ids, list.count, config->json);
    if (scratch) mr_tokenizer_scratch_destroy(scratch);
    free(list.ids);
    free(text);
    return status;
}

static enum mr_status print_token(struct mr_detokenizer *detokenizer, const char *argument,
                                  struct mr_error *err)
{
    char *end = NULL;
    unsigned long id = strtoul(argument, &end, 10);
    if (*end != '\0' || end == argument || id >= mr_tokenizer_vocab_size(detokenizer->tokenizer))
        return mr_fail(err, MR_INVALID_REQUEST, "%.32s is not a token id of this model", argument);
    char *out = malloc(mr_detokenizer_bound(detokenizer, (uint32_t)id) + 1);
    if (!out) return mr_fail(err, MR_NOMEM, "no memory for a token");
    size_t length = mr_detokenizer_push(detokenizer, (uint32_t)id, out);
    fwrite(out, 1, length, stdout);
    free(out);
    return MR_OK;
}

static enum mr_status decode(const struct mr_tokenizer *tokenizer, const struct mr_config *config,
                             struct mr_error *err)
{
    struct mr_detokenizer detokenizer;
    enum mr_status status = MR_OK;
    char tail[12];
    mr_detokenizer_init(&detokenizer, tokenizer, !config->parse_special);
    for (size_t i = 0; i < config->argument_count && status == MR_OK; i++)
        status = print_token(&detokenizer, config->arguments[i], err);
    fwrite(tail, 1, mr_detokenizer_finish(&detokenizer, tail), stdout);
    putchar('\n');
    return status;
}

int mr_cli_tokenize(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    struct mr_model_source source = {0};
    enum mr_status status = mr_model_files_read(&source, config->model, &err);
    if (status != MR_OK) {
        mr_cli_fail(&err);
        return MR_EXIT_MODEL;
    }
    status = config->decode ? decode(source.tokenizer, config, &err)
                            : encode(source.tokenizer, config, &err);
    mr_model_source_close(&source);
    return status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
}
