#include "batching/cache/shared_load.h"

#include "batching/cache/shared_items.h"
#include "batching/cache/shared_tables.h"
#include "batching/queue/request_queue.h"
#include "codec/check.h"

#include <string.h>

/* ---- deciding ---- */

/* What of a sequence's KV the Redis cache has and the sequence can use. */
struct loadable {
    uint32_t blocks; /* number of full blocks, from the sequence's first block on */
    uint32_t pieces; /* pieces of the next block, of MR_PIECE_TOKENS tokens each */
    bool entry;
};

/* What of the sequence's KV can be loaded. The last token is left to compute, because its logits
 * are needed, unless Redis has them in the complete-prompt entry (logits and tail KV). */
static struct loadable loadable_of(const struct mr_sequence *sequence)
{
    const struct mr_fetch *fetch = &sequence->job->fetch;
    const bool entry = fetch->entry && sequence->num_tokens == sequence->prompt_tokens;
    uint32_t end = fetch->found_tokens;
    if (!entry && end >= sequence->num_tokens) end = sequence->num_tokens - 1;
    struct loadable all = {.blocks = end / MR_BLOCK_TOKENS, .entry = entry};
    if (all.blocks == fetch->found_tokens / MR_BLOCK_TOKENS)
        all.pieces = end % MR_BLOCK_TOKENS / MR_PIECE_TOKENS;
    return all;
}

/* Adds to the load-or-compute question what can be loaded behind the full blocks: pieces
 * (MR_PIECE_TOKENS tokens each) and the complete-prompt entry (logits and tail KV). */
static void add_extra(const struct mr_shared_cache *shared, const struct mr_sequence *sequence,
                      const struct loadable *all, struct mr_load_question *question)
{
    question->extra_bytes = all->pieces * shared->piece_bytes;
    question->extra_tokens = all->blocks * MR_BLOCK_TOKENS + all->pieces * MR_PIECE_TOKENS;
    if (!all->entry) return;
    question->extra_bytes += mr_shared_base_entry_bytes(shared, sequence);
    question->extra_tokens = sequence->num_tokens;
}

static struct mr_load_slot *find_free_slot(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (!shared->loads[i].in_use) return &shared->loads[i];
    return NULL;
}

/* True when the load is received straight in the sequence's own KV blocks. Not for a load that only
 * measures Redis (MR_LOAD_PROBE): prefill does not wait for it and may compute the same blocks
 * meanwhile, so it is received in staging buffers. */
static bool is_direct(const struct mr_shared_cache *shared, enum mr_load_verdict verdict)
{
    return verdict != MR_LOAD_PROBE && mr_shared_base_block_bytes(shared, 0) != NULL;
}

/* Removes from `answer` the first blocks for which no staging buffer is free. False: nothing is
 * left to load. */
static bool fit_buffers(const struct mr_shared_cache *shared, uint32_t found_blocks,
                        struct mr_load_answer *answer)
{
    uint32_t blocks = found_blocks - answer->first_block;
    answer->extra = answer->extra && shared->staging.unused_count > 0;
    uint32_t room = shared->staging.unused_count - answer->extra;
    if (blocks > room && !is_direct(shared, answer->verdict)) {
        answer->first_block += blocks - room;
        blocks = room;
    }
    return blocks > 0 || answer->extra;
}

/* Lookup and load state of the sequence's request; NULL for choices other than the first, which
 * never load. */
static struct mr_fetch *fetch_of(const struct mr_sequence *sequence)
{
    return sequence->choice == 0 ? &sequence->job->fetch : NULL;
}

static bool can_decide(struct mr_shared_cache *shared, const struct mr_sequence *sequence)
{
    const struct mr_fetch *fetch = fetch_of(sequence);
    return fetch != NULL && fetch->state == MR_FETCH_KNOWN &&
           (fetch->found_tokens > 0 || fetch->entry) && find_free_slot(shared) != NULL;
}

