/* Loads: deciding, beginning, and joining what has arrived with what was computed. */
#include "batching/shared_cache_state.h"
#include "codec/check.h"

#include <string.h>

#define IMPORT_RATE 0.25 /* weight of one import in the running mean */

/* ---- deciding ---- */

/* Blocks of this sequence the tier may be asked to load: one token is left to compute, unless the
 * logits come along. */
static uint32_t loadable_blocks(const struct mr_sequence *sequence, bool entry)
{
    uint32_t there = sequence->job->tier.there_blocks;
    uint32_t most = entry ? there : (sequence->num_tokens - 1) / MR_BLOCK_TOKENS;
    return there < most ? there : most;
}

static bool wants_entry(const struct mr_sequence *sequence)
{
    return sequence->job->tier.entry && sequence->num_tokens == sequence->prompt_tokens;
}

static struct mr_tier_load *free_load(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (!shared->loads[i].in_use) return &shared->loads[i];
    return NULL;
}

bool mr_shared_cache_decide(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool busy,
                            uint64_t now_ns)
{
    const struct mr_tier_view *view = &sequence->job->tier;
    shared->decided = NULL;
    sequence->halts = false;
    if (view->state != MR_TIER_ANSWERED || sequence->choice != 0 ||
        (view->there_blocks == 0 && !view->entry) || free_load(shared) == NULL)
        return false;
    bool entry = wants_entry(sequence);
    const struct mr_tier *tier = shared->options.tier;
    struct mr_load_question question = {
        .cost = shared->options.cost,
        .rates = tier->rates(tier->context),
        .computed_tokens = sequence->num_computed,
        .known_tokens = sequence->num_tokens,
        .there_blocks = loadable_blocks(sequence, entry),
        .block_bytes = shared->block_bytes,
        .entry_bytes = entry ? mr_shared_entry_bytes(shared, mr_shared_tail(sequence)) : 0,
        .chunk_tokens = shared->options.chunk_tokens,
        .import_ms = shared->import_ms,
        .busy = busy,
        .probe = now_ns >= shared->loaded_ns + MR_PROBE_INTERVAL_NS,
    };
    struct mr_load_answer answer = mr_load_gate_decide(&question);
    uint32_t count = question.there_blocks - answer.first_block + answer.entry;
    if (count > shared->free_count) { /* from the back, as many as there are buffers for */
        answer.first_block += count - shared->free_count;
        count = shared->free_count;
    }
    shared->decision = answer;
    shared->decided = sequence;
    if (!mr_load_verdict_loads(answer.verdict) || count == 0) return false;
    if (answer.verdict == MR_LOAD_PROBE) return false;
    uint32_t begin = answer.first_block * MR_BLOCK_TOKENS;
    sequence->halts = true;
    sequence->held_at = begin > sequence->num_computed ? begin : sequence->num_computed;
    return answer.first_block == sequence->num_computed / MR_BLOCK_TOKENS;
}

/* ---- beginning ---- */

static void fill_items(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    const struct mr_sequence *sequence = load->sequence;
    struct mr_kv_cache *cache = shared->options.cache;
    uint32_t end = load->first_block + load->block_count;
    mr_kv_cache_keys(cache, sequence->job->root, sequence->tokens, end, shared->keys);
    for (uint32_t i = 0; i < load->item_count; i++) {
        struct mr_tier_item *item = &shared->items[i];
        load->buffers[i] = mr_shared_take_buffer(shared);
        load->states[i] = MR_ITEM_PENDING;
        *item = (struct mr_tier_item){.token_count = MR_BLOCK_TOKENS,
                                      .bytes = mr_shared_buffer(shared, load->buffers[i]),
                                      .length = shared->block_bytes,
                                      .layer_bytes = shared->layer_bytes};
        if (i < load->block_count) {
            size_t at = (size_t)(load->first_block + i) * MR_HASH_BYTES;
            memcpy(item->key, shared->keys + at, MR_HASH_BYTES);
            continue;
        }
        item->token_count = mr_shared_tail(sequence);
        item->length = mr_shared_entry_bytes(shared, item->token_count);
        item->layer_bytes = 0;
        mr_kv_cache_prompt_key(cache, sequence->job->root, sequence->tokens,
                               sequence->prompt_tokens, item->key);
    }
}

static void free_slot(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    for (uint32_t i = 0; i < load->item_count; i++)
        mr_shared_give_back(shared, load->buffers[i]);
    load->in_use = load->holds = false;
    load->item_count = 0;
    load->sequence = NULL;
}

static void count_decision(struct mr_shared_cache *shared)
{
    shared->stats.decisions[shared->decision.verdict]++;
    shared->stats.saved_ms += shared->decision.saved_ms;
}

