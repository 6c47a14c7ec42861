#include "batching/cache/remote_prefix_state.h"

#include "batching/queue/request_queue.h"
#include "codec/check.h"

#include <string.h>

/* ---- deciding ---- */

/* The part of a sequence's KV that the remote cache has and the sequence can use. */
struct loadable {
    uint32_t blocks; /* number of full blocks, from the sequence's first block on */
    uint32_t pieces; /* pieces of the next block */
    bool entry;
};

/* The part of the sequence's KV that can be loaded. The last token is left to compute, because its
 * logits are needed, unless Redis has them in the entry. */
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

/* Adds the pieces and the entry that can be loaded after the full blocks to the load-or-compute
 * question. */
static void add_extra(const struct mr_remote_prefix *prefix, const struct mr_sequence *sequence,
                      const struct loadable *all, struct mr_load_question *question)
{
    question->extra_bytes = all->pieces * prefix->piece_bytes;
    question->extra_tokens = all->blocks * MR_BLOCK_TOKENS + all->pieces * MR_PIECE_TOKENS;
    if (!all->entry) return;
    question->extra_bytes += mr_prefix_entry_bytes(prefix, sequence);
    question->extra_tokens = sequence->num_tokens;
}

static struct mr_load_slot *find_free_slot(struct mr_remote_prefix *prefix)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (!prefix->loads[i].in_use) return &prefix->loads[i];
    return NULL;
}

/* True when the load is received straight in the sequence's own KV blocks. A load that only
 * measures Redis (MR_LOAD_PROBE) is received in staging buffers, because prefill does not wait for
 * it and may compute the same blocks meanwhile. */
static bool is_direct(const struct mr_remote_prefix *prefix, enum mr_load_verdict verdict)
{
    return verdict != MR_LOAD_PROBE && mr_prefix_block_bytes(prefix, 0) != NULL;
}

/* Removes from `answer` the first blocks for which no staging buffer is free. False: nothing is
 * left to load. */
static bool fit_buffers(const struct mr_remote_prefix *prefix, uint32_t found_blocks,
                        struct mr_load_answer *answer)
{
    uint32_t blocks = found_blocks - answer->first_block;
    answer->extra = answer->extra && prefix->staging.unused_count > 0;
    uint32_t room = prefix->staging.unused_count - answer->extra;
    if (blocks > room && !is_direct(prefix, answer->verdict)) {
        answer->first_block += blocks - room;
        blocks = room;
    }
    return blocks > 0 || answer->extra;
}

/* Lookup and load state of the sequence's request; NULL for choices after the first, which never
 * load. */
static struct mr_fetch *fetch_of(const struct mr_sequence *sequence)
{
    return sequence->choice == 0 ? &sequence->job->fetch : NULL;
}

static bool can_decide(struct mr_remote_prefix *prefix, const struct mr_sequence *sequence)
{
    const struct mr_fetch *fetch = fetch_of(sequence);
    return fetch != NULL && fetch->state == MR_FETCH_KNOWN &&
           (fetch->found_tokens > 0 || fetch->entry) && find_free_slot(prefix) != NULL;
}

