/* Measures decoding of constrained and of free answers, without Kafka: 32 streams whose schema
 * cannot be satisfied within the requested tokens, so that every stream has the same length. The
 * loads take turns in one engine. The best repetition of each counts, from the time at which all
 * streams have their first token to the last token. Prints one JSON object.
 *
 *     bench_constrained MODEL [REPETITIONS]
 *
 * The environment variables STREAMS, TOKENS and DTYPE set the number of streams, of tokens and the
 * dtype. LOAD selects loads whose name contains it; free loads always run. */
#include "batching/engine/engine.h"
#include "codec/constraint/constraint.h"
#include "worker/base/clock.h"
#include "worker/bench/bench_workload.h"
#include "worker/engine/engine_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS_MAX = 256 };

/* An array of so many objects that an answer never ends. */
#define MANY(properties, required)                                                                 \
    "{\"type\":\"array\",\"minItems\":1000,\"items\":{\"type\":\"object\",\"properties\":"         \
    "{" properties "},\"required\":[" required "],\"additionalProperties\":false}}"

static const struct load {
    const char *name, *schema; /* schema NULL: a free answer */
    bool speculates;
} loads[] = {
    {"free", NULL, false},
    {"free, speculation", NULL, true},
    {"any JSON", "{\"type\":\"array\",\"minItems\":1000}", false},
    {"objects",
     MANY("\"name\":{\"type\":\"string\"},\"amount\":{\"type\":\"number\"},\"paid\":{\"type\":"
          "\"boolean\"},\"kind\":{\"enum\":[\"order\",\"offer\",\"refund\"]},\"note\":{\"type\":"
          "\"string\",\"maxLength\":40}",
          "\"name\",\"amount\",\"paid\",\"kind\",\"note\""),
     false},
    {"long keys",
     MANY("\"number_of_the_order_of_the_customer\":{\"type\":\"integer\"},"
          "\"is_to_be_delivered_to_the_customer\":{\"type\":\"boolean\"},"
          "\"name_of_the_person_who_has_ordered\":{\"type\":\"string\",\"maxLength\":10}",
          "\"number_of_the_order_of_the_customer\",\"is_to_be_delivered_to_the_customer\","
          "\"name_of_the_person_who_has_ordered\""),
     false},
    {"long keys, jump ahead", NULL, true}, /* the schema before */
};
enum { LOADS = sizeof loads / sizeof loads[0] };

struct figure {
    double seconds;
    uint64_t tokens, steps, drafts, accepted;
};

struct bench {
    struct mr_model *model;
    struct mr_engine *engine;
    struct mr_grammar *grammars[LOADS];
    uint32_t streams, tokens_max, running, waiting_for_first, number;
    uint64_t tokens, first_ns;
};

static void die(const char *what, const struct mr_error *err)
{
    fprintf(stderr, "bench_constrained: %s%s%s\n", what, err ? ": " : "", err ? err->detail : "");
    exit(2);
}

static uint32_t number_of(const char *name, uint32_t otherwise)
{
    const char *value = getenv(name);
    return value ? (uint32_t)strtoul(value, NULL, 10) : otherwise;
}

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    struct bench *bench = context;
    (void)ticket;
    (void)request;
    bench->waiting_for_first -= record->index == 0;
    if (record->index == 0 && bench->waiting_for_first == 0) bench->first_ns = mr_clock_ns();
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct bench *bench = context;
    (void)ticket;
    bench->tokens += result->choices[0].completion_tokens;
    bench->running--;
    if (getenv("SHOW"))
        fprintf(stderr, "%.*s\n--\n", (int)result->choices[0].text.length,
                result->choices[0].text.bytes);
    mr_request_destroy(request);
}

static void submit(struct bench *bench, uint32_t load, uint32_t stream)
{
    char text[200];
    uint32_t *ids, prompt[IDS_MAX];
    struct mr_error err = {0};
    const struct mr_tokenizer *tokenizer = mr_model_tokenizer(bench->model);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list list = {.ids = prompt, .max = IDS_MAX};
    int size = snprintf(text, sizeof text,
                        "<|im_start|>user\nWrite a list of orders in JSON, from number %u "
                        "on.<|im_end|>\n<|im_start|>assistant\n",
                        100 * stream);
    if (scratch == NULL ||
        mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){text, (size_t)size},
                            (struct mr_encode_options){.parse_special = true}, &list,
                            &err) != MR_OK)
        die("prompt", &err);
    mr_tokenizer_scratch_destroy(scratch);
    struct mr_request *request = mr_bench_workload_request(
        "c", bench->number++, (uint32_t)list.count, bench->tokens_max, &ids);
    if (request == NULL) die("no memory", NULL);
    memcpy(ids, prompt, list.count * sizeof *ids);
    request->stream = true;
    request->speculate = loads[load].speculates;
    request->ignore_eos = bench->grammars[load] == NULL;
    request->sampling.temperature = 1.0f;
    request->sampling.seed = stream;
    request->sampling.has_seed = true;
    if (bench->grammars[load] != NULL) {
        request->constraint.kind = MR_CONSTRAINT_JSON_SCHEMA;
        request->grammar = mr_grammar_hold(bench->grammars[load]);
    }
    struct mr_submission submission = {
        .request = request, .ticket = stream, .tenant = "default", .arrival_ns = mr_clock_ns()};
    if (mr_engine_submit(bench->engine, &submission, &err) != MR_OK) die("submit", &err);
    bench->running++;
    bench->waiting_for_first++;
}