bool mr_shared_load_decide(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool busy,
                           uint64_t now_ns)
{
    sequence->halts = false;
    if (!can_decide(shared, sequence)) return false;
    const struct loadable all = loadable_of(sequence);
    const struct mr_tier *tier = shared->options.tier;
    struct mr_load_question question = {
        .cost = shared->options.cost,
        .rates = tier->rates(tier->context),
        .computed_tokens = sequence->num_computed,
        .known_tokens = sequence->num_tokens,
        .found_blocks = all.blocks,
        .block_bytes = shared->block_bytes,
        .chunk_tokens = shared->options.chunk_tokens,
        .import_ms = shared->import_ms,
        .busy = busy,
        .probe = now_ns >= shared->loaded_ns + MR_PROBE_INTERVAL_NS,
    };
    add_extra(shared, sequence, &all, &question);
    struct mr_load_answer answer = mr_load_gate_decide(&question);
    bool any = fit_buffers(shared, all.blocks, &answer);
    shared->decision = answer;
    mr_fetch_move(fetch_of(sequence), MR_FETCH_DECIDED);
    if (!mr_load_verdict_loads(answer.verdict) || !any) return false;
    if (answer.verdict == MR_LOAD_PROBE) return false;
    uint32_t begin = answer.first_block * MR_BLOCK_TOKENS;
    sequence->halts = true;
    sequence->held_at = begin > sequence->num_computed ? begin : sequence->num_computed;
    return answer.first_block == sequence->num_computed / MR_BLOCK_TOKENS;
}

static bool is_decided(const struct mr_sequence *sequence)
{
    const struct mr_fetch *fetch = fetch_of(sequence);
    return fetch != NULL && fetch->state == MR_FETCH_DECIDED;
}

double mr_shared_load_saved_ms(const struct mr_shared_cache *shared,
                               const struct mr_sequence *sequence)
{
    return is_decided(sequence) && sequence->halts ? shared->decision.saved_ms : 0;
}

/* ---- beginning ---- */

static void release_slot(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    struct mr_block_table *table = load->table;
    for (uint32_t i = 0; i < load->block_count; i++)
        mr_staging_release(&shared->staging, load->buffers[i]);
    mr_staging_release(&shared->staging, load->buffer);
    load->in_use = false;
    load->item_count = 0;
    load->sequence = NULL;
    load->table = NULL;
    mr_shared_tables_done(shared, table);
}

static void count_decision(struct mr_shared_cache *shared)
{
    shared->stats.decisions[shared->decision.verdict]++;
    shared->stats.saved_ms += shared->decision.saved_ms;
}

/* Blocks are loaded whole, so each needs a slot for its sliding-window layers, even a block that
 * the window will have passed by the time it is used. False: not enough slots are free. */
static bool reserve_window(struct mr_sequence *sequence, uint32_t end)
{
    if (!mr_kv_window_reserve(sequence->table, end, true)) return false;
    mr_kv_window_slide(sequence->table, sequence->num_computed, end);
    return true;
}

/* Fills a load slot with what shared->decision says to load. False: nothing to load, or no slots
 * for sliding-window layers are free. */
static bool fill_slot(struct mr_shared_cache *shared, struct mr_load_slot *load,
                      struct mr_sequence *sequence)
{
    const struct mr_load_answer *answer = &shared->decision;
    const struct loadable all = loadable_of(sequence);
    const bool direct = is_direct(shared, answer->verdict);
    uint32_t blocks = all.blocks > answer->first_block ? all.blocks - answer->first_block : 0;
    if (!mr_load_verdict_loads(answer->verdict) || (blocks == 0 && !answer->extra)) return false;
    MR_ASSERT(load != NULL);
    MR_ASSERT((direct ? 0 : blocks) + answer->extra <= shared->staging.unused_count);
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
    if (reserve_window(sequence, load->end)) return true;
    load->sequence = NULL;
    return false;
}

/* Sends a load whose slot is filled to the Redis cache. False: the Redis cache refused the load;
 * the slot is released. */
static bool send_load(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    const struct mr_tier *tier = shared->options.tier;
    load->in_use = true;
    load->ticket = mr_shared_base_ticket(shared, (uint32_t)(load - shared->loads));
    mr_shared_items_fill(shared, load);
    struct mr_tier_request request = {.ticket = load->ticket,
                                      .items = shared->items,
                                      .count = load->item_count,
                                      .tenant = load->sequence->job->tenant};
    if (tier->load(tier->context, &request)) return true;
    release_slot(shared, load);
    return false;
}

