/* Loads: deciding, beginning, and joining what has arrived with what was computed. */
#include "batching/cache/shared_cache_state.h"
#include "codec/check.h"

#include <string.h>

#define IMPORT_RATE 0.25 /* weight of one import in the running mean */

/* ---- deciding ---- */

/* What of a sequence the tier may be asked to load. */
struct loadable {
    uint32_t blocks; /* the first ones */
    uint32_t pieces; /* of the block behind them */
    bool entry;
};

/* One token is left to compute, unless the logits come along. */
static struct loadable loadable_of(const struct mr_sequence *sequence)
{
    const struct mr_tier_view *view = &sequence->job->tier;
    const bool entry = view->entry && sequence->num_tokens == sequence->prompt_tokens;
    uint32_t end = view->there_tokens;
    if (!entry && end >= sequence->num_tokens) end = sequence->num_tokens - 1;
    struct loadable all = {.blocks = end / MR_BLOCK_TOKENS, .entry = entry};
    if (all.blocks == view->there_tokens / MR_BLOCK_TOKENS)
        all.pieces = end % MR_BLOCK_TOKENS / MR_PIECE_TOKENS;
    return all;
}

/* What there is behind the full blocks. */
static void ask_for_extra(const struct mr_shared_cache *shared, const struct mr_sequence *sequence,
                          const struct loadable *all, struct mr_load_question *question)
{
    question->extra_bytes = all->pieces * shared->piece_bytes;
    question->extra_tokens = all->blocks * MR_BLOCK_TOKENS + all->pieces * MR_PIECE_TOKENS;
    if (!all->entry) return;
    question->extra_bytes += mr_shared_entry_bytes(shared, sequence);
    question->extra_tokens = sequence->num_tokens;
}

static struct mr_tier_load *free_load(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (!shared->loads[i].in_use) return &shared->loads[i];
    return NULL;
}

/* The front waits for what is loaded, so it may be received in the sequence's own blocks. */
static bool goes_direct(const struct mr_shared_cache *shared, enum mr_load_verdict verdict)
{
    return verdict != MR_LOAD_PROBE && mr_shared_block_bytes(shared, 0) != NULL;
}

/* Cuts an answer to the buffers there are, from the front; false: nothing is left of it. */
static bool fit_buffers(const struct mr_shared_cache *shared, uint32_t there_blocks,
                        struct mr_load_answer *answer)
{
    uint32_t blocks = there_blocks - answer->first_block;
    answer->extra = answer->extra && shared->free_count > 0;
    uint32_t room = shared->free_count - answer->extra;
    if (blocks > room && !goes_direct(shared, answer->verdict)) {
        answer->first_block += blocks - room;
        blocks = room;
    }
    return blocks > 0 || answer->extra;
}

bool mr_shared_cache_decide(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool busy,
                            uint64_t now_ns)
{
    const struct mr_tier_view *view = &sequence->job->tier;
    shared->decided = NULL;
    sequence->halts = false;
    if (view->state != MR_TIER_ANSWERED || sequence->choice != 0 ||
        (view->there_tokens == 0 && !view->entry) || free_load(shared) == NULL)
        return false;
    const struct loadable all = loadable_of(sequence);
    const struct mr_tier *tier = shared->options.tier;
    struct mr_load_question question = {
        .cost = shared->options.cost,
        .rates = tier->rates(tier->context),
        .computed_tokens = sequence->num_computed,
        .known_tokens = sequence->num_tokens,
        .there_blocks = all.blocks,
        .block_bytes = shared->block_bytes,
        .chunk_tokens = shared->options.chunk_tokens,
        .import_ms = shared->import_ms,
        .busy = busy,
        .probe = now_ns >= shared->loaded_ns + MR_PROBE_INTERVAL_NS,
    };
    ask_for_extra(shared, sequence, &all, &question);
    struct mr_load_answer answer = mr_load_gate_decide(&question);
    bool any = fit_buffers(shared, all.blocks, &answer);
    shared->decision = answer;
    shared->decided = sequence;
    if (!mr_load_verdict_loads(answer.verdict) || !any) return false;
    if (answer.verdict == MR_LOAD_PROBE) return false;
    uint32_t begin = answer.first_block * MR_BLOCK_TOKENS;
    sequence->halts = true;
    sequence->held_at = begin > sequence->num_computed ? begin : sequence->num_computed;
    return answer.first_block == sequence->num_computed / MR_BLOCK_TOKENS;
}

