#include "batching/cache/remote_prefix_state.h"

#include "codec/check.h"

static struct mr_lookup_slot *find_free_slot(struct mr_remote_prefix *prefix)
{
    for (uint32_t i = 0; i < MR_LOOKUPS_MAX; i++)
        if (!prefix->lookups[i].in_use) return &prefix->lookups[i];
    return NULL;
}

/* Adds the pieces of block number `block` of the prompt to
 * prefix->values[count] onwards; returns the new count. prefix->keys must hold the keys of all
 * earlier blocks of the prompt. */
static uint32_t fill_pieces(struct mr_remote_prefix *prefix, const struct mr_job *job,
                            uint32_t block, uint32_t count)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    const unsigned char *parent = mr_prefix_parent(prefix, job, block);
    uint32_t begin = block * MR_BLOCK_TOKENS, most = sequence->prompt_tokens - begin;
    for (uint32_t i = 1; i <= MR_PIECES_MAX && i * MR_PIECE_TOKENS <= most; i++)
        prefix->values[count++] =
            mr_prefix_piece_value(prefix, sequence, parent, begin + i * MR_PIECE_TOKENS);
    return count;
}

/* Fills prefix->values with the first query: all full blocks of the prompt, the pieces of its
 * part-filled last block, and its entry. Returns their number. */
static uint32_t fill_query(struct mr_remote_prefix *prefix, const struct mr_job *job)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    uint32_t blocks = sequence->prompt_tokens / MR_BLOCK_TOKENS;
    MR_ASSERT(blocks + MR_PIECES_MAX < prefix->values_max);
    mr_kv_cache_keys(prefix->options.cache, job->root, sequence->tokens, blocks, prefix->keys);
    for (uint32_t i = 0; i < blocks; i++)
        prefix->values[i] = mr_prefix_block_value(prefix, prefix->keys + (size_t)i * MR_HASH_BYTES);
    uint32_t count = fill_pieces(prefix, job, blocks, blocks);
    if (sequence->prompt_tokens < MR_LOAD_TOKENS_MIN) return count;
    prefix->values[count] = mr_prefix_entry_value(prefix, sequence);
    return count + 1;
}

bool mr_remote_prefix_start_lookup(struct mr_remote_prefix *prefix, struct mr_job *job,
                                   uint64_t now_ns)
{
    struct mr_fetch *fetch = &job->fetch;
    const struct mr_remote_cache *remote = prefix->options.remote;
    struct mr_lookup_slot *slot = find_free_slot(prefix);
    struct mr_remote_operation operation = {.values = prefix->values, .tenant = job->tenant};
    MR_ASSERT(fetch->state == MR_FETCH_NEW);
    if (job->reads_cache) {
        if (slot == NULL) return false;
        operation.count = fill_query(prefix, job);
    }
    if (operation.count == 0) {
        mr_fetch_move(fetch, MR_FETCH_KNOWN);
        return true;
    }
    operation.id = mr_prefix_next_id(prefix, (uint32_t)(slot - prefix->lookups));
    if (!remote->lookup(remote->context, &operation)) {
        prefix->stats.lookups_refused++;
        mr_fetch_move(fetch, MR_FETCH_KNOWN);
        return true;
    }
    *slot = (struct mr_lookup_slot){.job = job, .id = operation.id, .in_use = true};
    prefix->stats.lookups++;
    mr_fetch_move(fetch, MR_FETCH_LOOKUP);
    fetch->lookup_id = operation.id;
    fetch->lookup_ns = now_ns;
    return true;
}

bool mr_remote_prefix_awaits_lookup(const struct mr_remote_prefix *prefix,
                                    const struct mr_sequence *sequence, uint64_t now_ns)
{
    const struct mr_job *job = sequence->job;
    if (!mr_fetch_is_looking_up(&job->fetch) || now_ns >= job->fetch.lookup_ns + MR_LOOKUP_WAIT_NS)
        return false;
    uint32_t cached =
        mr_kv_cache_probe(prefix->options.cache, job->root, sequence->tokens, sequence->num_tokens);
    return cached + MR_LOAD_TOKENS_MIN <= sequence->num_tokens;
}