bool mr_remote_prefix_decide_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence,
                                  bool busy, uint64_t now_ns)
{
    sequence->halts = false;
    if (!can_decide(prefix, sequence)) return false;
    const struct loadable all = loadable_of(sequence);
    const struct mr_remote_cache *remote = prefix->options.remote;
    struct mr_load_question question = {
        .cost = prefix->options.cost,
        .rates = remote->rates(remote->context),
        .computed_tokens = sequence->num_computed,
        .known_tokens = sequence->num_tokens,
        .found_blocks = all.blocks,
        .block_bytes = prefix->block_bytes,
        .chunk_tokens = prefix->options.chunk_tokens,
        .import_ms = prefix->import_ms,
        .busy = busy,
        .probe = now_ns >= prefix->loaded_ns + MR_PROBE_INTERVAL_NS,
    };
    add_extra(prefix, sequence, &all, &question);
    struct mr_load_answer answer = mr_load_gate_decide(&question);
    bool any = fit_buffers(prefix, all.blocks, &answer);
    prefix->decision = answer;
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

double mr_remote_prefix_saved_ms(const struct mr_remote_prefix *prefix,
                                 const struct mr_sequence *sequence)
{
    return is_decided(sequence) && sequence->halts ? prefix->decision.saved_ms : 0;
}

/* ---- beginning ---- */

static void release_slot(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    struct mr_block_table *table = load->table;
    for (uint32_t i = 0; i < load->block_count; i++)
        mr_staging_release(&prefix->staging, load->buffers[i]);
    mr_staging_release(&prefix->staging, load->buffer);
    load->in_use = false;
    load->value_count = 0;
    load->sequence = NULL;
    load->table = NULL;
    mr_prefix_table_done(prefix, table);
}

static void count_decision(struct mr_remote_prefix *prefix)
{
    prefix->stats.decisions[prefix->decision.verdict]++;
    prefix->stats.saved_ms += prefix->decision.saved_ms;
}

/* Blocks are loaded whole, so each needs a slot for its sliding-window layers, even a block that
 * the window will have passed before its KV is used. False: not enough slots are free. */
static bool reserve_window(struct mr_sequence *sequence, uint32_t end)
{
    if (!mr_kv_window_reserve(sequence->table, end, true)) return false;
    mr_kv_window_slide(sequence->table, sequence->num_computed, end);
    return true;
}

/* Fills a load slot with the values that prefix->decision selects. False: nothing to load, or no
 * slots for sliding-window layers are free. */
static bool fill_slot(struct mr_remote_prefix *prefix, struct mr_load_slot *load,
                      struct mr_sequence *sequence)
{
    const struct mr_load_answer *answer = &prefix->decision;
    const struct loadable all = loadable_of(sequence);
    const bool direct = is_direct(prefix, answer->verdict);
    uint32_t blocks = all.blocks > answer->first_block ? all.blocks - answer->first_block : 0;
    if (!mr_load_verdict_loads(answer->verdict) || (blocks == 0 && !answer->extra)) return false;
    MR_ASSERT(load != NULL);
    MR_ASSERT((direct ? 0 : blocks) + answer->extra <= prefix->staging.unused_count);
    MR_ASSERT(!direct || blocks == 0 ||
              sequence->num_computed <= answer->first_block * MR_BLOCK_TOKENS);
    load->sequence = sequence;
    load->table = direct ? sequence->table : NULL;
    load->claimed = 0;
    load->first_block = answer->first_block;
    load->block_count = blocks;
    load->piece_count = answer->extra ? all.pieces : 0;
    load->entry = answer->extra && all.entry;
    load->value_count = blocks + load->piece_count + load->entry;
    load->end = load->entry ? sequence->num_tokens
                            : (answer->first_block + blocks) * MR_BLOCK_TOKENS +
                                  load->piece_count * MR_PIECE_TOKENS;
    if (reserve_window(sequence, load->end)) return true;
    load->sequence = NULL;
    return false;
}

/* Sends a load whose slot is filled to the remote cache. False: the remote cache refused the load,
 * and the slot is released. */
static bool send_load(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    const struct mr_remote_cache *remote = prefix->options.remote;
    load->in_use = true;
    load->id = mr_prefix_next_id(prefix, (uint32_t)(load - prefix->loads));
    mr_prefix_load_fill(prefix, load);
    struct mr_remote_operation operation = {.id = load->id,
                                            .values = prefix->values,
                                            .count = load->value_count,
                                            .tenant = load->sequence->job->tenant};
    if (remote->load(remote->context, &operation)) return true;
    release_slot(prefix, load);
    return false;
}

void mr_remote_prefix_begin_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence,
                                 uint64_t now_ns)
{
    if (!is_decided(sequence)) return;
    struct mr_fetch *fetch = fetch_of(sequence);
    struct mr_load_slot *load = find_free_slot(prefix);
    count_decision(prefix);
    if (!fill_slot(prefix, load, sequence) || !send_load(prefix, load)) {
        sequence->halts = false;
        mr_fetch_move(fetch, MR_FETCH_KNOWN);
        return;
    }
    prefix->stats.loads++;
    prefix->loaded_ns = now_ns;
    /* A probe rarely copies a whole block. Halving lets loads resume some time after one slow copy.
     */
    if (prefix->decision.verdict == MR_LOAD_PROBE) prefix->import_ms /= 2;
    sequence->load = load;
    load->begun_ns = now_ns;
    load->until_ns = now_ns + (uint64_t)(prefix->decision.wait_ms * 1e6);
    mr_fetch_move(fetch, sequence->halts ? MR_FETCH_WAIT : MR_FETCH_COMPUTE);
}

