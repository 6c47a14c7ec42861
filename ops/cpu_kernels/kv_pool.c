#include "ops/cpu_kernels/kv_pool.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Bytes of the K, or of the V, of one head of one layer of one block. */
static size_t half_bytes(const struct mr_cpu_kv_spec *spec)
{
    const size_t elements = (size_t)spec->head_dim * MR_BLOCK_TOKENS;
    if (spec->int8) return elements + MR_BLOCK_TOKENS * sizeof(uint16_t);
    return elements * (spec->bf16 ? 2u : 4u);
}

static size_t slot_bytes(const struct mr_cpu_kv_spec *spec)
{
    return (spec->value_dim > 0 ? 1u : 2u) * half_bytes(spec);
}

size_t mr_cpu_kv_block_bytes(const struct mr_cpu_kv_spec *spec)
{
    return (size_t)spec->layer_count * spec->kv_head_count * slot_bytes(spec);
}

/* Bytes of the KV pool, rounded up to whole huge pages. */
static size_t pool_bytes(const struct mr_cpu_kv *kv)
{
    size_t bytes = kv->spec.block_count * kv->block_bytes;
    return (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

/* The attention of AMX needs panels of V. */
static const struct mr_cpu_ops *ops_of(const struct mr_cpu_kv_spec *spec)
{
    const enum mr_cpu_level level = mr_cpu_level(spec->level);
    return mr_cpu_ops_get(spec->value_dim > 0 && level == MR_CPU_AMX ? MR_CPU_AVX512 : level);
}

enum mr_status mr_cpu_kv_create(struct mr_cpu_kv **out, const struct mr_cpu_kv_spec *spec,
                                struct mr_error *err)
{
    *out = NULL;
    const uint32_t most = spec->value_dim > 0 ? MR_CPU_KEY_DIM_MAX : MR_CPU_HEAD_DIM_MAX;
    if (spec->head_dim == 0 || spec->head_dim % 16 != 0 || spec->head_dim > most)
        return mr_fail(err, MR_UNSUPPORTED, "head size %u is not a multiple of 16 up to %u",
                       spec->head_dim, most);
    MR_ASSERT(spec->block_count > 0);
    MR_ASSERT(spec->value_dim == 0 || (spec->kv_head_count == 1 && spec->value_dim % 16 == 0 &&
                                       spec->value_dim <= spec->head_dim));
    struct mr_cpu_kv *kv = calloc(1, sizeof *kv);
    if (!kv) goto no_kv;
    kv->ops = ops_of(spec);
    kv->spec = *spec;
    kv->block_bytes = mr_cpu_kv_block_bytes(spec);
    kv->half_bytes = half_bytes(spec);
    kv->slot_bytes = slot_bytes(spec);
    /* The pool needs no clearing: the kernel supplies zeroed pages on first access. */
    size_t bytes = pool_bytes(kv);
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) goto no_pages;
    if (bytes >= 8 * HUGE_PAGE_BYTES)
        (void)madvise(pages, bytes, MADV_HUGEPAGE); /* only a hint, which may fail */
    kv->bytes = pages;
    kv->partials = aligned_alloc(MR_PANEL_BYTES, MR_CPU_SPLIT_FLOATS * sizeof *kv->partials);
    if (!kv->partials) goto no_partials;
    *out = kv;
    return MR_OK;

no_partials:
    (void)munmap(pages, bytes);
no_pages:
    free(kv);
no_kv:
    return mr_fail(err, MR_NOMEM, "no memory for %u KV blocks", spec->block_count);
}

void mr_cpu_kv_destroy(struct mr_cpu_kv *kv)
{
    if (!kv) return;
    (void)munmap(kv->bytes, pool_bytes(kv));
    free(kv->partials);
    free(kv);
}

bool mr_cpu_kv_populate(struct mr_cpu_kv *kv)
{
    if (kv->populated_bytes == pool_bytes(kv)) return false;
    unsigned char *next = kv->bytes + kv->populated_bytes;
    if (madvise(next, HUGE_PAGE_BYTES, MADV_POPULATE_WRITE) != 0)
        return false; /* MADV_POPULATE_WRITE needs Linux 5.14 */
    kv->populated_bytes += HUGE_PAGE_BYTES;
    return true;
}

/* ---- sizes of the first tokens ---- */

/* Bytes of the panels of K up to that of the last token. */
static size_t key_bytes(const struct mr_cpu_kv *kv, uint32_t token_count)
{
    return (token_count + 15u) / 16u * mr_cpu_kv_key_panel_bytes(kv);
}

/* Bytes of the first token_count tokens in one panel of V. */
static size_t value_bytes(const struct mr_cpu_kv *kv, uint32_t token_count)
{
    if (kv->spec.int8) return token_count * 16u;
    const uint32_t words = kv->spec.bf16 ? (token_count + 1) / 2 : token_count;
    return (size_t)words * MR_PANEL_BYTES;
}

/* Bytes of the scales of the K, or of the V; 0 in a pool without. */
static size_t scale_bytes(const struct mr_cpu_kv *kv, uint32_t token_count)
{
    return kv->spec.int8 ? token_count * sizeof(uint16_t) : 0;
}

/* ---- copies ---- */

/* Copies the V of one head for the first token_count tokens. If the last token shares its words
 * with the next one, that one gets a V of zeros. */
static void copy_values(const struct mr_cpu_kv *kv, unsigned char *to, const unsigned char *from,
                        uint32_t token_count)
{
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim += 16) {
        const size_t panel = mr_cpu_kv_value_at(kv, 0, dim);
        memcpy(to + panel, from + panel, value_bytes(kv, token_count));
    }
    if (!mr_cpu_kv_pairs_tokens(kv) || token_count % 2 == 0) return;
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim++)
        memset(to + mr_cpu_kv_value_at(kv, token_count, dim), 0, 2);
}

