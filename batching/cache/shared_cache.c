#include "batching/cache/shared_cache_state.h"
#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define SOON_NS ((uint64_t)5000000)

/* ---- buffers and tickets ---- */

uint64_t mr_shared_ticket(struct mr_shared_cache *shared, uint32_t slot)
{
    return ++shared->generation << 16 | slot;
}

unsigned char *mr_shared_buffer(const struct mr_shared_cache *shared, uint32_t buffer)
{
    MR_ASSERT(buffer < shared->buffer_count);
    return shared->staging + buffer * shared->buffer_bytes;
}

void mr_shared_give_back(struct mr_shared_cache *shared, uint32_t buffer)
{
    MR_ASSERT(shared->free_count < shared->buffer_count);
    shared->free_buffers[shared->free_count++] = buffer;
}

unsigned char *mr_shared_piece_bytes(const struct mr_shared_cache *shared, uint32_t buffer,
                                     uint32_t piece)
{
    return mr_shared_buffer(shared, buffer) + shared->pieces_at + piece * shared->piece_bytes;
}

uint32_t mr_shared_take_buffer(struct mr_shared_cache *shared)
{
    MR_ASSERT(shared->free_count > 0);
    return shared->free_buffers[--shared->free_count];
}

void *mr_shared_block_bytes(const struct mr_shared_cache *shared, uint32_t block)
{
    const struct mr_model_port *model = shared->options.model;
    return model->kv_bytes_of == NULL ? NULL : model->kv_bytes_of(model->context, block);
}

struct mr_kv_place mr_shared_place(const struct mr_shared_cache *shared, uint32_t block,
                                   uint32_t first)
{
    return (struct mr_kv_place){
        .block = block, .slot = mr_kv_cache_slot(shared->options.cache, block), .first = first};
}

size_t mr_shared_kv_bytes(const struct mr_shared_cache *shared, uint32_t token_count)
{
    const struct mr_model_port *model = shared->options.model;
    return token_count == 0 ? 0 : model->kv_bytes(model->context, token_count);
}

struct mr_tier_item mr_shared_block_item(const struct mr_shared_cache *shared,
                                         const unsigned char *key)
{
    struct mr_tier_item item = {.token_count = MR_BLOCK_TOKENS,
                                .length = shared->block_bytes,
                                .layer_bytes = shared->layer_bytes};
    memcpy(item.key, key, MR_HASH_BYTES);
    return item;
}

struct mr_tier_item mr_shared_piece_item(const struct mr_shared_cache *shared,
                                         const struct mr_sequence *sequence,
                                         const unsigned char *parent, uint32_t end)
{
    struct mr_tier_item item = {.token_count = MR_PIECE_TOKENS, .length = shared->piece_bytes};
    mr_kv_cache_piece_key(shared->options.cache, parent,
                          sequence->tokens + end / MR_BLOCK_TOKENS * MR_BLOCK_TOKENS,
                          end % MR_BLOCK_TOKENS, item.key);
    return item;
}

size_t mr_shared_entry_bytes(const struct mr_shared_cache *shared,
                             const struct mr_sequence *sequence)
{
    uint32_t rest = sequence->prompt_tokens % MR_PIECE_TOKENS;
    return shared->logits_bytes + mr_shared_kv_bytes(shared, rest);
}

struct mr_tier_item mr_shared_entry_item(const struct mr_shared_cache *shared,
                                         const struct mr_sequence *sequence)
{
    struct mr_tier_item item = {.token_count = sequence->prompt_tokens % MR_PIECE_TOKENS,
                                .length = mr_shared_entry_bytes(shared, sequence)};
    mr_kv_cache_prompt_key(shared->options.cache, sequence->job->root, sequence->tokens,
                           sequence->prompt_tokens, item.key);
    return item;
}

const unsigned char *mr_shared_parent(const struct mr_shared_cache *shared,
                                      const struct mr_job *job, uint32_t block)
{
    return block == 0 ? job->root : shared->keys + (size_t)(block - 1) * MR_HASH_BYTES;
}

uint64_t mr_shared_clock(const struct mr_shared_cache *shared)
{
    const struct mr_model_port *model = shared->options.model;
    return model->clock_ns == NULL ? 0 : model->clock_ns(model->context);
}

/* ---- creation ---- */

static bool make_loads(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_tier_load *load = &shared->loads[i];
        load->buffers = calloc(shared->items_max, sizeof *load->buffers);
        load->states = calloc(shared->items_max, sizeof *load->states);
        if (load->buffers == NULL || load->states == NULL) return false;
    }
    return true;
}