/* ---- joining ---- */

/* Counts tokens [num_computed, end) of the sequence as computed, because their KV was loaded. They
 * were charged to the tenant when the request started. */
static void advance_to(struct mr_remote_prefix *prefix, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_job *job = sequence->job;
    uint32_t gained = end - sequence->num_computed;
    if (sequence->preemptions == 0) {
        job->cached_tokens += gained;
        job->cached_tokens_redis += gained;
        mr_request_queue_refund(prefix->options.queue, job->tenant_index,
                                (uint64_t)gained * MR_PROMPT_TOKEN_COST);
    }
    prefix->stats.loaded_tokens += gained;
    mr_sequence_jump(sequence, end);
}

static void use_entry(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    const unsigned char *logits = mr_staging_bytes(&prefix->staging, load->buffer);
    sequence->logits = (const float *)(const void *)logits;
    prefix->stats.loaded_entries++;
    advance_to(prefix, sequence, sequence->num_tokens);
    struct mr_fetch *fetch = fetch_of(sequence);
    mr_fetch_move(fetch, mr_fetch_is_loading(fetch) ? MR_FETCH_LOGITS : MR_FETCH_LOGITS_DONE);
    if (prefix->options.prompts == NULL || !sequence->job->writes_cache) return;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(prefix->options.cache, sequence->job->root, sequence->tokens,
                           sequence->prompt_tokens, key);
    float *row = mr_prompt_cache_put(prefix->options.prompts, key, mr_prefix_clock_ns(prefix));
    if (row != NULL) memcpy(row, logits, prefix->logits_bytes);
}

/* True when the whole prompt has KV and its entry was loaded, so that the next token can be sampled
 * from the loaded logits. */
static bool can_use_entry(const struct mr_load_slot *load)
{
    const struct mr_sequence *sequence = load->sequence;
    const uint32_t entry = load->value_count - 1;
    if (!load->entry || load->states[entry] != MR_VALUE_IMPORTED ||
        sequence->num_tokens != sequence->prompt_tokens ||
        sequence->num_computed == sequence->num_tokens)
        return false;
    uint32_t begin = mr_prefix_load_span(load, entry).begin;
    if (sequence->num_computed >= begin) return true;
    return sequence->num_computed + 1 == sequence->num_tokens && begin == sequence->num_tokens &&
           entry > 0 && load->states[entry - 1] == MR_VALUE_IMPORTED;
}

/* True when no pending value of this load could advance num_computed. */
static bool is_past_values(const struct mr_load_slot *load)
{
    const struct mr_sequence *sequence = load->sequence;
    if (load->entry && load->states[load->value_count - 1] == MR_VALUE_PENDING) return false;
    uint32_t last = sequence->num_tokens - 1;
    return sequence->num_computed >= (load->end < last ? load->end : last);
}

/* Advances num_computed over KV that was loaded, and to the end of the prompt when the entry has
 * arrived. Without the entry the last prompt token is left to compute, because its logits are
 * needed. */
static void advance_over_values(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    uint32_t before = sequence->num_computed;
    if (sequence->match.copy_tokens > 0 || sequence->logits != NULL) return;
    for (uint32_t i = 0; i < load->block_count + load->piece_count; i++) {
        struct mr_token_span span = mr_prefix_load_span(load, i);
        if (span.end >= sequence->num_tokens) span.end = sequence->num_tokens - 1;
        if (load->states[i] == MR_VALUE_IMPORTED && span.begin <= sequence->num_computed &&
            sequence->num_computed < span.end)
            advance_to(prefix, sequence, span.end);
    }
    if (can_use_entry(load)) use_entry(prefix, load);
    if (sequence->num_computed > before && sequence->in_flight == 0 && sequence->job->writes_cache)
        mr_kv_cache_publish(sequence->table, sequence->tokens, sequence->num_computed,
                            sequence->num_computed == sequence->prompt_tokens);
}

