#include "codec/grammar/token_mask.h"

#include "codec/check.h"
#include "codec/hash.h"

#include <stdlib.h>
#include <string.h>

#define KEY_STATES_MAX 12u  /* entries of a stack in the key of a kept mask */
#define KEEP_NODES_MIN 400u /* a walk over fewer nodes is faster than a look into the table */
/* Work (mr_parse) on the mask of a head, about 1 ms, and most heads that may each take so much. It
 * is reached only by very ambiguous grammars. Then only some of the tokens that may follow are
 * found, always one at least. Masks are a function of the matcher alone nevertheless: the table is
 * not used above so many heads. */
#define WORK_MAX        1000000u
#define WORK_HEADS      8u
#define TABLE_SLOTS_MAX 1024u

/* Which mask a slot of the table has: grammar, state, and the states on the stack that the walk has
 * read, from the top on. */
struct key {
    unsigned char digest[16];
    uint32_t state, count;
    bool to_bottom; /* the walk has seen that nothing is below these states */
    uint32_t states[KEY_STATES_MAX];
};

struct mr_token_mask {
    struct mr_token_trie *trie;
    struct mr_parse *parse;
    struct mr_text *texts; /* [vocab_size] bytes of each token */
    uint32_t vocab_size;
    enum mr_first_space first_space;
    struct mr_token_mask_stats stats;
    uint32_t slot_count;
    struct key *keys; /* [slot_count]; count UINT32_MAX: free */
    uint64_t *kept;   /* [slot_count][words] */
    uint64_t *row;    /* [words] the mask of one head */
    /* [MR_TRIE_TOKEN_BYTES_MAX + 2] heads and nodes behind each byte of the token being walked */
    uint32_t *head_marks, *node_marks;
    uint64_t work_end; /* value of parse->work at which a walk stops */
    bool found;        /* the walk has found a token */
    bool no_spaces;    /* the walk leaves tokens with spaces out */
};

/* ---- creation ---- */

static enum mr_status take_memory(struct mr_token_mask *mask)
{
    size_t row = (size_t)mask->trie->word_count * sizeof(uint64_t);
    size_t slots = MR_MASK_TABLE_BYTES / (row + 1);
    mask->slot_count = slots > TABLE_SLOTS_MAX ? TABLE_SLOTS_MAX : (uint32_t)slots + 1;
    mask->keys = calloc(mask->slot_count, sizeof *mask->keys);
    mask->kept = calloc(mask->slot_count, row + 1);
    mask->row = calloc(1, row + 1);
    mask->head_marks = calloc(MR_TRIE_TOKEN_BYTES_MAX + 2, sizeof *mask->head_marks);
    mask->node_marks = calloc(MR_TRIE_TOKEN_BYTES_MAX + 2, sizeof *mask->node_marks);
    if (!mask->keys || !mask->kept || !mask->row || !mask->head_marks || !mask->node_marks)
        return MR_NOMEM;
    for (uint32_t i = 0; i < mask->slot_count; i++)
        mask->keys[i].count = UINT32_MAX;
    return MR_OK;
}

enum mr_status mr_token_mask_of_texts(struct mr_token_mask **out, const struct mr_text *tokens,
                                      uint32_t vocab_size, struct mr_error *err)
{
    *out = NULL;
    struct mr_token_mask *mask = calloc(1, sizeof *mask);
    if (!mask) return mr_fail(err, MR_NOMEM, "no memory for token masks");
    mask->vocab_size = vocab_size;
    mask->texts = calloc((size_t)vocab_size + 1, sizeof *mask->texts);
    enum mr_status status = MR_NOMEM;
    if (!mask->texts) goto fail;
    memcpy(mask->texts, tokens, vocab_size * sizeof *tokens);
    status = mr_token_trie_create(&mask->trie, tokens, vocab_size, err);
    if (status == MR_OK) status = mr_parse_create(&mask->parse, err);
    if (status == MR_OK) status = take_memory(mask);
    if (status != MR_OK) goto fail;
    *out = mask;
    return MR_OK;
fail:
    mr_token_mask_destroy(mask);
    return mr_fail(err, status, "no memory for token masks");
}

