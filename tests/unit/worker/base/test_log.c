#include "worker/base/log.h"

#include "worker/base/log_sink.h"

#include "codec/wire/json.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t fake_ns = 1000000000;

static uint64_t fake_now(void)
{
    return fake_ns;
}

/* A log that writes to a temporary file, and the text of that file. */
struct fixture {
    FILE *file;
    struct mr_log *log;
    char text[1 << 16];
};

static void open_log(struct fixture *fixture, enum mr_log_format format, enum mr_log_level level)
{
    struct mr_error err;
    fixture->file = tmpfile();
    assert_non_null(fixture->file);
    const struct mr_log_options options = {.fd = fileno(fixture->file),
                                           .format = format,
                                           .level = level,
                                           .worker = "w-1",
                                           .now_ns = fake_now};
    assert_int_equal(mr_log_create(&fixture->log, &options, &err), MR_OK);
}

static const char *written(struct fixture *fixture)
{
    ssize_t length = pread(fileno(fixture->file), fixture->text, sizeof fixture->text - 1, 0);
    assert_true(length >= 0);
    fixture->text[length] = '\0';
    return fixture->text;
}

static void close_log(struct fixture *fixture)
{
    mr_log_destroy(fixture->log);
    fclose(fixture->file);
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void a_file_gets_json_lines(void **state)
{
    (void)state;
    struct fixture fixture;
    open_log(&fixture, MR_LOG_AUTO, MR_LOG_INFO);
    const struct mr_log_place place = {
        .req_id = {"r\"1", 3}, .topic = {"millrace.requests", 17}, .partition = 0, .offset = 41};
    mr_log_write(fixture.log, MR_LOG_WARN, &place, "answer took %d ms\n\x01", 7);
    const char *text = written(&fixture);
    assert_int_equal(count_lines(text), 1);
    struct mr_json *json;
    struct mr_error err;
    const struct mr_json_limits limits = {4096, 64, 4};
    assert_int_equal(mr_json_parse(&json, (struct mr_text){text, strlen(text)}, &limits, &err),
                     MR_OK);
    const struct mr_json_value *root = mr_json_root(json);
    struct mr_text value;
    int64_t number;
    assert_true(mr_json_text(mr_json_get(root, "ts"), &value) && value.length == 24);
    assert_true(mr_json_text(mr_json_get(root, "level"), &value));
    assert_memory_equal(value.bytes, "warn", 4);
    assert_true(mr_json_text(mr_json_get(root, "msg"), &value) && value.length == 18);
    assert_true(mr_json_text(mr_json_get(root, "req_id"), &value) && value.length == 3);
    assert_true(mr_json_text(mr_json_get(root, "worker"), &value));
    assert_true(mr_json_int(mr_json_get(root, "partition"), &number) && number == 0);
    assert_true(mr_json_int(mr_json_get(root, "offset"), &number) && number == 41);
    assert_null(mr_json_get(root, "trace_id"));
    assert_null(mr_json_get(root, "suppressed"));
    mr_json_destroy(json);
    close_log(&fixture);
}

static void text_lines_name_level_message_and_place(void **state)
{
    (void)state;
    struct fixture fixture;
    open_log(&fixture, MR_LOG_TEXT, MR_LOG_INFO);
    const struct mr_log_place place = {.req_id = {"evil\x1b[2J", 8}, .partition = -1, .offset = -1};
    mr_log_write(fixture.log, MR_LOG_ERROR, &place, "broken: %s", "why\nnot");
    const char *text = written(&fixture);
    assert_non_null(strstr(text, " error broken: why?not  req_id=evil?[2J\n"));
    assert_int_equal(count_lines(text), 1);
    close_log(&fixture);
}

/* The line with these fields in a log of this format. */
static void write_figures(struct fixture *fixture, enum mr_log_format format)
{
    const struct mr_log_place place = {.req_id = {"r1", 2}, .partition = -1, .offset = -1};
    open_log(fixture, format, MR_LOG_INFO);
    mr_log_event(fixture->log, MR_LOG_INFO, &place, "statistics", MR_LOG_NUMBER("running", 12u),
                 MR_LOG_NUMBER("unknown", NAN), MR_LOG_NUMBER("rate", 0.25),
                 MR_LOG_STRING("state", "a \"b\""));
    mr_log_event(fixture->log, MR_LOG_DEBUG, NULL, "hidden", MR_LOG_NUMBER("running", 1));
}

static void figures_are_members_of_the_line(void **state)
{
    (void)state;
    struct fixture fixture;
    write_figures(&fixture, MR_LOG_JSON);
    assert_non_null(strstr(written(&fixture),
                           "\"msg\":\"statistics\",\"req_id\":\"r1\",\"running\":12,"
                           "\"rate\":0.25,\"state\":\"a \\\"b\\\"\","));
    assert_int_equal(count_lines(fixture.text), 1);
    close_log(&fixture);
    write_figures(&fixture, MR_LOG_TEXT);
    assert_non_null(strstr(written(&fixture),
                           " info  statistics  req_id=r1  running=12  rate=0.25  state=a \"b\"\n"));
    close_log(&fixture);
}

static void levels_below_the_chosen_one_are_not_written(void **state)
{
    (void)state;
    struct fixture fixture;
    open_log(&fixture, MR_LOG_TEXT, MR_LOG_WARN);
    mr_log_debug(fixture.log, "one");
    mr_log_info(fixture.log, "two");
    mr_log_warn(fixture.log, "three");
    mr_log_error(fixture.log, "four");
    assert_int_equal(count_lines(written(&fixture)), 2);
    close_log(&fixture);
}

/* One call in the source, so one kind of message. */
static void repeat(struct mr_log *log, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        mr_log_warn(log, "again %u", i);
}

static void repeats_of_one_message_are_left_out_and_counted(void **state)
{
    (void)state;
    struct fixture fixture;
    open_log(&fixture, MR_LOG_JSON, MR_LOG_INFO);
    repeat(fixture.log, 500);
    mr_log_info(fixture.log, "another kind");
    assert_int_equal(count_lines(written(&fixture)), MR_LOG_BURST + 1);
    assert_null(strstr(fixture.text, "suppressed"));
    fake_ns += MR_LOG_WINDOW_NS;
    repeat(fixture.log, 1);
    assert_int_equal(count_lines(written(&fixture)), MR_LOG_BURST + 2);
    assert_non_null(strstr(fixture.text, "\"suppressed\":480"));
    close_log(&fixture);
}

static void a_long_message_is_cut(void **state)
{
    (void)state;
    static char longer[3 * 2048];
    memset(longer, 'x', sizeof longer - 1);
    for (unsigned format = MR_LOG_TEXT; format <= MR_LOG_JSON; format++) {
        struct fixture fixture;
        open_log(&fixture, (enum mr_log_format)format, MR_LOG_INFO);
        mr_log_info(fixture.log, "%s", longer);
        assert_true(strlen(written(&fixture)) < 2 * MR_LOG_LINE_BYTES);
        assert_int_equal(count_lines(fixture.text), 1);
        close_log(&fixture);
    }
}

static void no_log_takes_every_line(void **state)
{
    (void)state;
    mr_log_error(NULL, "%d", 1);
    mr_log_debug(NULL, "nothing");
    assert_false(mr_log_is_json(NULL));
    mr_log_destroy(NULL);
}

static void *shout(void *log)
{
    for (int i = 0; i < 200; i++)
        mr_log_info(log, "one of many %d", i);
    return NULL;
}

static void lines_that_a_full_pipe_lost_are_counted(void **state)
{
    (void)state;
    static char text[1 << 20];
    int fds[2];
    struct mr_log *log;
    assert_int_equal(pipe(fds), 0);
    const struct mr_log_options options = {.fd = fds[1],
                                           .format = MR_LOG_JSON,
                                           .level = MR_LOG_INFO,
                                           .worker = "w",
                                           .now_ns = fake_now};
    assert_int_equal(mr_log_create(&log, &options, NULL), MR_OK);
    for (unsigned i = 0; i < 3000; i++) {
        fake_ns += MR_LOG_WINDOW_NS / 10; /* not suppressed as a repeat */
        mr_log_info(log, "%100u %1000s", i, "");
    }
    assert_true(read(fds[0], text, sizeof text) > 0);
    mr_log_warn(log, "again");
    ssize_t length = read(fds[0], text, sizeof text - 1);
    assert_true(length > 0);
    text[length] = '\0';
    const char *last = strstr(text, "\"again\"");
    assert_non_null(last);
    assert_non_null(strstr(last, ",\"lost\":"));
    mr_log_destroy(log);
    close(fds[0]);
    close(fds[1]);
}

/* Escapes make a line longer than a pipe accepts in one write. */
static void a_line_of_json_is_one_write(void **state)
{
    (void)state;
    struct fixture fixture;
    char message[MR_LOG_LINE_BYTES];
    memset(message, 1, sizeof message - 1);
    message[sizeof message - 1] = '\0';
    open_log(&fixture, MR_LOG_JSON, MR_LOG_INFO);
    mr_log_info(fixture.log, "%s", message);
    const char *text = written(&fixture);
    assert_true(strlen(text) <= MR_LOG_SINK_BYTES && strlen(text) > 1000);
    assert_int_equal(count_lines(text), 1);
    assert_int_equal(text[0], '{');
    close_log(&fixture);
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    (void)state;
    struct fixture fixture;
    pthread_t threads[4];
    open_log(&fixture, MR_LOG_TEXT, MR_LOG_INFO);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, shout, fixture.log), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const char *text = written(&fixture);
    assert_int_equal(count_lines(text), MR_LOG_BURST);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_memory_equal(line + 12, " info  one of many ", 19);
    close_log(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gets_json_lines),
        cmocka_unit_test(text_lines_name_level_message_and_place),
        cmocka_unit_test(figures_are_members_of_the_line),
        cmocka_unit_test(levels_below_the_chosen_one_are_not_written),
        cmocka_unit_test(repeats_of_one_message_are_left_out_and_counted),
        cmocka_unit_test(a_long_message_is_cut),
        cmocka_unit_test(no_log_takes_every_line),
        cmocka_unit_test(lines_that_a_full_pipe_lost_are_counted),
        cmocka_unit_test(a_line_of_json_is_one_write),
        cmocka_unit_test(lines_of_several_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