/* True when prefill must not compute the tokens of value number `index` of the load: the remote
 * cache may still be writing their KV block, or their KV has arrived, or prefill waits for the
 * value. */
static bool stops_prefill(const struct mr_load_slot *load, uint32_t index)
{
    const struct mr_sequence *sequence = load->sequence;
    const struct mr_token_span span = mr_prefix_load_span(load, index);
    if (load->states[index] == MR_VALUE_FAILED || span.end <= sequence->num_computed) return false;
    if (load->states[index] == MR_VALUE_IMPORTED) return span.begin > sequence->num_computed;
    return mr_fetch_is_waiting(fetch_of(sequence)) ||
           (load->table != NULL && index < load->block_count);
}

/* Sets sequence->halts and held_at to stop prefill at the first value of the load whose tokens
 * prefill must not compute. False: there is no such value. */
static bool halt_prefill(struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    sequence->halts = false;
    for (uint32_t i = 0; i < load->value_count && !sequence->halts && !sequence->logits; i++) {
        uint32_t begin = mr_prefix_load_span(load, i).begin;
        sequence->halts = stops_prefill(load, i);
        sequence->held_at = begin > sequence->num_computed ? begin : sequence->num_computed;
    }
    return sequence->halts;
}

/* Advances over KV that was loaded and stops prefill before the next value of the load. Frees the
 * slot when the load has ended and no loaded KV lies ahead of prefill. */
static void join(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    struct mr_sequence *sequence = load->sequence;
    struct mr_fetch *fetch = fetch_of(sequence);
    advance_over_values(prefix, load);
    if (mr_fetch_is_waiting(fetch) && is_past_values(load)) mr_fetch_move(fetch, MR_FETCH_COMPUTE);
    if (halt_prefill(load) || fetch->state != MR_FETCH_JOIN) return;
    sequence->load = NULL;
    mr_fetch_move(fetch, MR_FETCH_KNOWN);
    release_slot(prefix, load);
}

/* Called when value number `index` of the load will not arrive. Unless prefill claimed or computed
 * its tokens, Redis has lost the value: the request will not load it again and will store it again.
 */
static void note_missing(struct mr_remote_prefix *prefix, struct mr_load_slot *load, uint32_t index)
{
    struct mr_sequence *sequence = load->sequence;
    struct mr_fetch *fetch = fetch_of(sequence);
    const struct mr_token_span span = mr_prefix_load_span(load, index);
    load->states[index] = MR_VALUE_FAILED;
    if (index < load->claimed || span.end <= sequence->num_computed) return;
    prefix->stats.missing_values++;
    fetch->entry = false;
    if (mr_prefix_load_is_entry(load, index)) return;
    if (span.begin < fetch->found_tokens) fetch->found_tokens = span.begin;
    if (span.begin < sequence->stored_tokens) sequence->stored_tokens = span.begin;
}

static void value_arrived(struct mr_remote_prefix *prefix, struct mr_load_slot *load,
                          uint32_t index, uint64_t now_ns)
{
    struct mr_sequence *sequence = load->sequence;
    const bool direct = mr_prefix_load_is_direct(load, index);
    const uint32_t end = mr_prefix_load_span(load, index).end;
    const size_t length = mr_prefix_load_length(prefix, load, index);
    prefix->stats.loaded_bytes += length;
    *(direct ? &prefix->stats.direct_bytes : &prefix->stats.staged_bytes) += length;
    bool passed =
        sequence->num_computed >= end ||
        (mr_prefix_load_is_entry(load, index) && sequence->num_tokens != sequence->prompt_tokens);
    MR_ASSERT(!passed || !direct);
    if (passed) {
        load->states[index] = MR_VALUE_FAILED;
        prefix->stats.unused_values++;
        return;
    }
    load->states[index] =
        mr_prefix_load_import(prefix, load, index) ? MR_VALUE_IMPORTED : MR_VALUE_FAILED;
    const struct mr_remote_cache *remote = prefix->options.remote;
    struct mr_remote_rates rates = remote->rates(remote->context);
    double wait_ms = mr_load_gate_wait_ms(&rates, prefix->block_bytes);
    load->until_ns = now_ns + (uint64_t)(wait_ms * 1e6);
}