enum mr_status mr_token_mask_create(struct mr_token_mask **out,
                                    const struct mr_tokenizer *tokenizer, uint32_t vocab_size,
                                    struct mr_error *err)
{
    *out = NULL;
    struct mr_text *texts = calloc((size_t)vocab_size + 1, sizeof *texts);
    if (!texts) return mr_fail(err, MR_NOMEM, "no memory for token masks");
    for (uint32_t id = 0; id < vocab_size; id++)
        texts[id] = mr_tokenizer_bytes(tokenizer, id, true);
    enum mr_status status = mr_token_mask_of_texts(out, texts, vocab_size, err);
    free(texts);
    if (status == MR_OK) (*out)->first_space = mr_tokenizer_first_space(tokenizer);
    return status;
}

void mr_token_mask_destroy(struct mr_token_mask *mask)
{
    if (!mask) return;
    mr_token_trie_destroy(mask->trie);
    mr_parse_destroy(mask->parse);
    free(mask->texts);
    free(mask->keys);
    free(mask->kept);
    free(mask->row);
    free(mask->head_marks);
    free(mask->node_marks);
    free(mask);
}

void mr_token_mask_spelled(const struct mr_tokenizer *tokenizer, bool spelled[256])
{
    memset(spelled, 0, 256 * sizeof *spelled);
    for (uint32_t id = 0; id < mr_tokenizer_vocab_size(tokenizer); id++) {
        struct mr_text bytes = mr_tokenizer_bytes(tokenizer, id, true);
        if (bytes.length == 1) spelled[(unsigned char)bytes.bytes[0]] = true;
    }
}

uint32_t mr_token_mask_words(const struct mr_token_mask *mask)
{
    return mask->trie->word_count;
}

struct mr_token_mask_stats mr_token_mask_stats(const struct mr_token_mask *mask)
{
    return mask->stats;
}

/* ---- one walk ---- */

static void set_bit(uint64_t *bits, uint32_t id)
{
    bits[id / 64] |= 1ull << (id % 64);
}

/* Walks nodes [begin, end) of a trie from the heads [0, head_count) of the parse and sets the bits
 * of the tokens that they allow. The nodes are a whole trie, or all below one node. */
static void walk(struct mr_token_mask *mask, const struct mr_trie *trie, uint32_t begin,
                 uint32_t end, uint64_t *bits)
{
    struct mr_parse *parse = mask->parse;
    uint32_t *heads = mask->head_marks, *nodes = mask->node_marks;
    if (begin == end) return;
    const uint32_t base = trie->nodes[begin].depth - 1u;
    const uint32_t first_head = parse->head_count, first_node = parse->node_count;
    heads[base] = first_head;
    nodes[base] = first_node;
    for (uint32_t i = begin; i < end;) {
        const struct mr_trie_node *node = &trie->nodes[i];
        const uint32_t level = node->depth - 1u;
        const uint32_t from = level == base ? 0 : heads[level - 1];
        mask->stats.nodes++;
        if (mask->no_spaces && node->byte == ' ') {
            i = node->skip;
            continue;
        }
        if (parse->work > mask->work_end && (mask->found || level > base)) {
            i = level > base ? node->skip : end;
            continue;
        }
        parse->head_count = heads[level];
        parse->node_count = nodes[level];
        const uint32_t count = mr_parse_step(parse, from, heads[level], node->byte);
        if (count == 0 && !parse->can_end) {
            i = node->skip;
            continue;
        }
        for (uint32_t t = 0; t < node->token_count; t++)
            set_bit(bits, trie->ids[node->first_token + t]);
        mask->found |= node->token_count > 0;
        heads[level + 1] = parse->head_count;
        nodes[level + 1] = parse->node_count;
        i = count > 0 ? i + 1 : node->skip;
    }
    parse->head_count = first_head;
    parse->node_count = first_node;
}

/* How many plain characters the only head of the parse surely allows; 0: unknown. *is_all: no plain
 * token with more characters is allowed. */
