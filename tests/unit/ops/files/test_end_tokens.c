#include "ops/files/end_tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *const *texts, uint32_t count, const uint32_t *ids, uint32_t id_count)
{
    struct mr_text tokens[8];
    uint32_t found[MR_END_TOKENS_MAX];
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (struct mr_text){texts[i], strlen(texts[i])};
    assert_int_equal(mr_end_tokens_find(tokens, count, found), id_count);
    for (uint32_t i = 0; i < id_count; i++) {
        bool there = false;
        for (uint32_t k = 0; k < id_count; k++)
            there |= found[k] == ids[i];
        assert_true(there);
    }
}

static void ends_of_a_turn_and_of_a_document_are_found(void **state)
{
    (void)state;
    static const char *const phi[] = {"<s>", "<|user|>", "<|end|>", "<|endoftext|>", "<|end", ""};
    static const char *const gemma[] = {"<eos>", "<start_of_turn>", "<end_of_turn>", "</s>"};
    check(phi, 6, (const uint32_t[]){2, 3}, 2);
    check(gemma, 4, (const uint32_t[]){2}, 1);
    check(gemma, 2, NULL, 0);
}

/* Code models write the names of files and repositories with end tokens of llama.cpp's list. Their
 * other tokens, which stand before text, do not end an answer. */
static void what_follows_a_filled_in_middle_is_found_last(void **state)
{
    (void)state;
    static const char *const qwen[] = {"<|fim_pad|>",    "<|fim_prefix|>", "<|fim_middle|>",
                                       "<|file_sep|>",   "<|repo_name|>",  "<|im_end|>",
                                       "<|fim_suffix|>", "<|endoftext|>"};
    static const char *const granite[] = {"<fim_pad>", "<fim_middle>", "<reponame>", "<filename>"};
    struct mr_text tokens[8];
    uint32_t found[MR_END_TOKENS_MAX];
    check(qwen, 8, (const uint32_t[]){0, 3, 4, 5, 7}, 5);
    check(granite, 4, (const uint32_t[]){0, 2}, 2);
    for (uint32_t i = 0; i < 8; i++)
        tokens[i] = (struct mr_text){qwen[i], strlen(qwen[i])};
    mr_end_tokens_find(tokens, 8, found);
    assert_true(found[0] == 5 && found[1] == 7);
}

static void in_harmony_the_end_of_a_message_is_not_that_of_the_answer(void **state)
{
    (void)state;
    static const char *const texts[] = {"<|endoftext|>", "<|return|>", "<|end|>", "<|call|>"};
    check(texts, 4, (const uint32_t[]){0, 1, 3}, 3);
    check(texts, 3, (const uint32_t[]){0, 1, 2}, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_a_turn_and_of_a_document_are_found),
        cmocka_unit_test(what_follows_a_filled_in_middle_is_found_last),
        cmocka_unit_test(in_harmony_the_end_of_a_message_is_not_that_of_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
