/* Which tenant's request a cancel record cancels; test_admission.c has the rest. */
#include "worker/intake/cancels.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/intake_rig.h"

#define VALUE(id) "{\"id\":\"" id "\",\"prompt\":\"hello\"}"

/* The tenants of the requests that the engine was called to cancel. */
static uint32_t cancelled[4], cancelled_count;

static bool note_cancel(void *self, uint32_t tenant_index, struct mr_text id)
{
    (void)self, (void)id;
    cancelled[cancelled_count++] = tenant_index;
    return true;
}

static void return_request(void *context, uint64_t ticket, struct mr_request *request)
{
    (void)context, (void)ticket;
    mr_request_destroy(request);
}

static void open_noting(struct intake_rig *rig)
{
    open_two_tenants(rig);
    rig->intake->admission.engine.port.cancel = note_cancel;
    cancelled_count = 0;
}

static void cancel(struct intake_rig *rig, const char *id, const char *tenant)
{
    const struct mr_kafka_header header = {"millrace-tenant", tenant, tenant ? strlen(tenant) : 0};
    const struct mr_kafka_record record = {.topic = "c",
                                           .key = {id, strlen(id)},
                                           .value = {"{}", 2},
                                           .headers = &header,
                                           .header_count = tenant != NULL};
    mr_cancels_apply(&rig->intake->admission, &record, &rig->now);
}

static void assert_cancelled(struct intake_rig *rig, uint32_t tenant_index)
{
    struct mr_ticket *ticket = NULL;
    assert_int_equal(take_refusal(rig, &ticket, NULL), MR_CANCELLED);
    assert_int_equal(ticket->tenant_index, tenant_index);
    mr_admission_done(&rig->intake->admission, answered(ticket));
}

static void a_cancel_may_name_the_tenant(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_noting(&rig);
    arrive_in(&rig, 0, 0, VALUE("a"), NULL);
    arrive_in(&rig, 1, 0, VALUE("a"), NULL);
    cancel(&rig, "a", "nobody");
    assert_int_equal(cancelled_count, 0);
    cancel(&rig, "a", "other");
    assert_int_equal(cancelled_count, 1);
    assert_int_equal(cancelled[0], 1);
    cancel(&rig, "b", "other"); /* of a request that arrives later */
    arrive_in(&rig, 0, 1, VALUE("b"), NULL);
    assert_non_null(ticket_of(&rig, 0, "b"));
    arrive_in(&rig, 1, 1, VALUE("b"), NULL);
    assert_cancelled(&rig, 1);
    assert_counter(rig.metrics, "cancels", 3);
    close_intake_rig(&rig);
}

static void a_cancel_without_a_tenant_is_for_every_tenant(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_noting(&rig);
    arrive_in(&rig, 0, 0, VALUE("a"), NULL);
    cancel(&rig, "a", NULL);
    assert_int_equal(cancelled_count, 1);
    assert_int_equal(cancelled[0], 0);
    arrive_in(&rig, 1, 0, VALUE("a"), NULL);
    assert_cancelled(&rig, 1);
    close_intake_rig(&rig);
}

static void a_cancel_ends_all_waiting_requests_with_the_id(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_noting(&rig);
    rig.config.duplicate_id = MR_DUPLICATE_ID_RUN;
    arrive_in(&rig, 0, 0, VALUE("a"), NULL);
    arrive_in(&rig, 0, 1, "{\"id\":\"a\",\"prompt\":\"another\"}", NULL);
    assert_int_equal(rig.intake->flight.parked_count, 1);
    cancel(&rig, "a", NULL);
    assert_int_equal(cancelled_count, 1);
    assert_int_equal(rig.intake->flight.parked_count, 0);
    mr_engine_return_waiting(rig.engine.engine, return_request, NULL);
    mr_admission_done(&rig.intake->admission, answered(ticket_of(&rig, 0, "a")));
    assert_cancelled(&rig, 0); /* answered after the request in the engine */
    close_intake_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancel_may_name_the_tenant),
        cmocka_unit_test(a_cancel_without_a_tenant_is_for_every_tenant),
        cmocka_unit_test(a_cancel_ends_all_waiting_requests_with_the_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
