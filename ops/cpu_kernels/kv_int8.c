/* KV blocks converted to int8 for export (mr_cpu_kv_int8_export). For each layer and head the bytes
 * have K, then V. K and V each begin with the scales of the tokens; the numbers follow in the order
 * of the pool (level.h), so no transposition is needed. Quantization is symmetric, with one scale
 * for each token, head and half (K or V). KIVI (arXiv 2402.02750) reports that some channels of
 * keys are large in all tokens, which costs precision with a scale for each token; at 8 bits the
 * loss is small, as tests/golden/test_rounding.c checks.
 *
 * The engine thread converts blocks when it exports and imports them: only ops/ knows the layout,
 * and a Redis thread that converted would take a core from the parallel loops of the next step.
 * Conversion is as fast as a copy and takes less than a hundredth of the time of computing the
 * block (tests/bench/README.md). */
#include "ops/cpu_kernels/kv_pool.h"
#include "ops/cpu_kernels/parallel.h"

/* Bytes of the KV pool that are worth a further thread, about 1 ms of conversion. Waking a thread
 * for less can cost more than it saves. */
#define GRAIN_BYTES ((size_t)8 << 20)

struct int8_run {
    const struct mr_cpu_kv *kv;
    /* Converts tokens [first, first + token_count) of the block. */
    uint32_t block, first, token_count;
    unsigned char *out;
    const unsigned char *in;
    size_t head_bytes;
    atomic_bool failed;
};

static uint32_t tokens_in_a_word(const struct mr_cpu_kv *kv)
{
    MR_ASSERT(!kv->spec.int8);
    return kv->spec.bf16 ? 2 : 1;
}

/* Describes the K of one head for conversion. keys, also in values_of: the first byte of the head's
 * K in the block. */
static struct mr_cpu_int8 keys_of(const struct mr_cpu_kv *kv, unsigned char *keys, uint32_t first,
                                  uint32_t token_count)
{
    const size_t panel = mr_cpu_kv_key_panel_bytes(kv);
    return (struct mr_cpu_int8){.rows = keys + mr_cpu_kv_key_at(kv, first, 0),
                                .group_bytes = panel,
                                .row_bytes = MR_PANEL_BYTES,
                                .group_count = (token_count + 15) / 16,
                                .row_count = (uint32_t)(panel / MR_PANEL_BYTES),
                                .token_count = token_count,
                                .bf16 = kv->spec.bf16,
                                .keys = true};
}

static struct mr_cpu_int8 values_of(const struct mr_cpu_kv *kv, unsigned char *keys, uint32_t first,
                                    uint32_t token_count)
{
    const uint32_t word = tokens_in_a_word(kv);
    return (struct mr_cpu_int8){.rows = keys + kv->half_bytes + mr_cpu_kv_value_at(kv, first, 0),
                                .group_bytes = MR_PANEL_BYTES,
                                .row_bytes = mr_cpu_kv_value_panel_bytes(kv),
                                .group_count = (token_count + word - 1) / word,
                                .row_count = kv->spec.head_dim / 16,
                                .token_count = token_count,
                                .bf16 = kv->spec.bf16};
}

/* Bytes of the scales and int8 numbers of one half (the K or the V of one head). */
static size_t half_bytes(const struct mr_cpu_int8 *half)
{
    const size_t lanes = half->bf16 ? 32 : 16, tokens = half->keys ? 16 : lanes / 16;
    return half->group_count * (tokens * sizeof(uint16_t) + half->row_count * lanes);
}

static size_t head_bytes(const struct mr_cpu_kv *kv, uint32_t token_count)
{
    const struct mr_cpu_int8 keys = keys_of(kv, kv->bytes, 0, token_count);
    const struct mr_cpu_int8 values = values_of(kv, kv->bytes, 0, token_count);
    return half_bytes(&keys) + (mr_cpu_kv_shares_keys(kv) ? 0 : half_bytes(&values));
}

static uint32_t head_count(const struct mr_cpu_kv *kv)
{
    return kv->spec.layer_count * kv->spec.kv_head_count;
}

static size_t grain_heads(const struct mr_cpu_kv *kv)
{
    return GRAIN_BYTES / kv->slot_bytes;
}

size_t mr_cpu_kv_int8_bytes(const struct mr_cpu_kv *kv, uint32_t token_count)
{
    return head_count(kv) * head_bytes(kv, token_count);
}

static void export_heads(void *context, size_t begin, size_t end)
{
    struct int8_run *run = context;
    const struct mr_cpu_kv *kv = run->kv;
    for (size_t i = begin; i < end; i++) {
        unsigned char *from = mr_cpu_kv_keys(kv, run->block, 0, (uint32_t)i);
        unsigned char *to = run->out + i * run->head_bytes;
        const struct mr_cpu_int8 keys = keys_of(kv, from, run->first, run->token_count);
        const struct mr_cpu_int8 values = values_of(kv, from, run->first, run->token_count);
        const bool whole = mr_cpu_kv_shares_keys(kv);
        if (!kv->ops->pack_int8(&keys, to) ||
            (!whole && !kv->ops->pack_int8(&values, to + half_bytes(&keys))))
            atomic_store_explicit(&run->failed, true, memory_order_relaxed);
    }
}

static void import_heads(void *context, size_t begin, size_t end)
{
    struct int8_run *run = context;
    const struct mr_cpu_kv *kv = run->kv;
    for (size_t i = begin; i < end; i++) {
        unsigned char *to = mr_cpu_kv_keys(kv, run->block, 0, (uint32_t)i);
        const unsigned char *from = run->in + i * run->head_bytes;
        const struct mr_cpu_int8 keys = keys_of(kv, to, run->first, run->token_count);
        const struct mr_cpu_int8 values = values_of(kv, to, run->first, run->token_count);
        kv->ops->unpack_int8(&keys, from);
        if (!mr_cpu_kv_shares_keys(kv)) kv->ops->unpack_int8(&values, from + half_bytes(&keys));
    }
}

bool mr_cpu_kv_int8_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, void *bytes)
{
    mr_cpu_kv_check_span(kv, block, first, token_count);
    struct int8_run run = {.kv = kv,
                           .block = block,
                           .first = first,
                           .token_count = token_count,
                           .out = bytes,
                           .head_bytes = head_bytes(kv, token_count)};
    mr_parallel_for(head_count(kv), grain_heads(kv), export_heads, &run);
    return !atomic_load_explicit(&run.failed, memory_order_relaxed);
}

void mr_cpu_kv_int8_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                           uint32_t token_count, const void *bytes)
{
    mr_cpu_kv_check_span(kv, block, first, token_count);
    struct int8_run run = {.kv = kv,
                           .block = block,
                           .first = first,
                           .token_count = token_count,
                           .in = bytes,
                           .head_bytes = head_bytes(kv, token_count)};
    mr_parallel_for(head_count(kv), grain_heads(kv), import_heads, &run);
}