static bool make_tables(struct mr_shared_cache *shared)
{
    uint32_t items =
        shared->items_max < MR_STORE_ITEMS_MAX ? MR_STORE_ITEMS_MAX : shared->items_max;
    shared->items = calloc(items, sizeof *shared->items);
    shared->keys = calloc(shared->items_max, MR_HASH_BYTES);
    shared->free_buffers = calloc(shared->buffer_count, sizeof *shared->free_buffers);
    shared->staging = malloc(shared->buffer_count * shared->buffer_bytes);
    if (shared->items == NULL || shared->keys == NULL || shared->free_buffers == NULL ||
        shared->staging == NULL || !make_loads(shared))
        return false;
    for (uint32_t i = shared->buffer_count; i-- > 0;)
        mr_shared_give_back(shared, i);
    return true;
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

enum mr_status mr_shared_cache_create(struct mr_shared_cache **out,
                                      const struct mr_shared_cache_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_shared_cache *shared = calloc(1, sizeof *shared);
    if (shared == NULL) goto fail;
    const struct mr_model_port *model = options->model;
    shared->options = *options;
    shared->block_bytes = mr_shared_kv_bytes(shared, MR_BLOCK_TOKENS);
    shared->layer_bytes = shared->block_bytes / (model->layer_count > 0 ? model->layer_count : 1);
    shared->logits_bytes = model->vocab_size * sizeof(float);
    shared->piece_bytes = mr_shared_kv_bytes(shared, MR_PIECE_TOKENS);
    shared->pieces_at = whole_lines(shared->logits_bytes + shared->piece_bytes);
    size_t pieces_bytes = shared->pieces_at + MR_PIECES_MAX * shared->piece_bytes;
    shared->buffer_bytes =
        whole_lines(shared->block_bytes > pieces_bytes ? shared->block_bytes : pieces_bytes);
    uint64_t staging = options->staging_bytes > 0 ? options->staging_bytes : MR_STAGING_BYTES;
    uint64_t buffers = staging / shared->buffer_bytes;
    shared->buffer_count = buffers < 2 ? 2 : buffers < 4096 ? (uint32_t)buffers : 4096;
    shared->items_max = options->context_tokens / MR_BLOCK_TOKENS + MR_PIECES_MAX + 2;
    if (!make_tables(shared)) goto fail_shared;
    *out = shared;
    return MR_OK;

fail_shared:
    mr_shared_cache_destroy(shared);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for the buffers of the shared cache");
}

void mr_shared_cache_destroy(struct mr_shared_cache *shared)
{
    if (shared == NULL) return;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        free(shared->loads[i].states);
        free(shared->loads[i].buffers);
    }
    free(shared->staging);
    free(shared->free_buffers);
    free(shared->keys);
    free(shared->items);
    free(shared);
}

/* ---- ask ---- */

static struct mr_tier_ask *free_ask(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_ASKS_MAX; i++)
        if (!shared->asks[i].in_use) return &shared->asks[i];
    return NULL;
}

/* The pieces of block `block` of the prompt, as many as it has; returns how many items there are
 * now. Keys of the blocks before it lie in shared->keys. */
static uint32_t fill_pieces(struct mr_shared_cache *shared, const struct mr_job *job,
                            uint32_t block, uint32_t count)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    const unsigned char *parent = mr_shared_parent(shared, job, block);
    uint32_t begin = block * MR_BLOCK_TOKENS, most = sequence->prompt_tokens - begin;
    for (uint32_t i = 1; i <= MR_PIECES_MAX && i * MR_PIECE_TOKENS <= most; i++)
        shared->items[count++] =
            mr_shared_piece_item(shared, sequence, parent, begin + i * MR_PIECE_TOKENS);
    return count;
}

/* Fills the items of a question; returns how many. */
static uint32_t fill_question(struct mr_shared_cache *shared, const struct mr_job *job)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    uint32_t blocks = sequence->prompt_tokens / MR_BLOCK_TOKENS;
    MR_ASSERT(blocks + MR_PIECES_MAX < shared->items_max);
    mr_kv_cache_keys(shared->options.cache, job->root, sequence->tokens, blocks, shared->keys);
    for (uint32_t i = 0; i < blocks; i++)
        shared->items[i] = mr_shared_block_item(shared, shared->keys + (size_t)i * MR_HASH_BYTES);
    uint32_t count = fill_pieces(shared, job, blocks, blocks);
    if (sequence->prompt_tokens < MR_LOAD_TOKENS_MIN) return count;
    shared->items[count] = mr_shared_entry_item(shared, sequence);
    return count + 1;
}

