/* cache_salt: what is cached for a prompt is shared by requests with the same salt only. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PROMPT 700u

/* Blocks and logits of a prompt that is the same as a whole, also within a session. */
static void prompts_with_another_salt_share_nothing(void **state)
{
    (void)state;
    static const char *const salts[] = {"", "one", "two", "one", ""};
    static const bool cached[] = {false, false, false, true, true};
    uint32_t prompt[PROMPT], expected[16];
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.prompt_cache_entries = 10;
    rig_start(&rig);
    rig_tokens(&rig, 1, prompt, PROMPT);
    rig_expect(&rig, prompt, PROMPT, expected, 16);
    for (uint32_t i = 0; i < 5; i++) {
        struct mr_request *request = mr_fake_request("abcde" + i, prompt, PROMPT);
        request->ignore_eos = true;
        request->session = (struct mr_text){"s", 1};
        request->cache_salt = (struct mr_text){salts[i], strlen(salts[i])};
        rig_submit(&rig, i, request);
        rig_run(&rig);
        assert_int_equal(rig.seen[i].result.cached_tokens > 0, cached[i]);
        assert_memory_equal(rig.seen[i].choices[0].tokens, expected, sizeof expected);
    }
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_with_another_salt_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