void mr_shared_load_begin(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                          uint64_t now_ns)
{
    if (!is_decided(sequence)) return;
    struct mr_fetch *fetch = fetch_of(sequence);
    struct mr_load_slot *load = find_free_slot(shared);
    count_decision(shared);
    if (!fill_slot(shared, load, sequence) || !send_load(shared, load)) {
        sequence->halts = false;
        mr_fetch_move(fetch, MR_FETCH_KNOWN);
        return;
    }
    shared->stats.loads++;
    shared->loaded_ns = now_ns;
    /* A probe rarely copies a whole block. If one copy took too long, loads go on after a while. */
    if (shared->decision.verdict == MR_LOAD_PROBE) shared->import_ms /= 2;
    sequence->load = load;
    load->begun_ns = now_ns;
    load->until_ns = now_ns + (uint64_t)(shared->decision.patience_ms * 1e6);
    mr_fetch_move(fetch, sequence->halts ? MR_FETCH_WAIT : MR_FETCH_COMPUTE);
}

/* ---- joining ---- */

/* Counts tokens [num_computed, end) of the sequence as computed, because their KV was loaded. They
 * were charged to the tenant when the request started. */
static void advance_to(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_job *job = sequence->job;
    uint32_t gained = end - sequence->num_computed;
    if (sequence->preemptions == 0) {
        job->cached_tokens += gained;
        job->cached_tokens_redis += gained;
        mr_request_queue_refund(shared->options.queue, job->tenant_index,
                                (uint64_t)gained * MR_PROMPT_TOKEN_COST);
    }
    shared->stats.loaded_tokens += gained;
    mr_sequence_jump(sequence, end);
}

static void use_entry(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    const unsigned char *logits = mr_staging_bytes(&shared->staging, load->buffer);
    sequence->logits = (const float *)(const void *)logits;
    shared->stats.loaded_entries++;
    advance_to(shared, sequence, sequence->num_tokens);
    struct mr_fetch *fetch = fetch_of(sequence);
    mr_fetch_move(fetch, mr_fetch_is_loading(fetch) ? MR_FETCH_LOGITS : MR_FETCH_LOGITS_DONE);
    if (shared->options.prompts == NULL || !sequence->job->writes_cache) return;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(shared->options.cache, sequence->job->root, sequence->tokens,
                           sequence->prompt_tokens, key);
    float *row = mr_prompt_cache_put(shared->options.prompts, key, mr_shared_base_clock_ns(shared));
    if (row != NULL) memcpy(row, logits, shared->logits_bytes);
}

/* True when the whole prompt has KV and its complete-prompt entry (logits and tail KV) was loaded,
 * so that the next token can be sampled from the loaded logits. */
static bool can_use_entry(const struct mr_load_slot *load)
{
    const struct mr_sequence *sequence = load->sequence;
    const uint32_t entry = load->item_count - 1;
    if (!load->entry || load->states[entry] != MR_ITEM_IMPORTED ||
        sequence->num_tokens != sequence->prompt_tokens ||
        sequence->num_computed == sequence->num_tokens)
        return false;
    uint32_t begin = mr_shared_items_span(load, entry).begin;
    if (sequence->num_computed >= begin) return true;
    return sequence->num_computed + 1 == sequence->num_tokens && begin == sequence->num_tokens &&
           entry > 0 && load->states[entry - 1] == MR_ITEM_IMPORTED;
}

/* True when nothing that is still to arrive in this load could advance num_computed. */
static bool is_past_items(const struct mr_load_slot *load)
{
    const struct mr_sequence *sequence = load->sequence;
    if (load->entry && load->states[load->item_count - 1] == MR_ITEM_PENDING) return false;
    uint32_t last = sequence->num_tokens - 1;
    return sequence->num_computed >= (load->end < last ? load->end : last);
}

/* Advances num_computed over KV that was loaded, and to the end of the prompt when the
 * complete-prompt entry (logits and tail KV) has arrived. Without this entry the last prompt token
 * is left to compute, because its logits are needed. */
