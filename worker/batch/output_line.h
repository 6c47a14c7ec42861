/* output_line - encodes the lines of OUT and of the error file, in OpenAI's Batch format:
 * {id, custom_id, response, error}.
 *
 *   answered        response {status_code: 200, request_id, body}, error null
 *   failed          the same with the error's HTTP status and OpenAI's error object as body
 *   not answered    response null, error {code, message}: batch_expired, batch_cancelled
 *
 * Threads: any (pure functions). Memory: the buffer of the caller, which gets one line with its
 * line feed. Errors: MR_NOMEM; MR_RECORD_TOO_LARGE above the buffer's maximum. */
#ifndef MR_WORKER_BATCH_OUTPUT_LINE_H
#define MR_WORKER_BATCH_OUTPUT_LINE_H

#include "codec/buffer.h"
#include "codec/openai/error.h"
#include "codec/openai/response.h"

/* What a line says about its line of the input. */
struct mr_batch_output_head {
    const char *job_name;
    uint64_t line;             /* number of the line of the input */
    struct mr_text custom_id;  /* empty: null */
    struct mr_text request_id; /* empty: no request was sent */
};

enum mr_status mr_batch_output_line_answer(struct mr_buffer *out,
                                           const struct mr_batch_output_head *head,
                                           const struct mr_openai_answer *answer,
                                           struct mr_error *err);
enum mr_status mr_batch_output_line_failure(struct mr_buffer *out,
                                            const struct mr_batch_output_head *head,
                                            const struct mr_openai_error *error,
                                            struct mr_error *err);
enum mr_status mr_batch_output_line_unanswered(struct mr_buffer *out,
                                               const struct mr_batch_output_head *head,
                                               const char *code, const char *message,
                                               struct mr_error *err);

#endif
