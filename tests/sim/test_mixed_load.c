/* Streams that decode while a long prompt arrives, in virtual time: how long is the longest gap,
 * how long does the prompt take, and what does a step cost the engine itself in memory: nothing. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openssl/crypto.h>

#define STREAMS   16u
#define LONG      4000u
#define TARGET_MS 60.0

static void start(struct engine_rig *rig, int32_t chunk_tokens, double target_ms)
{
    rig_init(rig);
    rig->fake_options.history_ms = 1e-4;
    rig->options.sequences_max = 32;
    rig->options.block_count = RIG_BLOCKS(32768);
    rig->options.context_tokens = 5000;
    rig->options.rows_max = 5000;
    rig->options.chunk_tokens = chunk_tokens;
    rig->options.step_target_ms = target_ms;
    rig_start(rig);
}

static void submit(struct engine_rig *rig, uint64_t ticket, uint64_t salt, uint32_t prompt,
                   uint32_t output)
{
    char id[16];
    uint32_t tokens[LONG];
    rig_tokens(rig, salt, tokens, prompt);
    snprintf(id, sizeof id, "%u", (unsigned)ticket);
    struct mr_request *request = mr_fake_request(id, tokens, prompt);
    request->ignore_eos = true;
    request->max_tokens = output;
    assert_int_equal(rig_submit(rig, ticket, request), MR_OK);
}

/* Warm streams, then a long prompt among them. Returns the longest gap of any stream. */
static double longest_gap(int32_t chunk_tokens, double target_ms, double *prompt_ms)
{
    struct engine_rig rig;
    start(&rig, chunk_tokens, target_ms);
    for (uint64_t i = 0; i < STREAMS; i++)
        submit(&rig, i, i, 40 + 3 * (uint32_t)i, 400);
    for (uint32_t i = 0; i < 60; i++)
        rig_step(&rig);
    submit(&rig, 20, 20, LONG, 8);
    rig_run(&rig);
    double longest = 0;
    for (uint64_t i = 0; i < STREAMS; i++) {
        const struct rig_seen *seen = &rig.seen[i];
        assert_int_equal(seen->choices[0].token_count, 400);
        longest = seen->result.itl_max_ms > longest ? seen->result.itl_max_ms : longest;
    }
    *prompt_ms = rig.seen[20].result.prefill_ms;
    rig_end(&rig);
    return longest;
}

static void a_long_prompt_keeps_gaps_within_the_target(void **state)
{
    (void)state;
    double prompt_ms;
    double gap = longest_gap(512, TARGET_MS, &prompt_ms);
    printf("target %.0f ms: longest gap %.1f ms, prompt %.0f ms\n", TARGET_MS, gap, prompt_ms);
    assert_true(gap <= 1.1 * TARGET_MS);
    assert_true(prompt_ms < 20000);
}

static void without_chunking_the_gap_is_the_whole_prefill(void **state)
{
    (void)state;
    double prompt_ms;
    double gap = longest_gap(0, TARGET_MS, &prompt_ms);
    printf("no chunking: longest gap %.0f ms, prompt %.0f ms\n", gap, prompt_ms);
    assert_true(gap > 0.5 * LONG);
    assert_true(gap >= 0.99 * prompt_ms);
}

static void a_target_below_the_decodes_still_lets_the_prompt_end(void **state)
{
    (void)state;
    double prompt_ms;
    double gap = longest_gap(512, 5.0, &prompt_ms);
    printf("target 5 ms: longest gap %.1f ms, prompt %.0f ms\n", gap, prompt_ms);
    assert_true(gap < 40.0);
    assert_true(prompt_ms < 30000);
}

/* ---- a step allocates nothing ---- */

/* OpenSSL makes a small state at every start of a digest and offers no way round it: what it takes
 * through its own functions is not counted. */
static volatile bool counting;
static volatile uint64_t allocations;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void note(const volatile void *block, size_t size)
{
    (void)block;
    (void)size;
    allocations = allocations + counting;
}
static void ignore(const volatile void *block)
{
    (void)block;
}
static void count_allocations(void)
{
    assert_true(__sanitizer_install_malloc_and_free_hooks(note, ignore) > 0);
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size)
{
    allocations = allocations + counting;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    allocations = allocations + counting;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    allocations = allocations + counting;
    return __libc_realloc(block, size);
}

static void count_allocations(void)
{
}
#endif

static void *uncounted(void *block, size_t size)
{
    bool before = counting;
    counting = false;
    void *made = realloc(block, size);
    counting = before;
    return made;
}

static void *digest_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return uncounted(NULL, size);
}

static void *digest_realloc(void *block, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return uncounted(block, size);
}

static void digest_free(void *block, const char *file, int line)
{
    (void)file;
    (void)line;
    free(block);
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    struct engine_rig rig;
    count_allocations();
    rig_init(&rig);
    rig.options.prompt_cache_entries = 4;
    rig.options.block_count = RIG_BLOCKS(3072);
    rig.options.step_target_ms = 30;
    rig.options.force_preempt_every = 5;
    rig_start(&rig);
    counting = true;
    void *volatile one = malloc(1);
    counting = false;
    free(one);
    assert_int_equal(allocations, 1);
    for (uint64_t i = 0; i < 24; i++) {
        submit(&rig, i, i % 6, 20 + 61 * (uint32_t)(i % 6), 30);
        counting = i % 3 == 0;
        rig_step(&rig);
        counting = false;
    }
    counting = true;
    while (rig_step(&rig))
        ;
    counting = false;
    assert_int_equal(rig.result_count, 24);
    assert_int_equal(allocations, 1);
    assert_true(mr_engine_stats(rig.engine).preemptions > 0);
    assert_true(mr_engine_stats(rig.engine).cached_tokens > 0);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_prompt_keeps_gaps_within_the_target),
        cmocka_unit_test(without_chunking_the_gap_is_the_whole_prefill),
        cmocka_unit_test(a_target_below_the_decodes_still_lets_the_prompt_end),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    if (CRYPTO_set_mem_functions(digest_malloc, digest_realloc, digest_free) != 1) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
