#include "ops/weights/weights_digest.h"

#include "codec/check.h"
#include "codec/sha256.h"
#include "ops/cpu_kernels/parallel.h"
#include "ops/weights/tensor_copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(MR_DIGEST_BYTES == MR_SHA256_BYTES, "the digest is a SHA-256");

struct mr_weights_digest {
    const struct mr_tensor_table *tensors;
    XXH128_canonical_t *tensor_hashes; /* [tensors->count] */
    bool *added;                       /* [tensors->count] */
    XXH128_canonical_t *part_hashes;   /* of one tensor at a time: [parts of the largest tensor] */
};

/* The bytes of a piece of a quantized weight, or of a whole tensor. */
struct extent {
    const unsigned char *bytes;
    uint64_t size;
};

/* Sets extents to the tensor's bytes in the file, and returns how many there are. */
static uint32_t extents_of(const struct mr_stored_tensor *tensor,
                           struct extent extents[MR_QUANTIZED_PIECES])
{
    extents[0] = (struct extent){tensor->bytes, tensor->size_bytes};
    if (!tensor->quantized) return 1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < MR_QUANTIZED_PIECES; i++) {
        const struct mr_quantized_piece *piece = &tensor->quantized->pieces[i];
        if (piece->bytes) extents[count++] = (struct extent){piece->bytes, piece->size_bytes};
    }
    return count;
}

static size_t extent_parts(struct extent extent)
{
    return (size_t)(extent.size / MR_DIGEST_PART_BYTES) + 1;
}

static size_t part_count(const struct mr_stored_tensor *tensor)
{
    struct extent extents[MR_QUANTIZED_PIECES];
    uint32_t count = extents_of(tensor, extents);
    size_t parts = 0;
    for (uint32_t i = 0; i < count; i++)
        parts += extent_parts(extents[i]);
    return parts;
}

enum mr_status mr_weights_digest_create(struct mr_weights_digest **out,
                                        const struct mr_tensor_table *tensors, struct mr_error *err)
{
    *out = NULL;
    size_t parts = 1, count = (size_t)tensors->count + 1;
    for (uint32_t i = 0; i < tensors->count; i++)
        if (part_count(&tensors->entries[i]) > parts) parts = part_count(&tensors->entries[i]);
    struct mr_weights_digest *digest = calloc(1, sizeof(*digest));
    if (!digest) return mr_fail(err, MR_NOMEM, "no memory for the digest of the weights");
    digest->tensors = tensors;
    digest->tensor_hashes = calloc(count, sizeof(*digest->tensor_hashes));
    digest->added = calloc(count, sizeof(*digest->added));
    digest->part_hashes = calloc(parts, sizeof(*digest->part_hashes));
    if (!digest->tensor_hashes || !digest->added || !digest->part_hashes) {
        mr_weights_digest_destroy(digest);
        return mr_fail(err, MR_NOMEM, "no memory for the digest of the weights");
    }
    *out = digest;
    return MR_OK;
}

void mr_weights_digest_destroy(struct mr_weights_digest *digest)
{
    if (!digest) return;
    free(digest->tensor_hashes);
    free(digest->added);
    free(digest->part_hashes);
    free(digest);
}

/* ---- bytes ---- */

struct hashing {
    struct extent extent;
    XXH128_canonical_t *hashes; /* [extent_parts(extent)] */
};

static void hash_parts(void *context, size_t begin, size_t end)
{
    const struct hashing *hashing = context;
    for (size_t i = begin; i < end; i++) {
        size_t at = i * MR_DIGEST_PART_BYTES;
        size_t rest = (size_t)hashing->extent.size - at;
        size_t length = rest < MR_DIGEST_PART_BYTES ? rest : MR_DIGEST_PART_BYTES;
        XXH128_canonicalFromHash(&hashing->hashes[i],
                                 XXH3_128bits(hashing->extent.bytes + at, length));
    }
}

