#include "ops/weights/tensor_copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/cpu_kernels/parallel.h"
#include "ops/files/model_files.h"

#include "tests/unit/ops/tiny_folder.h"

/* Larger than the part that a thread reads at a time, and not a multiple of it. */
#define LARGE_BYTES ((size_t)3 * 1048576 + 777)

struct rig {
    struct scratch scratch;
    struct mr_mapped_file file;
    struct mr_stored_tensor large, small;
    struct mr_tensor_copies *copies;
};

static void open_rig(struct rig *rig)
{
    unsigned char *bytes = malloc(LARGE_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 4096);
    scratch_open(&rig->scratch);
    assert_int_equal(
        mr_mapped_file_map(&rig->file, scratch_write(&rig->scratch, "w", bytes, LARGE_BYTES), NULL),
        MR_OK);
    free(bytes);
    rig->large = (struct mr_stored_tensor){.name = {"large", 5},
                                           .storage = MR_STORAGE_I8,
                                           .bytes = rig->file.bytes + 5,
                                           .file = &rig->file,
                                           .size_bytes = LARGE_BYTES - 5};
    rig->small = rig->large;
    rig->small.bytes += 100;
    rig->small.size_bytes = 33;
    assert_int_equal(mr_tensor_copies_create(&rig->copies, NULL), MR_OK);
}

static void close_rig(struct rig *rig)
{
    mr_tensor_copies_destroy(rig->copies);
    mr_mapped_file_close(&rig->file);
    scratch_close(&rig->scratch);
}

static const struct mr_stored_tensor *taken(struct rig *rig, const struct mr_stored_tensor *tensor)
{
    const struct mr_stored_tensor *copy;
    struct mr_error err = {0};
    if (mr_tensor_copies_take(rig->copies, tensor, &copy, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_ptr_not_equal(copy, tensor);
    assert_ptr_not_equal(copy->bytes, tensor->bytes);
    assert_memory_equal(copy->bytes, tensor->bytes, tensor->size_bytes);
    return copy;
}

static void a_copy_has_the_bytes_of_the_file_until_it_is_recycled(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    assert_int_equal(mr_parallel_set_thread_count(3, NULL), MR_OK);
    const struct mr_stored_tensor *large = taken(&rig, &rig.large);
    const struct mr_stored_tensor *small = taken(&rig, &rig.small);
    assert_ptr_equal(taken(&rig, &rig.large), large);
    assert_ptr_equal(taken(&rig, &rig.small), small);
    mr_tensor_copies_recycle(rig.copies);
    assert_ptr_equal(taken(&rig, &rig.small), small); /* the smallest that has room */
    assert_ptr_equal(taken(&rig, &rig.large), large);
    assert_int_equal(mr_parallel_set_thread_count(1, NULL), MR_OK);
    close_rig(&rig);
}

static void a_tensor_in_memory_is_its_own_copy(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    const struct mr_stored_tensor tensor = {.bytes = (const unsigned char *)"abc", .size_bytes = 3};
    const struct mr_stored_tensor *copy;
    assert_int_equal(mr_tensor_copies_take(rig.copies, &tensor, &copy, NULL), MR_OK);
    assert_ptr_equal(copy, &tensor);
    close_rig(&rig);
}

static void every_piece_of_a_quantized_weight_is_copied(void **state)
{
    (void)state;
    struct rig rig;
    struct mr_model_source source;
    struct mr_error err = {0};
    uint32_t pieces = 0;
    open_rig(&rig);
    if (mr_model_files_read(&source, "tests/golden/quantized/awq", &err) != MR_OK)
        fail_msg("%s", err.detail);
    for (uint32_t i = 0; i < source.tensors->count; i++) {
        const struct mr_stored_tensor *tensor = &source.tensors->entries[i], *copy;
        assert_int_equal(mr_tensor_copies_take(rig.copies, tensor, &copy, NULL), MR_OK);
        for (uint32_t p = 0; tensor->quantized && p < MR_QUANTIZED_PIECES; p++) {
            const struct mr_quantized_piece *from = &tensor->quantized->pieces[p];
            const struct mr_quantized_piece *to = &copy->quantized->pieces[p];
            if (!from->bytes) continue;
            assert_ptr_not_equal(to->bytes, from->bytes);
            assert_memory_equal(to->bytes, from->bytes, from->size_bytes);
            pieces++;
        }
    }
    assert_true(pieces > 2);
    mr_model_source_close(&source);
    close_rig(&rig);
}

static void a_file_that_became_shorter_is_an_error_and_not_a_signal(void **state)
{
    (void)state;
    struct rig rig;
    struct mr_error err = {0};
    const struct mr_stored_tensor *copy;
    open_rig(&rig);
    const struct mr_stored_tensor *small = taken(&rig, &rig.small);
    assert_int_equal(truncate(rig.scratch.path, 4096), 0);
    assert_int_equal(mr_tensor_copies_take(rig.copies, &rig.large, &copy, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, rig.scratch.path));
    assert_non_null(strstr(err.detail, "became shorter"));
    assert_memory_equal(small->bytes, rig.small.bytes, rig.small.size_bytes); /* byte 100 is left */
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_has_the_bytes_of_the_file_until_it_is_recycled),
        cmocka_unit_test(a_tensor_in_memory_is_its_own_copy),
        cmocka_unit_test(every_piece_of_a_quantized_weight_is_copied),
        cmocka_unit_test(a_file_that_became_shorter_is_an_error_and_not_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
