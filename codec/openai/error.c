#include "codec/openai/error.h"

#include "codec/openai/copy.h"

#include <string.h>

static const char invalid[] = "invalid_request_error", server[] = "server_error";

/* Error codes of results. A code that is not here is an error of the server. */
static const struct {
    const char *code;
    int http_status;
    const char *type;
    const char *openai; /* OpenAI's code; NULL: the same */
} codes[] = {
    {"malformed", 400, invalid, NULL},
    {"unsupported_encoding", 400, invalid, NULL},
    {"invalid_request", 400, invalid, NULL},
    {"unknown_field", 400, invalid, "unknown_parameter"},
    {"empty_prompt", 400, invalid, NULL},
    {"prompt_too_long", 400, invalid, "context_length_exceeded"},
    {"invalid_token_id", 400, invalid, NULL},
    {"unsupported", 400, invalid, "unsupported_parameter"},
    {"unsupported_content", 400, invalid, NULL},
    {"model_not_found", 404, invalid, NULL},
    {"duplicate_id", 409, invalid, NULL},
    {"record_too_large", 413, invalid, NULL},
    {"overloaded", 429, "rate_limit_error", NULL},
    {"cancelled", 499, invalid, NULL},
    {"deadline_exceeded", 504, server, NULL},
    {"poison", 500, server, NULL},
    {"internal", 500, server, NULL},
};

/* The member of the request that the sentence begins with: "temperature must be at least 0". */
static struct mr_text param_of(struct mr_text message, struct mr_value request)
{
    struct mr_member member = {0};
    size_t length = 0;
    while (length < message.length && !memchr(" .[:", message.bytes[length], 4))
        length++;
    const struct mr_text word = {message.bytes, length};
    while (length > 0 && request.ops && mr_value_next(request, &member))
        if (mr_text_equal(member.name, word)) return word;
    return (struct mr_text){0};
}

void mr_openai_error_of(struct mr_openai_error *error, struct mr_text code, struct mr_text message,
                        struct mr_value request)
{
    *error = (struct mr_openai_error){.http_status = 500,
                                      .type = server,
                                      .code = code,
                                      .message = message,
                                      .param = param_of(message, request)};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (!mr_text_is(code, codes[i].code)) continue;
        error->http_status = codes[i].http_status;
        error->type = codes[i].type;
        if (codes[i].openai)
            error->code = (struct mr_text){codes[i].openai, strlen(codes[i].openai)};
        return;
    }
}

bool mr_openai_result_failed(struct mr_value result, struct mr_value request,
                             struct mr_openai_error *error)
{
    struct mr_value found, retryable;
    struct mr_text code = {"internal", 8}, message = {"", 0};
    if (!mr_openai_get(result, "error", &found)) return false;
    (void)mr_openai_get_text(found, "code", &code);
    (void)mr_openai_get_text(found, "message", &message);
    mr_openai_error_of(error, code, message, request);
    error->retryable = mr_openai_get(found, "retryable", &retryable) &&
                       mr_value_kind(retryable) == MR_VALUE_BOOL && mr_value_bool(retryable);
    return true;
}

void mr_openai_put_error(struct mr_json_writer *writer, const struct mr_openai_error *error)
{
    mr_json_begin_object(writer);
    mr_json_name(writer, "error");
    mr_json_begin_object(writer);
    mr_openai_put_text(writer, "message", error->message);
    mr_openai_put_string(writer, "type", error->type);
    if (error->param.length > 0)
        mr_openai_put_text(writer, "param", error->param);
    else
        mr_openai_put_null(writer, "param");
    mr_openai_put_text(writer, "code", error->code);
    mr_json_end(writer);
    mr_json_end(writer);
}
