/* attend_shared_body - the weighted values of attention in a pool whose V is part of K (value_dim
 * of kv_pool.h). A panel of V is the transposed rows of the same dimensions of the panels of K; a
 * few are written to the L1 cache and multiplied there. Transposing an element costs less than half
 * a shuffle, and all query heads use it.
 *
 * GCC vectors of 16 bytes, which all instruction sets have. Included by attend_body.h. */
#ifndef MR_OPS_CPU_KERNELS_ATTEND_SHARED_BODY_H
#define MR_OPS_CPU_KERNELS_ATTEND_SHARED_BODY_H

#define ATTEND_SHARED_BYTES 32768u

typedef uint8_t attend_bytes __attribute__((vector_size(16)));
typedef uint16_t attend_halves __attribute__((vector_size(16)));
typedef uint32_t attend_words __attribute__((vector_size(16)));

ATTEND_INLINE attend_words attend_load(const unsigned char *from)
{
    attend_words x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Replaces a 4 x 4 matrix of words, row[0] to row[3], by its transpose. */
ATTEND_INLINE void attend_transpose(attend_words row[4])
{
    const attend_words a = __builtin_shufflevector(row[0], row[2], 0, 4, 1, 5);
    const attend_words b = __builtin_shufflevector(row[0], row[2], 2, 6, 3, 7);
    const attend_words c = __builtin_shufflevector(row[1], row[3], 0, 4, 1, 5);
    const attend_words d = __builtin_shufflevector(row[1], row[3], 2, 6, 3, 7);
    row[0] = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    row[1] = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    row[2] = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    row[3] = __builtin_shufflevector(b, d, 2, 6, 3, 7);
}

/* Each of these writes 16 tokens of a panel of V. keys: the rows of the panel's 16 dimensions in a
 * panel of K. */
static void attend_shared_f32(const unsigned char *keys, unsigned char *values)
{
    for (uint32_t dim = 0; dim < 16; dim += 4)
        for (uint32_t token = 0; token < 16; token += 4) {
            attend_words row[4];
            for (uint32_t i = 0; i < 4; i++)
                row[i] = attend_load(keys + (dim + i) * MR_PANEL_BYTES + token * 4u);
            attend_transpose(row);
            for (uint32_t i = 0; i < 4; i++)
                memcpy(values + (token + i) * MR_PANEL_BYTES + dim * 4u, &row[i], sizeof row[i]);
        }
}

/* A word of K has two dimensions of a token, a word of V two tokens of a dimension. */
static void attend_shared_bf16(const unsigned char *keys, unsigned char *values)
{
    for (uint32_t dim = 0; dim < 16; dim += 8)
        for (uint32_t token = 0; token < 16; token += 4) {
            attend_words row[4];
            for (uint32_t i = 0; i < 4; i++)
                row[i] = attend_load(keys + (dim / 2 + i) * MR_PANEL_BYTES + token * 4u);
            attend_transpose(row);
            for (uint32_t i = 0; i < 4; i += 2) {
                const attend_halves a = (attend_halves)row[i], b = (attend_halves)row[i + 1];
                const attend_halves low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
                const attend_halves high =
                    __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
                unsigned char *to = values + (token + i) / 2 * MR_PANEL_BYTES + dim * 4u;
                memcpy(to, &low, sizeof low);
                memcpy(to + sizeof low, &high, sizeof high);
            }
        }
}

/* Interleaving the first half of the rows with the second four times transposes 16 x 16 bytes. */
static void attend_shared_int8(const unsigned char *keys, unsigned char *values)
{
    attend_bytes row[16], next[16];
    memcpy(row, keys, sizeof row);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            next[2 * i] = __builtin_shufflevector(row[i], row[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                                  20, 5, 21, 6, 22, 7, 23);
            next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + 8], 8, 24, 9, 25, 10, 26, 11,
                                                      27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(row, next, sizeof row);
    }
    memcpy(values, row, sizeof row);
}

/* Writes the panel of V with dimensions [16 * panel, 16 * panel + 16) of the first `keys` tokens.
 */
static void attend_shared_panel(const struct mr_cpu_attend *attend, uint32_t panel, uint32_t keys,
                                unsigned char *out)
{
    const uint32_t words = attend->bf16 ? (keys + 1) / 2 : keys;
    const size_t element = attend->key_scales ? 1 : attend->bf16 ? 2 : 4;
    _Alignas(64) unsigned char bytes[MR_BLOCK_TOKENS * 16u];
    for (uint32_t first = 0; first < keys; first += 16) {
        const unsigned char *from =
            attend->keys + first / 16 * attend->key_panel_bytes + panel * 256u * element;
        if (attend->key_scales)
            attend_shared_int8(from, bytes + first * 16u);
        else if (attend->bf16)
            attend_shared_bf16(from, out + first / 2 * MR_PANEL_BYTES);
        else
            attend_shared_f32(from, out + first * MR_PANEL_BYTES);
    }
    if (attend->key_scales && attend->bf16)
        attend_int8_expand(bytes, bytes, words, true, out);
    else if (attend->key_scales)
        attend_int8_expand(bytes, bytes, words, false, out);
    /* The token after the last one may be another request's, even NaN. */
    for (uint32_t i = 0; attend->bf16 && keys % 2 != 0 && i < 16; i++)
        memset(out + (words - 1) * MR_PANEL_BYTES + i * 4u + 2, 0, 2);
}

/* Computes the product of level.h, b being the V of the first `keys` tokens. Splitting the panels
 * changes no sum. */
static void attend_shared_product(const struct mr_cpu_attend *attend,
                                  const struct mr_cpu_tile *product, uint32_t keys)
{
    _Alignas(64) unsigned char panels[ATTEND_SHARED_BYTES];
    struct mr_cpu_tile part = *product;
    part.b = panels;
    part.next = NULL;
    part.panel_bytes = ((size_t)keys + 15) / 16 * 16 * (attend->bf16 ? 32 : 64);
    const uint32_t most =
        keys > 0 ? (uint32_t)(ATTEND_SHARED_BYTES / part.panel_bytes) : product->panels;
    for (uint32_t first = 0; first < product->panels; first += most) {
        const uint32_t left = product->panels - first;
        part.panels = left < most ? left : most;
        for (uint32_t i = 0; keys > 0 && i < part.panels; i++)
            attend_shared_panel(attend, first + i, keys, panels + i * part.panel_bytes);
        part.c = product->c + first * MR_PANEL_COLUMNS;
        if (attend->bf16)
            tile_bf16(&part);
        else
            tile_f32(&part);
    }
}

#endif