static uint32_t plain_room(const struct mr_parse *parse, bool *is_all)
{
    const struct mr_grammar *grammar = parse->grammar;
    const struct mr_parse_head *head = &parse->heads[0];
    *is_all = true;
    if (grammar->states[head->state].plain_loop) return UINT32_MAX;
    if (head->parent == MR_NODE_NONE) return 0;
    const struct mr_parse_node *node = &parse->nodes[head->parent];
    if (node->state < MR_STATE_COUNTED) return 0;
    const struct mr_automaton_rule *rule =
        &grammar->rules[mr_automaton_counted(grammar, node->state)];
    if (!rule->plain || grammar->rules[rule->item].start != head->state) return 0;
    if (rule->max == UINT32_MAX) return UINT32_MAX;
    const struct mr_parse_node *behind =
        node->parent == MR_NODE_NONE ? NULL : &parse->nodes[node->parent];
    *is_all =
        behind && behind->state < MR_STATE_COUNTED && grammar->states[behind->state].blocks_plain;
    return rule->max - (node->state - rule->start) + 1;
}

/* Fills mask->row for the only head of the parse. */
static void walk_head(struct mr_token_mask *mask)
{
    const struct mr_token_trie *trie = mask->trie;
    bool is_all;
    uint32_t room = plain_room(mask->parse, &is_all);
    bool covers = room >= trie->plain_chars || is_all;
    memset(mask->row, 0, trie->word_count * sizeof *mask->row);
    if (room > 0 && covers) {
        uint32_t chars = room < MR_TRIE_PLAIN_CHARS_MAX ? room : MR_TRIE_PLAIN_CHARS_MAX;
        memcpy(mask->row, trie->plain_masks + (size_t)chars * trie->word_count,
               trie->word_count * sizeof *mask->row);
    } else {
        walk(mask, &trie->plain, 0, trie->plain.node_count, mask->row);
    }
    walk(mask, &trie->other, 0, trie->other.node_count, mask->row);
}

/* ---- the table ---- */

static uint32_t slot_of(const struct mr_token_mask *mask, const struct mr_matcher *matcher,
                        const struct mr_parse_head *head)
{
    uint32_t words[2] = {head->state, UINT32_MAX};
    if (head->parent != MR_NODE_NONE) words[1] = matcher->nodes[head->parent].state;
    uint64_t hash = mr_hash_bytes(MR_HASH_START, matcher->grammar->digest, 16);
    return (uint32_t)(mr_hash_bytes(hash, words, sizeof words) % mask->slot_count);
}

static bool has_key(const struct key *key, const struct mr_matcher *matcher,
                    const struct mr_parse_head *head)
{
    if (key->count == UINT32_MAX || key->state != head->state || key->count > head->depth ||
        (key->to_bottom && key->count != head->depth) ||
        memcmp(key->digest, matcher->grammar->digest, sizeof key->digest) != 0)
        return false;
    uint32_t node = head->parent;
    for (uint32_t i = 0; i < key->count; i++) {
        if (matcher->nodes[node].state != key->states[i]) return false;
        node = matcher->nodes[node].parent;
    }
    return true;
}

/* Keeps mask->row, which a walk has filled that read the stack down to depth `lowest`. */
static void keep(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                 const struct mr_parse_head *head, uint32_t lowest)
{
    uint32_t read = lowest > head->depth ? 0 : lowest == 0 ? head->depth : head->depth - lowest + 1;
    if (read > KEY_STATES_MAX) return;
    uint32_t slot = slot_of(mask, matcher, head);
    struct key *key = &mask->keys[slot];
    *key = (struct key){.state = head->state, .count = read, .to_bottom = lowest == 0};
    memcpy(key->digest, matcher->grammar->digest, sizeof key->digest);
    uint32_t node = head->parent;
    for (uint32_t i = 0; i < read; i++) {
        key->states[i] = matcher->nodes[node].state;
        node = matcher->nodes[node].parent;
    }
    memcpy(mask->kept + (size_t)slot * mask->trie->word_count, mask->row,
           mask->trie->word_count * sizeof *mask->row);
}

