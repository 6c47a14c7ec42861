#include "batching/queue/request_key.h"

#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_key_is_tenant_and_id(void **state)
{
    (void)state;
    char longest[MR_ID_BYTES_MAX];
    memset(longest, 'x', sizeof longest);
    struct mr_request_key one, same, tenant, id;
    mr_request_key_set(&one, 1, (struct mr_text){"a", 1});
    mr_request_key_set(&same, 1, (struct mr_text){"a", 1});
    mr_request_key_set(&tenant, 2, (struct mr_text){"a", 1});
    mr_request_key_set(&id, 1, (struct mr_text){longest, sizeof longest});
    assert_true(mr_text_equal(mr_request_key_text(&one), mr_request_key_text(&same)));
    assert_false(mr_text_equal(mr_request_key_text(&one), mr_request_key_text(&tenant)));
    assert_false(mr_text_equal(mr_request_key_text(&one), mr_request_key_text(&id)));
}

static struct mr_submission submission(const struct engine_rig *rig, uint32_t tenant_index)
{
    uint32_t tokens[5];
    rig_tokens(rig, tenant_index + 1, tokens, 5);
    struct mr_request *request = mr_fake_request("same", tokens, 5);
    request->ignore_eos = true;
    return (struct mr_submission){.request = request,
                                  .ticket = tenant_index,
                                  .tenant = tenant_index == 0 ? "one" : "other",
                                  .tenant_index = tenant_index};
}

static void two_tenants_may_use_one_id_at_the_same_time(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.tenant_count = 2;
    rig_start(&rig);
    assert_int_equal(rig_submit_as(&rig, submission(&rig, 0)), MR_OK);
    assert_int_equal(rig_submit_as(&rig, submission(&rig, 1)), MR_OK);
    rig_step(&rig);
    assert_true(mr_engine_cancel(rig.engine, 1, (struct mr_text){"same", 4}));
    rig_run(&rig);
    assert_int_equal(rig.seen[1].choices[0].finish, MR_FINISH_CANCELLED);
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_LENGTH);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_tenant_and_id),
        cmocka_unit_test(two_tenants_may_use_one_id_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
