/* Sweeps of loading a model, computing with it, and freeing it. */
#include "tests/sweep/sweep.h"
#include "worker/engine/engine_setup.h"
#include "worker/intake/prompt.h"

#include "ops/files/model_gguf.h"
#include "tests/unit/ops/real_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 64

static bool answered;

static void on_drawn(void *context, uint64_t ticket, uint32_t index, const struct mr_sample *sample)
{
    (void)context, (void)ticket, (void)index, (void)sample;
}

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    (void)context, (void)ticket, (void)request, (void)record;
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    (void)context, (void)ticket, (void)result;
    answered = true;
    mr_request_destroy(request);
}

static void on_wake(void *context)
{
    (void)context;
}

/* A request with the text "the mill", which the model's own tokenizer encodes. */
static enum mr_status make_request(const struct mr_engine_parts *parts, struct mr_request **out,
                                   struct mr_error *err)
{
    struct mr_prompt_options options = {.tokenizer = parts->tokenizer, .prompt_tokens_max = 64};
    struct mr_prompt *prompt = NULL;
    *out = mr_request_create(MR_ENCODING_JSON, 4);
    if (!*out) return mr_fail(err, MR_NOMEM, "no memory for the request");
    (*out)->id = (struct mr_text){"a", 1};
    (*out)->prompt = (struct mr_text){"the mill", 8};
    (*out)->ignore_eos = true;
    enum mr_status status = mr_prompt_create(&prompt, &options, err);
    if (status == MR_OK) status = mr_prompt_encode(prompt, *out, 0, err);
    mr_prompt_destroy(prompt);
    if (status == MR_OK) return MR_OK;
    mr_request_destroy(*out);
    return status;
}

static enum mr_status compute(const struct mr_engine_parts *parts, struct mr_error *err)
{
    struct mr_engine *engine = parts->engine;
    struct mr_submission submission = {.tenant = "default", .arrival_ns = 1};
    enum mr_status status = make_request(parts, &submission.request, err);
    if (status != MR_OK) return status;
    status = mr_engine_submit(engine, &submission, err);
    if (status != MR_OK) mr_request_destroy(submission.request);
    uint64_t wake_ns = 0;
    for (int i = 0; status == MR_OK && !answered && i < STEPS_MAX; i++)
        status = mr_engine_step(engine, 1000 + (uint64_t)i, &wake_ns, err);
    if (status == MR_OK) SWEEP_CHECK(answered);
    return status;
}

static void load(const char *path)
{
    struct mr_config config = {.command = MR_COMMAND_SERVE,
                               .model = path,
                               .device = "cpu",
                               .dtype = "auto",
                               .threads = 2,
                               .kv_memory_bytes = 1 << 22,
                               .max_sequences = 4,
                               .step_tokens = 64,
                               .chunk_tokens = 64,
                               .chunk_requests = 1,
                               .prefix_cache = true,
                               .prompt_entries = 4,
                               .queue_requests = 16,
                               .queue_bytes = 1 << 20};
    struct mr_error err = {0};
    struct mr_log *log;
    const struct mr_log_options log_options = {
        .fd = -1, .format = MR_LOG_JSON, .level = MR_LOG_INFO, .worker = "w"};
    SWEEP_CHECK(mr_log_create(&log, &log_options, &err) == MR_OK);
    struct mr_engine_setup setup = {.config = &config, .log = log};
    struct mr_engine_parts parts = {0};
    struct mr_engine_user user = {
        .sink = {.drawn = on_drawn, .delta = on_delta, .result = on_result}, .wake = on_wake};
    struct mr_engine_source source = mr_engine_setup_source(&setup);
    answered = false;
    sweep_begin();
    enum mr_status status = source.open(source.self, &user, &parts, &err);
    if (status == MR_OK) status = compute(&parts, &err);
    if (status == MR_OK) source.populate(source.self);
    source.close(source.self);
    const char *failed = sweep_end();
    mr_log_destroy(log);
    if (status != MR_OK && !failed) fprintf(stderr, "sweep: %s\n", err.detail);
    SWEEP_CHECK(status == MR_OK || failed);
    SWEEP_CHECK(status == MR_OK || (err.detail[0] && err.status == status));
    SWEEP_CHECK(strchr(err.detail, '\n') == NULL);
}

static void folder(void)
{
    load("tests/golden/models/qwen2");
}

static void sharded(void)
{
    load("tests/golden/models/llama3_rope_sharded");
}

static void windows(void)
{
    load("tests/golden/models/mistral_slides");
}

/* The file of the small real model without its weights: fields, tokenizer and tensor table. */
static void gguf(void)
{
    struct mr_model_source source = {0};
    struct mr_error err = {0};
    sweep_begin();
    enum mr_status status = mr_model_gguf_read(&source, real_model_path(), &err);
    mr_model_source_close(&source);
    const char *failed = sweep_end();
    SWEEP_CHECK(status == MR_OK || (failed && err.detail[0]));
}

int main(int argc, char *argv[])
{
    static const struct sweep_life lives[] = {
        {.name = "folder", .live = folder},
        {.name = "sharded", .live = sharded},
        {.name = "windows", .live = windows},
        {.name = "gguf", .live = gguf},
    };
    return sweep_main(argc, argv, lives, sizeof lives / sizeof *lives);
}