void mr_weights_digest_add(struct mr_weights_digest *digest, const struct mr_stored_tensor *tensor,
                           const struct mr_stored_tensor *copy)
{
    size_t index = (size_t)(tensor - digest->tensors->entries);
    MR_ASSERT(index < digest->tensors->count);
    if (digest->added[index]) return;
    struct extent extents[MR_QUANTIZED_PIECES];
    uint32_t count = extents_of(copy, extents);
    size_t parts = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hashing hashing = {extents[i], digest->part_hashes + parts};
        mr_parallel_for(extent_parts(extents[i]), 1, hash_parts, &hashing);
        parts += extent_parts(extents[i]);
    }
    XXH128_hash_t hash = XXH3_128bits(digest->part_hashes, parts * sizeof(*digest->part_hashes));
    XXH128_canonicalFromHash(&digest->tensor_hashes[index], hash);
    digest->added[index] = true;
}

/* Adds the tensors that the loader has not read. */
static enum mr_status add_others(struct mr_weights_digest *digest, struct mr_error *err)
{
    struct mr_tensor_copies *copies;
    enum mr_status status = mr_tensor_copies_create(&copies, err);
    for (uint32_t i = 0; status == MR_OK && i < digest->tensors->count; i++) {
        const struct mr_stored_tensor *tensor = &digest->tensors->entries[i], *copy;
        if (digest->added[i]) continue;
        status = mr_tensor_copies_take(copies, tensor, &copy, err);
        if (status == MR_OK) mr_weights_digest_add(digest, tensor, copy);
        mr_tensor_copies_recycle(copies);
    }
    mr_tensor_copies_destroy(copies);
    return status;
}

enum mr_status mr_weights_digest_content(struct mr_weights_digest *digest,
                                         unsigned char content[MR_DIGEST_BYTES],
                                         struct mr_error *err)
{
    const struct mr_tensor_table *tensors = digest->tensors;
    struct mr_sha256 *hash = mr_sha256_create();
    if (!hash) return mr_fail(err, MR_NOMEM, "no memory for the digest of the weights");
    enum mr_status status = add_others(digest, err);
    mr_sha256_begin(hash);
    mr_sha256_add(hash, digest->tensor_hashes, tensors->count * sizeof(*digest->tensor_hashes));
    mr_sha256_end(hash, content);
    mr_sha256_destroy(hash);
    return status;
}

/* ---- configuration, names and shapes ---- */

static void add_mixer(struct mr_sha256 *hash, const struct mr_model_config *c)
{
    const struct mr_mixer_shape *m = &c->mixer;
    char text[256];
    if (m->kind == MR_MIXER_NONE) return;
    snprintf(text, sizeof(text), "%d %u %u %u %u %u %d %u %d %d %a %a %a", (int)m->kind, m->taps,
             m->heads, m->key_heads, m->key_dim, m->value_dim, m->tiled, m->norm_width,
             m->norm_after_gate, m->doubled_beta, (double)m->norm_epsilon, (double)m->dt_min,
             (double)m->dt_max);
    mr_sha256_add_field(hash, "mixer", text, strlen(text));
    mr_sha256_add_field(hash, "mixes", c->mixes, c->layer_count * sizeof(c->mixes[0]));
    mr_sha256_add_field(hash, "skips_attention", c->skips_attention,
                        c->layer_count * sizeof(c->skips_attention[0]));
    mr_sha256_add_field(hash, "skips_ffn", c->skips_ffn, c->layer_count * sizeof(c->skips_ffn[0]));
}

static void add_latent(struct mr_sha256 *hash, const struct mr_latent_shape *latent)
{
    char text[160];
    if (latent->rank == 0) return;
    snprintf(text, sizeof(text), "%u %u %u %u %u %d %a", latent->rank, latent->rope_dim,
             latent->nope_dim, latent->value_dim, latent->query_rank, latent->pairs,
             (double)latent->norm_epsilon);
    mr_sha256_add_field(hash, "latent", text, strlen(text));
}

