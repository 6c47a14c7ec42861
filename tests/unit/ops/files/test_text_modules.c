/* The files of sentence-transformers decide how a text becomes a vector. */
#include "ops/files/text_modules.h"

#include "text_folder.h"

static enum mr_status read(enum mr_model_pooling *pooling)
{
    struct mr_model_config config = {.hidden_size = 4, .pooling = MR_MODEL_POOLING_MEAN};
    struct mr_text_heads heads = {0};
    struct mr_error err;
    const enum mr_status status = mr_text_modules_read(&heads, &config, text_folder, &err);
    *pooling = config.pooling;
    mr_text_heads_destroy(&heads);
    return status;
}

static void pooling_has_a_name_or_a_flag(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum mr_status status;
        enum mr_model_pooling pooling;
    } cases[] = {
        {"{\"pooling_mode\":\"cls\"}", MR_OK, MR_MODEL_POOLING_FIRST},
        {"{\"pooling_mode\":\"lasttoken\"}", MR_OK, MR_MODEL_POOLING_LAST},
        {"{\"pooling_mode_cls_token\":false,\"pooling_mode_mean_tokens\":true}", MR_OK,
         MR_MODEL_POOLING_MEAN},
        {"{\"pooling_mode\":\"max\"}", MR_BAD_FILE, MR_MODEL_POOLING_MEAN},
    };
    enum mr_model_pooling pooling;
    make_text_folder();
    assert_int_equal(read(&pooling), MR_OK);
    assert_int_equal(pooling, MR_MODEL_POOLING_MEAN);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text_file("1_Pooling", "config.json", cases[i].text);
        assert_int_equal(read(&pooling), cases[i].status);
        assert_int_equal(pooling, cases[i].pooling);
    }
    drop_text_folder();
}

static void modules_of_other_kinds_are_refused(void **state)
{
    (void)state;
    enum mr_model_pooling pooling;
    make_text_folder();
    write_text_file(NULL, "modules.json",
                    "[{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"},"
                    "{\"type\":\"sentence_transformers.models.Normalize\",\"path\":\"2\"}]");
    assert_int_equal(read(&pooling), MR_OK);
    write_text_file(NULL, "modules.json", "[{\"type\":\"a.LSTM\",\"path\":\"\"}]");
    assert_int_equal(read(&pooling), MR_BAD_FILE);
    write_text_file(NULL, "modules.json", "[{\"type\":\"a.Dense\",\"path\":\"2_Dense\"}]");
    assert_int_equal(read(&pooling), MR_BAD_FILE); /* it has no files */
    write_text_file("2_Dense", "config.json", "{\"activation_function\":\"torch.Tanh\"}");
    assert_int_equal(read(&pooling), MR_BAD_FILE); /* it has no weights */
    drop_text_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooling_has_a_name_or_a_flag),
        cmocka_unit_test(modules_of_other_kinds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
