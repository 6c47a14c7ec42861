#include "worker/offsets/handover.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A temporary folder for the test. */
struct scene {
    char folder[64];
    struct mr_handover first, second; /* two workers */
};

static const struct mr_handover_place place = {"requests", 3, 5000000000, 2};

static int make(void **state)
{
    struct scene *scene = *state = calloc(1, sizeof *scene);
    assert_non_null(scene);
    snprintf(scene->folder, sizeof scene->folder, "/tmp/millrace-handover-XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    unsetenv("STATE_DIRECTORY");
    return 0;
}

static int drop(void **state)
{
    struct scene *scene = *state;
    char command[96];
    snprintf(command, sizeof command, "rm -r '%s'", scene->folder);
    assert_int_equal(system(command), 0);
    free(scene);
    return 0;
}

static void a_successor_sees_what_was_given_up(void **state)
{
    struct scene *scene = *state;
    struct mr_handover_place other = place;
    mr_handover_open(&scene->first, scene->folder, NULL);
    mr_handover_open(&scene->second, scene->folder, NULL);
    assert_int_not_equal(scene->first.instance, scene->second.instance);
    mr_handover_add(&scene->first, &place);
    other.offset++;
    mr_handover_add(&scene->first, &other);
    other.attempt++; /* another attempt */
    assert_true(mr_handover_has(&scene->second, scene->first.instance, &place));
    assert_false(mr_handover_has(&scene->second, scene->first.instance, &other));
    other = place;
    other.topic = "requests.b";
    assert_false(mr_handover_has(&scene->second, scene->first.instance, &other));
    assert_false(mr_handover_has(&scene->second, scene->first.instance + 1, &place));
    assert_false(mr_handover_has(&scene->second, 0, &place));
    assert_true(mr_handover_has(&scene->second, scene->second.instance, &place)); /* it lives */
    mr_handover_remove(&scene->first);
    assert_false(mr_handover_has(&scene->second, scene->first.instance, &place));
    mr_handover_remove(&scene->first);
}

static void old_files_are_removed_at_the_start_and_others_are_left(void **state)
{
    struct scene *scene = *state;
    char old[96], other[96];
    snprintf(old, sizeof old, "%s/given-up-00000007", scene->folder);
    snprintf(other, sizeof other, "%s/notes", scene->folder);
    const char *const paths[] = {old, other};
    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "w");
        assert_non_null(file);
        fclose(file);
        struct timespec times[2] = {{.tv_sec = time(NULL) - MR_HANDOVER_KEEP_S - 60}};
        times[1] = times[0];
        assert_int_equal(utimensat(0, paths[i], times, 0), 0);
    }
    mr_handover_open(&scene->first, scene->folder, NULL);
    mr_handover_add(&scene->first, &place);
    mr_handover_open(&scene->second, scene->folder, NULL);
    assert_int_not_equal(access(old, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    assert_true(mr_handover_has(&scene->second, scene->first.instance, &place));
}

static void the_folder_is_that_of_systemd_or_of_the_user(void **state)
{
    struct scene *scene = *state;
    char folder[128], home[96];
    snprintf(folder, sizeof folder, "%s/systemd:/var/lib/other", scene->folder);
    setenv("STATE_DIRECTORY", folder, 1);
    mr_handover_open(&scene->first, "", NULL);
    snprintf(folder, sizeof folder, "%s/systemd", scene->folder);
    assert_string_equal(scene->first.folder, folder);
    unsetenv("STATE_DIRECTORY");
    setenv("XDG_STATE_HOME", scene->folder, 1);
    mr_handover_open(&scene->first, "", NULL);
    snprintf(folder, sizeof folder, "%s/millrace", scene->folder);
    assert_string_equal(scene->first.folder, folder);
    unsetenv("XDG_STATE_HOME");
    snprintf(home, sizeof home, "%s/home", scene->folder);
    setenv("HOME", home, 1);
    mr_handover_open(&scene->first, "", NULL);
    snprintf(folder, sizeof folder, "%s/.local/state/millrace", home);
    assert_string_equal(scene->first.folder, folder);
}

/* A file has the folder's path: one line in the log. */
static void without_a_folder_nothing_is_handed_over(void **state)
{
    struct scene *scene = *state;
    char file[96], text[1024];
    snprintf(file, sizeof file, "%s/file", scene->folder);
    FILE *made = fopen(file, "w"), *lines = tmpfile();
    assert_non_null(made);
    assert_non_null(lines);
    fclose(made);
    struct mr_log *log = NULL;
    struct mr_log_options options = {.fd = fileno(lines), .format = MR_LOG_TEXT, .worker = "w"};
    options.level = MR_LOG_INFO;
    assert_int_equal(mr_log_create(&log, &options, NULL), MR_OK);
    mr_handover_open(&scene->first, file, log);
    mr_handover_add(&scene->first, &place);
    mr_handover_add(&scene->first, &place);
    assert_false(mr_handover_has(&scene->first, scene->first.instance + 1, &place));
    mr_log_destroy(log);
    rewind(lines);
    size_t length = fread(text, 1, sizeof text - 1, lines);
    text[length] = '\0';
    assert_non_null(strstr(text, file));
    assert_ptr_equal(strchr(text, '\n'), text + length - 1);
    fclose(lines);
}

static void path_of_first(const struct scene *scene, char path[128])
{
    snprintf(path, 128, "%s/given-up-%08x", scene->folder, scene->first.instance);
}

/* A full disk stores part of a line. */
static void a_line_that_does_not_fit_leaves_the_others_whole(void **state)
{
    struct scene *scene = *state;
    struct mr_handover_place lost = place, later = place;
    struct rlimit before, full;
    struct stat found;
    char path[128];
    lost.offset++;
    later.offset += 2;
    mr_handover_open(&scene->first, scene->folder, NULL);
    mr_handover_open(&scene->second, scene->folder, NULL);
    mr_handover_add(&scene->first, &place);
    path_of_first(scene, path);
    assert_int_equal(stat(path, &found), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = before;
    full.rlim_cur = (rlim_t)found.st_size + 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    mr_handover_add(&scene->first, &lost);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(scene->first.failed);
    mr_handover_add(&scene->first, &later);
    assert_true(mr_handover_has(&scene->second, scene->first.instance, &place));
    assert_false(mr_handover_has(&scene->second, scene->first.instance, &lost));
    assert_true(mr_handover_has(&scene->second, scene->first.instance, &later));
    assert_int_equal(scene->first.lines, 2);
}

static void only_the_worker_s_user_reads_its_file(void **state)
{
    struct scene *scene = *state;
    struct stat found;
    char path[128];
    umask(0);
    mr_handover_open(&scene->first, scene->folder, NULL);
    mr_handover_add(&scene->first, &place);
    path_of_first(scene, path);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
}

/* Another user has created a link under the name of the file. */
static void a_link_is_neither_written_nor_read(void **state)
{
    struct scene *scene = *state;
    struct stat found;
    char path[128], target[128];
    mr_handover_open(&scene->first, scene->folder, NULL);
    mr_handover_open(&scene->second, scene->folder, NULL);
    path_of_first(scene, path);
    snprintf(target, sizeof target, "%s/target", scene->folder);
    assert_int_equal(symlink(target, path), 0);
    mr_handover_add(&scene->first, &place);
    assert_true(scene->first.failed);
    assert_int_equal(stat(target, &found), -1);
    FILE *file = fopen(target, "w");
    assert_non_null(file);
    fprintf(file, "3 5000000000 2 requests\n");
    fclose(file);
    assert_false(mr_handover_has(&scene->second, scene->first.instance, &place));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_successor_sees_what_was_given_up, make, drop),
        cmocka_unit_test_setup_teardown(old_files_are_removed_at_the_start_and_others_are_left,
                                        make, drop),
        cmocka_unit_test_setup_teardown(the_folder_is_that_of_systemd_or_of_the_user, make, drop),
        cmocka_unit_test_setup_teardown(without_a_folder_nothing_is_handed_over, make, drop),
        cmocka_unit_test_setup_teardown(a_line_that_does_not_fit_leaves_the_others_whole, make,
                                        drop),
        cmocka_unit_test_setup_teardown(only_the_worker_s_user_reads_its_file, make, drop),
        cmocka_unit_test_setup_teardown(a_link_is_neither_written_nor_read, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