static void advance_over_items(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    uint32_t before = sequence->num_computed;
    if (sequence->match.copy_tokens > 0 || sequence->logits != NULL) return;
    for (uint32_t i = 0; i < load->block_count + load->piece_count; i++) {
        struct mr_token_span span = mr_shared_items_span(load, i);
        if (span.end >= sequence->num_tokens) span.end = sequence->num_tokens - 1;
        if (load->states[i] == MR_ITEM_IMPORTED && span.begin <= sequence->num_computed &&
            sequence->num_computed < span.end)
            advance_to(shared, sequence, span.end);
    }
    if (can_use_entry(load)) use_entry(shared, load);
    if (sequence->num_computed > before && sequence->in_flight == 0 && sequence->job->writes_cache)
        mr_kv_cache_publish(sequence->table, sequence->tokens, sequence->num_computed,
                            sequence->num_computed == sequence->prompt_tokens);
}

/* True when prefill must not compute the tokens of value number `index` of the load: the Redis
 * cache may still be writing their KV block, or their KV has arrived, or prefill waits for the
 * value. */
static bool stops_prefill(const struct mr_load_slot *load, uint32_t index)
{
    const struct mr_sequence *sequence = load->sequence;
    const struct mr_token_span span = mr_shared_items_span(load, index);
    if (load->states[index] == MR_ITEM_FAILED || span.end <= sequence->num_computed) return false;
    if (load->states[index] == MR_ITEM_IMPORTED) return span.begin > sequence->num_computed;
    return mr_fetch_is_waiting(fetch_of(sequence)) ||
           (load->table != NULL && index < load->block_count);
}

/* Sets sequence->halts and held_at to stop prefill at the first value of the load whose tokens
 * prefill must not compute. False: there is no such value. */
static bool halt_prefill(struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    sequence->halts = false;
    for (uint32_t i = 0; i < load->item_count && !sequence->halts && !sequence->logits; i++) {
        uint32_t begin = mr_shared_items_span(load, i).begin;
        sequence->halts = stops_prefill(load, i);
        sequence->held_at = begin > sequence->num_computed ? begin : sequence->num_computed;
    }
    return sequence->halts;
}

/* Advances over KV that was loaded and stops prefill before the next value of the load. Frees the
 * slot when the load has ended and no loaded KV lies ahead of prefill. */
static void join(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    struct mr_fetch *fetch = fetch_of(sequence);
    advance_over_items(shared, load);
    if (mr_fetch_is_waiting(fetch) && is_past_items(load)) mr_fetch_move(fetch, MR_FETCH_COMPUTE);
    if (halt_prefill(load) || fetch->state != MR_FETCH_JOIN) return;
    sequence->load = NULL;
    mr_fetch_move(fetch, MR_FETCH_KNOWN);
    release_slot(shared, load);
}

/* Called when value number `index` of the load will not arrive. Unless prefill claimed or computed
 * its tokens, Redis has lost the value: the request will not load this value again and will store
 * it again. */
static void note_missing(struct mr_shared_cache *shared, struct mr_load_slot *load, uint32_t index)
{
    struct mr_sequence *sequence = load->sequence;
    struct mr_fetch *fetch = fetch_of(sequence);
    const struct mr_token_span span = mr_shared_items_span(load, index);
    load->states[index] = MR_ITEM_FAILED;
    if (index < load->claimed || span.end <= sequence->num_computed) return;
    shared->stats.missing_items++;
    fetch->entry = false;
    if (mr_shared_items_is_entry(load, index)) return;
    if (span.begin < fetch->found_tokens) fetch->found_tokens = span.begin;
    if (span.begin < sequence->stored_tokens) sequence->stored_tokens = span.begin;
}

