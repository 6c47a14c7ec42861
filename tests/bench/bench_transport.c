/* bench_transport - millrace with a model that costs nothing: the same program, but a step computes
 * nothing and every token depends only on its position. So only the transport costs time: Kafka,
 * intake, scheduling, text, records. tests/bench/transport.py runs `serve` of it.
 *
 * With TRANSPORT_STEP_US in the environment a step sleeps for this many microseconds, to simulate a
 * device. Otherwise the next step begins at once.
 *
 * The files of a real model are loaded for the tokenizer and the sizes. The linker redirects the
 * calls of mr_model_port_of to this file (-Wl,--wrap, in CMakeLists.txt). */
#include "batching/base/model_port.h"
#include "worker/cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Token ids that every vocabulary of 16,384 or more has, without those at its ends, which are
 * control tokens in some models. */
#define FIRST_ID 1024u
#define ID_COUNT 8192u
#define STRIDE   2654435761u /* Knuth's multiplicative hash: neighbours get different words */

struct mr_model_port __real_mr_model_port_of(struct mr_model *model,
                                             uint64_t (*clock_ns)(void *context));
struct mr_model_port __wrap_mr_model_port_of(struct mr_model *model,
                                             uint64_t (*clock_ns)(void *context));

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    (void)context;
    (void)err;
    const char *step_us = getenv("TRANSPORT_STEP_US");
    if (step_us && step->batch->row_count > 0) usleep((useconds_t)strtoul(step_us, NULL, 10));
    for (uint32_t i = 0; i < step->sample_count; i++)
        step->samples[i] = (struct mr_sample){
            .token_id = FIRST_ID + step->rows[i].position * STRIDE % ID_COUNT, .probability = 1.0f};
    return MR_OK;
}

/* The engine keeps the logits of a complete prompt. It gets an arbitrary row of that size. */
static enum mr_status logits(void *context, uint32_t row, float *out, struct mr_error *err)
{
    (void)row;
    (void)err;
    memset(out, 0, mr_model_info(context)->vocab_size * sizeof *out);
    return MR_OK;
}

struct mr_model_port __wrap_mr_model_port_of(struct mr_model *model,
                                             uint64_t (*clock_ns)(void *context))
{
    struct mr_model_port port = __real_mr_model_port_of(model, clock_ns);
    port.launch = launch;
    port.logits = logits;
    return port;
}

int main(int argc, char *argv[])
{
    struct mr_error err = {0};
    struct mr_config *config = NULL;
    signal(SIGPIPE, SIG_IGN);
    if (mr_config_create(&config, argc, argv, environ, &err) != MR_OK) {
        fprintf(stderr, "bench_transport: %s\n", err.detail);
        return MR_EXIT_USAGE;
    }
    int code = mr_cli_run(config);
    mr_config_destroy(config);
    return code;
}