void mr_shared_cache_begin(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                           uint64_t now_ns)
{
    if (shared->decided != sequence) return;
    const struct mr_load_answer *answer = &shared->decision;
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_load *load = free_load(shared);
    shared->decided = NULL;
    count_decision(shared);
    uint32_t end = loadable_blocks(sequence, wants_entry(sequence));
    uint32_t blocks = end > answer->first_block ? end - answer->first_block : 0;
    uint32_t count = blocks + answer->entry;
    if (!mr_load_verdict_loads(answer->verdict) || count == 0 || count > shared->free_count) return;
    MR_ASSERT(load != NULL);
    load->sequence = sequence;
    load->first_block = answer->first_block;
    load->block_count = blocks;
    load->item_count = count;
    load->entry = answer->entry;
    load->in_use = true;
    load->over = false;
    load->ticket = mr_shared_ticket(shared, (uint32_t)(load - shared->loads));
    fill_items(shared, load);
    struct mr_tier_request request = {.ticket = load->ticket,
                                      .items = shared->items,
                                      .count = load->item_count,
                                      .tenant = sequence->job->tenant};
    if (!tier->load(tier->context, &request)) {
        sequence->halts = false;
        free_slot(shared, load);
        return;
    }
    shared->stats.loads++;
    shared->loaded_ns = now_ns;
    sequence->load = load;
    load->holds = sequence->halts;
    load->patience_ms = answer->patience_ms;
    load->until_ns = now_ns + (uint64_t)(answer->patience_ms * 1e6);
}

/* ---- joining ---- */

static void let_go_on(struct mr_tier_load *load)
{
    load->holds = false;
    if (load->sequence != NULL) load->sequence->halts = false;
}

static bool import(struct mr_shared_cache *shared, struct mr_tier_load *load, uint32_t index)
{
    const struct mr_model_port *model = shared->options.model;
    const struct mr_sequence *sequence = load->sequence;
    bool entry = index == load->block_count;
    uint32_t tokens = entry ? mr_shared_tail(sequence) : MR_BLOCK_TOKENS;
    if (tokens == 0) return true;
    uint32_t block = sequence->table->blocks[load->first_block + index];
    uint64_t begin_ns = mr_shared_clock(shared);
    enum mr_status status = model->kv_import(model->context, block, tokens,
                                             mr_shared_buffer(shared, load->buffers[index]));
    uint64_t spent_ns = mr_shared_clock(shared) - begin_ns;
    shared->stats.import_ns += spent_ns;
    if (!entry) shared->import_ms += IMPORT_RATE * ((double)spent_ns / 1e6 - shared->import_ms);
    return status == MR_OK;
}

/* Counts tokens [num_computed, end) as computed; nothing else of the sequence changes. */
static void jump(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_job *job = sequence->job;
    uint32_t gained = end - sequence->num_computed;
    if (sequence->preemptions == 0) {
        job->cached_tokens += gained;
        job->cached_tokens_redis += gained;
    }
    shared->stats.loaded_tokens += gained;
    mr_sequence_jump(sequence, end);
}

/* Logits stand behind the tail's KV, at any place: they move to the start of the buffer. */
static void finish_prompt(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    struct mr_sequence *sequence = load->sequence;
    unsigned char *buffer = mr_shared_buffer(shared, load->buffers[load->block_count]);
    size_t kv = mr_shared_entry_bytes(shared, mr_shared_tail(sequence)) - shared->logits_bytes;
    memmove(buffer, buffer + kv, shared->logits_bytes);
    sequence->logits = (const float *)(const void *)buffer;
    shared->stats.loaded_entries++;
    jump(shared, sequence, sequence->num_tokens);
    let_go_on(load);
    if (shared->options.prompts == NULL || !sequence->job->request->cache_write) return;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(shared->options.cache, sequence->job->root, sequence->tokens,
                           sequence->prompt_tokens, key);
    float *row = mr_prompt_cache_put(shared->options.prompts, key, mr_shared_clock(shared));
    if (row != NULL) memcpy(row, buffer, shared->logits_bytes);
}

/* All of the prompt's full blocks are there, and what comes behind them has arrived. */
static bool stands_at_entry(const struct mr_tier_load *load)
{
    const struct mr_sequence *sequence = load->sequence;
    if (!load->entry || load->states[load->block_count] != MR_ITEM_IMPORTED ||
        sequence->num_tokens != sequence->prompt_tokens)
        return false;
    uint32_t end = (load->first_block + load->block_count) * MR_BLOCK_TOKENS;
    if (sequence->num_computed >= end) return true;
    return sequence->num_computed + 1 == sequence->num_tokens && end == sequence->num_tokens &&
           load->block_count > 0 && load->states[load->block_count - 1] == MR_ITEM_IMPORTED;
}

/* The front moves over imported blocks, and over the end of the prompt when its entry is there.
 * Without the entry the last token is left: its logits must be computed. */