static void copy_scales(const struct mr_cpu_kv *kv, unsigned char *to, unsigned char *from,
                        uint32_t token_count)
{
    if (kv->spec.int8)
        memcpy(mr_cpu_kv_scales(kv, to), mr_cpu_kv_scales(kv, from), scale_bytes(kv, token_count));
}

void mr_cpu_kv_copy(struct mr_cpu_kv *kv, uint32_t from, uint32_t to, uint32_t token_count)
{
    MR_ASSERT(token_count <= MR_BLOCK_TOKENS && from != to);
    MR_ASSERT(from < kv->spec.block_count && to < kv->spec.block_count);
    for (uint32_t layer = 0; layer < kv->spec.layer_count; layer++)
        for (uint32_t head = 0; head < kv->spec.kv_head_count; head++) {
            unsigned char *keys = mr_cpu_kv_keys(kv, from, layer, head);
            unsigned char *copy = mr_cpu_kv_keys(kv, to, layer, head);
            memcpy(copy, keys, key_bytes(kv, token_count));
            copy_scales(kv, copy, keys, token_count);
            if (mr_cpu_kv_shares_keys(kv)) continue;
            copy_values(kv, copy + kv->half_bytes, keys + kv->half_bytes, token_count);
            copy_scales(kv, copy + kv->half_bytes, keys + kv->half_bytes, token_count);
        }
}

/* ---- the stored form ---- */

size_t mr_cpu_kv_export_bytes(const struct mr_cpu_kv *kv, uint32_t token_count)
{
    size_t head = key_bytes(kv, token_count) + scale_bytes(kv, token_count);
    if (!mr_cpu_kv_shares_keys(kv))
        head +=
            kv->spec.head_dim / 16u * value_bytes(kv, token_count) + scale_bytes(kv, token_count);
    return (size_t)kv->spec.layer_count * kv->spec.kv_head_count * head;
}

/* Zeroes the keys from token token_count on in its panel: those keys may belong to another
 * request. */
static void clear_keys_after(const struct mr_cpu_kv *kv, unsigned char *keys, uint32_t token_count)
{
    const uint32_t end = (token_count + 15u) / 16u * 16u;
    const size_t size = mr_cpu_kv_element_bytes(kv);
    for (uint32_t token = token_count; token < end; token++)
        for (uint32_t dim = 0; dim < kv->spec.head_dim; dim++)
            memset(keys + mr_cpu_kv_key_at(kv, token, dim), 0, size);
}

/* Copies the scales of tokens [first, first + token_count) of the half to flat; returns flat's new
 * end. import_scales: from flat. */
