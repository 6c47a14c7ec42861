/* Constrained output: a schema, a pattern or a list of choices is rejected with a sentence, or
 * compiled within the limits of work and memory.
 *
 * Input: a byte that selects the kind and whether the constraint starts after the reasoning, then
 * the source. */
#include "codec/constraint/constraint.h"
#include "tests/fuzz/fuzz.h"

#define KINDS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum mr_constraint_kind kinds[KINDS] = {
        MR_CONSTRAINT_JSON_SCHEMA, MR_CONSTRAINT_REGEX, MR_CONSTRAINT_CHOICE, MR_CONSTRAINT_EBNF};
    struct fuzz_cursor cursor = {data, size};
    const uint8_t choice = fuzz_u8(&cursor);
    struct mr_constraint constraint = {.kind = kinds[choice % KINDS],
                                       .after_reasoning = choice & 128};
    struct mr_grammar *grammar = NULL;
    struct mr_error err = {0};
    constraint.text = fuzz_take(&cursor, cursor.left);
    enum mr_status status = mr_constraint_compile(&grammar, &constraint, NULL, &err);
    MR_ASSERT((status == MR_OK) == (grammar != NULL));
    if (status != MR_OK) {
        MR_ASSERT(mr_status_class(status) == MR_CLASS_REJECT && err.detail[0] != '\0');
        return 0;
    }
    MR_ASSERT(mr_grammar_bytes(grammar) <= MR_GRAMMAR_BYTES_MAX);
    mr_grammar_drop(grammar);
    return 0;
}
