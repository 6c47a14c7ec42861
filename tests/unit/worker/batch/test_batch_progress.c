/* What a batch says on stderr. */
#include "files.h"

#include "worker/batch/batch_progress.h"

#define SECOND ((uint64_t)1000000000)

static void lines_are_json_if_nobody_watches(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    FILE *out = fopen(path_of("progress", path), "w");
    struct mr_batch_progress progress;
    struct mr_batch_progress_counts counts = {.calls = 100, .answered = 10, .failed = 2};
    assert_non_null(out);
    mr_batch_progress_init(&progress, out, &counts, SECOND);
    mr_batch_progress_show(&progress, &counts, 2 * SECOND); /* not yet due */
    counts = (struct mr_batch_progress_counts){
        .calls = 100, .answered = 50, .failed = 2, .in_flight = 8, .tokens = 400};
    mr_batch_progress_show(&progress, &counts, 11 * SECOND);
    mr_batch_progress_end(&progress, &counts, "e", 21 * SECOND);
    fclose(out);
    char *text = read_file(path);
    assert_string_equal(text, "{\"event\":\"progress\",\"requests\":100,\"done\":52,\"failed\":2,"
                              "\"in_flight\":8,\"requests_per_s\":4.0,\"tokens_per_s\":40,"
                              "\"seconds_left\":12}\n"
                              "{\"event\":\"end\",\"requests\":100,\"answered\":50,\"failed\":2,"
                              "\"seconds\":20.0,\"requests_per_s\":2.0,\"tokens_per_s\":20}\n");
    free(text);
}

static void a_terminal_has_one_line_and_a_summary(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    FILE *out = fopen(path_of("terminal", path), "w");
    struct mr_batch_progress progress;
    struct mr_batch_progress_counts counts = {.calls = 100};
    assert_non_null(out);
    mr_batch_progress_init(&progress, out, &counts, 0);
    progress.is_terminal = true;
    progress.next_ns = SECOND;
    counts = (struct mr_batch_progress_counts){
        .calls = 100, .answered = 19, .failed = 1, .in_flight = 8, .tokens = 60};
    mr_batch_progress_show(&progress, &counts, 2 * SECOND);
    mr_batch_progress_end(&progress, &counts, "out.errors", 4 * SECOND);
    fclose(out);
    char *text = read_file(path);
    assert_string_equal(text, "\r\033[K20 of 100 done, 1 failed, 8 in flight, 10.0 requests/s, 30 "
                              "tokens/s, 0:00:08 left\n"
                              "100 requests: 19 answered, 1 failed (see out.errors), 80 to do; 20 "
                              "in 4.0 s, 5.0 requests/s, 15 tokens/s\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_json_if_nobody_watches),
        cmocka_unit_test(a_terminal_has_one_line_and_a_summary),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