static unsigned char *export_scales(const struct mr_cpu_kv *kv, unsigned char *half, uint32_t first,
                                    uint32_t token_count, unsigned char *flat)
{
    const size_t size = scale_bytes(kv, token_count);
    if (size > 0) memcpy(flat, mr_cpu_kv_scales(kv, half) + first, size);
    return flat + size;
}

static const unsigned char *import_scales(const struct mr_cpu_kv *kv, unsigned char *half,
                                          uint32_t first, uint32_t token_count,
                                          const unsigned char *flat)
{
    const size_t size = scale_bytes(kv, token_count);
    if (size > 0) memcpy(mr_cpu_kv_scales(kv, half) + first, flat, size);
    return flat + size;
}

static unsigned char *export_head(const struct mr_cpu_kv *kv, unsigned char *keys, uint32_t first,
                                  uint32_t token_count, unsigned char *flat)
{
    unsigned char *values = keys + kv->half_bytes;
    memcpy(flat, keys + mr_cpu_kv_key_at(kv, first, 0), key_bytes(kv, token_count));
    clear_keys_after(kv, flat, token_count);
    flat = export_scales(kv, keys, first, token_count, flat + key_bytes(kv, token_count));
    if (mr_cpu_kv_shares_keys(kv)) return flat;
    const size_t size = value_bytes(kv, token_count);
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim += 16, flat += size) {
        memcpy(flat, values + mr_cpu_kv_value_at(kv, first, dim), size);
        if (!mr_cpu_kv_pairs_tokens(kv) || token_count % 2 == 0) continue;
        for (size_t at = size - MR_PANEL_BYTES + 2; at < size; at += 4)
            memset(flat + at, 0, 2);
    }
    return export_scales(kv, values, first, token_count, flat);
}

static const unsigned char *import_head(const struct mr_cpu_kv *kv, unsigned char *keys,
                                        uint32_t first, uint32_t token_count,
                                        const unsigned char *flat)
{
    unsigned char *values = keys + kv->half_bytes;
    memcpy(keys + mr_cpu_kv_key_at(kv, first, 0), flat, key_bytes(kv, token_count));
    flat = import_scales(kv, keys, first, token_count, flat + key_bytes(kv, token_count));
    if (mr_cpu_kv_shares_keys(kv)) return flat;
    const size_t size = value_bytes(kv, token_count);
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim += 16, flat += size)
        memcpy(values + mr_cpu_kv_value_at(kv, first, dim), flat, size);
    return import_scales(kv, values, first, token_count, flat);
}

void *mr_cpu_kv_bytes_of(const struct mr_cpu_kv *kv, uint32_t block)
{
    MR_ASSERT(block < kv->spec.block_count);
    return mr_cpu_kv_keys(kv, block, 0, 0);
}

void mr_cpu_kv_export(const struct mr_cpu_kv *kv, uint32_t block, uint32_t first,
                      uint32_t token_count, void *bytes)
{
    mr_cpu_kv_check_span(kv, block, first, token_count);
    unsigned char *flat = bytes;
    if (token_count == MR_BLOCK_TOKENS) {
        memcpy(flat, mr_cpu_kv_bytes_of(kv, block), kv->block_bytes);
        return;
    }
    for (uint32_t layer = 0; layer < kv->spec.layer_count; layer++)
        for (uint32_t head = 0; head < kv->spec.kv_head_count; head++)
            flat =
                export_head(kv, mr_cpu_kv_keys(kv, block, layer, head), first, token_count, flat);
}

void mr_cpu_kv_import(struct mr_cpu_kv *kv, uint32_t block, uint32_t first, uint32_t token_count,
                      const void *bytes)
{
    mr_cpu_kv_check_span(kv, block, first, token_count);
    const unsigned char *flat = bytes;
    if (token_count == MR_BLOCK_TOKENS) {
        memcpy(mr_cpu_kv_bytes_of(kv, block), flat, kv->block_bytes);
        return;
    }
    for (uint32_t layer = 0; layer < kv->spec.layer_count; layer++)
        for (uint32_t head = 0; head < kv->spec.kv_head_count; head++)
            flat =
                import_head(kv, mr_cpu_kv_keys(kv, block, layer, head), first, token_count, flat);
}
