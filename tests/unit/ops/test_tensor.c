#include "ops/tensor.h"

#include "ops/cpu/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "numbers.h"

#include <math.h>

static void linear_multiplies_by_the_transpose(void **state)
{
    (void)state;
    float weight[] = {1, 2, 3, 4, 5, 6}; /* [2, 3] */
    float x[] = {1, 0, 1, 0, 1, 0};      /* [2, 3] */
    struct mr_tensor_shape in = {MR_TENSOR_F32, 2, {2, 3}};
    struct mr_tensor_shape square = {MR_TENSOR_F32, 2, {2, 2}};
    struct mr_tensor *w, *rows, *out;
    assert_int_equal(mr_tensor_wrap(&w, weight, &in, NULL), MR_OK);
    assert_int_equal(mr_tensor_wrap(&rows, x, &in, NULL), MR_OK);
    assert_int_equal(mr_tensor_create(&out, (struct mr_device){0}, &square, NULL), MR_OK);
    assert_int_equal((uintptr_t)mr_tensor_data(out) % 64, 0);
    assert_int_equal(mr_tensor_linear(out, rows, w, NULL), MR_OK);
    const float expected[] = {4, 10, 2, 5};
    assert_int_equal(mr_tensor_bytes(out), sizeof(expected));
    assert_memory_equal(mr_tensor_data(out), expected, sizeof(expected));
    mr_tensor_destroy(out);
    mr_tensor_destroy(rows);
    mr_tensor_destroy(w);
}

enum { OUT = 96, IN = 80, LINEAR_ROWS = 19 };

static float weight_numbers[OUT * IN];

static void read_row(void *context, uint32_t row, float *out)
{
    (void)context;
    memcpy(out, weight_numbers + (size_t)row * IN, IN * sizeof(float));
}

static void our_linear_agrees_with_libtorch(void **state)
{
    (void)state;
    static float x[LINEAR_ROWS * IN], ours[LINEAR_ROWS * OUT];
    uint64_t seed = 3;
    for (size_t i = 0; i < OUT * IN; i++)
        weight_numbers[i] = number_next(&seed);
    for (size_t i = 0; i < LINEAR_ROWS * IN; i++)
        x[i] = number_next(&seed);
    struct mr_tensor *w, *rows, *out;
    struct mr_tensor_shape w_shape = {MR_TENSOR_F32, 2, {OUT, IN}};
    struct mr_tensor_shape x_shape = {MR_TENSOR_F32, 2, {LINEAR_ROWS, IN}};
    struct mr_tensor_shape out_shape = {MR_TENSOR_F32, 2, {LINEAR_ROWS, OUT}};
    assert_int_equal(mr_tensor_wrap(&w, weight_numbers, &w_shape, NULL), MR_OK);
    assert_int_equal(mr_tensor_wrap(&rows, x, &x_shape, NULL), MR_OK);
    assert_int_equal(mr_tensor_create(&out, (struct mr_device){0}, &out_shape, NULL), MR_OK);
    assert_int_equal(mr_tensor_linear(out, rows, w, NULL), MR_OK);
    struct mr_cpu_linear *linear;
    struct mr_cpu_linear_spec spec = {.out_size = OUT, .in_size = IN, .source = read_row};
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, NULL), MR_OK);
    mr_cpu_linear_run(linear, x, LINEAR_ROWS, MR_CPU_STORE_F32, ours);
    const float *theirs = mr_tensor_data(out);
    for (size_t i = 0; i < LINEAR_ROWS * OUT; i++)
        assert_true(fabsf(ours[i] - theirs[i]) < 1e-5f);
    mr_cpu_linear_destroy(linear);
    mr_tensor_destroy(out);
    mr_tensor_destroy(rows);
    mr_tensor_destroy(w);
}

static void an_exception_becomes_a_status(void **state)
{
    (void)state;
    float values[6] = {0};
    struct mr_tensor_shape shape = {MR_TENSOR_F32, 2, {2, 3}};
    struct mr_tensor_shape wrong = {MR_TENSOR_F32, 2, {3, 2}};
    struct mr_tensor *x, *w, *huge;
    struct mr_error err = {0};
    assert_int_equal(mr_tensor_wrap(&x, values, &shape, NULL), MR_OK);
    assert_int_equal(mr_tensor_wrap(&w, values, &wrong, NULL), MR_OK);
    assert_int_equal(mr_tensor_linear(x, x, w, &err), MR_BACKEND);
    assert_non_null(strstr(err.detail, "LibTorch"));
    struct mr_tensor_shape too_big = {MR_TENSOR_F32, 2, {INT64_C(1) << 40, 1024}};
    assert_int_not_equal(mr_tensor_create(&huge, (struct mr_device){0}, &too_big, &err), MR_OK);
    assert_null(huge);
    mr_tensor_destroy(w);
    mr_tensor_destroy(x);
}

static int begin_thread(void **state)
{
    (void)state;
    return mr_tensor_thread_begin(NULL) == MR_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_multiplies_by_the_transpose),
        cmocka_unit_test(our_linear_agrees_with_libtorch),
        cmocka_unit_test(an_exception_becomes_a_status),
    };
    return cmocka_run_group_tests(tests, begin_thread, NULL);
}
