#include "batching/cache/shared_lookup.h"

#include "codec/check.h"

static struct mr_lookup_slot *find_free_slot(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOOKUPS_MAX; i++)
        if (!shared->lookups[i].in_use) return &shared->lookups[i];
    return NULL;
}

/* Adds the pieces (MR_PIECE_TOKENS tokens each) of block number `block` of the prompt to
 * shared->items[count] onwards; returns the new count. shared->keys must hold the keys of all
 * earlier blocks of the prompt. */
static uint32_t fill_pieces(struct mr_shared_cache *shared, const struct mr_job *job,
                            uint32_t block, uint32_t count)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    const unsigned char *parent = mr_shared_base_parent(shared, job, block);
    uint32_t begin = block * MR_BLOCK_TOKENS, most = sequence->prompt_tokens - begin;
    for (uint32_t i = 1; i <= MR_PIECES_MAX && i * MR_PIECE_TOKENS <= most; i++)
        shared->items[count++] =
            mr_shared_base_piece_item(shared, sequence, parent, begin + i * MR_PIECE_TOKENS);
    return count;
}

/* Fills shared->items with the first query: all full blocks of the prompt, the pieces
 * (MR_PIECE_TOKENS tokens each) of its part-filled last block, and its complete-prompt entry
 * (logits and tail KV). Returns their number. */
static uint32_t fill_query(struct mr_shared_cache *shared, const struct mr_job *job)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    uint32_t blocks = sequence->prompt_tokens / MR_BLOCK_TOKENS;
    MR_ASSERT(blocks + MR_PIECES_MAX < shared->items_max);
    mr_kv_cache_keys(shared->options.cache, job->root, sequence->tokens, blocks, shared->keys);
    for (uint32_t i = 0; i < blocks; i++)
        shared->items[i] =
            mr_shared_base_block_item(shared, shared->keys + (size_t)i * MR_HASH_BYTES);
    uint32_t count = fill_pieces(shared, job, blocks, blocks);
    if (sequence->prompt_tokens < MR_LOAD_TOKENS_MIN) return count;
    shared->items[count] = mr_shared_base_entry_item(shared, sequence);
    return count + 1;
}

bool mr_shared_lookup_start(struct mr_shared_cache *shared, struct mr_job *job, uint64_t now_ns)
{
    struct mr_fetch *fetch = &job->fetch;
    const struct mr_tier *tier = shared->options.tier;
    struct mr_lookup_slot *slot = find_free_slot(shared);
    struct mr_tier_request request = {.items = shared->items, .tenant = job->tenant};
    MR_ASSERT(fetch->state == MR_FETCH_NEW);
    if (job->reads_cache) {
        if (slot == NULL) return false;
        request.count = fill_query(shared, job);
    }
    if (request.count == 0) {
        mr_fetch_move(fetch, MR_FETCH_KNOWN);
        return true;
    }
    request.ticket = mr_shared_base_ticket(shared, (uint32_t)(slot - shared->lookups));
    if (!tier->lookup(tier->context, &request)) {
        shared->stats.lookups_refused++;
        mr_fetch_move(fetch, MR_FETCH_KNOWN);
        return true;
    }
    *slot = (struct mr_lookup_slot){.job = job, .ticket = request.ticket, .in_use = true};
    shared->stats.lookups++;
    mr_fetch_move(fetch, MR_FETCH_LOOKUP);
    fetch->ticket = request.ticket;
    fetch->lookup_ns = now_ns;
    return true;
}

bool mr_shared_lookup_is_awaited(const struct mr_shared_cache *shared,
                                 const struct mr_sequence *sequence, uint64_t now_ns)
{
    const struct mr_job *job = sequence->job;
    if (!mr_fetch_is_looking_up(&job->fetch) || now_ns >= job->fetch.lookup_ns + MR_LOOKUP_WAIT_NS)
        return false;
    uint32_t cached =
        mr_kv_cache_probe(shared->options.cache, job->root, sequence->tokens, sequence->num_tokens);
    return cached + MR_LOAD_TOKENS_MIN <= sequence->num_tokens;
}

void mr_shared_lookup_abandon(struct mr_shared_cache *shared, struct mr_job *job)
{
    if (!mr_fetch_is_looking_up(&job->fetch)) return;
    const struct mr_tier *tier = shared->options.tier;
    shared->lookups[job->fetch.ticket & 0xffff].job = NULL;
    tier->abandon(tier->context, job->fetch.ticket);
    mr_fetch_move(&job->fetch, MR_FETCH_KNOWN);
}