static void run(struct bench *bench, uint32_t load, struct figure *best)
{
    struct mr_error err = {0};
    uint64_t wake_ns;
    bench->tokens = bench->first_ns = 0;
    for (uint32_t stream = 0; stream < bench->streams; stream++)
        submit(bench, load, stream);
    struct mr_engine_stats before = mr_engine_stats(bench->engine);
    while (bench->running > 0)
        if (mr_engine_step(bench->engine, mr_clock_ns(), &wake_ns, &err) != MR_OK)
            die("step", &err);
    struct mr_engine_stats after = mr_engine_stats(bench->engine);
    double seconds = (double)(mr_clock_ns() - bench->first_ns) / 1e9;
    if (best->seconds > 0 && seconds >= best->seconds) return;
    *best = (struct figure){.seconds = seconds,
                            .tokens = bench->tokens - bench->streams,
                            .steps = after.steps - before.steps,
                            .drafts = after.draft_tokens - before.draft_tokens,
                            .accepted = after.accepted_draft_tokens - before.accepted_draft_tokens};
}

static void print(const struct bench *bench, const struct figure *figures)
{
    double free_rate = (double)figures[0].tokens / figures[0].seconds;
    printf("{\"streams\": %u, \"tokens_of_a_stream\": %u, \"loads\": [", bench->streams,
           bench->tokens_max);
    const char *comma = "";
    for (uint32_t i = 0; i < LOADS; i++) {
        const struct figure *figure = &figures[i];
        if (figure->tokens == 0) continue;
        double rate = (double)figure->tokens / figure->seconds;
        printf("%s\n  {\"load\": \"%s\", \"tokens_per_second\": %.1f, \"of_free\": %.3f, "
               "\"tokens\": %llu, \"steps\": %llu, \"drafts\": %llu, \"accepted\": %llu}",
               comma, loads[i].name, rate, rate / free_rate, (unsigned long long)figure->tokens,
               (unsigned long long)figure->steps, (unsigned long long)figure->drafts,
               (unsigned long long)figure->accepted);
        comma = ",";
    }
    printf("\n]}\n");
}

static void open_engine(struct bench *bench, const char *model)
{
    const char *dtype = getenv("DTYPE");
    struct mr_error err = {0};
    struct mr_config config = {.model = model,
                               .device = "cpu",
                               .dtype = dtype ? dtype : "bf16",
                               .step_tokens = 2048,
                               .kv_memory_bytes = (uint64_t)1 << 30,
                               .max_sequences = bench->streams,
                               .chunk_tokens = 512,
                               .chunk_requests = bench->streams,
                               .step_target_ms = MR_OPTION_AUTO,
                               .prefix_cache = true,
                               .queue_requests = 1024,
                               .queue_bytes = (uint64_t)1 << 30};
    struct mr_sink sink = {.context = bench, .delta = on_delta, .result = on_result};
    if (mr_engine_setup_model(&config, NULL, NULL, &bench->model, &err) != MR_OK ||
        mr_engine_setup_engine(&config, bench->model, &(struct mr_engine_user){.sink = sink}, NULL,
                               &bench->engine, &err) != MR_OK)
        die(model, &err);
    while (mr_model_kv_populate(bench->model)) {
    }
}

static void compile_grammars(struct bench *bench)
{
    struct mr_error err = {0};
    for (uint32_t i = 0; i < LOADS; i++) {
        const char *schema = loads[i].schema;
        const struct mr_constraint constraint = {
            MR_CONSTRAINT_JSON_SCHEMA, {schema, schema ? strlen(schema) : 0}, false};
        if (schema && mr_constraint_compile(&bench->grammars[i], &constraint, NULL, &err) != MR_OK)
            die(loads[i].name, &err);
    }
    bench->grammars[LOADS - 1] = mr_grammar_hold(bench->grammars[LOADS - 2]);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct figure figures[LOADS] = {0};
    if (argc < 2) die("usage: bench_constrained MODEL [REPETITIONS]", NULL);
    const uint32_t repetitions = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 3;
    const char *only = getenv("LOAD");
    bench.streams = number_of("STREAMS", 32);
    bench.tokens_max = number_of("TOKENS", 128);
    open_engine(&bench, argv[1]);
    compile_grammars(&bench);
    for (uint32_t i = 0; i < repetitions; i++)
        for (uint32_t load = 0; load < LOADS; load++)
            if (!only || load < 2 || strstr(loads[load].name, only))
                run(&bench, load, &figures[load]);
    print(&bench, figures);
    mr_engine_destroy(bench.engine);
    for (uint32_t i = 0; i < LOADS; i++)
        mr_grammar_drop(bench.grammars[i]);
    mr_model_close(bench.model);
    return 0;
}
