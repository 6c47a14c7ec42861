/* The adapters' thread is not started: the tests call its step. Files are written to the folder
 * with one write, so they are complete. */
#include "worker/adapters/adapters.h"

#include "ops/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BASE   "tests/golden/models/llama3_rope_sharded"
#define GOLDEN "tests/golden/adapters/llama3_rope_sharded/"
#define SECOND ((uint64_t)1000000000)

struct fixture {
    struct mr_model *model;
    struct mr_adapters *adapters;
    struct mr_log *log;
    char folder[64];
    struct mr_time now;
    struct mr_text_list named;
};

static void path_of(const struct fixture *fixture, const char *name, const char *file,
                    char path[256])
{
    snprintf(path, 256, "%s/%s%s%s", fixture->folder, name, file ? "/" : "", file ? file : "");
}

static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors"};

/* Copies a golden adapter to the folder under a name; xor: changes its last number. */
static void put(const struct fixture *fixture, const char *golden, const char *name, int xor)
{
    static unsigned char bytes[1 << 16];
    char from[256], to[256];
    path_of(fixture, name, NULL, to);
    (void)mkdir(to, 0700);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, GOLDEN "%s/%s", golden, files[i]);
        path_of(fixture, name, files[i], to);
        FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
        assert_true(in && out);
        const size_t size = fread(bytes, 1, sizeof bytes, in);
        if (i == 1) bytes[size - 2] = (unsigned char)(bytes[size - 2] ^ xor);
        assert_int_equal(fwrite(bytes, 1, size, out), size);
        assert_int_equal(fclose(in) + fclose(out), 0);
    }
}

static void take_away(const struct fixture *fixture, const char *name)
{
    char path[256];
    for (int i = 0; i < 2; i++) {
        path_of(fixture, name, files[i], path);
        (void)unlink(path);
    }
    path_of(fixture, name, NULL, path);
    (void)rmdir(path);
}

static void open_fixture(struct fixture *fixture, uint64_t memory_bytes)
{
    const struct mr_model_options model = {.path = BASE,
                                           .device = "cpu",
                                           .thread_count = 1,
                                           .adapters = true,
                                           .rows_max = 32,
                                           .sequences_max = 4,
                                           .kv_bytes = 1 << 20};
    const struct mr_log_options log = {.fd = -1, .format = MR_LOG_TEXT, .worker = "w"};
    struct mr_error err = {0};
    *fixture = (struct fixture){.now = {SECOND, 1763740000000}};
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/millrace-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    put(fixture, "a00", "one", 0);
    put(fixture, "a01", "two", 0);
    fixture->named = (struct mr_text_list){{"mine=" GOLDEN "a00,tenant=t"}, 1};
    assert_int_equal(mr_log_create(&fixture->log, &log, NULL), MR_OK);
    const struct mr_adapters_options options = {&fixture->named, fixture->folder, memory_bytes,
                                                fixture->log};
    assert_true(mr_adapters_wanted(&options));
    assert_int_equal(mr_model_open(&fixture->model, &model, NULL), MR_OK);
    assert_int_equal(mr_adapters_create(&fixture->adapters, &options, NULL), MR_OK);
    if (mr_adapters_open(fixture->adapters, fixture->model, fixture->now.ns, &err) != MR_OK)
        fail_msg("%s", err.detail);
}