static void load_ended(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    if (load->sequence == NULL) {
        release_slot(prefix, load);
        return;
    }
    struct mr_fetch *fetch = fetch_of(load->sequence);
    bool has_logits = fetch->state == MR_FETCH_LOGITS;
    mr_fetch_move(fetch, has_logits ? MR_FETCH_LOGITS_DONE : MR_FETCH_JOIN);
    for (uint32_t i = 0; i < load->value_count; i++)
        if (load->states[i] == MR_VALUE_PENDING) note_missing(prefix, load, i);
    join(prefix, load);
}

void mr_prefix_load_answered(struct mr_remote_prefix *prefix, const struct mr_remote_answer *answer,
                             uint64_t now_ns)
{
    struct mr_load_slot *load = &prefix->loads[answer->id & 0xffff];
    MR_ASSERT(load->in_use && load->id == answer->id);
    if (answer->final) {
        load_ended(prefix, load);
        return;
    }
    if (load->sequence == NULL) {
        prefix->stats.unused_values += answer->loaded;
        return;
    }
    MR_ASSERT(mr_fetch_is_loading(fetch_of(load->sequence)));
    MR_ASSERT(answer->index < load->value_count && load->states[answer->index] == MR_VALUE_PENDING);
    if (answer->loaded)
        value_arrived(prefix, load, answer->index, now_ns);
    else
        note_missing(prefix, load, answer->index);
    join(prefix, load);
}

/* ---- waiting ends ---- */

/* Number of blocks that prefill takes over from the load to compute itself: two chunks, so that
 * prefill need not wait until the remote cache stops writing them. Only one block when Redis has
 * sent nothing for MR_LOAD_STALL_MS, because Redis may only have paused. */
static uint32_t claimed_blocks(const struct mr_remote_prefix *prefix,
                               const struct mr_load_slot *load)
{
    const uint32_t chunk = prefix->options.chunk_tokens;
    const struct mr_fetch *fetch = fetch_of(load->sequence);
    if (mr_fetch_is_waiting(fetch)) return 0;
    if (fetch->state == MR_FETCH_STEP) return 1;
    return chunk > 0 ? 2 * (chunk / MR_BLOCK_TOKENS + 1) : prefix->values_max;
}

/* Makes the remote cache skip the next blocks of the load. Prefill computes them once the remote
 * cache has reported that it no longer writes them. */
static void claim(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    uint32_t end = load->sequence->num_computed / MR_BLOCK_TOKENS + claimed_blocks(prefix, load);
    if (end > load->first_block + load->block_count) end = load->first_block + load->block_count;
    if (end <= load->first_block + load->claimed) return;
    load->claimed = end - load->first_block;
    const struct mr_remote_cache *remote = prefix->options.remote;
    remote->skip(remote->context, load->id, load->claimed);
}

/* Time at which prefill stops waiting for the load: the next value is late, or Redis has sent
 * nothing for MR_LOAD_STALL_MS. */
static uint64_t until_ns_of(const struct mr_remote_prefix *prefix, const struct mr_load_slot *load)
{
    const struct mr_remote_cache *remote = prefix->options.remote;
    struct mr_remote_rates rates = remote->rates(remote->context);
    uint64_t last_received_ns =
        rates.received_ns > load->begun_ns ? rates.received_ns : load->begun_ns;
    uint64_t until_ns = last_received_ns + rates.round_trip_ns + (uint64_t)(MR_LOAD_STALL_MS * 1e6);
    return until_ns < load->until_ns ? until_ns : load->until_ns;
}

