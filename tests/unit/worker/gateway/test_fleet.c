/* What a gateway concludes about brokers and workers, and the models that it knows. */
#include "tests/unit/worker/broker.h"
#include "worker/gateway/fleet.h"

#include <stdio.h>
#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)
#define NO_MODEL  ((struct mr_text){0})

/* A fleet without its thread: the test sets what the thread would have found. */
static void make(struct mr_fleet *fleet, bool is_known, bool has_members)
{
    memset(fleet, 0, sizeof *fleet);
    pthread_mutex_init(&fleet->lock, NULL);
    atomic_store(&fleet->has_broker, true);
    atomic_store(&fleet->is_known, is_known);
    atomic_store(&fleet->has_members, has_members);
}

static void note_model(struct mr_fleet *fleet, const char *name)
{
    mr_fleet_note(fleet, (struct mr_text){name, strlen(name)}, SECOND_NS);
}

static void a_group_that_is_described_decides(void **state)
{
    (void)state;
    struct mr_fleet fleet;
    make(&fleet, true, false);
    mr_fleet_note(&fleet, NO_MODEL, SECOND_NS); /* an answer of a worker that has left */
    assert_int_equal(mr_fleet_state(&fleet, SECOND_NS), MR_FLEET_NO_WORKER);
    assert_false(mr_fleet_wants_probe(&fleet, SECOND_NS)); /* nobody would answer */
    atomic_store(&fleet.has_members, true);
    assert_int_equal(mr_fleet_state(&fleet, 100 * SECOND_NS), MR_FLEET_READY);
    assert_true(mr_fleet_wants_probe(&fleet, SECOND_NS)); /* for the name of the model */
    note_model(&fleet, "m");
    assert_false(mr_fleet_wants_probe(&fleet, 100 * SECOND_NS));
    atomic_store(&fleet.has_broker, false);
    assert_int_equal(mr_fleet_state(&fleet, SECOND_NS), MR_FLEET_NO_BROKER);
    assert_false(mr_fleet_wants_probe(&fleet, SECOND_NS));
    pthread_mutex_destroy(&fleet.lock);
}

static void otherwise_the_last_answer_decides(void **state)
{
    (void)state;
    struct mr_fleet fleet;
    const uint64_t heard_ns = 100 * SECOND_NS;
    make(&fleet, false, false);
    assert_int_equal(mr_fleet_state(&fleet, SECOND_NS), MR_FLEET_NO_WORKER);
    assert_true(mr_fleet_wants_probe(&fleet, SECOND_NS));
    mr_fleet_note(&fleet, NO_MODEL, heard_ns);
    assert_int_equal(mr_fleet_state(&fleet, heard_ns + 15 * SECOND_NS - 1), MR_FLEET_READY);
    assert_int_equal(mr_fleet_state(&fleet, heard_ns + 15 * SECOND_NS), MR_FLEET_NO_WORKER);
    assert_false(mr_fleet_wants_probe(&fleet, heard_ns + 5 * SECOND_NS - 1));
    assert_true(mr_fleet_wants_probe(&fleet, heard_ns + 5 * SECOND_NS));
    pthread_mutex_destroy(&fleet.lock);
}

/* The HTTP thread reads the clock, then the Kafka thread reads it and notes an answer. */
static void an_answer_may_be_newer_than_the_time_of_the_call(void **state)
{
    (void)state;
    struct mr_fleet fleet;
    make(&fleet, false, false);
    mr_fleet_note(&fleet, NO_MODEL, 2 * SECOND_NS);
    assert_int_equal(mr_fleet_state(&fleet, 2 * SECOND_NS - 1), MR_FLEET_READY);
    assert_false(mr_fleet_wants_probe(&fleet, 2 * SECOND_NS - 1));
    pthread_mutex_destroy(&fleet.lock);
}

static void each_model_is_kept_once_and_their_number_is_bounded(void **state)
{
    (void)state;
    struct mr_fleet fleet;
    char name[MR_FLEET_MODEL_BYTES], too_long[MR_FLEET_MODEL_BYTES + 1];
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    make(&fleet, true, true);
    assert_false(mr_fleet_model(&fleet, 0, name));
    note_model(&fleet, "");
    note_model(&fleet, too_long);
    assert_false(mr_fleet_model(&fleet, 0, name));
    note_model(&fleet, too_long + 1); /* the longest name */
    note_model(&fleet, "b");
    note_model(&fleet, too_long + 1);
    assert_true(mr_fleet_model(&fleet, 0, name));
    assert_string_equal(name, too_long + 1);
    assert_true(mr_fleet_model(&fleet, 1, name));
    assert_string_equal(name, "b");
    assert_false(mr_fleet_model(&fleet, 2, name));
    for (unsigned i = 2; i <= MR_FLEET_MODELS_MAX; i++) {
        snprintf(name, sizeof name, "model-%u", i);
        note_model(&fleet, name);
    }
    assert_true(mr_fleet_model(&fleet, MR_FLEET_MODELS_MAX - 1, name));
    assert_false(mr_fleet_model(&fleet, MR_FLEET_MODELS_MAX, name));
    pthread_mutex_destroy(&fleet.lock);
}

/* The embedded broker cannot describe groups, so the fleet does not know whether there are workers.
 */
static void a_fleet_starts_at_a_broker(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_fleet fleet;
    struct mr_error err = {0};
    open_broker(&broker);
    add_topic(&broker, "t", 1);
    if (mr_fleet_start(&fleet, &broker.kafka, "t", &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_fleet_state(&fleet, mr_clock_ns()), MR_FLEET_NO_WORKER);
    assert_true(mr_fleet_wants_probe(&fleet, mr_clock_ns()));
    note_model(&fleet, "m");
    mr_fleet_note(&fleet, NO_MODEL, mr_clock_ns());
    assert_int_equal(mr_fleet_state(&fleet, mr_clock_ns()), MR_FLEET_READY);
    mr_fleet_stop(&fleet);
    close_broker(&broker);
}

static void a_broker_that_does_not_answer_is_noticed(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_fleet fleet;
    open_broker(&broker);
    broker.kafka.brokers = "127.0.0.1:1"; /* nobody listens there */
    assert_int_equal(mr_fleet_start(&fleet, &broker.kafka, "t", NULL), MR_OK);
    assert_int_equal(mr_fleet_state(&fleet, mr_clock_ns()), MR_FLEET_NO_BROKER);
    mr_fleet_stop(&fleet);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_is_described_decides),
        cmocka_unit_test(otherwise_the_last_answer_decides),
        cmocka_unit_test(an_answer_may_be_newer_than_the_time_of_the_call),
        cmocka_unit_test(each_model_is_kept_once_and_their_number_is_bounded),
        cmocka_unit_test(a_fleet_starts_at_a_broker),
        cmocka_unit_test(a_broker_that_does_not_answer_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
