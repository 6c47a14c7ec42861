/* Adapters: what is cached for a prompt is shared by requests with the same content of an adapter
 * only, and every step has the weights of the request's adapter. */
#include "batching/engine/engine_state.h"
#include "ops/backend/adapters.h"
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PROMPT 700u

static enum mr_status (*launch_model)(void *, const struct mr_model_step *, struct mr_error *);
static const struct mr_adapter *wanted; /* of all rows */
static uint32_t launched;

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    for (uint32_t i = 0; i < step->batch->sequence_count; i++, launched++)
        assert_ptr_equal(step->batch->sequences[i].adapter, wanted);
    return launch_model(context, step, err);
}

/* Blocks and logits of a prompt that is the same as a whole, also within a session. The second
 * version of an adapter has its name, and weights where those of the first were. */
static void prompts_with_another_adapter_share_nothing(void **state)
{
    (void)state;
    static const struct mr_adapter weights[2];
    const struct mr_request_adapter one = {{1}, &weights[0]}, two = {{2}, &weights[1]},
                                    version = {{3}, &weights[0]};
    const struct mr_request_adapter *adapters[] = {NULL, &one, &two, &version, &one, NULL};
    static const bool cached[] = {false, false, false, false, true, true};
    uint32_t prompt[PROMPT];
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.prompt_cache_entries = 10;
    rig_start(&rig);
    launch_model = rig.engine->options.model.launch;
    rig.engine->options.model.launch = launch;
    rig_tokens(&rig, 1, prompt, PROMPT);
    for (uint32_t i = 0; i < 6; i++) {
        struct mr_request *request = mr_fake_request("abcdef" + i, prompt, PROMPT);
        request->session = (struct mr_text){"s", 1};
        wanted = adapters[i] ? adapters[i]->weights : NULL;
        assert_int_equal(rig_submit_as(&rig, (struct mr_submission){.request = request,
                                                                    .ticket = i,
                                                                    .arrival_ns = 1,
                                                                    .adapter = adapters[i]}),
                         MR_OK);
        rig_run(&rig);
        assert_int_equal(rig.seen[i].result.cached_tokens > 0, cached[i]);
    }
    assert_true(launched > 6);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_with_another_adapter_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
