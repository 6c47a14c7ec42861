/* The port over model functions defined in this file: each entry must call the right one. */
#include "batching/base/model_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct mr_model *const model = (struct mr_model *)(void *)&(char){0};
static uint32_t ahead;
static struct mr_model_info info = {.vocab_size = 321, .layer_count = 6, .hidden_size = 12};

const struct mr_model_info *mr_model_info(const struct mr_model *called)
{
    assert_ptr_equal(called, model);
    return &info;
}

uint32_t mr_model_steps_ahead(const struct mr_model *called)
{
    assert_ptr_equal(called, model);
    return ahead;
}

enum mr_status mr_model_launch(struct mr_model *called, const struct mr_model_step *step,
                               struct mr_error *err)
{
    assert_ptr_equal(called, model);
    for (uint32_t i = 0; i < step->sample_count; i++)
        step->samples[i].token_id = step->rows[i].position;
    return step->batch->row_count == 5 ? mr_fail(err, MR_BACKEND, "launch") : MR_OK;
}

enum mr_status mr_model_collect(struct mr_model *called, struct mr_error *err)
{
    assert_ptr_equal(called, model);
    return mr_fail(err, MR_BACKEND, "collect");
}

enum mr_status mr_model_logits(struct mr_model *called, uint32_t row, float *out,
                               struct mr_error *err)
{
    (void)err;
    assert_ptr_equal(called, model);
    *out = (float)row;
    return MR_OK;
}

void mr_model_hidden(const struct mr_model *called, uint32_t index, float *out)
{
    assert_ptr_equal(called, model);
    *out = (float)index + 0.5f;
}

void mr_model_kv_copy(struct mr_model *called, struct mr_kv_place from, struct mr_kv_place to,
                      uint32_t token_count)
{
    assert_ptr_equal(called, model);
    assert_true(from.block == 1 && from.slot == 5);
    assert_true(to.block == 2 && to.slot == 6);
    assert_int_equal(token_count, 3);
}

void mr_model_state_copy(struct mr_model *called, uint32_t from, uint32_t to)
{
    assert_ptr_equal(called, model);
    assert_true(from == 3 && to == 4);
}

size_t mr_model_kv_export_bytes(const struct mr_model *called, uint32_t token_count)
{
    assert_ptr_equal(called, model);
    return 10 * (size_t)token_count;
}

void *mr_model_kv_bytes_of(struct mr_model *called, uint32_t block)
{
    static unsigned char blocks[10];
    assert_ptr_equal(called, model);
    blocks[block] = (unsigned char)block;
    return &blocks[block];
}

enum mr_status mr_model_kv_export(struct mr_model *called, struct mr_kv_place place,
                                  uint32_t token_count, void *bytes, size_t size,
                                  struct mr_error *err)
{
    (void)err;
    assert_ptr_equal(called, model);
    assert_int_equal(size, 10 * token_count);
    *(unsigned char *)bytes = (unsigned char)(place.block + place.slot);
    return MR_OK;
}

enum mr_status mr_model_kv_import(struct mr_model *called, struct mr_kv_place place,
                                  uint32_t token_count, const void *bytes, size_t size,
                                  struct mr_error *err)
{
    assert_ptr_equal(called, model);
    assert_int_equal(size, 10 * token_count);
    assert_int_equal(*(const unsigned char *)bytes, place.block + place.slot);
    return mr_fail(err, MR_BACKEND, "import");
}

static uint64_t five(void *context)
{
    (void)context;
    return 5;
}

static void every_entry_reaches_the_model(void **state)
{
    (void)state;
    struct mr_model_port port = mr_model_port_of(model, five);
    struct mr_error err = {0};
    struct mr_batch batch = {.row_count = 5};
    struct mr_sample_row rows[2] = {{.position = 8}, {.position = 9}};
    struct mr_sample samples[2];
    float logit = 0;
    assert_int_equal(port.vocab_size, 321);
    assert_int_equal(port.clock_ns(port.context), 5);
    struct mr_model_step step = {
        .batch = &batch, .rows = rows, .sample_count = 2, .samples = samples};
    assert_int_equal(port.steps_ahead, 0);
    assert_int_equal(port.launch(port.context, &step, &err), MR_BACKEND);
    assert_string_equal(err.detail, "launch");
    batch.row_count = 0;
    assert_int_equal(port.launch(port.context, &step, &err), MR_OK);
    assert_int_equal(port.collect(port.context, &err), MR_BACKEND);
    assert_string_equal(err.detail, "collect");
    assert_int_equal(samples[1].token_id, 9);
    assert_int_equal(port.logits(port.context, 7, &logit, &err), MR_OK);
    assert_true(logit > 6.9f && logit < 7.1f);
    assert_int_equal(port.hidden_size, 12);
    assert_int_equal(port.hidden(port.context, 2, &logit, &err), MR_OK);
    assert_true(logit > 2.4f && logit < 2.6f);
    const struct mr_kv_place one = {1, 5, 0}, two = {2, 6, 0}, nine = {9, 3, 0};
    port.kv_copy(port.context, one, two, 3);
    port.state_copy(port.context, 3, 4);
    unsigned char byte = 0;
    assert_int_equal(port.layer_count, 6);
    assert_int_equal(port.kv_bytes(port.context, 4), 40);
    assert_int_equal(*(unsigned char *)port.kv_bytes_of(port.context, 7), 7);
    assert_int_equal(port.kv_export(port.context, nine, 4, &byte), MR_OK);
    assert_int_equal(byte, 12);
    assert_int_equal(port.kv_import(port.context, nine, 4, &byte), MR_BACKEND);
}

/* Other threads cannot use the KV pool of a model that runs ahead. */
static void a_queue_lets_the_engine_work_while_steps_run(void **state)
{
    (void)state;
    ahead = 1;
    assert_int_equal(mr_model_port_of(model, five).steps_ahead, 1);
    assert_non_null(mr_model_port_of(model, five).kv_bytes_of);
    ahead = 2;
    assert_int_equal(mr_model_port_of(model, five).steps_ahead, 2);
    assert_null(mr_model_port_of(model, five).kv_bytes_of);
    ahead = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_reaches_the_model),
        cmocka_unit_test(a_queue_lets_the_engine_work_while_steps_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
