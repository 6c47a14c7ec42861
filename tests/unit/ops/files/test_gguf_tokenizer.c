#include "ops/files/gguf_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/real_model.h"
#include "tests/unit/ops/scratch.h"

static void the_real_file_encodes_as_the_reference_does(void **state)
{
    (void)state;
    struct mr_gguf *gguf;
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {0};
    if (mr_gguf_open(&gguf, real_model_path(), &err) != MR_OK) fail_msg("%s", err.detail);
    if (mr_gguf_tokenizer_create(&tokenizer, gguf, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_tokenizer_vocab_size(tokenizer), 49152);
    assert_int_equal(mr_tokenizer_bos_id(tokenizer), 1);
    assert_int_equal(mr_tokenizer_eos_id(tokenizer), 2);
    struct mr_text end = mr_gguf_token_text(gguf, "tokenizer.ggml.eos_token_id");
    assert_int_equal(end.length, 10);
    assert_memory_equal(end.bytes, "<|im_end|>", 10);
    assert_int_equal(mr_gguf_token_text(gguf, "tokenizer.ggml.absent").length, 0);
    mr_gguf_close(gguf); /* the tokenizer borrows nothing from the file */
    static const char text[] = "<|im_start|>The capital of France is";
    static const uint32_t expected[] = {1, 504, 3575, 282, 4649, 314};
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t ids[16];
    struct mr_id_list list = {.ids = ids, .max = 16};
    struct mr_encode_options options = {.add_special = true, .parse_special = true};
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch,
                                         (struct mr_text){text, sizeof text - 1}, options, &list,
                                         NULL),
                     MR_OK);
    assert_int_equal(list.count, 6);
    assert_memory_equal(ids, expected, sizeof expected);
    mr_tokenizer_scratch_destroy(scratch);
    mr_tokenizer_destroy(tokenizer);
}

/* ---- invalid files ---- */

static void put_list(struct bytes *to, const char *key, uint32_t type, uint64_t count)
{
    put_text(to, key);
    put_u32(to, MR_GGUF_ARRAY);
    put_u32(to, type);
    put_u64(to, count);
    for (uint64_t i = 0; i < count; i++)
        if (type == MR_GGUF_TEXT)
            put_text(to, i == 0 ? "a" : "b");
        else
            put_u32(to, 9);
}

/* A file with a tokenizer of two tokens, whose lists have these types and lengths. */
struct plan {
    const char *model;
    uint32_t tokens_type;
    uint64_t kind_count, score_count;
    uint32_t merges_type;
};

