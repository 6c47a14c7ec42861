#include "ops/files/adapter_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../scratch.h"

#define TENSORS                                                                                    \
    "{\"base_model.model.model.layers.0.mlp.up_proj.lora_A.weight\":"                              \
    "{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[0,32]}}"
#define UP "model.layers.0.mlp.up_proj"

static void write_tensors(struct scratch *scratch, float first)
{
    static struct bytes bytes;
    bytes.size = 0;
    put_u64(&bytes, strlen(TENSORS));
    put(&bytes, TENSORS, strlen(TENSORS));
    for (uint32_t i = 0; i < 8; i++)
        put_float(&bytes, first + (float)i);
    scratch_write(scratch, "adapter_model.safetensors", bytes.data, bytes.size);
}

/* more: keys after those that every adapter has. */
static void write_config(struct scratch *scratch, const char *more)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":6,\"bias\":\"none\",\"use_dora\":false%s}",
        more);
    scratch_write(scratch, "adapter_config.json", text, strlen(text));
}

static float scale_of(const char *more, uint32_t rank)
{
    struct scratch scratch;
    struct mr_adapter_files files;
    struct mr_error err = {0};
    float scale = 0;
    scratch_open(&scratch);
    write_tensors(&scratch, 1);
    write_config(&scratch, more);
    if (mr_adapter_files_open(&files, scratch.folder, &err) != MR_OK ||
        mr_adapter_files_scale(&files, UP, rank, &scale, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(files.bytes, 32);
    mr_adapter_files_close(&files);
    scratch_close(&scratch);
    return scale;
}

static void the_scale_is_alpha_by_rank_or_its_root(void **state)
{
    (void)state;
    assert_float_equal(scale_of("", 4), 1.5f, 1e-6f);
    assert_float_equal(scale_of(",\"use_rslora\":true", 4), 3.0f, 1e-6f);
    assert_float_equal(scale_of(",\"alpha_pattern\":{\"down_proj\":1,\"up_proj\":8}", 4), 2.0f,
                       1e-6f);
    assert_float_equal(scale_of(",\"rank_pattern\":{\"layers.0.mlp.up_proj\":2}", 2), 3.0f, 1e-6f);
    assert_float_equal(scale_of(",\"alpha_pattern\":{\"p_proj\":1,\"model.*\":2}", 4), 0.5f, 1e-6f);
}

static void refused(const char *more, const char *because)
{
    struct scratch scratch;
    struct mr_adapter_files files;
    struct mr_error err = {0};
    scratch_open(&scratch);
    write_tensors(&scratch, 1);
    write_config(&scratch, more);
    assert_int_equal(mr_adapter_files_open(&files, scratch.folder, &err), MR_BAD_FILE);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
    assert_null(files.tensors);
    scratch_close(&scratch);
}

static void what_is_more_than_low_rank_products_is_refused_by_name(void **state)
{
    (void)state;
    refused(",\"use_dora\":true", "use_dora is not supported");
    refused(",\"modules_to_save\":[\"lm_head\"]", "modules_to_save is not supported");
    refused(",\"lora_bias\":true", "lora_bias");
    refused(",\"bias\":\"all\"", "bias is \"all\"");
    refused(",\"trainable_token_indices\":[1]", "trainable_token_indices");
    refused(",\"alora_invocation_tokens\":[1]", "alora_invocation_tokens");
    refused(",\"a_key_of_the_future\":\"on\"", "a_key_of_the_future");
    refused(",\"peft_type\":\"IA3\"", "peft_type");
}

static void a_rank_that_is_not_that_of_the_tensors_is_an_error(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_adapter_files files;
    struct mr_error err = {0};
    float scale;
    scratch_open(&scratch);
    write_tensors(&scratch, 1);
    write_config(&scratch, ",\"rank_pattern\":{\"\\\\d\":3}");
    assert_int_equal(mr_adapter_files_open(&files, scratch.folder, &err), MR_OK);
    assert_int_equal(mr_adapter_files_scale(&files, UP, 4, &scale, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "pattern"));
    mr_adapter_files_close(&files);
    write_config(&scratch, "");
    assert_int_equal(mr_adapter_files_open(&files, scratch.folder, &err), MR_OK);
    assert_int_equal(mr_adapter_files_scale(&files, UP, 5, &scale, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "rank 5"));
    mr_adapter_files_close(&files);
    scratch_close(&scratch);
}

static void read_digest(struct scratch *scratch, unsigned char digest[MR_SHA256_BYTES])
{
    struct mr_adapter_files files;
    assert_int_equal(mr_adapter_files_open(&files, scratch->folder, NULL), MR_OK);
    memcpy(digest, files.digest, MR_SHA256_BYTES);
    mr_adapter_files_close(&files);
}

static void the_digest_is_that_of_numbers_and_scale(void **state)
{
    (void)state;
    struct scratch scratch;
    unsigned char first[MR_SHA256_BYTES], other[MR_SHA256_BYTES];
    scratch_open(&scratch);
    write_tensors(&scratch, 1);
    write_config(&scratch, "");
    read_digest(&scratch, first);
    write_config(&scratch, ",\"inference_mode\":true");
    read_digest(&scratch, other);
    assert_memory_equal(first, other, sizeof first);
    write_config(&scratch, ",\"use_rslora\":true");
    read_digest(&scratch, other);
    assert_memory_not_equal(first, other, sizeof first);
    write_config(&scratch, "");
    write_tensors(&scratch, 2);
    read_digest(&scratch, other);
    assert_memory_not_equal(first, other, sizeof first);
    scratch_close(&scratch);
}

static void errors_name_the_path(void **state)
{
    (void)state;
    struct mr_adapter_files files;
    struct mr_error err = {0};
    assert_int_equal(mr_adapter_files_open(&files, "no/such/adapter", &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "no/such/adapter"));
    mr_adapter_files_close(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_is_alpha_by_rank_or_its_root),
        cmocka_unit_test(what_is_more_than_low_rank_products_is_refused_by_name),
        cmocka_unit_test(a_rank_that_is_not_that_of_the_tensors_is_an_error),
        cmocka_unit_test(the_digest_is_that_of_numbers_and_scale),
        cmocka_unit_test(errors_name_the_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
