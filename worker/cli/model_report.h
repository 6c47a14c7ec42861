/* model_report - describes a model and its memory in about ten lines for `millrace check`: family
 * and types, weights, layers, context, KV memory, tokenizer, chat template, sampling defaults.
 *
 * Owner: main thread. Memory: none kept. Errors: none; the model was read and checked before. */
#ifndef MR_WORKER_CLI_MODEL_REPORT_H
#define MR_WORKER_CLI_MODEL_REPORT_H

#include "ops/files/model_source.h"
#include "ops/model/model_plan.h"

/* Called with one line: its subject in one word, and the text. Both are borrowed for the call. */
typedef void (*mr_model_report_line)(void *context, const char *what, const char *text);

/* source: its tensors still open. */
void mr_model_report(const struct mr_model_source *source, const struct mr_model_plan *plan,
                     mr_model_report_line line, void *context);

#endif
