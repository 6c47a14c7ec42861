#include "ops/families/family.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text(const char *word)
{
    return (struct mr_text){word, strlen(word)};
}

static void each_family_is_found_by_its_names(void **state)
{
    (void)state;
    const struct mr_model_family *row, *found;
    size_t count = 0;
    for (; (row = mr_model_family_at(count)) != NULL; count++) {
        assert_int_equal(mr_model_family_find(&found, text(row->name), false, NULL), MR_OK);
        assert_ptr_equal(found, row);
        if (!row->gguf) continue;
        assert_int_equal(mr_model_family_find(&found, text(row->gguf), true, NULL), MR_OK);
        assert_ptr_equal(found, row);
    }
    assert_true(count >= 18);
}

/* The assumptions of the decoder and the readers about every row. */
static void rows_are_consistent(void **state)
{
    (void)state;
    const struct mr_model_family *row;
    for (size_t i = 0; (row = mr_model_family_at(i)) != NULL; i++) {
        assert_true(row->norm_before || row->norm_after || row->norm_sum);
        assert_false(row->experts && row->norm_after && !row->plain_shared);
        assert_false(row->norm_after_rope && row->head_norm == MR_HEAD_NORM_NONE);
        assert_false(row->joint_head_norms && row->head_norm != MR_HEAD_NORM_CENTERED);
        assert_false(row->may_be_parallel && row->norm_after);
        assert_false(row->own_ffn_norm && !row->norm_before);
        assert_true(row->plain_ffn || row->activation < MR_ACTIVATION_RELU);
        assert_false(row->optional_head_norm && row->head_norm == MR_HEAD_NORM_NONE);
        assert_false(row->window_rope == MR_WINDOW_ROPE_OWN_BASE &&
                     row->defaults.window_rope_theta == 0.0);
    }
}

static void refused_families_have_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *name, *reason;
        bool gguf;
    } cases[] = {
        {"deepseek_v32", "its sparse attention", false},
        {"deepseek2", "GGUF files with latent attention are not supported", true},
        {"nemotron_h", "state-space (recurrent) layers of this kind are not supported", false},
        {"llama4", "temperature tuning are not supported", false},
        {"mamba", "state-space", true},
        {"bloom", "its position biases (ALiBi) are not supported", false},
        {"t5", "encoder", false},
        {"mllama", "pictures", false},
        {"some_new_family", "\"some_new_family\" is not supported; Llama", false},
        {"gpt-oss", "\"gpt-oss\" is not supported", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mr_model_family *found;
        struct mr_error err = {0};
        assert_int_equal(mr_model_family_find(&found, text(cases[i].name), cases[i].gguf, &err),
                         MR_BAD_FILE);
        assert_null(found);
        assert_non_null(strstr(err.detail, cases[i].name));
        if (!strstr(err.detail, cases[i].reason))
            fail_msg("\"%s\" without \"%s\"", err.detail, cases[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_is_found_by_its_names),
        cmocka_unit_test(rows_are_consistent),
        cmocka_unit_test(refused_families_have_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
