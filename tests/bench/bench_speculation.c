/* Measures decoding with and without speculation, on the prompts of speculation.txt: tokens per
 * second of one stream and of 32, and whether the answers are equal. Both take turns in one engine,
 * and the best repetition of each counts, from the first token to the last.
 *
 *     bench_speculation MODEL PROMPTS [REPETITIONS]        the figures
 *     bench_speculation MODEL PROMPTS identical REQUESTS   compares REQUESTS answers with those
 *         without speculation, half at temperature 0 and half at 1, every fifth constrained by a
 *         JSON schema; exits with 1 if one differs */
#include "batching/engine/engine.h"
#include "codec/constraint/constraint.h"
#include "worker/base/clock.h"
#include "worker/bench/bench_workload.h"
#include "worker/engine/engine_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPTS_MAX = 64, IDS_MAX = 2048, OUTPUT = 256, STREAMS = 32, ROUND = 50 };

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"name_of_the_customer\":{\"type\":\"string\","          \
    "\"maxLength\":20},\"number_of_the_order\":{\"type\":\"integer\"},\"is_to_be_delivered\":"     \
    "{\"type\":\"boolean\"}},\"required\":[\"name_of_the_customer\",\"number_of_the_order\","      \
    "\"is_to_be_delivered\"],\"additionalProperties\":false}"

struct prompt {
    char kind[16], name[32];
    uint32_t ids[IDS_MAX], count;
};

struct answer {
    uint32_t ids[OUTPUT], count, tokens;
};

struct bench {
    struct mr_model *model;
    struct mr_engine *engine;
    struct mr_grammar *grammar; /* of constrained answers */
    struct prompt prompts[PROMPTS_MAX];
    uint32_t prompt_count;
    struct answer answers[2][ROUND];
    uint32_t running, waiting_for_first;
    uint64_t tokens, first_ns, drafts, accepted;
};

static void die(const char *what, const struct mr_error *err)
{
    fprintf(stderr, "bench_speculation: %s%s%s\n", what, err ? ": " : "", err ? err->detail : "");
    exit(2);
}

/* ---- prompts ---- */

/* A user's message in the format of SmolLM2's chat template. */
static void encode(struct bench *bench, struct prompt *prompt, const char *text, size_t length)
{
    static char turn[1 << 16];
    const struct mr_tokenizer *tokenizer = mr_model_tokenizer(bench->model);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    struct mr_id_list list = {.ids = prompt->ids, .max = IDS_MAX};
    struct mr_error err = {0};
    int size =
        snprintf(turn, sizeof turn, "<|im_start|>user\n%.*s<|im_end|>\n<|im_start|>assistant\n",
                 (int)length, text);
    if (scratch == NULL || size < 0 || (size_t)size >= sizeof turn) die(prompt->name, NULL);
    if (mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){turn, (size_t)size},
                            (struct mr_encode_options){.parse_special = true}, &list,
                            &err) != MR_OK)
        die(prompt->name, &err);
    prompt->count = (uint32_t)list.count;
    mr_tokenizer_scratch_destroy(scratch);
}

/* Each prompt of the file follows a line "=== KIND NAME". */
static void read_prompts(struct bench *bench, const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    if (file == NULL) die(path, NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (char *at = strstr(text, "=== "); at != NULL;) {
        struct prompt *prompt = &bench->prompts[bench->prompt_count++];
        char *next = strstr(at + 4, "\n=== "), *body = strchr(at, '\n');
        const char *space = strchr(at + 4, ' ');
        if (bench->prompt_count == PROMPTS_MAX || body == NULL || space == NULL || space > body)
            die(path, NULL);
        snprintf(prompt->kind, sizeof prompt->kind, "%.*s", (int)(space - at - 4), at + 4);
        snprintf(prompt->name, sizeof prompt->name, "%.*s", (int)(body - space - 1), space + 1);
        size_t length = next != NULL ? (size_t)(next - body - 1) : strlen(body + 1);
        while (length > 0 && body[length] == '\n')
            length--;
        encode(bench, prompt, body + 1, length);
        at = next != NULL ? next + 1 : NULL;
    }
}

/* ---- answers ---- */

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
    const struct mr_choice *choice = &result->choices[0];
    struct answer *answer = &bench->answers[request->speculate][ticket];
    answer->count = (uint32_t)choice->token_count;
    answer->tokens = choice->completion_tokens;
    memcpy(answer->ids, choice->token_ids, choice->token_count * sizeof *answer->ids);
    bench->tokens += choice->completion_tokens;
    bench->running--;
    mr_request_destroy(request);
}