double mr_shared_cache_saved_ms(const struct mr_shared_cache *shared,
                                const struct mr_sequence *sequence)
{
    return shared->decided == sequence && sequence->halts ? shared->decision.saved_ms : 0;
}

/* ---- beginning ---- */

static bool is_entry(const struct mr_tier_load *load, uint32_t index)
{
    return index == load->block_count + load->piece_count;
}

struct span {
    uint32_t begin, end; /* tokens of the sequence */
};

static struct span span_of(const struct mr_tier_load *load, uint32_t index)
{
    uint32_t begin = (load->first_block + index) * MR_BLOCK_TOKENS;
    if (index < load->block_count) return (struct span){begin, begin + MR_BLOCK_TOKENS};
    begin = (load->first_block + load->block_count) * MR_BLOCK_TOKENS;
    begin += (index - load->block_count) * MR_PIECE_TOKENS;
    return (struct span){begin, is_entry(load, index) ? load->end : begin + MR_PIECE_TOKENS};
}

/* What an item is, and where it is received: in its block, or in a buffer. */
static void fill_item(struct mr_shared_cache *shared, struct mr_tier_load *load, uint32_t index)
{
    const struct mr_sequence *sequence = load->sequence;
    struct mr_tier_item *item = &shared->items[index];
    uint32_t block = load->first_block + index, last = load->first_block + load->block_count;
    load->states[index] = MR_ITEM_PENDING;
    if (index < load->block_count) {
        *item = mr_shared_block_item(shared, shared->keys + (size_t)block * MR_HASH_BYTES);
        load->buffers[index] = MR_NO_BUFFER;
        if (load->table != NULL) {
            item->bytes = mr_shared_block_bytes(shared, load->table->blocks[block]);
            return;
        }
        load->buffers[index] = mr_shared_take_buffer(shared);
        item->bytes = mr_shared_buffer(shared, load->buffers[index]);
    } else if (is_entry(load, index)) {
        *item = mr_shared_entry_item(shared, sequence);
        item->bytes = mr_shared_buffer(shared, load->buffer);
    } else {
        const unsigned char *parent = mr_shared_parent(shared, sequence->job, last);
        *item = mr_shared_piece_item(shared, sequence, parent, span_of(load, index).end);
        item->bytes = mr_shared_piece_bytes(shared, load->buffer, index - load->block_count);
    }
}

static void fill_items(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    const struct mr_sequence *sequence = load->sequence;
    uint32_t blocks = load->first_block + load->block_count;
    mr_kv_cache_keys(shared->options.cache, sequence->job->root, sequence->tokens, blocks,
                     shared->keys);
    load->buffer = MR_NO_BUFFER;
    if (load->item_count > load->block_count) load->buffer = mr_shared_take_buffer(shared);
    for (uint32_t i = 0; i < load->item_count; i++)
        fill_item(shared, load, i);
}

static void free_slot(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    struct mr_block_table *table = load->table;
    for (uint32_t i = 0; i < load->block_count; i++)
        if (load->buffers[i] != MR_NO_BUFFER) mr_shared_give_back(shared, load->buffers[i]);
    if (load->buffer != MR_NO_BUFFER) mr_shared_give_back(shared, load->buffer);
    load->in_use = load->holds = false;
    load->item_count = 0;
    load->sequence = NULL;
    load->table = NULL;
    mr_shared_table_done(shared, table);
}

static void count_decision(struct mr_shared_cache *shared)
{
    shared->stats.decisions[shared->decision.verdict]++;
    shared->stats.saved_ms += shared->decision.saved_ms;
}

