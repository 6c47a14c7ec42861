#include "builders.h"

#include "codec/grammar/token_trie.h"

static const char *const words[] = {"a", "ab", "",     "abc", "b\"",
                                    "b", "\n", "\xc3", "ab",  "\u00e9x"};
#define WORDS (sizeof words / sizeof words[0])

static struct mr_token_trie *trie_of(void)
{
    struct mr_text texts[WORDS];
    struct mr_token_trie *trie;
    for (size_t i = 0; i < WORDS; i++)
        texts[i] = text_of(words[i]);
    assert_int_equal(mr_token_trie_create(&trie, texts, WORDS, NULL), MR_OK);
    return trie;
}

/* Adds one to seen[id] for each token of a trie, after checking its bytes against the path. */
static void walk(const struct mr_trie *trie, unsigned *seen)
{
    char path[16];
    for (uint32_t i = 0; i < trie->node_count; i++) {
        const struct mr_trie_node *node = &trie->nodes[i];
        assert_true(node->skip > i && node->skip <= trie->node_count);
        path[node->depth - 1] = (char)node->byte;
        for (uint32_t t = 0; t < node->token_count; t++) {
            uint32_t id = trie->ids[node->first_token + t];
            assert_int_equal(strlen(words[id]), node->depth);
            assert_memory_equal(words[id], path, node->depth);
            seen[id]++;
        }
        if (node->skip > i + 1) assert_int_equal(trie->nodes[i + 1].depth, node->depth + 1);
    }
}

static void every_token_is_in_one_of_the_tries(void **state)
{
    (void)state;
    struct mr_token_trie *trie = trie_of();
    unsigned seen[WORDS] = {0};
    walk(&trie->plain, seen);
    walk(&trie->other, seen);
    for (size_t i = 0; i < WORDS; i++)
        assert_int_equal(seen[i], words[i][0] != '\0');
    assert_int_equal(trie->other.id_count, 3); /* the quote, the line end, half a character */
    assert_true(mr_token_trie_bytes(trie) > 0);
    mr_token_trie_destroy(trie);
}

static void plain_masks_count_characters(void **state)
{
    (void)state;
    struct mr_token_trie *trie = trie_of();
    assert_int_equal(trie->plain_chars, 3);
    assert_int_equal(trie->plain_masks[0], 0);
    assert_int_equal(trie->plain_masks[1], 1u << 0 | 1u << 5);
    assert_int_equal(trie->plain_masks[2], 1u << 0 | 1u << 1 | 1u << 5 | 1u << 8 | 1u << 9);
    assert_int_equal(trie->plain_masks[3], trie->plain_masks[2] | 1u << 3);
    mr_token_trie_destroy(trie);
}

static void the_longest_token_of_a_text_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t id;
        size_t length;
        bool shared, goes_on;
    } cases[] = {
        {"abx", 1, 2, true, false},                                /* two tokens are "ab" */
        {"ab", 1, 2, true, true},                                  /* "abc" continues from here */
        {"abc", 3, 3, false, false}, {"b\"b", 4, 2, false, false}, /* tokens with a quote are in the
                                                                      other trie */
        {"b", 5, 1, false, true},    {"\xc3", 7, 1, false, true},  {"x", 0, 0, false, false},
    };
    struct mr_token_trie *trie = trie_of();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct mr_trie_match match = mr_token_trie_longest(trie, text_of(cases[i].text));
        assert_int_equal(match.length, cases[i].length);
        assert_int_equal(match.id, cases[i].id);
        assert_int_equal(match.shared, cases[i].shared);
        assert_int_equal(match.goes_on, cases[i].goes_on);
    }
    mr_token_trie_destroy(trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_in_one_of_the_tries),
        cmocka_unit_test(plain_masks_count_characters),
        cmocka_unit_test(the_longest_token_of_a_text_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