static bool is_waiting(const struct mr_load_slot *load)
{
    return load->in_use && load->sequence != NULL && mr_fetch_is_waiting(fetch_of(load->sequence));
}

void mr_prefix_expire_loads(struct mr_remote_prefix *prefix, uint64_t now_ns)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_load_slot *load = &prefix->loads[i];
        if (!is_waiting(load) || now_ns < until_ns_of(prefix, load)) continue;
        struct mr_fetch *fetch = fetch_of(load->sequence);
        const bool is_silent = now_ns < load->until_ns; /* false: Redis sends, but slowly */
        const bool steps = is_silent && fetch->state == MR_FETCH_WAIT;
        load->silent_ns = now_ns;
        mr_fetch_move(fetch, steps ? MR_FETCH_STEP : MR_FETCH_COMPUTE);
        prefix->stats.waits_ended++;
        claim(prefix, load);
        join(prefix, load);
    }
}

/* Called when prefill has computed one block because Redis sent nothing. Prefill waits for the load
 * again if Redis has sent something meanwhile; otherwise prefill stops waiting. */
static void wait_again(const struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    const struct mr_remote_cache *remote = prefix->options.remote;
    const struct mr_remote_rates rates = remote->rates(remote->context);
    bool has_answered = rates.received_ns > load->silent_ns;
    mr_fetch_move(fetch_of(load->sequence), has_answered ? MR_FETCH_WAIT_AGAIN : MR_FETCH_COMPUTE);
    if (has_answered)
        load->until_ns =
            rates.received_ns + (uint64_t)(mr_load_gate_wait_ms(&rates, prefix->block_bytes) * 1e6);
}

void mr_remote_prefix_join_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence)
{
    struct mr_load_slot *load = sequence->load;
    if (load == NULL) return;
    const struct mr_fetch *fetch = fetch_of(sequence);
    if (fetch->state == MR_FETCH_STEP) wait_again(prefix, load);
    if (mr_fetch_is_loading(fetch) && fetch->state != MR_FETCH_LOGITS) claim(prefix, load);
    join(prefix, load);
}

void mr_remote_prefix_end_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence)
{
    struct mr_load_slot *load = sequence->load;
    struct mr_fetch *fetch = fetch_of(sequence);
    sequence->load = NULL;
    sequence->logits = NULL;
    sequence->halts = false;
    if (load != NULL && mr_fetch_is_loading(fetch)) {
        const struct mr_remote_cache *remote = prefix->options.remote;
        load->sequence = NULL;
        remote->cancel(remote->context, load->id);
    } else if (load != NULL) {
        release_slot(prefix, load);
    }
    if (load != NULL || is_decided(sequence)) mr_fetch_move(fetch, MR_FETCH_KNOWN);
}

/* ---- all loads ---- */

uint64_t mr_prefix_load_next_ns(const struct mr_remote_prefix *prefix, uint64_t soon_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        const struct mr_load_slot *load = &prefix->loads[i];
        if (!load->in_use || load->sequence == NULL) continue;
        const struct mr_fetch *fetch = fetch_of(load->sequence);
        uint64_t until_ns = UINT64_MAX;
        if (mr_fetch_is_waiting(fetch))
            until_ns = until_ns_of(prefix, load);
        else if (mr_fetch_is_loading(fetch) && mr_sequence_is_held(load->sequence))
            /* the remote cache may still write the block that prefill computes next */
            until_ns = soon_ns;
        if (until_ns < next_ns) next_ns = until_ns;
    }
    return next_ns;
}

uint32_t mr_prefix_check_loads(const struct mr_remote_prefix *prefix)
{
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        const struct mr_load_slot *load = &prefix->loads[i];
        if (!load->in_use) continue;
        for (uint32_t value = 0; value < load->block_count; value++)
            buffers += load->buffers[value] != MR_NO_BUFFER;
        buffers += load->buffer != MR_NO_BUFFER;
        if (load->sequence == NULL) continue;
        MR_ASSERT(load->sequence->load == load && mr_fetch_has_load(fetch_of(load->sequence)));
    }
    return buffers;
}