static void item_arrived(struct mr_shared_cache *shared, struct mr_load_slot *load, uint32_t index,
                         uint64_t now_ns)
{
    struct mr_sequence *sequence = load->sequence;
    const bool direct = mr_shared_items_is_direct(load, index);
    const uint32_t end = mr_shared_items_span(load, index).end;
    const size_t length = mr_shared_items_length(shared, load, index);
    shared->stats.loaded_bytes += length;
    *(direct ? &shared->stats.direct_bytes : &shared->stats.staged_bytes) += length;
    bool passed =
        sequence->num_computed >= end ||
        (mr_shared_items_is_entry(load, index) && sequence->num_tokens != sequence->prompt_tokens);
    MR_ASSERT(!passed || !direct);
    if (passed) {
        load->states[index] = MR_ITEM_FAILED;
        shared->stats.unused_items++;
        return;
    }
    load->states[index] =
        mr_shared_items_import(shared, load, index) ? MR_ITEM_IMPORTED : MR_ITEM_FAILED;
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_rates rates = tier->rates(tier->context);
    double patience_ms = mr_load_gate_patience_ms(&rates, shared->block_bytes);
    load->until_ns = now_ns + (uint64_t)(patience_ms * 1e6);
}

static void load_ended(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    if (load->sequence == NULL) {
        release_slot(shared, load);
        return;
    }
    struct mr_fetch *fetch = fetch_of(load->sequence);
    bool has_logits = fetch->state == MR_FETCH_LOGITS;
    mr_fetch_move(fetch, has_logits ? MR_FETCH_LOGITS_DONE : MR_FETCH_JOIN);
    for (uint32_t i = 0; i < load->item_count; i++)
        if (load->states[i] == MR_ITEM_PENDING) note_missing(shared, load, i);
    join(shared, load);
}

void mr_shared_load_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer,
                             uint64_t now_ns)
{
    struct mr_load_slot *load = &shared->loads[answer->ticket & 0xffff];
    MR_ASSERT(load->in_use && load->ticket == answer->ticket);
    if (answer->final) {
        load_ended(shared, load);
        return;
    }
    if (load->sequence == NULL) {
        shared->stats.unused_items += answer->loaded;
        return;
    }
    MR_ASSERT(mr_fetch_is_loading(fetch_of(load->sequence)));
    MR_ASSERT(answer->index < load->item_count && load->states[answer->index] == MR_ITEM_PENDING);
    if (answer->loaded)
        item_arrived(shared, load, answer->index, now_ns);
    else
        note_missing(shared, load, answer->index);
    join(shared, load);
}

/* ---- waiting ends ---- */

/* Number of blocks that prefill takes over from the load to compute itself: two chunks, so that
 * prefill need not wait for the Redis cache to stop writing them; only one block when Redis has
 * sent nothing for MR_LOAD_STALL_MS, because Redis may only have paused. */
static uint32_t claimed_blocks(const struct mr_shared_cache *shared,
                               const struct mr_load_slot *load)
{
    const uint32_t chunk = shared->options.chunk_tokens;
    const struct mr_fetch *fetch = fetch_of(load->sequence);
    if (mr_fetch_is_waiting(fetch)) return 0;
    if (fetch->state == MR_FETCH_STEP) return 1;
    return chunk > 0 ? 2 * (chunk / MR_BLOCK_TOKENS + 1) : shared->items_max;
}

/* Asks the Redis cache to skip the next blocks of the load. Prefill computes them once the Redis
 * cache has reported that it no longer writes them. */
static void claim(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    uint32_t end = load->sequence->num_computed / MR_BLOCK_TOKENS + claimed_blocks(shared, load);
    if (end > load->first_block + load->block_count) end = load->first_block + load->block_count;
    if (end <= load->first_block + load->claimed) return;
    load->claimed = end - load->first_block;
    const struct mr_tier *tier = shared->options.tier;
    tier->skip(tier->context, load->ticket, load->claimed);
}

/* Time at which prefill stops waiting for the load: the next value is late, or Redis has sent
 * nothing for MR_LOAD_STALL_MS. */
static uint64_t until_ns_of(const struct mr_shared_cache *shared, const struct mr_load_slot *load)
{
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_rates rates = tier->rates(tier->context);
    uint64_t last_received_ns =
        rates.received_ns > load->begun_ns ? rates.received_ns : load->begun_ns;
    uint64_t until_ns = last_received_ns + rates.round_trip_ns + (uint64_t)(MR_LOAD_STALL_MS * 1e6);
    return until_ns < load->until_ns ? until_ns : load->until_ns;
}