/* Blocks come in whole, also those the window will have left behind when the front is there. */
static bool has_slots(struct mr_sequence *sequence, uint32_t end)
{
    if (!mr_kv_window_reserve(sequence->table, end, true)) return false;
    mr_kv_window_slide(sequence->table, sequence->num_computed, end);
    return true;
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
    const struct loadable all = loadable_of(sequence);
    uint32_t blocks = all.blocks > answer->first_block ? all.blocks - answer->first_block : 0;
    bool direct = goes_direct(shared, answer->verdict);
    if (!mr_load_verdict_loads(answer->verdict) || (blocks == 0 && !answer->extra)) return;
    MR_ASSERT(load != NULL && (direct ? 0 : blocks) + answer->extra <= shared->free_count);
    MR_ASSERT(!direct || blocks == 0 ||
              sequence->num_computed <= answer->first_block * MR_BLOCK_TOKENS);
    load->sequence = sequence;
    load->table = direct ? sequence->table : NULL;
    load->claimed = 0;
    load->first_block = answer->first_block;
    load->block_count = blocks;
    load->piece_count = answer->extra ? all.pieces : 0;
    load->entry = answer->extra && all.entry;
    load->item_count = blocks + load->piece_count + load->entry;
    load->end = load->entry ? sequence->num_tokens
                            : (answer->first_block + blocks) * MR_BLOCK_TOKENS +
                                  load->piece_count * MR_PIECE_TOKENS;
    if (!has_slots(sequence, load->end)) {
        sequence->halts = false;
        load->sequence = NULL;
        return;
    }
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
    load->begun_ns = now_ns;
    load->given_up_ns = 0;
    load->given_another = false;
    load->until_ns = now_ns + (uint64_t)(answer->patience_ms * 1e6);
}

/* ---- joining ---- */

/* The KV of an item that came into a buffer. */
static const unsigned char *bytes_of(const struct mr_shared_cache *shared,
                                     const struct mr_tier_load *load, uint32_t index)
{
    if (index < load->block_count) return mr_shared_buffer(shared, load->buffers[index]);
    if (is_entry(load, index)) return mr_shared_buffer(shared, load->buffer) + shared->logits_bytes;
    return mr_shared_piece_bytes(shared, load->buffer, index - load->block_count);
}

