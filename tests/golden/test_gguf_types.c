/* Compares the numbers of every tensor in files that llama.cpp's quantizer has written with the
 *     numbers that PyPI `gguf` reads from them (make_gguf_types.py), bit for bit.
 *     golden_test_gguf_types FIL
 * it prints the name and the digest of each tensor of a file instead. */
#include "ops/files/gguf_split.h"
#include "tests/golden/row_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Compares the tensor of a line "name type digest". */
static enum mr_storage compare_tensor(char *line, const struct mr_tensor_table *tensors)
{
    char found[ROW_HASH_CHARS];
    char *name = line, *type = row_line_cut(name), *wanted = row_line_cut(type);
    (void)row_line_cut(wanted);
    const struct mr_stored_tensor *tensor = mr_tensor_table_find(tensors, name);
    assert_non_null(tensor);
    assert_string_equal(mr_storage_name(tensor->storage), type);
    row_hash(tensor, found);
    if (strcmp(found, wanted) != 0)
        fail_msg("%s (%s) has other numbers than the reference", name, type);
    return tensor->storage;
}

/* Returns the number of tensors compared; sets types_seen[storage] for each type among them. */
static uint32_t compare_file(const char *name, bool *types_seen)
{
    char path[128], line[256];
    struct mr_gguf_split *gguf;
    uint32_t count = 0;
    snprintf(path, sizeof(path), "tests/golden/gguf_types/%s.gguf", name);
    assert_int_equal(mr_gguf_split_open(&gguf, path, NULL), MR_OK);
    snprintf(path, sizeof(path), "tests/golden/gguf_types/%s.txt", name);
    FILE *lines = fopen(path, "r");
    assert_non_null(lines);
    for (; fgets(line, sizeof(line), lines); count++)
        types_seen[compare_tensor(line, mr_gguf_split_tensors(gguf))] = true;
    fclose(lines);
    assert_int_equal(count, mr_gguf_split_tensors(gguf)->count);
    mr_gguf_split_close(gguf);
    return count;
}

static void tensors_of_quantized_files_are_those_of_the_reference(void **state)
{
    (void)state;
    static const char *const names[] = {"all_types", "q4_k_m", "q2_k"};
    bool types_seen[MR_STORAGE_COUNT] = {false}; /* those of GGUF files come first */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        print_message("%s: %u tensors\n", names[i], compare_file(names[i], types_seen));
    for (size_t i = 0; i <= MR_STORAGE_MXFP4; i++)
        if (!types_seen[i]) fail_msg("no file has a tensor of type %s", mr_storage_name(i));
}

static int print_digests(const char *path)
{
    struct mr_error err = {0};
    struct mr_gguf_split *gguf;
    char digest[ROW_HASH_CHARS];
    if (mr_gguf_split_open(&gguf, path, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        return 1;
    }
    const struct mr_tensor_table *tensors = mr_gguf_split_tensors(gguf);
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct mr_stored_tensor *tensor = &tensors->entries[i];
        row_hash(tensor, digest);
        printf("%.*s %s\n", (int)tensor->name.length, tensor->name.bytes, digest);
    }
    mr_gguf_split_close(gguf);
    return 0;
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 2) return print_digests(arguments[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_quantized_files_are_those_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
