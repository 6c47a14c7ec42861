/* Shapes that no kernel handles: the launcher names the field and starts nothing. The arrays are
 * NULL, so a kernel that ran would crash. */
#include "cases.h"

#include "ops/cuda/sampling_kernels.h"

#include <stdio.h>
#include <string.h>

static unsigned failed;

static void expect(enum mr_status status, const struct mr_error *err, const char *field)
{
    if (status == MR_UNSUPPORTED && strstr(err->detail, field)) return;
    failed++;
    fprintf(stderr, "%s: status %d, \"%s\"\n", field, (int)status, err->detail);
}

static struct mr_cuda_kv sound_kv(void)
{
    return (struct mr_cuda_kv){.block_stride = 4096,
                               .head_stride = 1024,
                               .token_stride = 64,
                               .block_tokens = 16,
                               .kv_head_count = 4,
                               .head_dim = 64};
}

static void refuse_decode(struct mr_cuda_decode decode, const char *field)
{
    struct mr_error err = {.status = MR_OK};
    expect(mr_cuda_decode_attention(&decode, NULL, &err), &err, field);
}

static void decode_refuses_shapes(void)
{
    const struct mr_cuda_decode sound = {
        .kv = sound_kv(), .row_count = 1, .head_count = 8, .length_max = 10};
    static const uint32_t dims[] = {0, 8, 72, 272}, tokens[] = {0, 8, 48, 512};
    struct mr_cuda_decode decode;
    for (unsigned i = 0; i < 4; i++) {
        decode = sound, decode.kv.head_dim = dims[i];
        refuse_decode(decode, "head_dim");
        decode = sound, decode.kv.block_tokens = tokens[i];
        refuse_decode(decode, "block_tokens");
    }
    decode = sound, decode.head_count = 9;
    refuse_decode(decode, "head_count");
    decode = sound, decode.kv.kv_head_count = 0;
    refuse_decode(decode, "kv_head_count");
    decode = sound, decode.length_max = 65536 * 512;
    refuse_decode(decode, "length_max");
    decode = sound, decode.kv.token_stride = 68;
    refuse_decode(decode, "stride");
    decode = sound, decode.kv.values = (void *)8;
    refuse_decode(decode, "values");
    decode = sound, decode.q_stride = 4;
    refuse_decode(decode, "q_stride");
}

static void rope_refuses_shapes(void)
{
    const struct mr_cuda_rope_write sound = {.kv = sound_kv(), .row_count = 1, .head_count = 8};
    static const float weight;
    struct mr_error err = {.status = MR_OK};
    struct mr_cuda_rope_write write = sound;
    write.rotary_dim = 66;
    expect(mr_cuda_rope_kv_write(&write, NULL, &err), &err, "rotary_dim");
    write = sound, write.rotary_dim = 31;
    expect(mr_cuda_rope_kv_write(&write, NULL, &err), &err, "rotary_dim");
    write = sound, write.q_norm = &weight, write.norm_width = 65;
    expect(mr_cuda_rope_kv_write(&write, NULL, &err), &err, "norm_width");
    write = sound, write.qkv_stride = 4;
    expect(mr_cuda_rope_kv_write(&write, NULL, &err), &err, "qkv_stride");
    write = sound, write.kv.head_dim = 20;
    expect(mr_cuda_rope_kv_write(&write, NULL, &err), &err, "head_dim");
}

static void rows_refuse_shapes(void)
{
    struct mr_error err = {.status = MR_OK};
    struct mr_cuda_add_norm norm = {.row_count = 1, .width = 12};
    expect(mr_cuda_add_rms_norm(&norm, NULL, &err), &err, "width");
    norm.width = 16, norm.x = (const void *)4;
    expect(mr_cuda_add_rms_norm(&norm, NULL, &err), &err, "x");
    struct mr_cuda_gated gated = {.row_count = 1, .width = 12};
    expect(mr_cuda_gated_mul(&gated, NULL, &err), &err, "width");
    gated.width = 16, gated.input_stride = 20;
    expect(mr_cuda_gated_mul(&gated, NULL, &err), &err, "input_stride");
    struct mr_cuda_sampling sampling = {.row_count = 1};
    expect(mr_cuda_sample(&sampling, NULL, &err), &err, "vocab_size");
    sampling.vocab_size = (4u << 20) + 1;
    expect(mr_cuda_sample(&sampling, NULL, &err), &err, "vocab_size");
    const struct mr_cuda_find find = {.row_count = 1};
    expect(mr_cuda_find_tokens(&find, NULL, &err), &err, "vocab_size");
}

int main(void)
{
    decode_refuses_shapes();
    rope_refuses_shapes();
    rows_refuse_shapes();
    printf("%u failed\n", failed);
    return failed ? 1 : 0;
}
