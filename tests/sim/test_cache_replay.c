/* A trace like that of a chat service: many requests begin with one of a few long prefixes, chosen
 * by Zipf's law. In a large pool nearly every repeated token is found, and prefill shrinks
 * accordingly. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REQUESTS   1000u
#define WAVE       20u /* submitted at once */
#define PREFIXES   20u
#define PREFIX_MAX 1800u
#define OWN_MAX    80u

struct trace {
    uint32_t tokens[REQUESTS][PREFIX_MAX + OWN_MAX], counts[REQUESTS];
    uint64_t possible_tokens, all_tokens;
};

static uint32_t below(uint64_t *random, uint32_t bound)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % bound;
}

/* A random rank; rank r has weight 1 / (r + 1). */
static uint32_t zipf(uint64_t *random)
{
    double sum = 0;
    for (uint32_t rank = 0; rank < PREFIXES; rank++)
        sum += 1.0 / (rank + 1);
    double drawn = sum * below(random, 1u << 30) / (double)(1u << 30);
    uint32_t rank = 0;
    while (rank + 1 < PREFIXES && (drawn -= 1.0 / (rank + 1)) > 0)
        rank++;
    return rank;
}

/* The largest number of leading tokens that request i shares with an earlier one, without its last
 * token. */
static uint32_t possible(const struct trace *trace, uint32_t i)
{
    uint32_t longest = 0;
    for (uint32_t j = 0; j < i; j++) {
        uint32_t most = trace->counts[i] - 1, count = 0;
        if (trace->counts[j] < most) most = trace->counts[j];
        while (count < most && trace->tokens[i][count] == trace->tokens[j][count])
            count++;
        longest = count > longest ? count : longest;
    }
    return longest;
}

static struct trace *make_trace(const struct engine_rig *rig)
{
    struct trace *trace = calloc(1, sizeof *trace);
    uint64_t random = 5;
    uint32_t lengths[PREFIXES];
    assert_non_null(trace);
    for (uint32_t i = 0; i < PREFIXES; i++)
        lengths[i] = 300 + below(&random, PREFIX_MAX - 300);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        uint32_t rank = zipf(&random), own = 10 + below(&random, OWN_MAX - 10);
        rig_tokens(rig, 1 + rank, trace->tokens[i], lengths[rank]);
        rig_tokens(rig, 1000 + i, trace->tokens[i] + lengths[rank], own);
        trace->counts[i] = lengths[rank] + own;
        trace->possible_tokens += possible(trace, i);
        trace->all_tokens += trace->counts[i];
    }
    return trace;
}

static void replay(struct engine_rig *rig, const struct trace *trace)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        char id[24];
        snprintf(id, sizeof id, "r%u", i);
        struct mr_request *request = mr_fake_request(id, trace->tokens[i], trace->counts[i]);
        request->max_tokens = 4;
        request->ignore_eos = true;
        memset(&rig->seen[i % WAVE], 0, sizeof *rig->seen);
        assert_int_equal(rig_submit(rig, i % WAVE, request), MR_OK);
        if (i % WAVE == WAVE - 1) rig_run(rig);
    }
}

static struct mr_engine_stats run(const struct trace *trace, bool prefix_cache)
{
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.block_count = 1024 * 256 / MR_BLOCK_TOKENS;
    rig.options.prefix_cache = prefix_cache;
    rig_start(&rig);
    replay(&rig, trace);
    struct mr_engine_stats stats = mr_engine_stats(rig.engine);
    rig_end(&rig);
    return stats;
}

static void a_prefix_heavy_trace_finds_what_can_be_found(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    struct trace *trace = make_trace(&rig);
    struct mr_engine_stats with = run(trace, true), without = run(trace, false);
    double found = (double)with.cached_tokens / (double)trace->possible_tokens;
    double less = 1.0 - (double)with.prompt_tokens / (double)without.prompt_tokens;
    double share = (double)with.cached_tokens / (double)trace->all_tokens;
    printf("found %.4f of what could be found; prefill fell by %.4f, %.4f of all tokens\n", found,
           less, share);
    assert_true(found >= 0.95 && found <= 1.0);
    assert_int_equal(without.prompt_tokens, trace->all_tokens);
    assert_true(less > share - 0.001 && less < share + 0.001);
    free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_heavy_trace_finds_what_can_be_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
