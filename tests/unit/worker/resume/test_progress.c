#include "worker/resume/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct bench {
    struct mr_sha256 *hash;
    struct mr_frame_keys keys;
    struct mr_progress_tools tools;
    struct mr_progress_name name;
    unsigned char identity[MR_SHA256_BYTES];
    struct mr_progress_history history;
};

static const struct mr_progress_origin somewhere = {.group = "g",
                                                    .tenant = "t",
                                                    .topic = "r",
                                                    .partition = 3,
                                                    .offset = 70000,
                                                    .timestamp_ms = 1700000000000,
                                                    .id = {"a", 1},
                                                    .value = {"{\"prompt\": \"x\"}", 15}};

static void open_bench(struct bench *bench)
{
    const uint32_t prompt[] = {1, 2, 3};
    const unsigned char weights[32] = {9};
    *bench = (struct bench){.hash = mr_sha256_create()};
    bench->tools = (struct mr_progress_tools){bench->hash, &bench->keys};
    mr_progress_name_of(bench->hash, &somewhere, &bench->name);
    const struct mr_progress_model model = {weights, NULL};
    mr_progress_identity_of(bench->hash, &model, prompt, 3, bench->identity);
}

static void close_bench(struct bench *bench)
{
    mr_progress_clear(&bench->history);
    mr_frame_keys_clear(&bench->keys);
    mr_sha256_destroy(bench->hash);
}

static size_t write_it(struct bench *bench, const struct mr_progress_entry *entry,
                       unsigned char out[MR_PROGRESS_BYTES_MAX])
{
    static unsigned char nonce[MR_AES_NONCE_BYTES];
    nonce[0]++;
    size_t length = mr_progress_write(&bench->tools, &bench->name, entry, nonce, out);
    assert_true(length <= MR_PROGRESS_BYTES_MAX);
    return length;
}

static void read_it(struct bench *bench, const unsigned char *bytes, size_t length)
{
    mr_progress_read(&bench->history, &bench->tools, &bench->name, bench->identity,
                     (struct mr_text){(const char *)bytes, length});
    assert_true(bench->history.shown <= bench->history.count);
}

static void pass(struct bench *bench, struct mr_progress_entry entry)
{
    unsigned char bytes[MR_PROGRESS_BYTES_MAX];
    read_it(bench, bytes, write_it(bench, &entry, bytes));
}

static void start(struct bench *bench, uint32_t attempt, uint32_t index, uint32_t shown)
{
    pass(bench, (struct mr_progress_entry){.kind = MR_PROGRESS_START,
                                           .attempt = attempt,
                                           .index = index,
                                           .shown = shown,
                                           .identity = bench->identity});
}

/* The token at index is 100 * attempt + index. */
static void token(struct bench *bench, uint32_t attempt, uint32_t index, uint32_t shown)
{
    struct mr_sample sample = {
        .token_id = 100 * attempt + index, .logprob = -0.5f, .probability = 0.25f};
    pass(bench, (struct mr_progress_entry){.kind = MR_PROGRESS_TOKENS,
                                           .attempt = attempt,
                                           .index = index,
                                           .shown = shown,
                                           .sample = &sample});
}

static void mark(struct bench *bench, uint32_t attempt, enum mr_progress_kind kind)
{
    pass(bench, (struct mr_progress_entry){.kind = kind, .attempt = attempt});
}

