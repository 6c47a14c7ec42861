#include "worker/intake/partition_requests.h"

#include "tests/unit/worker/intake_rig.h"

#define VALUE(id) "{\"id\":\"" id "\",\"prompt\":\"p\"}"

/* Two partitions of one topic; each has a request that runs, the first also one that does not. */
static struct mr_request_port open_rig(struct intake_rig *rig)
{
    open_intake_rig(rig);
    struct mr_kafka_claim claims[] = {{.topic = "r"}, {.topic = "r", .partition = 1}};
    mr_ownership_assign(&rig->intake->ownership, claims, 2, &rig->now);
    arrive(rig, 0, VALUE("a"));
    arrive(rig, 1, VALUE("idle"));
    struct mr_kafka_record record = {
        .topic = "r", .partition = 1, .value = {VALUE("b"), strlen(VALUE("b"))}};
    assert_true(mr_admission_accept(&rig->intake->admission, &record, 0, &rig->now));
    begin(rig, ticket_named(rig, "a"));
    begin(rig, ticket_named(rig, "b"));
    return rig->intake->ownership.requests;
}

static struct mr_partition *partition_of(struct intake_rig *rig, int32_t number)
{
    return mr_partitions_find(rig->intake->partitions, 0, number);
}

static void running_requests_of_revoked_partitions_are_counted(void **state)
{
    (void)state;
    struct intake_rig rig;
    const struct mr_request_port port = open_rig(&rig);
    assert_int_equal(port.count_revoking(port.self), 0);
    partition_of(&rig, 0)->revoking = true;
    assert_int_equal(port.count_revoking(port.self), 1);
    partition_of(&rig, 1)->revoking = true;
    assert_int_equal(port.count_revoking(port.self), 2);
    close_intake_rig(&rig);
}

static void a_release_and_its_undoing_concern_the_running_requests_of_one_partition(void **state)
{
    (void)state;
    struct intake_rig rig;
    const struct mr_request_port port = open_rig(&rig);
    port.release(port.self, partition_of(&rig, 0));
    assert_true(ticket_named(&rig, "a")->intake.start.released);
    assert_false(ticket_named(&rig, "idle")->intake.start.released);
    assert_false(ticket_named(&rig, "b")->intake.start.released);
    port.resume(port.self, partition_of(&rig, 0));
    assert_false(ticket_named(&rig, "a")->intake.start.released);
    mr_partition_requests_change(&rig.intake->requests, NULL, mr_starts_release);
    assert_true(ticket_named(&rig, "a")->intake.start.released);
    assert_true(ticket_named(&rig, "b")->intake.start.released);
    close_intake_rig(&rig);
}

static void a_forgotten_partition_drops_its_requests_and_no_others(void **state)
{
    (void)state;
    struct intake_rig rig;
    const struct mr_request_port port = open_rig(&rig);
    port.forget(port.self, partition_of(&rig, 0));
    assert_int_equal(partition_of(&rig, 0)->state, MR_PARTITION_NONE);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    assert_true(ticket_named(&rig, "a")->intake.start.released);
    assert_true(atomic_load(&ticket_named(&rig, "idle")->dropped));
    assert_false(atomic_load(&ticket_named(&rig, "b")->dropped));
    assert_true(rig.intake->flight.retry_parked);
    close_intake_rig(&rig);
}

static void only_requests_of_an_earlier_ownership_are_dropped(void **state)
{
    (void)state;
    struct intake_rig rig;
    const struct mr_request_port port = open_rig(&rig);
    port.drop_old(port.self, partition_of(&rig, 0));
    assert_false(atomic_load(&ticket_named(&rig, "a")->dropped));
    partition_of(&rig, 0)->epoch++;
    port.drop_old(port.self, partition_of(&rig, 0));
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    assert_false(atomic_load(&ticket_named(&rig, "b")->dropped));
    close_intake_rig(&rig);
}

static void running_requests_can_end_until_the_engine_is_closed(void **state)
{
    (void)state;
    struct intake_rig rig;
    const struct mr_request_port port = open_rig(&rig);
    assert_true(port.can_end(port.self));
    rig_end(&rig.engine);
    mr_intake_forget_engine(rig.intake);
    assert_false(port.can_end(port.self));
    close_intake_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_requests_of_revoked_partitions_are_counted),
        cmocka_unit_test(a_release_and_its_undoing_concern_the_running_requests_of_one_partition),
        cmocka_unit_test(a_forgotten_partition_drops_its_requests_and_no_others),
        cmocka_unit_test(only_requests_of_an_earlier_ownership_are_dropped),
        cmocka_unit_test(running_requests_can_end_until_the_engine_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