static void close_fixture(struct fixture *fixture)
{
    mr_adapters_destroy(fixture->adapters);
    mr_model_close(fixture->model);
    mr_log_destroy(fixture->log);
    static const char *const names[] = {"one", "two", "three", "bad"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        take_away(fixture, names[i]);
    assert_int_equal(rmdir(fixture->folder), 0);
}

/* Lets time pass and runs the step until it has nothing to do. */
static void pass(struct fixture *fixture, uint64_t ns)
{
    fixture->now.ns += ns;
    while (mr_adapters_step(fixture->adapters, fixture->now) <= fixture->now.ns)
        continue;
}

static struct mr_adapter_version *take(struct fixture *fixture, const char *name)
{
    return mr_adapters_take(fixture->adapters, (struct mr_text){name, strlen(name)}, "default");
}

static enum mr_adapter_pin pin(struct fixture *fixture, struct mr_adapter_version *version)
{
    return mr_adapters_pin(fixture->adapters, version, fixture->now.ns);
}

static struct mr_adapter_version *take_loaded(struct fixture *fixture, const char *name)
{
    struct mr_adapter_version *version = take(fixture, name);
    assert_non_null(version);
    if (pin(fixture, version) == MR_ADAPTER_PINNED) return version;
    pass(fixture, 0);
    assert_true(mr_adapters_changed(fixture->adapters));
    assert_int_equal(pin(fixture, version), MR_ADAPTER_PINNED);
    assert_non_null(mr_adapter_version_use(version)->weights);
    return version;
}

static void release(struct fixture *fixture, struct mr_adapter_version *version)
{
    mr_adapters_unpin(fixture->adapters, version, fixture->now.ns);
    mr_adapters_drop(fixture->adapters, version);
}

static void adapters_are_known_by_name_and_tenant(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 1 << 30);
    assert_int_equal(mr_adapters_stats(fixture.adapters).listed, 3);
    assert_int_equal(mr_adapters_stats(fixture.adapters).loaded, 0);
    assert_null(take(&fixture, "none"));
    assert_null(take(&fixture, "mine")); /* of the tenant t */
    struct mr_adapter_version *mine =
        mr_adapters_take(fixture.adapters, (struct mr_text){"mine", 4}, "t");
    assert_non_null(mine);
    mr_adapters_drop(fixture.adapters, mine);
    struct mr_adapter_version *one = take_loaded(&fixture, "one");
    assert_string_equal(mr_adapter_version_name(one), "one");
    assert_int_equal(mr_adapters_stats(fixture.adapters).loaded, 1);
    release(&fixture, one);
    close_fixture(&fixture);
}

static void a_changed_file_is_another_version(void **state)
{
    (void)state;
    struct fixture fixture;
    unsigned char digest[32];
    open_fixture(&fixture, 1 << 30);
    struct mr_adapter_version *old = take_loaded(&fixture, "one");
    memcpy(digest, mr_adapter_version_use(old)->digest, sizeof digest);
    put(&fixture, "a00", "one", 1);
    pass(&fixture, MR_ADAPTERS_SCAN_NS);
    struct mr_adapter_version *new = take_loaded(&fixture, "one");
    assert_ptr_not_equal(old, new);
    assert_memory_not_equal(mr_adapter_version_use(new)->digest, digest, sizeof digest);
    assert_non_null(mr_adapter_version_use(old)->weights); /* its requests go on */
    assert_int_equal(mr_adapters_stats(fixture.adapters).loaded, 2);
    release(&fixture, old);
    assert_int_equal(mr_adapters_stats(fixture.adapters).loaded, 1);
    release(&fixture, new);
    close_fixture(&fixture);
}

static void files_written_again_with_the_same_content_change_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 1 << 30);
    struct mr_adapter_version *one = take_loaded(&fixture, "one");
    put(&fixture, "a00", "one", 0);
    pass(&fixture, MR_ADAPTERS_SCAN_NS);
    struct mr_adapter_version *again = take(&fixture, "one");
    assert_ptr_equal(one, again);
    mr_adapters_drop(fixture.adapters, again);
    release(&fixture, one);
    close_fixture(&fixture);
}

static void adapters_appear_and_disappear(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 1 << 30);
    put(&fixture, "a01", "three", 3);
    assert_null(take(&fixture, "three"));
    pass(&fixture, MR_ADAPTERS_SCAN_NS);
    struct mr_adapter_version *three = take_loaded(&fixture, "three");
    struct mr_adapter_version *waiting = take(&fixture, "one");
    take_away(&fixture, "three");
    take_away(&fixture, "one");
    pass(&fixture, MR_ADAPTERS_SCAN_NS);
    assert_null(take(&fixture, "three"));
    assert_non_null(mr_adapter_version_use(three)->weights); /* its requests go on */
    assert_int_equal(pin(&fixture, waiting), MR_ADAPTER_GONE);
    assert_int_equal(mr_adapters_stats(fixture.adapters).listed, 2);
    release(&fixture, three);
    mr_adapters_drop(fixture.adapters, waiting);
    assert_int_equal(mr_adapters_stats(fixture.adapters).loaded, 0);
    close_fixture(&fixture);
}

