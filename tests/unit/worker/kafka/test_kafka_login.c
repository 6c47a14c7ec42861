#include "worker/kafka/kafka_login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/config/options.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>

/* A configuration whose password comes from a file, and a consumer and a producer that have been
 * created with it. No broker is needed. */
struct rig {
    char path[40];
    struct mr_config *config;
    struct mr_kafka_login *login;
    rd_kafka_t *consumer, *producer;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static rd_kafka_t *open_client(struct mr_kafka_login *login, bool is_producer)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", "127.0.0.1:1", NULL, 0);
    rd_kafka_conf_set(conf, "security.protocol", "sasl_plaintext", NULL, 0);
    rd_kafka_conf_set(conf, "sasl.mechanism", "PLAIN", NULL, 0);
    rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
    assert_int_equal(mr_kafka_login_apply(login, conf, is_producer, NULL), MR_OK);
    rd_kafka_t *rk =
        rd_kafka_new(is_producer ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER, conf, NULL, 0);
    assert_non_null(rk);
    mr_kafka_login_add(login, rk, is_producer);
    return rk;
}

static void close_client(struct mr_kafka_login *login, rd_kafka_t *rk)
{
    mr_kafka_login_remove(login, rk);
    rd_kafka_destroy(rk);
}

/* property: of --kafka, whose value is in the file; it follows sasl.password=base. */
static void rig_open(struct rig *rig, const char *property, const char *text)
{
    static char *const environment[] = {NULL};
    char argument[128];
    memcpy(rig->path, "/tmp/millrace-login-XXXXXX", 27);
    close(mkstemp(rig->path));
    write_file(rig->path, text);
    snprintf(argument, sizeof argument, "%s=@%s", property, rig->path);
    char *const words[] = {
        "millrace",           "tail",    "--brokers",          "x:1",     "--kafka",
        "sasl.username=mill", "--kafka", "sasl.password=base", "--kafka", argument};
    assert_int_equal(mr_config_create(&rig->config, 10, words, environment, NULL), MR_OK);
    assert_int_equal(mr_kafka_login_create(&rig->login, rig->config, NULL), MR_OK);
    rig->consumer = open_client(rig->login, false);
    rig->producer = open_client(rig->login, true);
}

static void rig_close(struct rig *rig)
{
    close_client(rig->login, rig->consumer);
    close_client(rig->login, rig->producer);
    mr_kafka_login_destroy(rig->login);
    mr_config_destroy(rig->config);
    unlink(rig->path);
}

static void assert_property(const rd_kafka_t *rk, const char *name, const char *wanted)
{
    char value[64];
    size_t bytes = sizeof value;
    assert_int_equal(
        rd_kafka_conf_get(rd_kafka_conf((rd_kafka_t *)(uintptr_t)rk), name, value, &bytes),
        RD_KAFKA_CONF_OK);
    assert_string_equal(value, wanted);
}

static void a_changed_file_changes_the_password_of_every_client(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, "sasl.password", "old\n");
    assert_true(mr_kafka_login_has_files(rig.login));
    assert_property(rig.consumer, "sasl.password", "old");
    write_file(rig.path, "newer\n");
    assert_int_equal(mr_kafka_login_reread(rig.login, NULL), MR_OK);
    assert_property(rig.consumer, "sasl.password", "newer");
    assert_property(rig.producer, "sasl.password", "newer");
    assert_property(rig.producer, "sasl.username", "mill");
    rd_kafka_t *later = open_client(rig.login, true);
    assert_property(later, "sasl.password", "newer");
    close_client(rig.login, later);
    rig_close(&rig);
}

static void a_side_may_have_a_password_of_its_own(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, "producer.sasl.password", "old");
    assert_property(rig.producer, "sasl.password", "old");
    write_file(rig.path, "newer");
    assert_int_equal(mr_kafka_login_reread(rig.login, NULL), MR_OK);
    assert_property(rig.producer, "sasl.password", "newer");
    assert_property(rig.consumer, "sasl.password", "base");
    rig_close(&rig);
}

static void a_file_that_is_gone_changes_nothing(void **state)
{
    struct rig rig;
    struct mr_error err = {0};
    (void)state;
    rig_open(&rig, "sasl.password", "old");
    unlink(rig.path);
    assert_int_equal(mr_kafka_login_reread(rig.login, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, rig.path));
    assert_property(rig.consumer, "sasl.password", "old");
    rig_close(&rig);
}

static void only_users_and_passwords_of_files_are_read_again(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, "client.rack", "old");
    assert_false(mr_kafka_login_has_files(rig.login));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_file_changes_the_password_of_every_client),
        cmocka_unit_test(a_side_may_have_a_password_of_its_own),
        cmocka_unit_test(a_file_that_is_gone_changes_nothing),
        cmocka_unit_test(only_users_and_passwords_of_files_are_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
