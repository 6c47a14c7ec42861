#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_url.h"

#include <string.h>

static void expect(const char *text, const struct mr_redis_url *want)
{
    struct mr_redis_url url;
    struct mr_error err = {0};
    if (mr_redis_url_parse(&url, text, &err) != MR_OK) fail_msg("%s: %s", text, err.detail);
    assert_string_equal(url.host, want->host);
    assert_string_equal(url.path, want->path);
    assert_string_equal(url.user, want->user);
    assert_string_equal(url.password, want->password);
    assert_int_equal(url.port, want->port);
    assert_int_equal(url.database, want->database);
    assert_int_equal(url.tls, want->tls);
}

static void every_part_is_parsed(void **state)
{
    (void)state;
    expect("redis://h", &(struct mr_redis_url){.host = "h", .port = 6379});
    expect("redis://h:1/3", &(struct mr_redis_url){.host = "h", .port = 1, .database = 3});
    expect("rediss://u:p@h/",
           &(struct mr_redis_url){
               .host = "h", .port = 6379, .user = "u", .password = "p", .tls = true});
    expect("redis://:p%40%3a@[::1]:7",
           &(struct mr_redis_url){.host = "::1", .port = 7, .password = "p@:"});
    expect("redis://u:a@b@h:9/1",
           &(struct mr_redis_url){
               .host = "h", .port = 9, .user = "u", .password = "a@b", .database = 1});
    expect("unix:///run/redis.sock", &(struct mr_redis_url){.path = "/run/redis.sock"});
    expect("unix://u:p@/r.sock?db=4",
           &(struct mr_redis_url){.path = "/r.sock", .user = "u", .password = "p", .database = 4});
}

static void an_invalid_url_is_refused_without_quoting_it(void **state)
{
    static const char *const texts[] = {
        "",
        "h:1",
        "http://secret",
        "redis://",
        "redis://:secret@",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:secret",
        "redis://h/secret",
        "redis://h/99999999999",
        "redis://[::1",
        "redis://[::1]x",
        "redis://u:%zz@h",
        "redis://u:%4",
        "redis://u:%00@h",
        "unix://relative/secret",
        "unix://",
        "unix:///s?x=1",
        "unix:///s?db=",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mr_redis_url url;
        struct mr_error err = {0};
        if (mr_redis_url_parse(&url, texts[i], &err) == MR_OK) fail_msg("%s was taken", texts[i]);
        assert_int_equal(err.status, MR_BAD_CONFIG);
        assert_null(strstr(err.detail, "secret"));
    }
}

static void parts_that_are_too_long_are_refused(void **state)
{
    char text[2000] = "redis://";
    struct mr_redis_url url;
    (void)state;
    memset(text + 8, 'h', 1000);
    text[1008] = '\0';
    assert_int_equal(mr_redis_url_parse(&url, text, NULL), MR_BAD_CONFIG);
    memcpy(text, "unix:///", 8);
    assert_int_equal(mr_redis_url_parse(&url, text, NULL), MR_BAD_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_parsed),
        cmocka_unit_test(an_invalid_url_is_refused_without_quoting_it),
        cmocka_unit_test(parts_that_are_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
