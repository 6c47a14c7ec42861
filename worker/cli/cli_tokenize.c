/* millrace tokenize [TEXT...]: prints the token ids of a text, or of stdin without arguments. With
 * --decode it prints the text of token ids, with --chat the text that the chat template renders
 * from a request record, and its ids. */
#include "codec/limits.h"
#include "codec/records/request_decode.h"
#include "codec/tokenizer/detokenizer.h"
#include "codec/wire/json_writer.h"
#include "ops/files/mapped_file.h"
#include "ops/files/model_files.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/intake/prompt.h"
#include "worker/serve/local.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

static void print_json(const struct mr_tokenizer *tokenizer, const struct mr_rendered *rendered,
                       const uint32_t *ids, size_t count)
{
    struct mr_json_writer writer;
    char *bytes = NULL;
    size_t length = 0;
    mr_json_writer_init(&writer, OUT_BYTES_MAX);
    mr_json_begin_object(&writer);
    if (rendered) {
        mr_json_name(&writer, "text");
        mr_json_put_text(&writer, rendered->text);
    }
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

/* rendered: the text of a chat; NULL: the ids are those of a text. */
static void print_ids(const struct mr_tokenizer *tokenizer, const struct mr_rendered *rendered,
                      const uint32_t *ids, size_t count, bool json)
{
    if (json) {
        print_json(tokenizer, rendered, ids, count);
        return;
    }
    if (rendered) {
        fwrite(rendered->text.bytes, 1, rendered->text.length, stdout);
        putchar('\n');
    }
    for (size_t i = 0; i < count; i++)
        printf("%s%" PRIu32, i > 0 ? " " : "", ids[i]);
    putchar('\n');
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
    if (status == MR_OK) print_ids(tokenizer, NULL, list.ids, list.count, config->json);
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

/* ---- --chat ---- */

static enum mr_status decode_record(struct mr_request **out, struct mr_text record,
                                    struct mr_error *err)
{
    struct mr_request_context context = {.fallback_id = {"record", 6},
                                         .content_type = {"application/json", 16},
                                         .now_ms = (int64_t)time(NULL) * 1000,
                                         .default_max_tokens = 1,
                                         .record_bytes_max = MR_RECORD_BYTES_MAX};
    struct mr_reply_address address;
    enum mr_status status = mr_request_decode(out, record, &context, &address, err);
    if (status != MR_OK || (*out)->chat.message_count > 0) return status;
    mr_request_destroy(*out);
    *out = NULL;
    return mr_fail(err, MR_INVALID_REQUEST, "the record of --chat has no messages");
}

static enum mr_status render_record(struct mr_prompt *prompt, const struct mr_tokenizer *tokenizer,
                                    struct mr_text record, bool json, struct mr_error *err)
{
    struct mr_request *request = NULL;
    struct mr_rendered rendered;
    uint64_t now = (uint64_t)time(NULL);
    enum mr_status status = decode_record(&request, record, err);
    if (status == MR_OK) status = mr_prompt_render(prompt, request, now, &rendered, err);
    if (status == MR_OK) status = mr_prompt_encode(prompt, request, now, err);
    if (status == MR_OK)
        print_ids(tokenizer, &rendered, request->token_ids, request->token_count, json);
    mr_request_destroy(request);
    return status;
}

static enum mr_status encode_chat(const struct mr_model_source *source,
                                  const struct mr_config *config, struct mr_error *err)
{
    struct mr_prompt_options options = {.tokenizer = source->tokenizer,
                                        .chat_template = source->chat_template,
                                        .tool_template = source->tool_template,
                                        .special = source->special,
                                        .prompt_tokens_max = MR_TEMPLATE_BYTES_MAX};
    struct mr_prompt *prompt = NULL;
    struct mr_mapped_file file;
    enum mr_status status = mr_mapped_file_open(&file, config->chat, err);
    if (status != MR_OK) return status;
    status = mr_prompt_create(&prompt, &options, err);
    if (status == MR_OK)
        status =
            render_record(prompt, source->tokenizer, mr_mapped_file_text(&file), config->json, err);
    mr_prompt_destroy(prompt);
    mr_mapped_file_close(&file);
    return status;
}

int mr_cli_tokenize(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    struct mr_model_source source = {0};
    enum mr_status status = mr_model_files_read(&source, config->model, &err);
    if (status == MR_OK && config->chat[0]) status = mr_local_read_template(&source, config, &err);
    if (status != MR_OK) {
        mr_model_source_close(&source);
        mr_cli_fail(&err);
        return MR_EXIT_MODEL;
    }
    if (config->chat[0])
        status = encode_chat(&source, config, &err);
    else if (config->decode)
        status = decode(source.tokenizer, config, &err);
    else
        status = encode(source.tokenizer, config, &err);
    mr_model_source_close(&source);
    return status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
}