static bool is_waiting(const struct mr_load_slot *load)
{
    return load->in_use && load->sequence != NULL && mr_fetch_is_waiting(fetch_of(load->sequence));
}

void mr_shared_load_expire(struct mr_shared_cache *shared, uint64_t now_ns)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_load_slot *load = &shared->loads[i];
        if (!is_waiting(load) || now_ns < until_ns_of(shared, load)) continue;
        struct mr_fetch *fetch = fetch_of(load->sequence);
        const bool is_silent = now_ns < load->until_ns; /* false: Redis sends, but slowly */
        const bool steps = is_silent && fetch->state == MR_FETCH_WAIT;
        load->silent_ns = now_ns;
        mr_fetch_move(fetch, steps ? MR_FETCH_STEP : MR_FETCH_COMPUTE);
        shared->stats.waits_ended++;
        claim(shared, load);
        join(shared, load);
    }
}

/* Called when prefill has computed one block because Redis sent nothing. Prefill waits for the load
 * again if Redis has sent something meanwhile; otherwise prefill stops waiting. */
static void wait_again(const struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    const struct mr_tier *tier = shared->options.tier;
    const struct mr_tier_rates rates = tier->rates(tier->context);
    bool has_answered = rates.received_ns > load->silent_ns;
    mr_fetch_move(fetch_of(load->sequence), has_answered ? MR_FETCH_WAIT_AGAIN : MR_FETCH_COMPUTE);
    if (has_answered)
        load->until_ns = rates.received_ns +
                         (uint64_t)(mr_load_gate_patience_ms(&rates, shared->block_bytes) * 1e6);
}

void mr_shared_load_join(struct mr_shared_cache *shared, struct mr_sequence *sequence)
{
    struct mr_load_slot *load = sequence->load;
    if (load == NULL) return;
    const struct mr_fetch *fetch = fetch_of(sequence);
    if (fetch->state == MR_FETCH_STEP) wait_again(shared, load);
    if (mr_fetch_is_loading(fetch) && fetch->state != MR_FETCH_LOGITS) claim(shared, load);
    join(shared, load);
}

void mr_shared_load_end(struct mr_shared_cache *shared, struct mr_sequence *sequence)
{
    struct mr_load_slot *load = sequence->load;
    struct mr_fetch *fetch = fetch_of(sequence);
    sequence->load = NULL;
    sequence->logits = NULL;
    sequence->halts = false;
    if (load != NULL && mr_fetch_is_loading(fetch)) {
        const struct mr_tier *tier = shared->options.tier;
        load->sequence = NULL;
        tier->abandon(tier->context, load->ticket);
    } else if (load != NULL) {
        release_slot(shared, load);
    }
    if (load != NULL || is_decided(sequence)) mr_fetch_move(fetch, MR_FETCH_KNOWN);
}

/* ---- all loads ---- */

uint64_t mr_shared_load_next_ns(const struct mr_shared_cache *shared, uint64_t soon_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        const struct mr_load_slot *load = &shared->loads[i];
        if (!load->in_use || load->sequence == NULL) continue;
        const struct mr_fetch *fetch = fetch_of(load->sequence);
        uint64_t until_ns = UINT64_MAX;
        if (mr_fetch_is_waiting(fetch))
            until_ns = until_ns_of(shared, load);
        else if (mr_fetch_is_loading(fetch) && mr_sequence_is_held(load->sequence))
            /* the Redis cache may still write the block that prefill is to compute */
            until_ns = soon_ns;
        if (until_ns < next_ns) next_ns = until_ns;
    }
    return next_ns;
}

uint32_t mr_shared_load_check(const struct mr_shared_cache *shared)
{
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        const struct mr_load_slot *load = &shared->loads[i];
        if (!load->in_use) continue;
        for (uint32_t item = 0; item < load->block_count; item++)
            buffers += load->buffers[item] != MR_NO_BUFFER;
        buffers += load->buffer != MR_NO_BUFFER;
        if (load->sequence == NULL) continue;
        MR_ASSERT(load->sequence->load == load && mr_fetch_has_load(fetch_of(load->sequence)));
    }
    return buffers;
}
