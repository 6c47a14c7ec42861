#include "codec/grammar/token_trie.h"

#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    struct mr_text bytes;
    uint32_t id;
};

static int compare_entries(const void *one, const void *other)
{
    const struct entry *a = one, *b = other;
    size_t shared = a->bytes.length < b->bytes.length ? a->bytes.length : b->bytes.length;
    int order = memcmp(a->bytes.bytes, b->bytes.bytes, shared);
    if (order != 0) return order;
    if (a->bytes.length != b->bytes.length) return a->bytes.length < b->bytes.length ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Number of characters of a token if all are plain, otherwise 0. */
static uint32_t plain_length(struct mr_text bytes)
{
    uint32_t count = 0;
    for (size_t at = 0; at < bytes.length; count++) {
        struct mr_utf8_step step = mr_utf8_next(bytes, at);
        bool escaped = step.code_point == '"' || step.code_point == '\\';
        if (!step.valid || step.code_point < 0x20 || step.code_point == 0x7f || escaped) return 0;
        at += step.length;
    }
    return count <= MR_TRIE_PLAIN_CHARS_MAX ? count : 0;
}

static size_t shared_bytes(struct mr_text one, struct mr_text other)
{
    size_t length = 0;
    while (length < one.length && length < other.length && one.bytes[length] == other.bytes[length])
        length++;
    return length;
}

static void add_token(struct mr_trie *trie, const struct entry *entry, size_t shared,
                      uint32_t *path)
{
    for (size_t depth = shared; depth < entry->bytes.length; depth++) {
        path[depth] = trie->node_count;
        trie->nodes[trie->node_count++] =
            (struct mr_trie_node){.byte = (uint8_t)entry->bytes.bytes[depth],
                                  .depth = (uint16_t)(depth + 1),
                                  .first_token = trie->id_count};
    }
    struct mr_trie_node *last = &trie->nodes[path[entry->bytes.length - 1]];
    last->token_count++;
    trie->ids[trie->id_count++] = entry->id;
}

/* Sets skip of the nodes path[depth, count), whose subtrees are complete. */
static void close_path(struct mr_trie *trie, const uint32_t *path, size_t depth, size_t count)
{
    for (size_t i = depth; i < count; i++)
        trie->nodes[path[i]].skip = trie->node_count;
}

static enum mr_status build(struct mr_trie *trie, const struct entry *entries, uint32_t count)
{
    uint32_t path[MR_TRIE_TOKEN_BYTES_MAX];
    size_t nodes = 1, open = 0;
    struct mr_text last = {"", 0};
    for (uint32_t i = 0; i < count; i++)
        nodes += entries[i].bytes.length -
                 (i > 0 ? shared_bytes(entries[i - 1].bytes, entries[i].bytes) : 0);
    trie->nodes = calloc(nodes, sizeof *trie->nodes);
    trie->ids = calloc((size_t)count + 1, sizeof *trie->ids);
    if (!trie->nodes || !trie->ids) return MR_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        size_t shared = shared_bytes(last, entries[i].bytes);
        close_path(trie, path, shared, open);
        add_token(trie, &entries[i], shared, path);
        last = entries[i].bytes;
        open = last.length;
    }
    close_path(trie, path, 0, open);
    return MR_OK;
}

static void fill_plain_masks(struct mr_token_trie *trie, const struct mr_text *tokens)
{
    for (uint32_t id = 0; id < trie->vocab_size; id++) {
        if (tokens[id].length == 0 || tokens[id].length > MR_TRIE_TOKEN_BYTES_MAX) continue;
        uint32_t length = plain_length(tokens[id]);
        if (length == 0) continue;
        if (length > trie->plain_chars) trie->plain_chars = length;
        for (uint32_t chars = length; chars <= MR_TRIE_PLAIN_CHARS_MAX; chars++)
            trie->plain_masks[(size_t)chars * trie->word_count + id / 64] |= 1ull << (id % 64);
    }
}

enum mr_status mr_token_trie_create(struct mr_token_trie **out, const struct mr_text *tokens,
                                    uint32_t vocab_size, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = MR_NOMEM;
    struct entry *entries = calloc((size_t)vocab_size + 1, sizeof *entries);
    struct mr_token_trie *trie = calloc(1, sizeof *trie);
    if (!trie || !entries) goto done;
    trie->vocab_size = vocab_size;
    trie->word_count = (vocab_size + 63) / 64;
    trie->plain_masks = calloc((size_t)(MR_TRIE_PLAIN_CHARS_MAX + 1) * trie->word_count + 1,
                               sizeof *trie->plain_masks);
    if (!trie->plain_masks) goto done;
    fill_plain_masks(trie, tokens);
    status = MR_OK;
    for (unsigned plain = 0; plain < 2 && status == MR_OK; plain++) {
        uint32_t count = 0;
        for (uint32_t id = 0; id < vocab_size; id++)
            if (tokens[id].length > 0 && tokens[id].length <= MR_TRIE_TOKEN_BYTES_MAX &&
                (plain_length(tokens[id]) > 0) == (plain == 1))
                entries[count++] = (struct entry){tokens[id], id};
        qsort(entries, count, sizeof *entries, compare_entries);
        status = build(plain ? &trie->plain : &trie->other, entries, count);
    }
done:
    free(entries);
    if (status == MR_OK)
        *out = trie;
    else
        mr_token_trie_destroy(trie);
    return status == MR_OK ? MR_OK : mr_fail(err, status, "no memory for the tree of a vocabulary");
}

void mr_token_trie_destroy(struct mr_token_trie *trie)
{
    if (!trie) return;
    free(trie->plain.nodes);
    free(trie->plain.ids);
    free(trie->other.nodes);
    free(trie->other.ids);
    free(trie->plain_masks);
    free(trie);
}

size_t mr_token_trie_bytes(const struct mr_token_trie *trie)
{
    size_t nodes = (size_t)trie->plain.node_count + trie->other.node_count;
    return sizeof *trie + nodes * sizeof(struct mr_trie_node) +
           ((size_t)trie->plain.id_count + trie->other.id_count) * sizeof(uint32_t) +
           (size_t)(MR_TRIE_PLAIN_CHARS_MAX + 1) * trie->word_count * sizeof(uint64_t);
}

/* Replaces *best by a longer match among the tokens of one tree, if there is one. */
static void find_longest(const struct mr_trie *trie, struct mr_text bytes,
                         struct mr_trie_match *best)
{
    uint32_t end = trie->node_count;
    for (uint32_t i = 0; i < end;) {
        const struct mr_trie_node *node = &trie->nodes[i];
        if (node->depth > bytes.length) { /* this token continues after all the bytes given */
            best->goes_on = true;
            return;
        }
        if (node->byte != (unsigned char)bytes.bytes[node->depth - 1]) {
            i = node->skip;
            continue;
        }
        if (node->token_count > 0 && node->depth > best->length) {
            best->length = node->depth;
            best->id = trie->ids[node->first_token];
            best->shared = node->token_count > 1;
        }
        end = node->skip;
        i++;
    }
}

struct mr_trie_match mr_token_trie_longest(const struct mr_token_trie *trie, struct mr_text bytes)
{
    struct mr_trie_match best = {.length = 0};
    find_longest(&trie->plain, bytes, &best);
    find_longest(&trie->other, bytes, &best);
    return best;
}