static bool import(struct mr_shared_cache *shared, struct mr_tier_load *load, uint32_t index)
{
    const struct mr_model_port *model = shared->options.model;
    const struct mr_sequence *sequence = load->sequence;
    const struct span span = span_of(load, index);
    const bool full = index < load->block_count;
    if (full && load->buffers[index] == MR_NO_BUFFER) return true; /* it is there already */
    if (span.end == span.begin) return true;
    uint32_t block = sequence->table->blocks[span.begin / MR_BLOCK_TOKENS];
    uint64_t begin_ns = mr_shared_clock(shared);
    struct mr_kv_place place = mr_shared_place(shared, block, span.begin % MR_BLOCK_TOKENS);
    enum mr_status status = model->kv_import(model->context, place, span.end - span.begin,
                                             bytes_of(shared, load, index));
    uint64_t spent_ns = mr_shared_clock(shared) - begin_ns;
    shared->stats.import_ns += spent_ns;
    if (full) shared->import_ms += IMPORT_RATE * ((double)spent_ns / 1e6 - shared->import_ms);
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

static void finish_prompt(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    struct mr_sequence *sequence = load->sequence;
    const unsigned char *logits = mr_shared_buffer(shared, load->buffer);
    sequence->logits = (const float *)(const void *)logits;
    shared->stats.loaded_entries++;
    jump(shared, sequence, sequence->num_tokens);
    load->holds = false;
    if (shared->options.prompts == NULL || !sequence->job->request->cache_write) return;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(shared->options.cache, sequence->job->root, sequence->tokens,
                           sequence->prompt_tokens, key);
    float *row = mr_prompt_cache_put(shared->options.prompts, key, mr_shared_clock(shared));
    if (row != NULL) memcpy(row, logits, shared->logits_bytes);
}

/* All of the prompt's blocks and pieces are there, and what comes behind them has arrived. */
static bool stands_at_entry(const struct mr_tier_load *load)
{
    const struct mr_sequence *sequence = load->sequence;
    const uint32_t entry = load->item_count - 1;
    if (!load->entry || load->states[entry] != MR_ITEM_IMPORTED ||
        sequence->num_tokens != sequence->prompt_tokens ||
        sequence->num_computed == sequence->num_tokens)
        return false;
    uint32_t begin = span_of(load, entry).begin;
    if (sequence->num_computed >= begin) return true;
    return sequence->num_computed + 1 == sequence->num_tokens && begin == sequence->num_tokens &&
           entry > 0 && load->states[entry - 1] == MR_ITEM_IMPORTED;
}

/* Nothing that is still to come could move the front. */
static bool has_met(const struct mr_tier_load *load)
{
    const struct mr_sequence *sequence = load->sequence;
    if (load->entry && load->states[load->item_count - 1] == MR_ITEM_PENDING) return false;
    uint32_t last = sequence->num_tokens - 1;
    return sequence->num_computed >= (load->end < last ? load->end : last);
}

/* The front moves over imported items, and over the end of the prompt when its entry is there.
 * Without the entry the last token is left: its logits must be computed. */
static void advance(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    struct mr_sequence *sequence = load->sequence;
    uint32_t before = sequence->num_computed;
    if (sequence->match.copy_tokens > 0 || sequence->logits != NULL) return;
    for (uint32_t i = 0; i < load->block_count + load->piece_count; i++) {
        struct span span = span_of(load, i);
        if (span.end >= sequence->num_tokens) span.end = sequence->num_tokens - 1;
        if (load->states[i] == MR_ITEM_IMPORTED && span.begin <= sequence->num_computed &&
            sequence->num_computed < span.end)
            jump(shared, sequence, span.end);
    }
    if (stands_at_entry(load)) finish_prompt(shared, load);
    if (sequence->num_computed > before && sequence->job->request->cache_write)
        mr_kv_cache_publish(sequence->table, sequence->tokens, sequence->num_computed,
                            sequence->num_computed == sequence->prompt_tokens);
}

/* Whether the front must not go into this item: somebody else is writing there, or it has come and
 * need not be computed, or it is worth waiting for. */
static bool stops_front(const struct mr_tier_load *load, uint32_t index)
{
    const struct mr_sequence *sequence = load->sequence;
    const struct span span = span_of(load, index);
    if (load->states[index] == MR_ITEM_FAILED || span.end <= sequence->num_computed) return false;
    if (load->states[index] == MR_ITEM_IMPORTED) return span.begin > sequence->num_computed;
    return load->holds || (load->table != NULL && index < load->block_count);
}

/* The front halts at the first item it must not go into. False: there is none. */
static bool halt_front(struct mr_tier_load *load)
{
    struct mr_sequence *sequence = load->sequence;
    sequence->halts = false;
    for (uint32_t i = 0; i < load->item_count && !sequence->halts && !sequence->logits; i++) {
        uint32_t begin = span_of(load, i).begin;
        sequence->halts = stops_front(load, i);
        sequence->held_at = begin > sequence->num_computed ? begin : sequence->num_computed;
    }
    return sequence->halts;
}

/* Joins what has arrived with the front, and lets the load go when nothing of it is left. */
static void join(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    struct mr_sequence *sequence = load->sequence;
    advance(shared, load);
    if (has_met(load)) load->holds = false;
    if (halt_front(load) || !load->over || sequence->logits != NULL) return;
    sequence->load = NULL;
    free_slot(shared, load);
}

/* It will not come, and was not skipped: it is not asked for again. */
static void note_missing(struct mr_shared_cache *shared, struct mr_tier_load *load, uint32_t index)
{
    struct mr_sequence *sequence = load->sequence;
    struct mr_tier_view *view = &sequence->job->tier;
    const struct span span = span_of(load, index);
    load->states[index] = MR_ITEM_FAILED;
    if (index < load->claimed || span.end <= sequence->num_computed) return;
    shared->stats.missing_items++;
    view->entry = false;
    if (is_entry(load, index)) return;
    if (span.begin < view->there_tokens) view->there_tokens = span.begin;
    if (span.begin < sequence->stored_tokens) sequence->stored_tokens = span.begin;
}

static void item_arrived(struct mr_shared_cache *shared, struct mr_tier_load *load, uint32_t index,
                         uint64_t now_ns)
{
    struct mr_sequence *sequence = load->sequence;
    const bool full = index < load->block_count;
    const bool direct = full && load->buffers[index] == MR_NO_BUFFER;
    const uint32_t end = span_of(load, index).end;
    size_t length = full ? shared->block_bytes : shared->piece_bytes;
    if (is_entry(load, index)) length = mr_shared_entry_bytes(shared, sequence);
    shared->stats.loaded_bytes += length;
    *(direct ? &shared->stats.direct_bytes : &shared->stats.staged_bytes) += length;
    bool passed = sequence->num_computed >= end ||
                  (is_entry(load, index) && sequence->num_tokens != sequence->prompt_tokens);
    MR_ASSERT(!passed || !direct);
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
}

static void load_ended(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    load->over = true;
    load->holds = false;
    if (load->sequence == NULL) {
        free_slot(shared, load);
        return;
    }
    for (uint32_t i = 0; i < load->item_count; i++)
        if (load->states[i] == MR_ITEM_PENDING) note_missing(shared, load, i);
    join(shared, load);
}

void mr_shared_load_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer,
                             uint64_t now_ns)
{
    struct mr_tier_load *load = &shared->loads[answer->ticket & 0xffff];
    MR_ASSERT(load->in_use && load->ticket == answer->ticket && !load->over);
    if (answer->final) {
        load_ended(shared, load);
        return;
    }
    if (load->sequence == NULL) {
        shared->stats.unused_items += answer->loaded;
        return;
    }
    MR_ASSERT(answer->index < load->item_count && load->states[answer->index] == MR_ITEM_PENDING);
    if (answer->loaded)
        item_arrived(shared, load, answer->index, now_ns);
    else
        note_missing(shared, load, answer->index);
    join(shared, load);
}

