#include "ops/weights_digest.h"

#include "codec/sha256.h"

#include <stdio.h>
#include <string.h>

#define SAMPLES      8u
#define SAMPLE_BYTES 1024u

static void add_config(struct mr_sha256 *hash, const struct mr_model_config *c)
{
    char text[512];
    snprintf(text, sizeof(text),
             "%s %u %u %u %u %u %u %u %a %d rope %d %u %a %a %a %a %a window %u", c->family->name,
             c->layer_count, c->hidden_size, c->head_count, c->kv_head_count, c->head_dim,
             c->ffn_size, c->vocab_size, (double)c->norm_epsilon, c->tied_head, (int)c->rope.kind,
             c->rope.rotary_dim, c->rope.theta, c->rope.factor, c->rope.low_freq, c->rope.high_freq,
             c->rope.original_context, c->window);
    mr_sha256_add_field(hash, "config", text, strlen(text));
    mr_sha256_add_field(hash, "windowed", c->windowed, c->layer_count * sizeof(c->windowed[0]));
}

/* Hashes SAMPLES pieces of a tensor's bytes at even distances, from the first bytes to the last;
 * all bytes of a small tensor. */
static void add_sample(struct mr_sha256 *hash, const struct mr_stored_tensor *tensor)
{
    if (tensor->size_bytes <= SAMPLES * SAMPLE_BYTES) {
        mr_sha256_add_field(hash, "bytes", tensor->bytes, (size_t)tensor->size_bytes);
        return;
    }
    uint64_t stride = (tensor->size_bytes - SAMPLE_BYTES) / (SAMPLES - 1);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        uint64_t at = i + 1 < SAMPLES ? i * stride : tensor->size_bytes - SAMPLE_BYTES;
        mr_sha256_add_field(hash, "sample", tensor->bytes + at, SAMPLE_BYTES);
    }
}

static void add_tensor(struct mr_sha256 *hash, const struct mr_stored_tensor *tensor)
{
    char text[128];
    snprintf(text, sizeof(text), "%s %u %llu %llu %llu %llu", mr_storage_name(tensor->storage),
             tensor->dim_count, (unsigned long long)tensor->dims[0],
             (unsigned long long)tensor->dims[1], (unsigned long long)tensor->dims[2],
             (unsigned long long)tensor->dims[3]);
    mr_sha256_add_field(hash, "name", tensor->name.bytes, tensor->name.length);
    mr_sha256_add_field(hash, "shape", text, strlen(text));
    add_sample(hash, tensor);
}

enum mr_status mr_weights_digest(const struct mr_model_config *config,
                                 const struct mr_tensor_table *tensors, unsigned char digest[32],
                                 struct mr_error *err)
{
    struct mr_sha256 *hash = mr_sha256_create();
    if (!hash) return mr_fail(err, MR_NOMEM, "no memory for the digest of the weights");
    mr_sha256_begin(hash);
    add_config(hash, config);
    for (uint32_t i = 0; i < tensors->count; i++)
        add_tensor(hash, &tensors->entries[i]);
    mr_sha256_end(hash, digest);
    mr_sha256_destroy(hash);
    return MR_OK;
}
