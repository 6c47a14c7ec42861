#include "kvcache/prefix_index.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

struct index_node {
    mr_block_id left, right; /* children of this block in the treap */
    /* treap priority, a fixed permutation of the block id: distinct and independent of the sort
     * order */
    uint32_t priority;
    mr_block_id parent; /* the block before this one in the prefix chain */
    uint32_t child_count;
    uint32_t recount;     /* number of blocks whose parent is this one, counted by _check only */
    uint32_t token_count; /* tokens in the block; 0: the block is not in the index */
    unsigned char parent_key[MR_HASH_BYTES];
    unsigned char key[MR_HASH_BYTES];
};

struct mr_prefix_index {
    struct index_node *nodes; /* [block_count] nodes */
    uint32_t *tokens;         /* [block_count * MR_BLOCK_TOKENS] token ids of each indexed block */
    uint32_t block_count, count;
    mr_block_id root;
};

/* A position in the index, which is sorted by parent key and then by tokens. */
struct position {
    const unsigned char *parent_key;
    const uint32_t *tokens;
    uint32_t token_count;
};

/* The treap priority of a block id: the finaliser of MurmurHash3, a bijection, so no two ids have
 * the same priority. */
static uint32_t scramble(uint32_t id)
{
    id ^= id >> 16;
    id *= 0x85ebca6bu;
    id ^= id >> 13;
    id *= 0xc2b2ae35u;
    return id ^ (id >> 16);
}

enum mr_status mr_prefix_index_create(struct mr_prefix_index **out, uint32_t block_count,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_prefix_index *index = calloc(1, sizeof *index);
    if (index == NULL) goto fail;
    index->nodes = calloc(block_count, sizeof *index->nodes);
    if (index->nodes == NULL) goto fail_index;
    index->tokens = calloc(block_count, sizeof *index->tokens * MR_BLOCK_TOKENS);
    if (index->tokens == NULL) goto fail_nodes;
    index->block_count = block_count;
    index->root = MR_BLOCK_NONE;
    for (mr_block_id id = 0; id < block_count; id++)
        index->nodes[id].priority = scramble(id + 1);
    *out = index;
    return MR_OK;

fail_nodes:
    free(index->nodes);
fail_index:
    free(index);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for a prefix index of %u blocks", block_count);
}

void mr_prefix_index_destroy(struct mr_prefix_index *index)
{
    if (index == NULL) return;
    free(index->tokens);
    free(index->nodes);
    free(index);
}

static uint32_t *tokens_of(const struct mr_prefix_index *index, mr_block_id id)
{
    return index->tokens + (size_t)id * MR_BLOCK_TOKENS;
}

static struct position position_of(const struct mr_prefix_index *index, mr_block_id id)
{
    const struct index_node *node = &index->nodes[id];
    return (struct position){node->parent_key, tokens_of(index, id), node->token_count};
}

static uint32_t common_run(const struct position *one, const struct position *two)
{
    uint32_t most = one->token_count < two->token_count ? one->token_count : two->token_count;
    uint32_t run = 0;
    while (run < most && one->tokens[run] == two->tokens[run])
        run++;
    return run;
}

/* Compares the tokens of block id with a position: < 0, 0 or > 0 if the block sorts before, at or
 * after the position. */
static int compare(const struct mr_prefix_index *index, mr_block_id id,
                   const struct position *position)
{
    struct position here = position_of(index, id);
    int order = memcmp(here.parent_key, position->parent_key, MR_HASH_BYTES);
    if (order != 0) return order;
    uint32_t run = common_run(&here, position);
    if (run < here.token_count && run < position->token_count)
        return here.tokens[run] < position->tokens[run] ? -1 : 1;
    if (here.token_count == position->token_count) return 0;
    return here.token_count < position->token_count ? -1 : 1;
}

static void keep_better(const struct mr_prefix_index *index, mr_block_id id,
                        const struct position *position, struct mr_prefix_hit *best)
{
    if (id == MR_BLOCK_NONE) return;
    struct position here = position_of(index, id);
    if (memcmp(here.parent_key, position->parent_key, MR_HASH_BYTES) != 0) return;
    uint32_t run = common_run(&here, position);
    if (run > best->common_tokens) *best = (struct mr_prefix_hit){id, run};
}

struct mr_prefix_hit mr_prefix_index_find(const struct mr_prefix_index *index,
                                          const unsigned char parent_key[MR_HASH_BYTES],
                                          const uint32_t *tokens, uint32_t count)
{
    struct position position = {parent_key, tokens,
                                count < MR_BLOCK_TOKENS ? count : MR_BLOCK_TOKENS};
    mr_block_id before = MR_BLOCK_NONE, after = MR_BLOCK_NONE;
    for (mr_block_id id = index->root; id != MR_BLOCK_NONE;) {
        if (compare(index, id, &position) < 0) {
            before = id;
            id = index->nodes[id].right;
        } else {
            after = id;
            id = index->nodes[id].left;
        }
    }
    struct mr_prefix_hit best = {MR_BLOCK_NONE, 0};
    keep_better(index, after, &position, &best);
    keep_better(index, before, &position, &best);
    return best;
}

/* Splits a treap at a position: the nodes before the position go to *left, the others to *right. */
static void split(struct mr_prefix_index *index, mr_block_id tree, const struct position *position,
                  mr_block_id *left, mr_block_id *right)
{
    while (tree != MR_BLOCK_NONE) {
        int order = compare(index, tree, position);
        MR_ASSERT(order != 0);
        if (order < 0) {
            *left = tree;
            left = &index->nodes[tree].right;
        } else {
            *right = tree;
            right = &index->nodes[tree].left;
        }
        tree = order < 0 ? *left : *right;
    }
    *left = *right = MR_BLOCK_NONE;
}