/* Blocks that the front computes next, whether they come or not. A chunk ahead, so that the front
 * need not wait; one block when it has just given up, for a server that only paused. */
static uint32_t front_blocks(const struct mr_shared_cache *shared, const struct mr_tier_load *load)
{
    const uint32_t chunk = shared->options.chunk_tokens;
    if (load->holds) return 0;
    if (load->given_up_ns > 0) return 1;
    return chunk > 0 ? 2 * (chunk / MR_BLOCK_TOKENS + 1) : shared->items_max;
}

/* They are computed as soon as the tier says that it does not touch them any more. */
static void claim(struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    uint32_t end = load->sequence->num_computed / MR_BLOCK_TOKENS + front_blocks(shared, load);
    if (end > load->first_block + load->block_count) end = load->first_block + load->block_count;
    if (end <= load->first_block + load->claimed) return;
    load->claimed = end - load->first_block;
    const struct mr_tier *tier = shared->options.tier;
    tier->skip(tier->context, load->ticket, load->claimed);
}

uint64_t mr_shared_load_until_ns(const struct mr_shared_cache *shared,
                                 const struct mr_tier_load *load)
{
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_rates rates = tier->rates(tier->context);
    uint64_t heard_ns = rates.received_ns > load->begun_ns ? rates.received_ns : load->begun_ns;
    uint64_t until_ns = heard_ns + rates.round_trip_ns + (uint64_t)(MR_LOAD_STALL_MS * 1e6);
    return until_ns < load->until_ns ? until_ns : load->until_ns;
}

void mr_shared_load_expire(struct mr_shared_cache *shared, uint64_t now_ns)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_tier_load *load = &shared->loads[i];
        if (!load->holds || now_ns < mr_shared_load_until_ns(shared, load)) continue;
        load->holds = false;
        const bool silent = now_ns < load->until_ns; /* not only slow */
        load->given_up_ns = silent && !load->given_another ? now_ns : 0;
        shared->stats.holds_given_up++;
        claim(shared, load);
        join(shared, load);
    }
}

/* The front has gone on by a block: it waits again for a load that was heard of meanwhile. */
static void wait_again(const struct mr_shared_cache *shared, struct mr_tier_load *load)
{
    const struct mr_tier *tier = shared->options.tier;
    const struct mr_tier_rates rates = tier->rates(tier->context);
    load->holds = load->given_another = rates.received_ns > load->given_up_ns;
    load->given_up_ns = 0;
    if (load->holds)
        load->until_ns = rates.received_ns +
                         (uint64_t)(mr_load_gate_patience_ms(&rates, shared->block_bytes) * 1e6);
}

void mr_shared_cache_meet(struct mr_shared_cache *shared, struct mr_sequence *sequence)
{
    struct mr_tier_load *load = sequence->load;
    if (load == NULL) return;
    if (!load->over && load->given_up_ns > 0) wait_again(shared, load);
    if (!load->over && sequence->logits == NULL) claim(shared, load);
    join(shared, load);
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