static void add_config(struct mr_sha256 *hash, const struct mr_model_config *c)
{
    char text[512];
    const struct mr_expert_config *e = &c->experts;
    snprintf(text, sizeof(text),
             "%s %u %u %u %u %u %u %u %a %d window %u norm %d parallel %d %d activation %d scales "
             "%d %a %a %a %a %a %a experts %u %u %u %u %d router %d %d %d %u %u %a %a %a clip %a",
             c->family->name, c->layer_count, c->hidden_size, c->head_count, c->kv_head_count,
             c->head_dim, c->ffn_size, c->vocab_size, (double)c->norm_epsilon, c->tied_head,
             c->window, (int)c->head_norm, c->parallel, c->own_ffn_norm, (int)c->activation,
             c->scale_falls, (double)c->attention_scale, (double)c->attention_softcap,
             (double)c->logit_softcap, (double)c->embedding_scale, (double)c->residual_scale,
             (double)c->logit_scale, e->count, e->top_k, e->ffn_size, e->shared_ffn_size,
             e->normalized, e->sigmoid, e->biased, e->group_pairs, e->group_count, e->groups_kept,
             (double)e->scale, (double)e->sum_min, (double)e->mixer_margin, (double)c->qkv_clip);
    mr_sha256_add_field(hash, "config", text, strlen(text));
    for (uint32_t i = 0; i < c->rope_count; i++) {
        mr_model_config_describe_rope(c, i, text, sizeof(text));
        mr_sha256_add_field(hash, "rope", text, strlen(text));
    }
    add_latent(hash, &c->latent);
    add_mixer(hash, c);
    if (c->family->part_scales) mr_sha256_add_field(hash, "scales", &c->scales, sizeof(c->scales));
    mr_sha256_add_field(hash, "windowed", c->windowed, c->layer_count * sizeof(c->windowed[0]));
    mr_sha256_add_field(hash, "routed", c->routed, c->layer_count * sizeof(c->routed[0]));
    mr_sha256_add_field(hash, "rope_of", c->rope_of, c->layer_count * sizeof(c->rope_of[0]));
}

static void add_pieces(struct mr_sha256 *hash, const struct mr_quantized *quantized)
{
    char text[128];
    snprintf(text, sizeof(text), "%s %u %u", mr_quantized_name(quantized), quantized->row_block,
             quantized->group_width);
    mr_sha256_add_field(hash, "format", text, strlen(text));
    for (uint32_t i = 0; i < MR_QUANTIZED_PIECES; i++) {
        const struct mr_quantized_piece *piece = &quantized->pieces[i];
        snprintf(text, sizeof(text), "%s %llu", mr_storage_name(piece->storage),
                 (unsigned long long)piece->size_bytes);
        mr_sha256_add_field(hash, "piece", text, strlen(text));
    }
}

static void add_shape(struct mr_sha256 *hash, const struct mr_stored_tensor *tensor)
{
    char text[128];
    snprintf(text, sizeof(text), "%s %u %llu %llu %llu %llu", mr_storage_name(tensor->storage),
             tensor->dim_count, (unsigned long long)tensor->dims[0],
             (unsigned long long)tensor->dims[1], (unsigned long long)tensor->dims[2],
             (unsigned long long)tensor->dims[3]);
    mr_sha256_add_field(hash, "name", tensor->name.bytes, tensor->name.length);
    mr_sha256_add_field(hash, "shape", text, strlen(text));
    if (tensor->quantized) add_pieces(hash, tensor->quantized);
}

enum mr_status mr_weights_digest_of(const struct mr_model_config *config,
                                    const struct mr_tensor_table *tensors,
                                    const unsigned char content[MR_DIGEST_BYTES],
                                    unsigned char out[MR_DIGEST_BYTES], struct mr_error *err)
{
    struct mr_sha256 *hash = mr_sha256_create();
    if (!hash) return mr_fail(err, MR_NOMEM, "no memory for the digest of the weights");
    mr_sha256_begin(hash);
    add_config(hash, config);
    for (uint32_t i = 0; i < tensors->count; i++)
        add_shape(hash, &tensors->entries[i]);
    mr_sha256_add_field(hash, "content", content, MR_DIGEST_BYTES);
    mr_sha256_end(hash, out);
    mr_sha256_destroy(hash);
    return MR_OK;
}