/* Walks for the head at `index` alone. True when the walk was complete. */
static bool walk_alone(struct mr_token_mask *mask, const struct mr_matcher *matcher, uint32_t index)
{
    const uint32_t heads = matcher->head_count > WORK_HEADS ? matcher->head_count : WORK_HEADS;
    mr_matcher_load(matcher, mask->parse);
    mask->parse->heads[0] = matcher->heads[index];
    mask->parse->head_count = 1;
    mask->found = false;
    mask->work_end = mask->parse->work + (uint64_t)WORK_MAX * WORK_HEADS / heads;
    walk_head(mask);
    mask->stats.walks++;
    return mask->parse->work <= mask->work_end;
}

static void fill_head(struct mr_token_mask *mask, const struct mr_matcher *matcher, uint32_t index,
                      uint64_t *bits)
{
    const struct mr_parse_head *head = &matcher->heads[index];
    const uint32_t words = mask->trie->word_count;
    const uint32_t slot = slot_of(mask, matcher, head);
    const bool few = matcher->head_count <= WORK_HEADS;
    const uint64_t *row = mask->row;
    if (few && has_key(&mask->keys[slot], matcher, head)) {
        row = mask->kept + (size_t)slot * words;
        mask->stats.hits++;
    } else {
        uint64_t before = mask->stats.nodes;
        bool complete = walk_alone(mask, matcher, index);
        if (few && complete && mask->stats.nodes - before >= KEEP_NODES_MIN)
            keep(mask, matcher, head, mask->parse->lowest);
    }
    for (uint32_t i = 0; i < words; i++)
        bits[i] |= row[i];
}

/* ---- an answer ---- */

void mr_token_mask_start(struct mr_token_mask *mask, struct mr_matcher *matcher,
                         const struct mr_grammar *grammar)
{
    mr_matcher_init(matcher, grammar, mask->parse);
}

/* Walks a trie for the first token where decoding removes a space at the start: a token that begins
 * with a space stands for the bytes behind it. Tokens of which decoding removes more are left out,
 * and so is a single space. The parse has the heads of the answer. */
static void walk_first(struct mr_token_mask *mask, const struct mr_trie *trie, uint64_t *bits)
{
    uint32_t space = 0;
    while (space < trie->node_count && trie->nodes[space].byte != ' ')
        space = trie->nodes[space].skip;
    const uint32_t behind = space < trie->node_count ? trie->nodes[space].skip : space;
    mask->no_spaces = mask->first_space == MR_FIRST_SPACE_OF_TOKEN;
    walk(mask, trie, 0, space, bits);
    if (space < behind) walk(mask, trie, space + 1, behind, bits);
    walk(mask, trie, behind, trie->node_count, bits);
    mask->no_spaces = false;
}

void mr_token_mask_fill(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                        uint64_t *bits)
{
    mask->stats.masks++;
    memset(bits, 0, mask->trie->word_count * sizeof *bits);
    if (matcher->at_start && mask->first_space != MR_FIRST_SPACE_KEPT) {
        mr_matcher_load(matcher, mask->parse);
        mask->found = false;
        mask->work_end = mask->parse->work + (uint64_t)WORK_MAX * WORK_HEADS;
        walk_first(mask, &mask->trie->plain, bits);
        walk_first(mask, &mask->trie->other, bits);
        return;
    }
    for (uint32_t i = 0; i < matcher->head_count; i++)
        fill_head(mask, matcher, i, bits);
}

bool mr_token_mask_replay(const struct mr_token_mask *mask, struct mr_parse *parse,
                          struct mr_matcher *matcher, uint32_t id)
{
    if (id >= mask->vocab_size) return false;
    struct mr_text bytes = mask->texts[id];
    if (matcher->at_start && mask->first_space != MR_FIRST_SPACE_KEPT) {
        if (bytes.length > 0 && bytes.bytes[0] == ' ') bytes = mr_text_part(bytes, 1, bytes.length);
        if (mask->first_space == MR_FIRST_SPACE_OF_TOKEN && memchr(bytes.bytes, ' ', bytes.length))
            return false;
    }
    if (bytes.length == 0) return false;
    return mr_matcher_accept(matcher, parse, bytes);
}

bool mr_token_mask_accept(struct mr_token_mask *mask, struct mr_matcher *matcher, uint32_t id)
{
    return mr_token_mask_replay(mask, mask->parse, matcher, id);
}