/* Sends a second query, for the pieces (MR_PIECE_TOKENS tokens each) of the first block that Redis
 * does not have. False: no query was sent, because this is the prompt's last block, whose pieces
 * the first query included, or the first answer was slow, or more is cached locally. */
static bool lookup_pieces(struct mr_shared_cache *shared, struct mr_lookup_slot *slot)
{
    struct mr_job *job = slot->job;
    const struct mr_sequence *sequence = &job->sequences[0];
    const struct mr_tier *tier = shared->options.tier;
    uint32_t found = job->fetch.found_tokens, block = found / MR_BLOCK_TOKENS;
    if (block == sequence->prompt_tokens / MR_BLOCK_TOKENS ||
        shared->now_ns > job->fetch.lookup_ns + MR_LOOKUP_AGAIN_NS ||
        mr_kv_cache_probe(shared->options.cache, job->root, sequence->tokens,
                          sequence->prompt_tokens) > found)
        return false;
    mr_kv_cache_keys(shared->options.cache, job->root, sequence->tokens, block, shared->keys);
    struct mr_tier_request request = {.items = shared->items, .tenant = job->tenant};
    request.count = fill_pieces(shared, job, block, 0);
    request.ticket = mr_shared_base_ticket(shared, (uint32_t)(slot - shared->lookups));
    if (request.count == 0 || !tier->lookup(tier->context, &request)) return false;
    slot->ticket = job->fetch.ticket = request.ticket;
    mr_fetch_move(&job->fetch, MR_FETCH_LOOKUP_PIECES);
    return true;
}

/* Records what the Redis cache holds of the prompt when it has the first `count` values of the
 * first query. prompt: tokens of the prompt. */
static void record_found(struct mr_fetch *fetch, uint32_t prompt, uint32_t count)
{
    uint32_t blocks = prompt / MR_BLOCK_TOKENS;
    uint32_t pieces = prompt % MR_BLOCK_TOKENS / MR_PIECE_TOKENS;
    fetch->entry = count > blocks + pieces;
    if (count > blocks + pieces) count = blocks + pieces;
    fetch->found_tokens = count < blocks
                              ? count * MR_BLOCK_TOKENS
                              : blocks * MR_BLOCK_TOKENS + (count - blocks) * MR_PIECE_TOKENS;
}

void mr_shared_lookup_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer)
{
    struct mr_lookup_slot *slot = &shared->lookups[answer->ticket & 0xffff];
    MR_ASSERT(slot->in_use && slot->ticket == answer->ticket && answer->final);
    if (slot->job == NULL) {
        *slot = (struct mr_lookup_slot){0};
        return;
    }
    struct mr_fetch *fetch = &slot->job->fetch;
    uint32_t prompt = slot->job->sequences[0].prompt_tokens;
    if (fetch->state == MR_FETCH_LOOKUP_PIECES) {
        fetch->found_tokens += answer->count * MR_PIECE_TOKENS;
    } else {
        record_found(fetch, prompt, answer->count);
        shared->stats.lookup_tokens += prompt;
        if (lookup_pieces(shared, slot)) return;
    }
    mr_fetch_move(fetch, MR_FETCH_KNOWN);
    shared->stats.found_tokens += fetch->entry ? prompt : fetch->found_tokens;
    shared->stats.hits += fetch->entry || fetch->found_tokens > 0;
    *slot = (struct mr_lookup_slot){0};
}

uint64_t mr_shared_lookup_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < MR_LOOKUPS_MAX; i++) {
        const struct mr_job *job = shared->lookups[i].job;
        if (job == NULL) continue;
        uint64_t until_ns = job->fetch.lookup_ns + MR_LOOKUP_WAIT_NS;
        if (until_ns > now_ns && until_ns < next_ns) next_ns = until_ns;
    }
    return next_ns;
}

void mr_shared_lookup_check(const struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOOKUPS_MAX; i++) {
        const struct mr_lookup_slot *slot = &shared->lookups[i];
        if (slot->job == NULL) continue;
        MR_ASSERT(slot->in_use && slot->job->fetch.ticket == slot->ticket);
        MR_ASSERT(mr_fetch_is_looking_up(&slot->job->fetch));
    }
}
