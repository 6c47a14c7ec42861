#include "codec/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

struct mr_vocab {
    char *block;       /* the texts of all tokens, one after the other */
    uint32_t *offsets; /* [size + 1] start of each token's text in block */
    uint32_t *table;   /* [mask + 1] hash table of token ids, MR_TOKEN_NONE: free slot */
    uint8_t *present;  /* [size] 1: the id has a token */
    uint32_t mask, size, count;
};

/* Hashes a text: multiplies and folds eight bytes at a time, similar to wyhash (Wang Yi). */
uint64_t mr_text_hash(struct mr_text text)
{
    uint64_t hash = 0x9e3779b97f4a7c15u ^ text.length;
    const char *bytes = text.bytes;
    size_t left = text.length;
    while (left > 0) {
        uint64_t word = 0;
        size_t taken = left < 8 ? left : 8;
        memcpy(&word, bytes, taken);
        hash = (hash ^ word) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
        bytes += taken;
        left -= taken;
    }
    hash *= 0xd6e8feb86659fd93u;
    return hash ^ hash >> 29;
}

static enum mr_status measure(const struct mr_text *texts, size_t count, size_t *bytes,
                              struct mr_error *err)
{
    if (count > MR_VOCAB_TOKENS_MAX)
        return mr_fail(err, MR_BAD_FILE, "a vocabulary of %zu tokens", count);
    for (size_t i = 0; i < count; i++) {
        if (texts[i].length > UINT32_MAX - *bytes)
            return mr_fail(err, MR_BAD_FILE, "a vocabulary of more than 4 GiB");
        *bytes += texts[i].length;
    }
    return MR_OK;
}

static void copy_texts(struct mr_vocab *vocab, const struct mr_text *texts, size_t count)
{
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        vocab->offsets[i] = at;
        vocab->present[i] = texts[i].bytes != NULL;
        vocab->count += texts[i].bytes != NULL;
        if (texts[i].length > 0) memcpy(vocab->block + at, texts[i].bytes, texts[i].length);
        at += (uint32_t)texts[i].length;
    }
    vocab->offsets[count] = at;
}

static struct mr_text text_at(const struct mr_vocab *vocab, uint32_t id)
{
    uint32_t start = vocab->offsets[id];
    return (struct mr_text){vocab->block + start, vocab->offsets[id + 1] - start};
}

/* The slot of the hash table that has the token with this text, or else the free slot for it. */
static uint32_t *slot_of(const struct mr_vocab *vocab, struct mr_text text)
{
    uint32_t at = (uint32_t)mr_text_hash(text) & vocab->mask;
    for (;; at = (at + 1) & vocab->mask) {
        uint32_t id = vocab->table[at];
        if (id == MR_TOKEN_NONE) return &vocab->table[at];
        if (mr_text_equal(text_at(vocab, id), text)) return &vocab->table[at];
    }
}

enum mr_status mr_vocab_create(struct mr_vocab **out, const struct mr_text *texts, size_t count,
                               struct mr_error *err)
{
    *out = NULL;
    size_t bytes = 0;
    enum mr_status status = measure(texts, count, &bytes, err);
    if (status != MR_OK) return status;
    struct mr_vocab *vocab = calloc(1, sizeof *vocab);
    if (!vocab) return mr_fail(err, MR_NOMEM, "no memory for a vocabulary");
    uint32_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    vocab->mask = slots - 1;
    vocab->size = (uint32_t)count;
    vocab->block = malloc(bytes + 1);
    vocab->offsets = calloc(count + 1, sizeof *vocab->offsets);
    vocab->present = calloc(count + 1, 1);
    vocab->table = malloc(slots * sizeof *vocab->table);
    if (!vocab->block || !vocab->offsets || !vocab->present || !vocab->table) {
        mr_vocab_destroy(vocab);
        return mr_fail(err, MR_NOMEM, "no memory for a vocabulary of %zu tokens", count);
    }
    memset(vocab->table, 0xff, slots * sizeof *vocab->table);
    copy_texts(vocab, texts, count);
    for (uint32_t id = 0; id < vocab->size; id++)
        if (vocab->present[id]) *slot_of(vocab, text_at(vocab, id)) = id;
    *out = vocab;
    return MR_OK;
}

void mr_vocab_destroy(struct mr_vocab *vocab)
{
    if (!vocab) return;
    free(vocab->block);
    free(vocab->offsets);
    free(vocab->present);
    free(vocab->table);
    free(vocab);
}

uint32_t mr_vocab_size(const struct mr_vocab *vocab)
{
    return vocab->size;
}

uint32_t mr_vocab_count(const struct mr_vocab *vocab)
{
    return vocab->count;
}

uint32_t mr_vocab_find(const struct mr_vocab *vocab, struct mr_text text)
{
    return *slot_of(vocab, text);
}

struct mr_text mr_vocab_text(const struct mr_vocab *vocab, uint32_t id)
{
    if (id >= vocab->size || !vocab->present[id]) return (struct mr_text){NULL, 0};
    return text_at(vocab, id);
}

bool mr_vocab_check(const struct mr_vocab *vocab)
{
    uint32_t used = 0;
    for (uint32_t at = 0; at <= vocab->mask; at++)
        used += vocab->table[at] != MR_TOKEN_NONE;
    if (used > vocab->count || used > vocab->mask / 2 + 1) return false;
    for (uint32_t id = 0; id < vocab->size; id++) {
        if (!vocab->present[id]) continue;
        uint32_t found = mr_vocab_find(vocab, text_at(vocab, id));
        if (found == MR_TOKEN_NONE || found < id) return false;
    }
    return true;
}