static void advance(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    struct mr_sequence *sequence = load->sequence;
    uint32_t before = sequence->num_computed;
    if (sequence->match.copy_tokens > 0 || sequence->logits != NULL) return;
    for (;;) {
        uint32_t block = sequence->num_computed / MR_BLOCK_TOKENS;
        if (block < load->first_block || block >= load->first_block + load->block_count ||
            load->states[block - load->first_block] != MR_ITEM_IMPORTED)
            break;
        uint32_t end = (block + 1) * MR_BLOCK_TOKENS;
        if (end >= sequence->num_tokens) end = sequence->num_tokens - 1;
        if (end <= sequence->num_computed) break;
        jump(shared, sequence, end);
    }
    if (stands_at_entry(load)) finish_prompt(shared, load);
    if (sequence->num_computed > before && sequence->job->request->cache_write)
        mr_kv_cache_publish(sequence->table, sequence->tokens, sequence->num_computed,
                            sequence->num_computed == sequence->prompt_tokens);
    /* What holds the front is the block it stands before. */
    if (load->holds && sequence->held_at < sequence->num_computed)
        sequence->held_at = sequence->num_computed;
}

static void item_arrived(struct mr_shared_cache *shared, struct mr_tier_load *load, uint32_t index,
                         uint64_t now_ns)
{
    struct mr_sequence *sequence = load->sequence;
    MR_ASSERT(index < load->item_count && load->states[index] == MR_ITEM_PENDING);
    bool entry = index == load->block_count;
    size_t length =
        entry ? mr_shared_entry_bytes(shared, mr_shared_tail(sequence)) : shared->block_bytes;
    shared->stats.loaded_bytes += length;
    uint32_t end =
        entry ? sequence->prompt_tokens : (load->first_block + index + 1) * MR_BLOCK_TOKENS;
    bool passed =
        sequence->num_computed >= end || (entry && sequence->num_tokens != sequence->prompt_tokens);
    if (passed) {
        load->states[index] = MR_ITEM_FAILED;
        shared->stats.unused_items++;
        return;
    }
    load->states[index] = import(shared, load, index) ? MR_ITEM_IMPORTED : MR_ITEM_FAILED;
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_rates rates = tier->rates(tier->context);
    double patience_ms = mr_load_gate_patience_ms(&rates, shared->block_bytes);
    load->until_ns = now_ns + (uint64_t)(patience_ms * 1e6);
    advance(shared, load);
}

static void load_ended(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    load->over = true;
    let_go_on(load);
    if (load->sequence == NULL) {
        free_slot(shared, load);
        return;
    }
    /* What did not come is not asked for again. */
    for (uint32_t i = 0; i < load->item_count; i++) {
        if (load->states[i] != MR_ITEM_PENDING) continue;
        struct mr_tier_view *view = &load->sequence->job->tier;
        bool passed = (load->first_block + i + 1) * MR_BLOCK_TOKENS <= load->sequence->num_computed;
        if (passed) continue;
        shared->stats.missing_items++;
        view->entry = false;
        if (i == load->block_count) continue;
        uint32_t block = load->first_block + i;
        if (block < view->there_blocks) view->there_blocks = block;
        if (block < load->sequence->stored_blocks) load->sequence->stored_blocks = block;
    }
    if (load->sequence->logits != NULL) return;
    load->sequence->load = NULL;
    free_slot(shared, load);
}

void mr_shared_load_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer,
                             uint64_t now_ns)
{
    struct mr_tier_load *load = &shared->loads[answer->ticket & 0xffff];
    MR_ASSERT(load->in_use && load->ticket == answer->ticket && !load->over);
    if (answer->final)
        load_ended(shared, load);
    else if (load->sequence != NULL)
        item_arrived(shared, load, answer->index, now_ns);
    else
        shared->stats.unused_items++;
}

void mr_shared_load_expire(struct mr_shared_cache *shared, uint64_t now_ns)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_tier_load *load = &shared->loads[i];
        if (!load->holds || now_ns < load->until_ns) continue;
        let_go_on(load);
        shared->stats.holds_given_up++;
    }
}

void mr_shared_cache_meet(struct mr_shared_cache *shared, struct mr_sequence *sequence)
{
    struct mr_tier_load *load = sequence->load;
    if (load == NULL) return;
    advance(shared, load);
    if (load->over || sequence->logits != NULL) return;
    uint32_t front = sequence->num_computed / MR_BLOCK_TOKENS;
    const struct mr_tier *tier = shared->options.tier;
    if (front > load->first_block)
        tier->skip(tier->context, load->ticket, front - load->first_block);
}

void mr_shared_cache_leave(struct mr_shared_cache *shared, struct mr_sequence *sequence)
{
    struct mr_tier_load *load = sequence->load;
    if (shared->decided == sequence) shared->decided = NULL;
    sequence->load = NULL;
    sequence->logits = NULL;
    sequence->halts = false;
    if (load == NULL) return;
    load->sequence = NULL;
    load->holds = false;
    if (load->over) {
        free_slot(shared, load);
        return;
    }
    const struct mr_tier *tier = shared->options.tier;
    tier->abandon(tier->context, load->ticket);
}
