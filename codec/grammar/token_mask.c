#include "codec/grammar/token_mask.h"

#include "codec/check.h"
#include "codec/hash.h"

#include <stdlib.h>
#include <string.h>

#define FORCED_BYTES_MAX 256u /* most forced bytes that are spelled in one call */
#define KEY_STATES_MAX   12u  /* stack entries in the key of a cached mask */
#define KEEP_NODES_MIN   400u /* a walk over fewer nodes is faster than a cache lookup */
/* Limit of work (mr_parse) on one mask: WORK_LEAST, and this much for each node of the trie; 5 to 9
 * ms for 50,000 tokens. Each head may use half of the remaining work, the last head all of it. Only
 * very ambiguous grammars need more; then a mask has only some of the allowed tokens, at least one
 * for each head. The mask depends on the matcher alone, not on the cache: a cached mask is charged
 * with the work of its walk, and is used only where the walk would have had the same result. */
#define WORK_PER_NODE   20u
#define WORK_LEAST      50000u
#define TABLE_SLOTS_MAX 1024u

/* The key of a cached mask: grammar, state, and the stack states that the walk has read, top first,
 * normalized by key_state(). */
struct key {
    unsigned char digest[16];
    uint32_t state, count;
    bool to_bottom; /* the walk has emptied the stack, so the stack must have no entry below these
                       states */
    bool complete;
    uint64_t work; /* of the walk if complete, otherwise its limit */
    uint32_t room; /* stack entries above the head that the walk needs */
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
    /* [MR_TRIE_TOKEN_BYTES_MAX + 2] heads and nodes after each byte of the current token */
    uint32_t *head_marks, *node_marks;
    uint64_t work_max; /* limit of work for one mask */
    uint64_t work_end; /* value of parse->work at which a walk stops */
    bool found;        /* the walk has found at least one token */
    bool no_spaces;    /* the walk skips tokens with spaces */
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
    mask->work_max = WORK_LEAST + (uint64_t)WORK_PER_NODE *
                                      (mask->trie->plain.node_count + mask->trie->other.node_count);
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
                                    const uint32_t *end_ids, uint32_t end_count,
                                    struct mr_error *err)
{
    *out = NULL;
    struct mr_text *texts = calloc((size_t)vocab_size + 1, sizeof *texts);
    if (!texts) return mr_fail(err, MR_NOMEM, "no memory for token masks");
    for (uint32_t id = 0; id < vocab_size; id++)
        texts[id] = mr_tokenizer_bytes(tokenizer, id, true);
    for (uint32_t i = 0; i < end_count; i++)
        if (end_ids[i] < vocab_size) texts[end_ids[i]] = (struct mr_text){"", 0};
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

uint64_t mr_token_mask_work(const struct mr_token_mask *mask)
{
    return mask->parse->work;
}

uint64_t mr_token_mask_work_max(const struct mr_token_mask *mask)
{
    return mask->work_max;
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
 * of the allowed tokens. The range is a whole trie or the subtree of one node. */
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
        if (parse->work >= mask->work_end && (mask->found || level > base)) {
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

/* Number of plain characters that the only head of the parse certainly allows; 0: unknown. *is_all:
 * no plain token with more characters is allowed. */
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
    const struct mr_parse_node *after =
        node->parent == MR_NODE_NONE ? NULL : &parse->nodes[node->parent];
    *is_all =
        after && after->state < MR_STATE_COUNTED && grammar->states[after->state].blocks_plain;
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

/* Normalizes a state for the key. All states of a counted rule that are too far from its limits for
 * one token to reach them map to one state: an item has at least one byte, a token at most
 * MR_TRIE_TOKEN_BYTES_MAX. */
static uint32_t key_state(const struct mr_grammar *grammar, uint32_t state)
{
    if (state < MR_STATE_COUNTED) return state;
    const struct mr_automaton_rule *rule = &grammar->rules[mr_automaton_counted(grammar, state)];
    const uint32_t count = state - rule->start, far = MR_TRIE_TOKEN_BYTES_MAX + 1;
    if (count < rule->min) return rule->min - count > far ? rule->start : state;
    if (rule->max == UINT32_MAX) return state;
    return rule->max - count > far ? rule->start + rule->min : state;
}

static uint32_t slot_of(const struct mr_token_mask *mask, const struct mr_matcher *matcher,
                        const struct mr_parse_head *head)
{
    uint32_t words[2] = {head->state, UINT32_MAX};
    if (head->parent != MR_NODE_NONE)
        words[1] = key_state(matcher->grammar, matcher->nodes[head->parent].state);
    uint64_t hash = mr_hash_bytes(MR_HASH_START, matcher->grammar->digest, 16);
    return (uint32_t)(mr_hash_bytes(hash, words, sizeof words) % mask->slot_count);
}

static bool has_key(const struct key *key, const struct mr_matcher *matcher,
                    const struct mr_parse_head *head)
{
    if (key->count == UINT32_MAX || key->state != head->state || key->count > head->depth ||
        head->depth + key->room > MR_STACK_MAX || (key->to_bottom && key->count != head->depth) ||
        memcmp(key->digest, matcher->grammar->digest, sizeof key->digest) != 0)
        return false;
    uint32_t node = head->parent;
    for (uint32_t i = 0; i < key->count; i++) {
        if (key_state(matcher->grammar, matcher->nodes[node].state) != key->states[i]) return false;
        node = matcher->nodes[node].parent;
    }
    return true;
}

/* Caches mask->row, the result of the last walk. allowed: the limit of that walk's work. */
static void keep(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                 const struct mr_parse_head *head, uint64_t allowed)
{
    const uint64_t work = allowed + mask->parse->work - mask->work_end;
    const uint32_t lowest = mask->parse->lowest;
    uint32_t read = lowest > head->depth ? 0 : lowest == 0 ? head->depth : head->depth - lowest + 1;
    const uint32_t highest = mask->parse->highest;
    if (read > KEY_STATES_MAX || highest > MR_STACK_MAX) return;
    uint32_t slot = slot_of(mask, matcher, head);
    struct key *key = &mask->keys[slot];
    *key = (struct key){.state = head->state,
                        .count = read,
                        .to_bottom = lowest == 0,
                        .complete = work < allowed,
                        .work = work < allowed ? work : allowed,
                        .room = highest > head->depth ? highest - head->depth : 0};
    memcpy(key->digest, matcher->grammar->digest, sizeof key->digest);
    uint32_t node = head->parent;
    for (uint32_t i = 0; i < read; i++) {
        key->states[i] = key_state(matcher->grammar, matcher->nodes[node].state);
        node = matcher->nodes[node].parent;
    }
    memcpy(mask->kept + (size_t)slot * mask->trie->word_count, mask->row,
           mask->trie->word_count * sizeof *mask->row);
}

/* Walks the trie for the head at `index` alone and returns the work done. */
static uint64_t walk_alone(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                           uint32_t index, uint64_t allowed)
{
    const uint64_t before = mask->parse->work;
    mr_matcher_load(matcher, mask->parse);
    mask->parse->heads[0] = matcher->heads[index];
    mask->parse->head_count = 1;
    mask->found = false;
    mask->work_end = before + allowed;
    walk_head(mask);
    mask->stats.walks++;
    return mask->parse->work - before;
}

/* Adds the tokens of a head to bits. allowed: the limit of work. Returns the work charged for the
 * head. */
static uint64_t fill_head(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                          uint32_t index, uint64_t allowed, uint64_t *bits)
{
    const struct mr_parse_head *head = &matcher->heads[index];
    const uint32_t words = mask->trie->word_count;
    const uint32_t slot = slot_of(mask, matcher, head);
    const struct key *key = &mask->keys[slot];
    const uint64_t *row = mask->row;
    uint64_t work;
    if (has_key(key, matcher, head) &&
        (key->complete ? key->work < allowed : key->work == allowed)) {
        row = mask->kept + (size_t)slot * words;
        work = key->work;
        mask->stats.hits++;
    } else {
        uint64_t before = mask->stats.nodes;
        work = walk_alone(mask, matcher, index, allowed);
        if (mask->stats.nodes - before >= KEEP_NODES_MIN) keep(mask, matcher, head, allowed);
    }
    mask->stats.cut += work >= allowed;
    for (uint32_t i = 0; i < words; i++)
        bits[i] |= row[i];
    return work < allowed ? work : allowed;
}

/* ---- an answer ---- */

void mr_token_mask_start(struct mr_token_mask *mask, struct mr_matcher *matcher,
                         const struct mr_grammar *grammar)
{
    mr_matcher_init(matcher, grammar, mask->parse);
}

/* Walks a trie for the first token where decoding removes a space at the start: a token that begins
 * with a space is matched without it. Skips a single space and tokens from which decoding removes
 * more than one space. The parse has the heads of the answer. */
static void walk_first(struct mr_token_mask *mask, const struct mr_trie *trie, uint64_t *bits)
{
    uint32_t space = 0;
    while (space < trie->node_count && trie->nodes[space].byte != ' ')
        space = trie->nodes[space].skip;
    const uint32_t after = space < trie->node_count ? trie->nodes[space].skip : space;
    mask->no_spaces = mask->first_space == MR_FIRST_SPACE_OF_TOKEN;
    walk(mask, trie, 0, space, bits);
    if (space < after) walk(mask, trie, space + 1, after, bits);
    walk(mask, trie, after, trie->node_count, bits);
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
        mask->work_end = mask->parse->work + mask->work_max;
        walk_first(mask, &mask->trie->plain, bits);
        walk_first(mask, &mask->trie->other, bits);
        return;
    }
    uint64_t left = mask->work_max;
    for (uint32_t i = 0; i < matcher->head_count; i++)
        left -= fill_head(mask, matcher, i, i + 1 < matcher->head_count ? left / 2 : left, bits);
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

uint32_t mr_token_mask_forced(struct mr_token_mask *mask, const struct mr_matcher *matcher,
                              uint32_t *ids, uint32_t max, uint32_t *sure)
{
    char forced[FORCED_BYTES_MAX];
    uint32_t count = 0;
    /* Decoding may remove a space from the first token. */
    bool is_sure = !matcher->at_start || mask->first_space == MR_FIRST_SPACE_KEPT;
    size_t at = 0, length = mr_matcher_forced(matcher, mask->parse, forced, sizeof forced);
    *sure = 0;
    while (count < max && at < length) {
        const struct mr_trie_match next =
            mr_token_trie_longest(mask->trie, (struct mr_text){forced + at, length - at});
        if (next.length == 0) break;
        is_sure = is_sure && !next.shared && !next.goes_on;
        *sure += is_sure;
        ids[count++] = next.id;
        at += next.length;
    }
    return count;
}
