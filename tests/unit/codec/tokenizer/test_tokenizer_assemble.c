#include "codec/tokenizer/tokenizer_assemble.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_text texts[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"<end>", 5}};

/* A vocabulary of a, b and ab with one merge, and the added token <end>. */
static struct mr_tokenizer_parts make_parts(void)
{
    struct mr_tokenizer_parts parts = {.bos_id = MR_TOKEN_NONE, .eos_id = 3};
    assert_int_equal(mr_vocab_create(&parts.vocab, texts, 4, NULL), MR_OK);
    parts.merges = calloc(1, sizeof *parts.merges);
    parts.merges[0] = (struct mr_merge){.left = 0, .right = 1, .result = 2};
    parts.merge_count = 1;
    parts.added = calloc(1, sizeof *parts.added);
    parts.added[0] = (struct mr_added_token){.content = texts[3], .id = 3, .special = true};
    parts.added_count = 1;
    parts.model.unk_id = MR_TOKEN_NONE;
    parts.frame.last[parts.frame.last_count++] = 3;
    assert_int_equal(mr_normalizer_create(&parts.normalizer, NULL, NULL), MR_OK);
    assert_int_equal(mr_pretokenizer_create(&parts.pretokenizer, NULL, NULL), MR_OK);
    return parts;
}

static void a_tokenizer_is_assembled_and_takes_its_parts(void **state)
{
    (void)state;
    struct mr_tokenizer_parts parts = make_parts();
    struct mr_tokenizer *tokenizer;
    assert_int_equal(mr_tokenizer_assemble(&tokenizer, &parts, NULL), MR_OK);
    assert_null(parts.vocab);
    mr_tokenizer_parts_drop(&parts);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t ids[8];
    struct mr_id_list list = {.ids = ids, .max = 8};
    struct mr_encode_options options = {.add_special = true, .parse_special = true};
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){"aab<end>", 8},
                                         options, &list, NULL),
                     MR_OK);
    assert_int_equal(list.count, 4);
    assert_memory_equal(ids, ((uint32_t[]){0, 2, 3, 3}), 4 * sizeof *ids);
    assert_true(mr_text_is(mr_tokenizer_bytes(tokenizer, 2, true), "ab"));
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 3, true).length, 0);
    mr_tokenizer_scratch_destroy(scratch);
    mr_tokenizer_destroy(tokenizer);
}

static void an_added_id_outside_the_vocabulary_is_a_bad_file(void **state)
{
    (void)state;
    struct mr_tokenizer_parts parts = make_parts();
    struct mr_tokenizer *tokenizer;
    struct mr_error err;
    parts.frame.first[parts.frame.first_count++] = 4;
    assert_int_equal(mr_tokenizer_assemble(&tokenizer, &parts, &err), MR_BAD_FILE);
    assert_null(tokenizer);
    assert_null(parts.vocab);
    mr_tokenizer_parts_drop(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tokenizer_is_assembled_and_takes_its_parts),
        cmocka_unit_test(an_added_id_outside_the_vocabulary_is_a_bad_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