struct task {
    uint32_t prompt, ticket, seed;
    float temperature;
    bool speculates, ends, constrained;
};

static void submit(struct bench *bench, const struct task *task)
{
    const struct prompt *prompt = &bench->prompts[task->prompt];
    uint32_t *ids;
    struct mr_error err = {0};
    struct mr_request *request =
        mr_bench_workload_request("s", task->ticket, prompt->count, OUTPUT, &ids);
    if (request == NULL) die("no memory", NULL);
    memcpy(ids, prompt->ids, prompt->count * sizeof *ids);
    request->stream = true;
    request->speculate = task->speculates;
    request->ignore_eos = !task->ends;
    request->sampling.temperature = task->temperature;
    request->sampling.seed = task->seed;
    request->sampling.has_seed = true;
    if (task->constrained) {
        request->constraint.kind = MR_CONSTRAINT_JSON_SCHEMA;
        request->grammar = mr_grammar_hold(bench->grammar);
    }
    struct mr_submission submission = {.request = request,
                                       .ticket = task->ticket,
                                       .tenant = "default",
                                       .arrival_ns = mr_clock_ns()};
    if (mr_engine_submit(bench->engine, &submission, &err) != MR_OK) die("submit", &err);
    bench->running++;
    bench->waiting_for_first++;
}

/* Runs the submitted requests. Returns the seconds from the time at which all of them have their
 * first token. */
static double run(struct bench *bench)
{
    struct mr_error err = {0};
    uint64_t wake_ns;
    bench->tokens = bench->first_ns = 0;
    const uint64_t count = bench->running;
    struct mr_engine_stats before = mr_engine_stats(bench->engine);
    while (bench->running > 0)
        if (mr_engine_step(bench->engine, mr_clock_ns(), &wake_ns, &err) != MR_OK)
            die("step", &err);
    struct mr_engine_stats after = mr_engine_stats(bench->engine);
    bench->drafts = after.draft_tokens - before.draft_tokens;
    bench->accepted = after.accepted_draft_tokens - before.accepted_draft_tokens;
    bench->tokens -= count;
    return (double)(mr_clock_ns() - bench->first_ns) / 1e9;
}

/* ---- figures ---- */

struct figure {
    double tokens, seconds[2];
    uint64_t drafts, accepted;
};

static void print(const char *what, const struct figure *figure)
{
    printf("%-32s %7.0f %9.1f %9.1f %7.2f %8llu %8llu\n", what, figure->tokens,
           figure->tokens / figure->seconds[0], figure->tokens / figure->seconds[1],
           figure->seconds[0] / figure->seconds[1], (unsigned long long)figure->drafts,
           (unsigned long long)figure->accepted);
    fflush(stdout);
}

/* streams answers at a time, from prompt `first` on. */
static void measure(struct bench *bench, uint32_t first, uint32_t streams, uint32_t repetitions,
                    struct figure *figure)
{
    *figure = (struct figure){.seconds = {1e9, 1e9}};
    for (uint32_t i = 0; i < 2 * repetitions; i++) {
        for (uint32_t j = 0; j < streams; j++)
            submit(bench, &(struct task){.prompt = (first + j) % bench->prompt_count,
                                         .ticket = j,
                                         .speculates = i % 2 == 1,
                                         .ends = streams == 1});
        double seconds = run(bench);
        figure->tokens = (double)bench->tokens;
        if (seconds < figure->seconds[i % 2]) figure->seconds[i % 2] = seconds;
        if (i % 2 == 0) continue;
        figure->drafts = bench->drafts;
        figure->accepted = bench->accepted;
    }
}

static void add(struct figure *sum, const struct figure *figure)
{
    sum->tokens += figure->tokens;
    sum->seconds[0] += figure->seconds[0];
    sum->seconds[1] += figure->seconds[1];
    sum->drafts += figure->drafts;
    sum->accepted += figure->accepted;
}