bool mr_shared_cache_ask(struct mr_shared_cache *shared, struct mr_job *job, uint64_t now_ns)
{
    struct mr_tier_view *view = &job->tier;
    MR_ASSERT(view->state == MR_TIER_UNASKED);
    const struct mr_tier *tier = shared->options.tier;
    view->state = MR_TIER_ANSWERED;
    if (!job->request->cache_read) return true;
    struct mr_tier_ask *ask = free_ask(shared);
    if (ask == NULL) {
        view->state = MR_TIER_UNASKED;
        return false;
    }
    struct mr_tier_request request = {.items = shared->items, .tenant = job->tenant};
    request.count = fill_question(shared, job);
    if (request.count == 0) return true;
    request.ticket = mr_shared_ticket(shared, (uint32_t)(ask - shared->asks));
    if (!tier->lookup(tier->context, &request)) {
        shared->stats.asks_refused++;
        return true;
    }
    *ask = (struct mr_tier_ask){.job = job, .ticket = request.ticket, .in_use = true};
    shared->stats.asks++;
    view->state = MR_TIER_ASKED;
    view->ticket = request.ticket;
    view->asked_ns = now_ns;
    return true;
}

bool mr_shared_cache_waits(const struct mr_shared_cache *shared, const struct mr_sequence *sequence,
                           uint64_t now_ns)
{
    const struct mr_job *job = sequence->job;
    if (job->tier.state != MR_TIER_ASKED || now_ns >= job->tier.asked_ns + MR_ASK_WAIT_NS)
        return false;
    uint32_t here =
        mr_kv_cache_probe(shared->options.cache, job->root, sequence->tokens, sequence->num_tokens);
    return here + MR_LOAD_TOKENS_MIN <= sequence->num_tokens;
}

void mr_shared_cache_forget(struct mr_shared_cache *shared, struct mr_job *job)
{
    if (job->tier.state != MR_TIER_ASKED) return;
    const struct mr_tier *tier = shared->options.tier;
    shared->asks[job->tier.ticket & 0xffff].job = NULL;
    tier->abandon(tier->context, job->tier.ticket);
    job->tier.state = MR_TIER_ANSWERED;
}

/* The prompt parts from what is there within a block that is not its last: was it the last one of
 * another prompt, which this one goes on from or shares the beginning with? */
static bool ask_for_pieces(struct mr_shared_cache *shared, struct mr_tier_ask *ask)
{
    struct mr_job *job = ask->job;
    const struct mr_sequence *sequence = &job->sequences[0];
    const struct mr_tier *tier = shared->options.tier;
    uint32_t there = job->tier.there_tokens, block = there / MR_BLOCK_TOKENS;
    if (block == sequence->prompt_tokens / MR_BLOCK_TOKENS ||
        shared->now_ns > job->tier.asked_ns + MR_ASK_AGAIN_NS ||
        mr_kv_cache_probe(shared->options.cache, job->root, sequence->tokens,
                          sequence->prompt_tokens) > there)
        return false; /* it was asked for, or the tier is slow, or more than that is here */
    mr_kv_cache_keys(shared->options.cache, job->root, sequence->tokens, block, shared->keys);
    struct mr_tier_request request = {.items = shared->items, .tenant = job->tenant};
    request.count = fill_pieces(shared, job, block, 0);
    request.ticket = mr_shared_ticket(shared, (uint32_t)(ask - shared->asks));
    if (request.count == 0 || !tier->lookup(tier->context, &request)) return false;
    ask->pieces = true;
    ask->ticket = job->tier.ticket = request.ticket;
    return true;
}

/* What is there of the prompt, when the first `count` items of the question are. */
static void note_there(struct mr_tier_view *view, uint32_t prompt, uint32_t count)
{
    uint32_t blocks = prompt / MR_BLOCK_TOKENS;
    uint32_t pieces = prompt % MR_BLOCK_TOKENS / MR_PIECE_TOKENS;
    view->entry = count > blocks + pieces;
    if (count > blocks + pieces) count = blocks + pieces;
    view->there_tokens = count < blocks
                             ? count * MR_BLOCK_TOKENS
                             : blocks * MR_BLOCK_TOKENS + (count - blocks) * MR_PIECE_TOKENS;
}

static void ask_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer)
{
    struct mr_tier_ask *ask = &shared->asks[answer->ticket & 0xffff];
    MR_ASSERT(ask->in_use && ask->ticket == answer->ticket && answer->final);
    if (ask->job == NULL) {
        *ask = (struct mr_tier_ask){0};
        return;
    }
    struct mr_tier_view *view = &ask->job->tier;
    uint32_t prompt = ask->job->sequences[0].prompt_tokens;
    if (ask->pieces) {
        view->there_tokens += answer->count * MR_PIECE_TOKENS;
    } else {
        note_there(view, prompt, answer->count);
        shared->stats.asked_tokens += prompt;
        if (ask_for_pieces(shared, ask)) return;
    }
    view->state = MR_TIER_ANSWERED;
    shared->stats.there_tokens += view->entry ? prompt : view->there_tokens;
    shared->stats.hits += view->entry || view->there_tokens > 0;
    *ask = (struct mr_tier_ask){0};
}

/* ---- tables ---- */