static void rejected(const struct plan *plan, const char *because)
{
    static struct bytes bytes;
    struct scratch scratch;
    bytes.size = 0;
    put(&bytes, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    put_u64(&bytes, plan->model ? 5 : 4);
    if (plan->model) {
        put_text(&bytes, "tokenizer.ggml.model");
        put_u32(&bytes, MR_GGUF_TEXT);
        put_text(&bytes, plan->model);
    }
    put_list(&bytes, "tokenizer.ggml.tokens", plan->tokens_type, 2);
    put_list(&bytes, "tokenizer.ggml.token_type", MR_GGUF_I32, plan->kind_count);
    put_list(&bytes, "tokenizer.ggml.scores", MR_GGUF_F32, plan->score_count);
    put_list(&bytes, "tokenizer.ggml.merges", plan->merges_type, 1);
    put_padding(&bytes, 32);
    scratch_open(&scratch);
    struct mr_gguf *gguf;
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {0};
    const char *path = scratch_write(&scratch, "f", bytes.data, bytes.size);
    assert_int_equal(mr_gguf_open(&gguf, path, &err), MR_OK);
    assert_int_equal(mr_gguf_tokenizer_create(&tokenizer, gguf, &err), MR_BAD_FILE);
    assert_null(tokenizer);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
    mr_gguf_close(gguf);
    scratch_close(&scratch);
}

static void lists_of_the_wrong_type_or_length_are_rejected(void **state)
{
    (void)state;
    rejected(&(struct plan){NULL, MR_GGUF_TEXT, 2, 2, MR_GGUF_TEXT}, "tokenizer.ggml.model");
    rejected(&(struct plan){"gpt2", MR_GGUF_U32, 2, 2, MR_GGUF_TEXT}, "tokenizer.ggml.tokens");
    rejected(&(struct plan){"gpt2", MR_GGUF_TEXT, 3, 2, MR_GGUF_TEXT}, "is not 2 integers");
    rejected(&(struct plan){"gpt2", MR_GGUF_TEXT, 2, 2, MR_GGUF_TEXT}, "unknown type 9");
    rejected(&(struct plan){"gpt2", MR_GGUF_TEXT, 0, 2, MR_GGUF_TEXT}, "is not 2 integers");
}

/* ---- end tokens ---- */

#define END  "<|im_end|>"
#define NAME "[tool]"

/* A tokenizer of "a", END and NAME, which is user defined. kind: GGUF's number for the kind of END.
 */
static struct mr_tokenizer *tokenizer_with(uint32_t kind)
{
    static const char *const tokens[] = {"a", END, NAME};
    const uint32_t kinds[] = {1, kind, 4};
    static struct bytes bytes;
    struct scratch scratch;
    bytes.size = 0;
    put(&bytes, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    put_u64(&bytes, 4);
    put_text(&bytes, "tokenizer.ggml.model");
    put_u32(&bytes, MR_GGUF_TEXT);
    put_text(&bytes, "gpt2");
    put_text(&bytes, "tokenizer.ggml.pre");
    put_u32(&bytes, MR_GGUF_TEXT);
    put_text(&bytes, "qwen2");
    put_text(&bytes, "tokenizer.ggml.tokens");
    put_u32(&bytes, MR_GGUF_ARRAY);
    put_u32(&bytes, MR_GGUF_TEXT);
    put_u64(&bytes, 3);
    for (size_t i = 0; i < 3; i++)
        put_text(&bytes, tokens[i]);
    put_text(&bytes, "tokenizer.ggml.token_type");
    put_u32(&bytes, MR_GGUF_ARRAY);
    put_u32(&bytes, MR_GGUF_I32);
    put_u64(&bytes, 3);
    for (size_t i = 0; i < 3; i++)
        put_u32(&bytes, kinds[i]);
    put_padding(&bytes, 32);
    scratch_open(&scratch);
    struct mr_gguf *gguf;
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {0};
    const char *path = scratch_write(&scratch, "f", bytes.data, bytes.size);
    if (mr_gguf_open(&gguf, path, &err) != MR_OK ||
        mr_gguf_tokenizer_create(&tokenizer, gguf, &err) != MR_OK)
        fail_msg("%s", err.detail);
    mr_gguf_close(gguf);
    scratch_close(&scratch);
    return tokenizer;
}

/* Returns the number of ids of the text. barred: the text may not contain control tokens. */
static size_t count_ids(const struct mr_tokenizer *tokenizer, const char *text, bool barred)
{
    const struct mr_text_range all = {0, strlen(text)};
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t ids[16];
    struct mr_id_list list = {.ids = ids, .max = 16};
    const struct mr_encode_options options = {
        .parse_special = true, .barred = &all, .barred_count = barred ? 1 : 0};
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){text, strlen(text)},
                                         options, &list, NULL),
                     MR_OK);
    mr_tokenizer_scratch_destroy(scratch);
    return list.count;
}

/* The file lists the end token as a word, as a control token, or as user defined. */
static void an_end_token_is_a_control_token_whatever_the_file_says(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {1, 3, 4};
    for (size_t i = 0; i < 3; i++) {
        struct mr_tokenizer *tokenizer = tokenizer_with(kinds[i]);
        assert_int_equal(count_ids(tokenizer, "a" END "a", false), 3);
        assert_int_equal(count_ids(tokenizer, "a" END "a", true), 2);
        assert_int_equal(count_ids(tokenizer, "a" NAME "a", true), 3);
        assert_int_equal(mr_tokenizer_bytes(tokenizer, 1, true).length, 0);
        assert_int_equal(mr_tokenizer_bytes(tokenizer, 1, false).length, strlen(END));
        assert_int_equal(mr_tokenizer_bytes(tokenizer, 2, true).length, strlen(NAME));
        mr_tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_file_encodes_as_the_reference_does),
        cmocka_unit_test(lists_of_the_wrong_type_or_length_are_rejected),
        cmocka_unit_test(an_end_token_is_a_control_token_whatever_the_file_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
