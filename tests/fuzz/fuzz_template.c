/* Chat templates: compiles one and renders a request's messages with it.
 *
 * Input: the template, a byte of value 0, and a request record in JSON; without a record, fixed
 * messages. With the environment variable FUZZ_PRINT set, the status and the output in hexadecimal
 * are printed: compare_templates.py compares them with the reference. */
#include "codec/limits.h"
#include "codec/records/request_decode.h"
#include "codec/template/chat_template.h"
#include "codec/tools/tool_format.h"
#include "codec/utf8.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#define UNIX_SECONDS 1763683200u

static const char default_record[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be <b>brief</b>. \"},"
    "{\"role\":\"user\",\"content\":\" What is \\u00e9 2+2?\\n\"},"
    "{\"role\":\"assistant\",\"content\":\"<think>hm</think>4\"},"
    "{\"role\":\"user\",\"content\":\"\"}],"
    "\"chat_template_kwargs\":{\"enable_thinking\":false,\"word\":\"w \\\"x\\\"\",\"n\":3,"
    "\"half\":0.5,\"none\":null}}";

static struct mr_request *request_of(struct mr_text record)
{
    struct mr_request_context context = {.fallback_id = {"t/0/0", 5},
                                         .content_type = {"application/json", 16},
                                         .now_ms = (int64_t)UNIX_SECONDS * 1000,
                                         .default_max_tokens = 16,
                                         .record_bytes_max = MR_RECORD_BYTES_MAX};
    struct mr_reply_address address;
    struct mr_request *request = NULL;
    if (record.length == 0) record = (struct mr_text){default_record, sizeof default_record - 1};
    mr_request_decode(&request, record, &context, &address, NULL);
    return request;
}

static void print_hex(const struct mr_rendered *rendered)
{
    for (size_t i = 0; i < rendered->text.length; i++)
        printf("%02x", (unsigned char)rendered->text.bytes[i]);
}

static void print(enum mr_status status, const char *reason, const struct mr_rendered *rendered)
{
    if (!getenv("FUZZ_PRINT")) return;
    printf("%s\t", mr_status_name(status));
    for (; *reason; reason++)
        putchar((unsigned char)*reason < ' ' ? ' ' : *reason);
    putchar('\t');
    if (rendered) print_hex(rendered);
    printf("\n");
}

/* Ranges of the request are in order, not empty and do not touch; valid UTF-8 stays valid, in each
 * range too. */
static void check_rendered(const struct mr_rendered *rendered, bool valid)
{
    size_t end = 0;
    for (size_t i = 0; i < rendered->user_count; i++) {
        struct mr_text_range range = rendered->user[i];
        MR_ASSERT(range.start < range.end && range.end <= rendered->text.length);
        MR_ASSERT(i == 0 || range.start > end);
        MR_ASSERT(!valid || mr_utf8_is_valid(mr_text_part(rendered->text, range.start, range.end)));
        end = range.end;
    }
    MR_ASSERT(!valid || mr_utf8_is_valid(rendered->text));
    MR_ASSERT(rendered->text.length <= MR_TEMPLATE_BYTES_MAX);
}

static void render(const struct mr_chat_template *compiled, const struct mr_request *request,
                   bool valid)
{
    struct mr_error err = {0};
    struct mr_rendered rendered;
    struct mr_arena *arena = mr_arena_create((size_t)64 << 20);
    MR_ASSERT(arena);
    enum mr_status status =
        mr_chat_template_render(compiled, request, UNIX_SECONDS, arena, &rendered, &err);
    MR_ASSERT(
        status == MR_OK ||
        ((status == MR_INVALID_REQUEST || status == MR_UNSUPPORTED_CONTENT) && err.detail[0]));
    if (status == MR_OK) check_rendered(&rendered, valid);
    print(status, err.detail, status == MR_OK ? &rendered : NULL);
    mr_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct mr_text source = fuzz_part(&cursor);
    struct mr_request *request = request_of(fuzz_rest(&cursor));
    struct mr_chat_template *compiled = NULL;
    struct mr_error err = {0};
    if (!request) {
        print(MR_INVALID_REQUEST, "no request", NULL);
        return 0;
    }
    MR_ASSERT(mr_tool_format_name(mr_tool_format_find(source))[0]);
    const struct mr_special_texts special = {.of = {{"<s>", 3}, {"</s>", 4}}};
    enum mr_status status = mr_chat_template_compile(&compiled, source, &special, &err);
    /* memory for a template is limited, so a template that needs more cannot be compiled */
    MR_ASSERT(status == MR_OK || ((status == MR_BAD_FILE || status == MR_NOMEM) && err.detail[0]));
    if (status == MR_OK)
        render(compiled, request, mr_utf8_is_valid(source));
    else
        print(status, err.detail, NULL);
    mr_chat_template_destroy(compiled);
    mr_request_destroy(request);
    return 0;
}
