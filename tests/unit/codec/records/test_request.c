#include "codec/records/request.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_new_request_has_defaults_and_no_prompt(void **state)
{
    (void)state;
    struct mr_request *request = mr_request_create(MR_ENCODING_MSGPACK, 99);
    assert_non_null(request);
    assert_int_equal(request->encoding, MR_ENCODING_MSGPACK);
    assert_int_equal(request->max_tokens, 99);
    assert_int_equal(request->choice_count, 1);
    assert_true(isnan(request->sampling.temperature));
    assert_null(request->prompt.bytes);
    assert_int_equal(request->chat.message_count + request->token_count, 0);
    mr_request_destroy(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_request_has_defaults_and_no_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
