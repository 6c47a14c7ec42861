#include "kvcache/fingerprint.h"

#include "codec/sha256.h"

#include <string.h>

static void add_text(struct mr_sha256 *hash, const char *tag, const char *text)
{
    mr_sha256_add_field(hash, tag, text, strlen(text));
}

static void add_number(struct mr_sha256 *hash, const char *tag, uint32_t number)
{
    unsigned char bytes[4];
    for (uint32_t i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    mr_sha256_add_field(hash, tag, bytes, sizeof bytes);
}

enum mr_status mr_kv_fingerprint_of(const struct mr_kv_identity *identity,
                                    struct mr_kv_fingerprint *out, struct mr_error *err)
{
    struct mr_sha256 *hash = mr_sha256_create();
    if (hash == NULL) return mr_fail(err, MR_NOMEM, "no memory for the fingerprint of the model");
    mr_sha256_begin(hash);
    add_text(hash, "schema", MR_KV_SCHEMA);
    mr_sha256_add_field(hash, "weights", identity->weights, MR_HASH_BYTES);
    mr_sha256_add_field(hash, "tokenizer", identity->tokenizer, MR_HASH_BYTES);
    add_text(hash, "architecture", identity->architecture);
    add_number(hash, "layers", identity->layer_count);
    add_number(hash, "hidden", identity->hidden_size);
    add_number(hash, "heads", identity->head_count);
    add_number(hash, "kv heads", identity->kv_head_count);
    add_number(hash, "head dim", identity->head_dim);
    add_number(hash, "vocabulary", identity->vocab_size);
    add_text(hash, "rope", identity->rope);
    add_number(hash, "window", identity->window_tokens);
    add_text(hash, "kv dtype", identity->kv_dtype);
    add_text(hash, "layout", identity->layout);
    add_number(hash, "block tokens", identity->block_tokens);
    add_text(hash, "adapter", identity->adapter);
    add_text(hash, "numerics", identity->numerics);
    add_number(hash, "part", identity->part);
    add_number(hash, "parts", identity->part_count);
    mr_sha256_end(hash, out->bytes);
    mr_sha256_destroy(hash);
    return MR_OK;
}