void mr_remote_prefix_cancel_lookup(struct mr_remote_prefix *prefix, struct mr_job *job)
{
    if (!mr_fetch_is_looking_up(&job->fetch)) return;
    const struct mr_remote_cache *remote = prefix->options.remote;
    prefix->lookups[job->fetch.lookup_id & 0xffff].job = NULL;
    remote->cancel(remote->context, job->fetch.lookup_id);
    mr_fetch_move(&job->fetch, MR_FETCH_KNOWN);
}

/* Sends a second query, for the pieces of the first block that Redis does not have. False: no query
 * was sent, because this is the prompt's last block, whose pieces the first query included, or the
 * first answer was slow, or more is cached locally. */
static bool lookup_pieces(struct mr_remote_prefix *prefix, struct mr_lookup_slot *slot)
{
    struct mr_job *job = slot->job;
    const struct mr_sequence *sequence = &job->sequences[0];
    const struct mr_remote_cache *remote = prefix->options.remote;
    uint32_t found = job->fetch.found_tokens, block = found / MR_BLOCK_TOKENS;
    if (block == sequence->prompt_tokens / MR_BLOCK_TOKENS ||
        prefix->now_ns > job->fetch.lookup_ns + MR_LOOKUP_AGAIN_NS ||
        mr_kv_cache_probe(prefix->options.cache, job->root, sequence->tokens,
                          sequence->prompt_tokens) > found)
        return false;
    mr_kv_cache_keys(prefix->options.cache, job->root, sequence->tokens, block, prefix->keys);
    struct mr_remote_operation operation = {.values = prefix->values, .tenant = job->tenant};
    operation.count = fill_pieces(prefix, job, block, 0);
    operation.id = mr_prefix_next_id(prefix, (uint32_t)(slot - prefix->lookups));
    if (operation.count == 0 || !remote->lookup(remote->context, &operation)) return false;
    slot->id = job->fetch.lookup_id = operation.id;
    mr_fetch_move(&job->fetch, MR_FETCH_LOOKUP_PIECES);
    return true;
}

/* Records which part of the prompt the remote cache has: it has the first `count` values of the
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

void mr_prefix_lookup_answered(struct mr_remote_prefix *prefix,
                               const struct mr_remote_answer *answer)
{
    struct mr_lookup_slot *slot = &prefix->lookups[answer->id & 0xffff];
    MR_ASSERT(slot->in_use && slot->id == answer->id && answer->final);
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
        prefix->stats.lookup_tokens += prompt;
        if (lookup_pieces(prefix, slot)) return;
    }
    mr_fetch_move(fetch, MR_FETCH_KNOWN);
    prefix->stats.found_tokens += fetch->entry ? prompt : fetch->found_tokens;
    prefix->stats.hits += fetch->entry || fetch->found_tokens > 0;
    *slot = (struct mr_lookup_slot){0};
}

uint64_t mr_prefix_lookup_next_ns(const struct mr_remote_prefix *prefix, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < MR_LOOKUPS_MAX; i++) {
        const struct mr_job *job = prefix->lookups[i].job;
        if (job == NULL) continue;
        uint64_t until_ns = job->fetch.lookup_ns + MR_LOOKUP_WAIT_NS;
        if (until_ns > now_ns && until_ns < next_ns) next_ns = until_ns;
    }
    return next_ns;
}

void mr_prefix_check_lookups(const struct mr_remote_prefix *prefix)
{
    for (uint32_t i = 0; i < MR_LOOKUPS_MAX; i++) {
        const struct mr_lookup_slot *slot = &prefix->lookups[i];
        if (slot->job == NULL) continue;
        MR_ASSERT(slot->in_use && slot->job->fetch.lookup_id == slot->id);
        MR_ASSERT(mr_fetch_is_looking_up(&slot->job->fetch));
    }
}
