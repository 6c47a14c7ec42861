/* Keys of a gateway: reading the file, finding a key, limits for a minute, reloading. */
#include "worker/gateway/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS ((uint64_t)1000000000)
/* printf secret | sha256sum */
#define SECRET "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

static char path[] = "/tmp/millrace-keys-XXXXXX";

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct mr_keys *open_keys(const char *text)
{
    struct mr_keys *keys = NULL;
    struct mr_error err = {0};
    write_file(text);
    if (mr_keys_open(&keys, path, 0, &err) != MR_OK) fail_msg("%s", err.detail);
    return keys;
}

static struct mr_key *find(struct mr_keys *keys, const char *text)
{
    return mr_keys_find(keys, (struct mr_text){text, strlen(text)});
}

static void a_key_is_found_by_its_text_only(void **state)
{
    (void)state;
    struct mr_keys *keys = open_keys("# comment\n\nalice " SECRET " topic=t tenant=x models=a,b\n");
    struct mr_key *key = find(keys, "secret");
    assert_non_null(key);
    assert_string_equal(key->name, "alice");
    assert_string_equal(key->topic, "t");
    assert_string_equal(key->tenant, "x");
    assert_true(mr_key_allows(key, (struct mr_text){"b", 1}));
    assert_false(mr_key_allows(key, (struct mr_text){"c", 1}));
    assert_false(mr_key_allows(key, (struct mr_text){"a,b", 3}));
    mr_key_release(key);
    assert_null(find(keys, "secret2"));
    assert_null(find(keys, ""));
    mr_keys_close(keys);
}

static void a_wrong_line_is_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\nalice\n",
                                        "\nalice sha256:12\n",
                                        "\nalice " SECRET " topics=t\n",
                                        "\nalice " SECRET " requests=0\n",
                                        "\nalice " SECRET " tenant=\n",
                                        "\nal/ice " SECRET "\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct mr_keys *keys;
        struct mr_error err = {0};
        write_file(wrong[i]);
        assert_int_equal(mr_keys_open(&keys, path, 0, &err), MR_BAD_CONFIG);
        assert_null(keys);
        assert_non_null(strstr(err.detail, "line 2"));
    }
}

static void requests_above_the_limit_wait_for_the_refill(void **state)
{
    (void)state;
    struct mr_keys *keys = open_keys("alice " SECRET " requests=2\n");
    struct mr_key *key = find(keys, "secret");
    assert_int_equal(mr_key_admit(key, 0), 0);
    assert_int_equal(mr_key_admit(key, 0), 0);
    assert_int_equal(mr_key_admit(key, 0), 30);
    assert_int_equal(mr_key_admit(key, 29 * SECOND_NS), 1);
    assert_int_equal(mr_key_admit(key, 31 * SECOND_NS), 0);
    mr_key_release(key);
    mr_keys_close(keys);
}

static void tokens_are_charged_after_the_answer(void **state)
{
    (void)state;
    struct mr_keys *keys = open_keys("alice " SECRET " tokens=60\n");
    struct mr_key *key = find(keys, "secret");
    assert_int_equal(mr_key_admit(key, 0), 0);
    mr_key_charge(key, 80);
    assert_int_equal(mr_key_admit(key, 0), 21);
    assert_int_equal(mr_key_admit(key, 22 * SECOND_NS), 0);
    mr_key_release(key);
    mr_keys_close(keys);
}

static void a_reload_keeps_what_is_left_and_keys_in_use(void **state)
{
    (void)state;
    struct mr_error err = {0};
    size_t count = 0;
    struct mr_keys *keys = open_keys("alice " SECRET " requests=1\n");
    struct mr_key *key = find(keys, "secret");
    assert_int_equal(mr_key_admit(key, 0), 0);
    write_file("wrong\n");
    assert_int_equal(mr_keys_reload(keys, 0, &count, &err), MR_BAD_CONFIG);
    write_file("alice " SECRET " requests=1 topic=new\n");
    assert_int_equal(mr_keys_reload(keys, 0, &count, &err), MR_OK);
    assert_int_equal(count, 1);
    assert_string_equal(key->topic, "");
    mr_key_release(key);
    key = find(keys, "secret");
    assert_string_equal(key->topic, "new");
    assert_int_equal(mr_key_admit(key, 0), 60);
    mr_key_release(key);
    mr_keys_close(keys);
}

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_found_by_its_text_only),
        cmocka_unit_test(a_wrong_line_is_named),
        cmocka_unit_test(requests_above_the_limit_wait_for_the_refill),
        cmocka_unit_test(tokens_are_charged_after_the_answer),
        cmocka_unit_test(a_reload_keeps_what_is_left_and_keys_in_use),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
