#include "worker/batch/output_line.h"

#include "codec/limits.h"
#include "codec/openai/copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* worker/batch/output_files.c finds the line number in the id. */
static void begin(struct mr_json_writer *writer, const struct mr_batch_output_head *head)
{
    char id[64];
    mr_json_writer_init(writer, MR_RESULT_BYTES_MAX);
    snprintf(id, sizeof id, "batch_req_%s-%" PRIu64, head->job_name, head->line);
    mr_json_begin_object(writer);
    mr_openai_put_string(writer, "id", id);
    if (head->custom_id.length > 0)
        mr_openai_put_text(writer, "custom_id", head->custom_id);
    else
        mr_openai_put_null(writer, "custom_id");
    mr_json_name(writer, "response");
}

static enum mr_status end(struct mr_buffer *out, struct mr_json_writer *writer,
                          struct mr_error *err)
{
    char *bytes;
    size_t length;
    mr_json_end(writer);
    enum mr_status status = mr_json_writer_take(writer, &bytes, &length, err);
    if (status != MR_OK) return status;
    mr_buffer_clear(out);
    const bool room = mr_openai_append_line(out, (struct mr_text){bytes, length}) &&
                      mr_buffer_append(out, (struct mr_text){"\n", 1});
    free(bytes);
    return room ? MR_OK
                : mr_fail(err, mr_buffer_error(out, length), "no room for a line of %zu bytes",
                          length);
}

static void begin_response(struct mr_json_writer *writer, const struct mr_batch_output_head *head,
                           int http_status)
{
    mr_json_begin_object(writer);
    mr_openai_put_int(writer, "status_code", http_status);
    mr_openai_put_text(writer, "request_id",
                       head->request_id.bytes ? head->request_id : (struct mr_text){"", 0});
    mr_json_name(writer, "body");
}

enum mr_status mr_batch_output_line_answer(struct mr_buffer *out,
                                           const struct mr_batch_output_head *head,
                                           const struct mr_openai_answer *answer,
                                           struct mr_error *err)
{
    struct mr_json_writer writer;
    begin(&writer, head);
    begin_response(&writer, head, 200);
    mr_openai_put_response(&writer, answer);
    mr_json_end(&writer);
    mr_openai_put_null(&writer, "error");
    return end(out, &writer, err);
}

enum mr_status mr_batch_output_line_failure(struct mr_buffer *out,
                                            const struct mr_batch_output_head *head,
                                            const struct mr_openai_error *error,
                                            struct mr_error *err)
{
    struct mr_json_writer writer;
    begin(&writer, head);
    begin_response(&writer, head, error->http_status);
    mr_openai_put_error(&writer, error);
    mr_json_end(&writer);
    mr_openai_put_null(&writer, "error");
    return end(out, &writer, err);
}

enum mr_status mr_batch_output_line_unanswered(struct mr_buffer *out,
                                               const struct mr_batch_output_head *head,
                                               const char *code, const char *message,
                                               struct mr_error *err)
{
    struct mr_json_writer writer;
    begin(&writer, head);
    mr_json_put_null(&writer);
    mr_json_name(&writer, "error");
    mr_json_begin_object(&writer);
    mr_openai_put_string(&writer, "code", code);
    mr_openai_put_string(&writer, "message", message);
    mr_json_end(&writer);
    return end(out, &writer, err);
}