static void a_bad_adapter_of_the_folder_has_no_name(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[256];
    open_fixture(&fixture, 1 << 30);
    put(&fixture, "a00", "bad", 0);
    path_of(&fixture, "bad", files[1], path);
    assert_int_equal(truncate(path, 5000), 0);
    pass(&fixture, MR_ADAPTERS_SCAN_NS);
    assert_null(take(&fixture, "bad"));
    put(&fixture, "a00", "bad", 5);
    pass(&fixture, MR_ADAPTERS_SCAN_NS);
    struct mr_adapter_version *repaired = take_loaded(&fixture, "bad");
    release(&fixture, repaired);
    close_fixture(&fixture);
}

static void files_replaced_before_loading_are_not_loaded(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 1 << 30);
    struct mr_adapter_version *old = take(&fixture, "one");
    put(&fixture, "a00", "one", 1);
    assert_int_equal(pin(&fixture, old), MR_ADAPTER_LOADING);
    pass(&fixture, 0);
    assert_int_equal(pin(&fixture, old), MR_ADAPTER_GONE);
    pass(&fixture, MR_ADAPTERS_SCAN_NS);
    struct mr_adapter_version *new = take_loaded(&fixture, "one");
    assert_ptr_not_equal(old, new);
    mr_adapters_drop(fixture.adapters, old);
    release(&fixture, new);
    close_fixture(&fixture);
}

/* There is room for one adapter. */
static void the_one_used_longest_ago_makes_room(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 1);
    release(&fixture, take_loaded(&fixture, "one"));
    release(&fixture, take_loaded(&fixture, "two"));
    const struct mr_adapters_stats stats = mr_adapters_stats(fixture.adapters);
    assert_int_equal(stats.loaded, 1);
    assert_int_equal(stats.loads, 2);
    assert_int_equal(stats.evictions, 1);
    close_fixture(&fixture);
}

/* A busy adapter that always has requests does not starve another one. */
static void a_cold_adapter_waits_for_one_round_of_a_busy_one(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 1);
    struct mr_adapter_version *busy = take_loaded(&fixture, "one");
    struct mr_adapter_version *cold = take(&fixture, "two");
    assert_int_equal(pin(&fixture, cold), MR_ADAPTER_LOADING);
    pass(&fixture, MR_ADAPTERS_PATIENCE_NS - 1);
    assert_int_equal(pin(&fixture, busy), MR_ADAPTER_PINNED); /* another request of it */
    mr_adapters_unpin(fixture.adapters, busy, fixture.now.ns);
    pass(&fixture, 1);
    assert_int_equal(pin(&fixture, busy), MR_ADAPTER_LOADING); /* closed */
    assert_int_equal(pin(&fixture, cold), MR_ADAPTER_LOADING);
    mr_adapters_unpin(fixture.adapters, busy, fixture.now.ns);
    pass(&fixture, 0);
    assert_int_equal(pin(&fixture, cold), MR_ADAPTER_PINNED);
    assert_int_equal(pin(&fixture, busy), MR_ADAPTER_LOADING);
    release(&fixture, cold);
    pass(&fixture, 0);
    assert_int_equal(pin(&fixture, busy), MR_ADAPTER_PINNED);
    release(&fixture, busy);
    close_fixture(&fixture);
}

static void the_option_is_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {"name", "=path", "name=", "name=path,tenant="};
    struct mr_adapters *adapters;
    struct mr_error err = {0};
    for (size_t i = 0; i < 4; i++) {
        const struct mr_text_list named = {{bad[i]}, 1};
        const struct mr_adapters_options options = {&named, "", 1, NULL};
        assert_int_equal(mr_adapters_create(&adapters, &options, &err), MR_BAD_CONFIG);
        assert_non_null(strstr(err.detail, "NAME=PATH"));
    }
    const struct mr_text_list none = {{NULL}, 0};
    assert_false(mr_adapters_wanted(&(struct mr_adapters_options){.named = &none, .folder = ""}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_are_known_by_name_and_tenant),
        cmocka_unit_test(a_changed_file_is_another_version),
        cmocka_unit_test(files_written_again_with_the_same_content_change_nothing),
        cmocka_unit_test(adapters_appear_and_disappear),
        cmocka_unit_test(a_bad_adapter_of_the_folder_has_no_name),
        cmocka_unit_test(files_replaced_before_loading_are_not_loaded),
        cmocka_unit_test(the_one_used_longest_ago_makes_room),
        cmocka_unit_test(a_cold_adapter_waits_for_one_round_of_a_busy_one),
        cmocka_unit_test(the_option_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
