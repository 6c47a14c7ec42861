#include "worker/intake/adapter_choice.h"

#include "ops/model/model.h"
#include "tests/unit/worker/intake_rig.h"

#define BASE  "tests/golden/models/llama3_rope_sharded"
#define ONE   "one=tests/golden/adapters/llama3_rope_sharded/a00"
#define OTHER "its=tests/golden/adapters/llama3_rope_sharded/a01,tenant=other"

struct choice {
    struct intake_rig rig;
    struct mr_model *model;
    struct mr_adapters *adapters;
    struct mr_text_list named;
};

static void open_choice(struct choice *choice)
{
    const struct mr_model_options model = {.path = BASE,
                                           .device = "cpu",
                                           .thread_count = 1,
                                           .adapters = true,
                                           .rows_max = 32,
                                           .sequences_max = 4,
                                           .kv_bytes = 1 << 20};
    *choice = (struct choice){.named = {{ONE, OTHER}, 2}};
    const struct mr_adapters_options options = {&choice->named, "", 1 << 30, NULL};
    open_intake_rig(&choice->rig);
    assert_int_equal(mr_model_open(&choice->model, &model, NULL), MR_OK);
    assert_int_equal(mr_adapters_create(&choice->adapters, &options, NULL), MR_OK);
    assert_int_equal(mr_adapters_open(choice->adapters, choice->model, 0, NULL), MR_OK);
    choice->rig.intake->admission.adapters = choice->adapters;
    assign_partition(&choice->rig, 0, "");
}

static void close_choice(struct choice *choice)
{
    close_intake_rig(&choice->rig);
    mr_adapters_destroy(choice->adapters);
    mr_model_close(choice->model);
}

static void refused(struct choice *choice, int64_t offset, const char *value)
{
    struct mr_ticket *ticket;
    arrive(&choice->rig, offset, value);
    assert_int_equal(take_refusal(&choice->rig, &ticket, NULL), MR_MODEL_NOT_FOUND);
    mr_admission_done(&choice->rig.intake->admission, answered(ticket));
}

static void the_model_of_a_request_names_an_adapter(void **state)
{
    (void)state;
    struct choice choice;
    open_choice(&choice);
    struct intake_rig *rig = &choice.rig;
    arrive(rig, 0, "{\"id\":\"a\",\"prompt\":\"p\",\"model\":\"one\"}");
    arrive(rig, 1, "{\"id\":\"b\",\"prompt\":\"p\"}");
    arrive(rig, 2, "{\"id\":\"c\",\"prompt\":\"p\",\"model\":\"fake\"}");
    assert_null(ticket_named(rig, "a")); /* waits for the weights */
    assert_null(ticket_named(rig, "b")->adapter);
    assert_null(ticket_named(rig, "c")->model);
    assert_int_equal(rig->intake->flight.parked_count, 1);
    (void)mr_adapters_step(choice.adapters, rig->now);
    step_intake(rig);
    struct mr_ticket *ticket = ticket_named(rig, "a");
    assert_non_null(ticket);
    assert_string_equal(ticket->model, "one");
    assert_non_null(ticket->adapter->weights);
    mr_admission_done(&rig->intake->admission, answered(ticket));
    const struct mr_adapters_stats stats = mr_adapters_stats(choice.adapters);
    assert_int_equal(stats.loaded, 1); /* and stays for later requests */
    close_choice(&choice);
}

static void other_names_and_adapters_of_other_tenants_are_refused(void **state)
{
    (void)state;
    struct choice choice;
    open_choice(&choice);
    refused(&choice, 0, "{\"id\":\"a\",\"prompt\":\"p\",\"model\":\"none\"}");
    refused(&choice, 1, "{\"id\":\"b\",\"prompt\":\"p\",\"model\":\"its\"}");
    close_choice(&choice);
}

static void a_topic_has_an_adapter_for_requests_without_a_model(void **state)
{
    (void)state;
    struct choice choice;
    open_choice(&choice);
    struct intake_rig *rig = &choice.rig;
    rig->config.request_topics[0].adapter = "one";
    arrive(rig, 0, "{\"id\":\"a\",\"prompt\":\"p\",\"model\":\"fake\"}");
    assert_null(ticket_named(rig, "a")->adapter);
    arrive(rig, 1, "{\"id\":\"b\",\"prompt\":\"p\"}");
    (void)mr_adapters_step(choice.adapters, rig->now);
    step_intake(rig);
    assert_string_equal(ticket_named(rig, "b")->model, "one");
    rig->config.request_topics[0].adapter = "gone";
    refused(&choice, 2, "{\"id\":\"c\",\"prompt\":\"p\"}");
    close_choice(&choice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_of_a_request_names_an_adapter),
        cmocka_unit_test(other_names_and_adapters_of_other_tenants_are_refused),
        cmocka_unit_test(a_topic_has_an_adapter_for_requests_without_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
