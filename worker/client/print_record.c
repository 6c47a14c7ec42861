#include "worker/client/print_record.h"

#include "codec/wire/document.h"
#include "codec/wire/writer.h"
#include "worker/base/printable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define JSON_BYTES_MAX ((size_t)64 << 20)

static enum mr_status print_value(struct mr_value value, FILE *out, struct mr_error *err)
{
    struct mr_writer writer;
    unsigned char *bytes = NULL;
    size_t length = 0;
    mr_writer_init(&writer, MR_ENCODING_JSON, JSON_BYTES_MAX);
    mr_writer_value(&writer, value);
    enum mr_status status = mr_writer_take(&writer, &bytes, &length, err);
    if (status != MR_OK) return status;
    mr_print_escaped_json(out, (struct mr_text){(const char *)bytes, length});
    fputc('\n', out);
    fflush(out);
    free(bytes);
    return MR_OK;
}

enum mr_status mr_print_json(struct mr_text value, enum mr_encoding encoding, FILE *out,
                             struct mr_error *err)
{
    struct mr_document *document = NULL;
    enum mr_status status = mr_document_open(&document, value, encoding, err);
    if (status != MR_OK) return status;
    status = print_value(mr_document_root(document), out, err);
    mr_document_close(document);
    return status;
}

enum mr_status mr_print_member(struct mr_text value, enum mr_encoding encoding, const char *name,
                               FILE *out, struct mr_error *err)
{
    struct mr_document *document = NULL;
    struct mr_value member;
    enum mr_status status = mr_document_open(&document, value, encoding, err);
    if (status != MR_OK) return status;
    if (mr_value_get(mr_document_root(document), name, &member))
        status = print_value(member, out, err);
    else
        status = mr_fail(err, MR_MALFORMED, "the record has no member %s", name);
    mr_document_close(document);
    return status;
}

/* Output tokens per second after the first token: the first token and the time until it are left
 * out. */
static double rate_of(const struct mr_result *result, uint32_t tokens)
{
    double ms = result->total_ms - result->first_token_ms;
    return tokens > 1 && ms > 0 ? (double)(tokens - 1) * 1e3 / ms : 0.0;
}

/* The message and the warnings repeat names and values of the request. */
static void print_error(const struct mr_result *result, FILE *out)
{
    const char *message = result->error_message ? result->error_message : "";
    fprintf(out, " (%s: ", mr_status_code(result->error));
    mr_print_escaped(out, (struct mr_text){message, strlen(message)}, "");
    fputc(')', out);
}

static void print_warning(struct mr_text warning, FILE *out)
{
    fputs("warning: ", out);
    mr_print_escaped(out, warning, "");
    fputc('\n', out);
}

void mr_print_summary(const struct mr_result *result, FILE *out)
{
    uint32_t tokens = 0;
    for (size_t i = 0; i < result->choice_count; i++)
        tokens += result->choices[i].completion_tokens;
    fprintf(out, "finish_reason %s",
            result->choice_count > 0 ? mr_finish_text(result->choices[0].finish) : "none");
    if (result->error != MR_OK) print_error(result, out);
    fprintf(out, ", prompt %" PRIu32 " tokens", result->prompt_tokens);
    if (result->cached_tokens > 0) fprintf(out, " (%" PRIu32 " cached)", result->cached_tokens);
    fprintf(out, ", output %" PRIu32 " tokens", tokens);
    if (tokens > 0)
        fprintf(out, ", first token %.0f ms, total %.0f ms, %.1f tok/s", result->first_token_ms,
                result->total_ms, rate_of(result, tokens));
    fputc('\n', out);
    for (size_t i = 0; i < result->warning_count; i++)
        print_warning(result->warnings[i], out);
}