static void print_figures(struct bench *bench, uint32_t repetitions)
{
    struct figure figure, kinds[2] = {0};
    printf("%-32s %7s %9s %9s %7s %8s %8s\n", "answers", "tokens", "off tok/s", "on tok/s", "ratio",
           "drafts", "right");
    for (uint32_t i = 0; i < bench->prompt_count; i++) {
        measure(bench, i, 1, repetitions, &figure);
        print(bench->prompts[i].name, &figure);
        add(&kinds[strcmp(bench->prompts[i].kind, "free") == 0], &figure);
    }
    print("one stream, extractive", &kinds[0]);
    print("one stream, free text", &kinds[1]);
    measure(bench, 0, STREAMS, repetitions, &figure);
    print("32 streams, all prompts", &figure);
}

/* ---- identity ---- */

static uint32_t compare(struct bench *bench, uint32_t first, uint32_t count)
{
    uint32_t different = 0;
    for (uint32_t speculates = 0; speculates < 2; speculates++) {
        for (uint32_t i = 0; i < count; i++)
            submit(bench, &(struct task){.prompt = (first + i) / 2 % bench->prompt_count,
                                         .ticket = i,
                                         .seed = first + i,
                                         .temperature = i % 2 == 0 ? 0.0f : 1.0f,
                                         .speculates = speculates == 1,
                                         .ends = true,
                                         .constrained = i % 5 == 0});
        run(bench);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct answer *off = &bench->answers[0][i], *on = &bench->answers[1][i];
        different += off->tokens != on->tokens || off->count != on->count ||
                     memcmp(off->ids, on->ids, off->count * sizeof *off->ids) != 0;
    }
    return different;
}

static int print_identity(struct bench *bench, uint32_t requests)
{
    uint32_t different = 0;
    uint64_t drafts = 0, accepted = 0;
    for (uint32_t first = 0; first < requests; first += ROUND) {
        different += compare(bench, first, requests - first < ROUND ? requests - first : ROUND);
        drafts += bench->drafts;
        accepted += bench->accepted;
    }
    printf("%u answers, %u different; %llu drafts, %llu right\n", requests, different,
           (unsigned long long)drafts, (unsigned long long)accepted);
    return different == 0 && accepted > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct mr_error err = {0};
    if (argc < 3) die("usage: bench_speculation MODEL PROMPTS [REPETITIONS | identical N]", NULL);
    const char *dtype = getenv("DTYPE");
    struct mr_config config = {.model = argv[1],
                               .device = "cpu",
                               .dtype = dtype ? dtype : "auto",
                               .step_tokens = 2048,
                               .kv_memory_bytes = (uint64_t)1 << 30,
                               .max_sequences = 64,
                               .chunk_tokens = 512,
                               .chunk_requests = 1,
                               .step_target_ms = MR_OPTION_AUTO,
                               .prefix_cache = true,
                               .queue_requests = 1024,
                               .queue_bytes = (uint64_t)1 << 30};
    struct mr_sink sink = {.context = &bench, .delta = on_delta, .result = on_result};
    if (mr_engine_setup_model(&config, NULL, NULL, &bench.model, &err) != MR_OK ||
        mr_engine_setup_engine(&config, bench.model, &(struct mr_engine_user){.sink = sink}, NULL,
                               &bench.engine, &err) != MR_OK)
        die(argv[1], &err);
    while (mr_model_kv_populate(bench.model)) {
    }
    read_prompts(&bench, argv[2]);
    const struct mr_constraint schema = {
        MR_CONSTRAINT_JSON_SCHEMA, {SCHEMA, sizeof SCHEMA - 1}, false};
    if (mr_constraint_compile(&bench.grammar, &schema, NULL, &err) != MR_OK) die("schema", &err);
    bool compares = argc > 4 && strcmp(argv[3], "identical") == 0;
    int code = 0;
    if (compares)
        code = print_identity(&bench, (uint32_t)strtoul(argv[4], NULL, 10));
    else
        print_figures(&bench, argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 2);
    mr_engine_destroy(bench.engine);
    mr_grammar_drop(bench.grammar);
    mr_model_close(bench.model);
    return code;
}