/* Joins two treaps; every node of `one` must sort before every node of `two`. */
static mr_block_id merge(struct mr_prefix_index *index, mr_block_id one, mr_block_id two)
{
    mr_block_id root, *link = &root;
    while (one != MR_BLOCK_NONE && two != MR_BLOCK_NONE) {
        if (index->nodes[one].priority > index->nodes[two].priority) {
            *link = one;
            link = &index->nodes[one].right;
            one = *link;
        } else {
            *link = two;
            link = &index->nodes[two].left;
            two = *link;
        }
    }
    *link = one != MR_BLOCK_NONE ? one : two;
    return root;
}

static void count_child(struct mr_prefix_index *index, const struct mr_prefix_entry *entry)
{
    if (entry->parent == MR_BLOCK_NONE) return;
    struct index_node *parent = &index->nodes[entry->parent];
    MR_ASSERT(parent->token_count == MR_BLOCK_TOKENS);
    MR_ASSERT(memcmp(parent->key, entry->parent_key, MR_HASH_BYTES) == 0);
    parent->child_count++;
}

void mr_prefix_index_insert(struct mr_prefix_index *index, mr_block_id id,
                            const struct mr_prefix_entry *entry)
{
    MR_ASSERT(id < index->block_count && index->nodes[id].token_count == 0);
    MR_ASSERT(entry->token_count > 0 && entry->token_count <= MR_BLOCK_TOKENS);
    count_child(index, entry);
    struct index_node *node = &index->nodes[id];
    node->parent = entry->parent;
    node->child_count = 0;
    node->token_count = entry->token_count;
    memcpy(node->parent_key, entry->parent_key, MR_HASH_BYTES);
    if (entry->token_count == MR_BLOCK_TOKENS) memcpy(node->key, entry->key, MR_HASH_BYTES);
    memcpy(tokens_of(index, id), entry->tokens, entry->token_count * sizeof *entry->tokens);

    struct position position = position_of(index, id);
    mr_block_id *link = &index->root;
    while (*link != MR_BLOCK_NONE && index->nodes[*link].priority > node->priority) {
        int order = compare(index, *link, &position);
        MR_ASSERT(order != 0);
        link = order < 0 ? &index->nodes[*link].right : &index->nodes[*link].left;
    }
    split(index, *link, &position, &node->left, &node->right);
    *link = id;
    index->count++;
}

void mr_prefix_index_remove(struct mr_prefix_index *index, mr_block_id id)
{
    MR_ASSERT(id < index->block_count);
    struct index_node *node = &index->nodes[id];
    MR_ASSERT(node->token_count > 0 && node->child_count == 0);
    struct position position = position_of(index, id);
    mr_block_id *link = &index->root;
    while (*link != id) {
        MR_ASSERT(*link != MR_BLOCK_NONE);
        bool before = compare(index, *link, &position) < 0;
        link = before ? &index->nodes[*link].right : &index->nodes[*link].left;
    }
    *link = merge(index, node->left, node->right);
    node->token_count = 0;
    if (node->parent != MR_BLOCK_NONE) index->nodes[node->parent].child_count--;
    index->count--;
}

uint32_t mr_prefix_index_tokens(const struct mr_prefix_index *index, mr_block_id id)
{
    MR_ASSERT(id < index->block_count);
    return index->nodes[id].token_count;
}

const unsigned char *mr_prefix_index_key(const struct mr_prefix_index *index, mr_block_id id)
{
    MR_ASSERT(mr_prefix_index_tokens(index, id) == MR_BLOCK_TOKENS);
    return index->nodes[id].key;
}

/* Asserts the sort order of a treap; *previous is the block that sorts before the treap, and after
 * the call the treap's last. Returns the number of nodes. */
static uint32_t check_tree(const struct mr_prefix_index *index, mr_block_id id,
                           mr_block_id *previous)
{
    if (id == MR_BLOCK_NONE) return 0;
    const struct index_node *node = &index->nodes[id];
    MR_ASSERT(id < index->block_count && node->token_count > 0);
    MR_ASSERT(node->left == MR_BLOCK_NONE || index->nodes[node->left].priority < node->priority);
    MR_ASSERT(node->right == MR_BLOCK_NONE || index->nodes[node->right].priority < node->priority);
    uint32_t left = check_tree(index, node->left, previous);
    struct position position = position_of(index, id);
    MR_ASSERT(*previous == MR_BLOCK_NONE || compare(index, *previous, &position) < 0);
    *previous = id;
    return left + 1 + check_tree(index, node->right, previous);
}

void mr_prefix_index_check(const struct mr_prefix_index *index)
{
    mr_block_id previous = MR_BLOCK_NONE;
    MR_ASSERT(check_tree(index, index->root, &previous) == index->count);
    uint32_t present = 0;
    for (mr_block_id id = 0; id < index->block_count; id++)
        index->nodes[id].recount = 0;
    for (mr_block_id id = 0; id < index->block_count; id++) {
        const struct index_node *node = &index->nodes[id];
        if (node->token_count == 0) continue;
        present++;
        if (node->parent == MR_BLOCK_NONE) continue;
        struct index_node *parent = &index->nodes[node->parent];
        MR_ASSERT(parent->token_count == MR_BLOCK_TOKENS);
        MR_ASSERT(memcmp(parent->key, node->parent_key, MR_HASH_BYTES) == 0);
        parent->recount++;
    }
    MR_ASSERT(present == index->count);
    for (mr_block_id id = 0; id < index->block_count; id++) {
        const struct index_node *node = &index->nodes[id];
        MR_ASSERT(node->token_count == 0 || node->recount == node->child_count);
    }
}