static bool is_used(const struct mr_shared_cache *shared, const struct mr_block_table *table)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (shared->loads[i].in_use && shared->loads[i].table == table) return true;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (shared->keeps[i].in_use && shared->keeps[i].table == table) return true;
    return false;
}

bool mr_shared_cache_take_table(struct mr_shared_cache *shared, const struct mr_sequence *sequence)
{
    if (!is_used(shared, sequence->table)) return false;
    MR_ASSERT(shared->table_count < MR_SHARED_TABLES_MAX);
    shared->tables[shared->table_count++] = sequence->table;
    return true;
}

static uint32_t find_table(const struct mr_shared_cache *shared, const struct mr_block_table *table)
{
    uint32_t i = 0;
    while (i < shared->table_count && shared->tables[i] != table)
        i++;
    return i;
}

void mr_shared_table_done(struct mr_shared_cache *shared, struct mr_block_table *table)
{
    uint32_t i = find_table(shared, table);
    if (i == shared->table_count || is_used(shared, table)) return;
    shared->tables[i] = shared->tables[--shared->table_count];
    if (shared->table_count == 0) shared->yielding = false;
    mr_block_table_destroy(table, shared->now_ns);
}

bool mr_shared_cache_yield(struct mr_shared_cache *shared)
{
    const struct mr_tier *tier = shared->options.tier;
    if (shared->table_count == 0) return false;
    shared->yielding = true;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++) {
        struct mr_tier_keep *keep = &shared->keeps[i];
        if (!keep->in_use || keep->given_up) continue;
        if (find_table(shared, keep->table) == shared->table_count) continue;
        keep->given_up = true;
        tier->abandon(tier->context, keep->ticket);
    }
    return true;
}

/* ---- the wheel ---- */

void mr_shared_cache_poll(struct mr_shared_cache *shared, uint64_t now_ns)
{
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_answer answer;
    shared->now_ns = now_ns;
    while (tier->poll(tier->context, &answer)) {
        if (answer.work == MR_TIER_LOOKUP)
            ask_answered(shared, &answer);
        else if (answer.work == MR_TIER_LOAD)
            mr_shared_load_answered(shared, &answer, now_ns);
        else
            mr_shared_store_answered(shared, &answer);
    }
    mr_shared_load_expire(shared, now_ns);
}

uint64_t mr_shared_cache_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns)
{
    /* What the tier lets go of it says by itself; to look again is to be on the safe side. */
    uint64_t next_ns = UINT64_MAX, soon_ns = now_ns + SOON_NS;
    for (uint32_t i = 0; i < MR_ASKS_MAX; i++) {
        const struct mr_job *job = shared->asks[i].job;
        if (job == NULL) continue;
        uint64_t until_ns = job->tier.asked_ns + MR_ASK_WAIT_NS;
        if (until_ns > now_ns && until_ns < next_ns) next_ns = until_ns;
    }
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        const struct mr_tier_load *load = &shared->loads[i];
        if (!load->in_use || load->sequence == NULL || load->over) continue;
        bool claims = !load->holds && mr_sequence_is_held(load->sequence);
        uint64_t until_ns = claims ? soon_ns : UINT64_MAX;
        if (load->holds) until_ns = mr_shared_load_until_ns(shared, load);
        if (until_ns < next_ns) next_ns = until_ns;
    }
    return shared->yielding && soon_ns < next_ns ? soon_ns : next_ns;
}

struct mr_shared_cache_stats mr_shared_cache_stats(const struct mr_shared_cache *shared)
{
    struct mr_shared_cache_stats stats = shared->stats;
    stats.staging_count = shared->buffer_count;
    stats.staging_free = shared->free_count;
    stats.lent_tables = shared->table_count;
    return stats;
}

void mr_shared_cache_check(const struct mr_shared_cache *shared)
{
    uint32_t loading = 0, storing = 0;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        const struct mr_tier_load *load = &shared->loads[i];
        if (!load->in_use) continue;
        for (uint32_t item = 0; item < load->block_count; item++)
            loading += load->buffers[item] != MR_NO_BUFFER;
        loading += load->buffer != MR_NO_BUFFER;
        MR_ASSERT(load->sequence == NULL || load->sequence->load == load);
        MR_ASSERT(!load->holds || (load->sequence != NULL && !load->over));
    }
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (shared->keeps[i].in_use) storing += shared->keeps[i].buffer_count;
    for (uint32_t i = 0; i < MR_ASKS_MAX; i++) {
        const struct mr_job *job = shared->asks[i].job;
        MR_ASSERT(job == NULL || job->tier.ticket == shared->asks[i].ticket);
    }
    for (uint32_t i = 0; i < shared->table_count; i++)
        MR_ASSERT(is_used(shared, shared->tables[i]));
    MR_ASSERT(storing == shared->store_buffers);
    MR_ASSERT(shared->free_count + loading + storing == shared->buffer_count);
}