static void assert_tokens(const struct bench *bench, const uint32_t *ids, uint32_t count)
{
    assert_int_equal(bench->history.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(bench->history.samples[i].token_id, ids[i]);
}

#define IDS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4

static void tokens_are_read_as_they_were_sampled(void **state)
{
    struct bench bench;
    struct mr_sample sample = {.token_id = 7,
                               .logprob = -1.5f,
                               .probability = 0.125f,
                               .top_count = 2,
                               .top_ids = {7, 9},
                               .top_logprobs = {-1.5f, -2.5f}};
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    token(&bench, 1, 0, 0);
    pass(&bench,
         (struct mr_progress_entry){
             .kind = MR_PROGRESS_TOKENS, .attempt = 1, .index = 1, .shown = 1, .sample = &sample});
    assert_int_equal(bench.history.attempts, 1);
    assert_int_equal(bench.history.crashes, 1);
    assert_int_equal(bench.history.count, 2);
    assert_int_equal(bench.history.shown, 1);
    assert_memory_equal(&bench.history.samples[1], &sample, sizeof sample);
    assert_int_equal(bench.history.refused, 0);
    close_bench(&bench);
}

static void the_next_attempt_continues_after_the_last_token(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    for (uint32_t i = 0; i < 3; i++)
        token(&bench, 1, i, i);
    start(&bench, 2, 2, 1);
    token(&bench, 2, 2, 2);
    assert_tokens(&bench, IDS(100, 101, 202));
    assert_int_equal(bench.history.shown, 2);
    assert_int_equal(bench.history.crashes, 2);
    /* The attempt continues after fewer tokens than were stored. */
    start(&bench, 3, 3, 2);
    token(&bench, 3, 1, 0);
    assert_tokens(&bench, IDS(100, 301));
    close_bench(&bench);
}

static void a_worker_that_lost_the_request_changes_nothing(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    token(&bench, 1, 0, 0);
    start(&bench, 2, 1, 1);
    token(&bench, 1, 1, 1);
    token(&bench, 2, 1, 1);
    token(&bench, 1, 2, 2);
    start(&bench, 1, 0, 0);
    token(&bench, 2, 2, 2);
    assert_tokens(&bench, IDS(100, 201, 202));
    close_bench(&bench);
}

static void tokens_after_a_gap_are_not_used(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    token(&bench, 1, 0, 0); /* tokens without a start */
    assert_int_equal(bench.history.count, 0);
    start(&bench, 1, 0, 0);
    token(&bench, 1, 0, 0);
    token(&bench, 1, 2, 2);
    token(&bench, 1, 1, 0);
    assert_tokens(&bench, IDS(100));
    start(&bench, 2, 5, 5); /* starts after tokens that are missing */
    token(&bench, 2, 5, 5);
    assert_int_equal(bench.history.count, 0);
    assert_int_equal(bench.history.attempts, 2);
    close_bench(&bench);
}

static void a_released_attempt_is_no_crash(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    mark(&bench, 1, MR_PROGRESS_RELEASE);
    assert_int_equal(bench.history.crashes, 0);
    assert_int_equal(bench.history.attempts, 1);
    mark(&bench, 1, MR_PROGRESS_RECLAIM);
    assert_int_equal(bench.history.crashes, 1);
    start(&bench, 2, 0, 0);
    mark(&bench, 1, MR_PROGRESS_RELEASE); /* arrives after the next attempt has started */
    assert_int_equal(bench.history.crashes, 1);
    mark(&bench, 2, MR_PROGRESS_RELEASE);
    mark(&bench, 2, MR_PROGRESS_RELEASE);
    assert_int_equal(bench.history.crashes, 0);
    assert_int_equal(bench.history.attempts, 2);
    close_bench(&bench);
}

static void a_release_that_the_list_has_lost_is_noted(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    start(&bench, 2, 0, 0);
    mr_progress_note_release(&bench.history, 2);
    assert_int_equal(bench.history.crashes, 1);
    assert_int_equal(mr_progress_last_crash(&bench.history), 1);
    assert_true(mr_progress_was_released(&bench.history, 2));
    mr_progress_note_release(&bench.history, 2);
    mr_progress_note_release(&bench.history, 3); /* not in the list */
    assert_int_equal(bench.history.crashes, 1);
    start(&bench, 3, 0, 0);
    mark(&bench, 3, MR_PROGRESS_RELEASE);
    mark(&bench, 3, MR_PROGRESS_RECLAIM);
    mr_progress_note_release(&bench.history, 3); /* the list contains it, and that it continued */
    assert_int_equal(bench.history.crashes, 2);
    close_bench(&bench);
}

static void another_models_or_prompts_tokens_are_left_out(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    token(&bench, 1, 0, 0);
    bench.identity[0] ^= 1;
    start(&bench, 2, 0, 0);
    assert_int_equal(bench.history.count, 0);
    bench.identity[0] ^= 1;
    mr_progress_clear(&bench.history);
    unsigned char bytes[MR_PROGRESS_BYTES_MAX], other[MR_SHA256_BYTES] = {1};
    struct mr_progress_entry entry = {.kind = MR_PROGRESS_START, .attempt = 1, .identity = other};
    read_it(&bench, bytes, write_it(&bench, &entry, bytes));
    token(&bench, 1, 0, 0);
    assert_int_equal(bench.history.count, 0);
    assert_int_equal(bench.history.crashes, 1);
    close_bench(&bench);
}

/* An entry with any one bit changed, or of another length, is refused and changes nothing. */
static void assert_every_change_is_noticed(struct bench *bench)
{
    unsigned char bytes[MR_PROGRESS_BYTES_MAX + 1] = {0};
    struct mr_sample sample = {.token_id = 5, .top_count = 1, .top_ids = {4}};
    struct mr_progress_entry entry = {
        .kind = MR_PROGRESS_TOKENS, .attempt = 1, .index = 0, .sample = &sample};
    size_t length = write_it(bench, &entry, bytes);
    uint32_t refused = bench->history.refused;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        read_it(bench, bytes, length);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(bench->history.refused, ++refused);
    }
    for (size_t cut = 0; cut < length; cut++)
        read_it(bench, bytes, cut);
    read_it(bench, bytes, length + 1);
    assert_int_equal(bench->history.refused, refused + length + 1);
    bench->name.digest[0] ^= 1; /* another request's */
    read_it(bench, bytes, length);
    bench->name.digest[0] ^= 1;
    assert_int_equal(bench->history.refused, refused + length + 2);
    assert_int_equal(bench->history.count, 0);
    read_it(bench, bytes, length);
    assert_int_equal(bench->history.count, 1);
}

static void damaged_entries_are_refused(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    assert_every_change_is_noticed(&bench);
    close_bench(&bench);
}

static void sealed_entries_are_read_with_their_key_only(void **state)
{
    struct bench bench;
    const unsigned char first[MR_AES_KEY_BYTES] = {1}, second[MR_AES_KEY_BYTES] = {2};
    struct mr_frame_keys none = {0}, sealing = {0};
    (void)state;
    open_bench(&bench);
    start(&bench, 1, 0, 0);
    assert_int_equal(mr_frame_keys_add(&bench.keys, 7, first, NULL), MR_OK);
    assert_every_change_is_noticed(&bench);

    unsigned char bytes[MR_PROGRESS_BYTES_MAX];
    struct mr_sample sample = {.token_id = 0x41424344};
    struct mr_progress_entry entry = {
        .kind = MR_PROGRESS_TOKENS, .attempt = 1, .index = 1, .sample = &sample};
    size_t length = write_it(&bench, &entry, bytes);
    assert_null(memmem(bytes, length, "DCBA", 4));
    bench.tools.keys = &none; /* a worker without keys */
    read_it(&bench, bytes, length);
    assert_int_equal(bench.history.count, 1);
    mr_frame_keys_add(&sealing, 7, second, NULL); /* another key with the same id */
    bench.tools.keys = &sealing;
    read_it(&bench, bytes, length);
    assert_int_equal(bench.history.count, 1);
    bench.tools.keys = &none; /* not sealed: refused by a worker that has keys */
    length = write_it(&bench, &entry, bytes);
    assert_non_null(memmem(bytes, length, "DCBA", 4));
    bench.tools.keys = &bench.keys;
    read_it(&bench, bytes, length);
    assert_int_equal(bench.history.count, 1);
    mr_frame_keys_clear(&sealing);
    close_bench(&bench);
}

static void values_no_worker_writes_are_refused(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    start(&bench, 0, 0, 0);
    start(&bench, MR_PROGRESS_ATTEMPTS_MAX + 1, 0, 0);
    mark(&bench, 1, (enum mr_progress_kind)9);
    struct mr_sample sample = {.logprob = (float)(1e300 * 1e300)};
    pass(&bench,
         (struct mr_progress_entry){.kind = MR_PROGRESS_TOKENS, .attempt = 1, .sample = &sample});
    read_it(&bench, (const unsigned char *)"", 0);
    assert_int_equal(bench.history.refused, 5);
    assert_int_equal(bench.history.attempts, 0);
    start(&bench, MR_PROGRESS_ATTEMPTS_MAX, 0, 0);
    assert_int_equal(bench.history.attempts, MR_PROGRESS_ATTEMPTS_MAX);
    close_bench(&bench);
}

static void everything_about_a_request_is_in_its_name(void **state)
{
    struct bench bench;
    struct mr_progress_origin origins[9];
    struct mr_progress_name names[9];
    (void)state;
    open_bench(&bench);
    for (size_t i = 0; i < 9; i++)
        origins[i] = somewhere;
    origins[1].group = "h";
    origins[2].tenant = "u";
    origins[3].topic = "s";
    origins[4].partition++;
    origins[5].offset++;
    origins[6].timestamp_ms++;
    origins[7].id = (struct mr_text){"b", 1};
    origins[8].value.length--;
    for (size_t i = 0; i < 9; i++) {
        mr_progress_name_of(bench.hash, &origins[i], &names[i]);
        assert_int_equal(strlen(names[i].key), MR_PROGRESS_KEY_BYTES - 1);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(names[i].key, names[k].key);
    }
    assert_string_equal(names[0].key, bench.name.key);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_read_as_they_were_sampled),
        cmocka_unit_test(the_next_attempt_continues_after_the_last_token),
        cmocka_unit_test(a_worker_that_lost_the_request_changes_nothing),
        cmocka_unit_test(tokens_after_a_gap_are_not_used),
        cmocka_unit_test(a_released_attempt_is_no_crash),
        cmocka_unit_test(a_release_that_the_list_has_lost_is_noted),
        cmocka_unit_test(another_models_or_prompts_tokens_are_left_out),
        cmocka_unit_test(damaged_entries_are_refused),
        cmocka_unit_test(sealed_entries_are_read_with_their_key_only),
        cmocka_unit_test(values_no_worker_writes_are_refused),
        cmocka_unit_test(everything_about_a_request_is_in_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
