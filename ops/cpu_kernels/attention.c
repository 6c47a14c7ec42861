/* Attention of all rows of a batch to the KV pool. The work is divided into tiles. A tile is some
 * consecutive positions of one sequence with all query heads that share one kv head (the rows of a
 * tile are ordered by position, then by head). A tile is computed block by block: scores, softmax,
 * weighted values; then the partial result of the block is merged ("folded") into that of the
 * blocks before it. The partial result of a row for a block depends on this row and this block
 * alone, and blocks are folded in their order. So single decode rows, prompt chunks of any size and
 * blocks spread over threads all give the same bits. */
#include "codec/check.h"
#include "ops/cpu_kernels/kv_pool.h"
#include "ops/cpu_kernels/parallel.h"

#include <math.h>
#include <string.h>

/* Most rows of a tile: they all use a block's K and V while those are in the L2 cache. */
#define TILE_ROWS MR_CPU_GROUP_MAX
/* Most numbers of a tile's queries. A tile of a wide key has fewer rows. */
#define TILE_NUMBERS (TILE_ROWS * 576u)

struct attention_run {
    struct mr_cpu_kv *kv;
    const struct mr_cpu_attention_args *args;
    const float *qkv;
    unsigned char *out;
    uint32_t group;     /* query heads in a tile, which share one kv head */
    uint32_t groups;    /* groups of query heads; in a pool with value_dim all share one kv head */
    uint32_t positions; /* largest number of positions in one tile */
    bool split; /* true: a job of the parallel loop is one block of a tile; false: a whole tile */
};

/* One tile: its sequence, kv head and rows, and the blocks that the rows attend to. */
struct attention_tile {
    const struct mr_cpu_attention_sequence *sequence;
    uint32_t group; /* index of its query heads */
    uint32_t kv_head;
    uint32_t row;  /* row of the batch at which the tile starts */
    uint32_t rows; /* number of rows: positions of the tile times query heads for each kv head */
    uint32_t position; /* position in the sequence of the tile's first row */
    uint32_t block_begin, block_end;
};

/* The partial attention result of one tile: for one block, or merged from several blocks. */
struct attention_part {
    float out[TILE_NUMBERS];
    float top[TILE_ROWS], sum[TILE_ROWS];
};

/* ---- one tile, one block ---- */

/* Row r of a tile attends to the keys [begin[r], end[r]) of a block. */
struct attention_keys {
    uint32_t begin[TILE_ROWS], end[TILE_ROWS];
};

/* Returns the last token to which the row at `position` attends. */
static uint32_t last_key(const struct attention_run *run,
                         const struct mr_cpu_attention_sequence *sequence, uint32_t position)
{
    const uint32_t window = run->args->window;
    if (sequence->attends == 0) return position;
    return window > 0 && sequence->attends - position > window ? position + window - 1
                                                               : sequence->attends - 1;
}

static void find_keys(const struct attention_run *run, const struct attention_tile *tile,
                      uint32_t block, struct attention_keys *keys)
{
    const uint32_t base = block * MR_BLOCK_TOKENS, window = run->args->window;
    for (uint32_t r = 0, position = tile->position; r < tile->rows; position++) {
        const uint32_t oldest = window > 0 && position >= window ? position - window + 1 : 0;
        uint32_t begin = oldest > base ? oldest - base : 0;
        const uint32_t last = last_key(run, tile->sequence, position);
        uint32_t end = last < base                         ? 0
                       : last - base + 1 < MR_BLOCK_TOKENS ? last - base + 1
                                                           : MR_BLOCK_TOKENS;
        if (begin >= end) begin = end = 0;
        for (uint32_t head = 0; head < run->group; head++, r++) {
            keys->begin[r] = begin;
            keys->end[r] = end;
        }
    }
}

/* The keys that the thread most likely reads after those of `block`: of the next block, or of the
 * next KV head. NULL: not known. */
static const unsigned char *next_keys(const struct attention_run *run,
                                      const struct attention_tile *tile, uint32_t block)
{
    const struct mr_cpu_kv *kv = run->kv;
    const uint32_t *blocks = tile->sequence->blocks, head = tile->kv_head;
    if (block + 1 < tile->block_end)
        return mr_cpu_kv_keys(kv, blocks[block + 1], run->args->layer, head);
    if (head + 1 >= kv->spec.kv_head_count) return NULL;
    return mr_cpu_kv_keys(kv, blocks[tile->block_begin], run->args->layer, head + 1);
}

/* Computes the partial attention result of a tile for one block. q: the tile's queries, in the
 * numbers of the pool (bf16 or f32). */
static void attend_block(const struct attention_run *run, const struct attention_tile *tile,
                         uint32_t block, const unsigned char *q, struct attention_part *part)
{
    const struct mr_cpu_kv *kv = run->kv;
    const uint32_t id = tile->sequence->blocks[block];
    struct attention_keys keys;
    MR_ASSERT(id < kv->spec.block_count);
    find_keys(run, tile, block, &keys);
    unsigned char *k = mr_cpu_kv_keys(kv, id, run->args->layer, tile->kv_head);
    const bool shares = mr_cpu_kv_shares_keys(kv);
    unsigned char *v = shares ? k : k + kv->half_bytes;
    const struct mr_cpu_attend attend = {
        .q = q,
        .keys = k,
        .values = shares ? NULL : v,
        .next_keys = next_keys(run, tile, block),
        .key_scales = kv->spec.int8 ? mr_cpu_kv_scales(kv, k) : NULL,
        .value_scales = kv->spec.int8 ? mr_cpu_kv_scales(kv, v) : NULL,
        .key_panel_bytes = mr_cpu_kv_key_panel_bytes(kv),
        .value_panel_bytes = mr_cpu_kv_value_panel_bytes(kv),
        .begin = keys.begin,
        .end = keys.end,
        .out = part->out,
        .sum = part->sum,
        .top = part->top,
        .rows = tile->rows,
        .dim = kv->spec.head_dim,
        .value_dim = mr_cpu_kv_value_dim(kv),
        .scale = run->args->scale,
        .softcap = run->args->softcap,
        .bf16 = kv->spec.bf16};
    kv->ops->attend(&attend);
}

/* ---- loading queries, storing results ---- */

static void load_queries(const struct attention_run *run, const struct attention_tile *tile,
                         unsigned char *q)
{
    const struct mr_cpu_kv *kv = run->kv;
    const uint32_t dim = kv->spec.head_dim;
    const uint32_t others = mr_cpu_kv_shares_keys(kv) ? 0 : 2 * kv->spec.kv_head_count;
    const size_t stride = (size_t)(run->args->head_count + others) * dim;
    const size_t position_bytes = (size_t)run->group * dim * mr_cpu_kv_number_bytes(kv);
    for (uint32_t i = 0; i < tile->rows / run->group; i++)
        kv->ops->convert(run->qkv + (tile->row + i) * stride +
                             (size_t)tile->group * run->group * dim,
                         1.0f, run->group * dim, kv->spec.bf16, q + i * position_bytes);
}

static void clear_part(struct attention_part *part, uint32_t rows, uint32_t dim)
{
    memset(part->out, 0, (size_t)rows * dim * sizeof *part->out);
    memset(part->sum, 0, rows * sizeof *part->sum);
    for (uint32_t r = 0; r < rows; r++)
        part->top[r] = MR_CPU_NO_SCORE;
}

/* Returns the divisor of a row's sum of weighted values: the sum of the weights and, with sinks,
 * the weight of the head's sink, which like the others is relative to 2^top. The
 * weight of the sink is limited to 1e38, so that the divisor is finite. */
static float divisor(const struct attention_run *run, uint32_t head, float sum, float top)
{
    if (!run->args->sinks) return sum;
    const double sink = exp2((double)run->args->sinks[head] * M_LOG2E - (double)top);
    return sum + (float)fmin(sink, 1e38);
}

static void store_tile(const struct attention_run *run, const struct attention_tile *tile,
                       const struct attention_part *part)
{
    const struct mr_cpu_kv *kv = run->kv;
    const uint32_t dim = mr_cpu_kv_value_dim(kv);
    const size_t size = mr_cpu_kv_number_bytes(kv);
    for (uint32_t r = 0; r < tile->rows; r++) {
        const uint32_t row = tile->row + r / run->group;
        const uint32_t head = tile->group * run->group + r % run->group;
        const size_t at = ((size_t)row * run->args->head_count + head) * dim;
        const float sum = divisor(run, head, part->sum[r], part->top[r]);
        kv->ops->convert(part->out + (size_t)r * dim, 1.0f / sum, dim, kv->spec.bf16,
                         run->out + at * size);
    }
}

static void fold_block(const struct attention_run *run, struct attention_part *part, uint32_t rows,
                       const float *out, const float *top)
{
    const struct mr_cpu_fold fold = {.out = part->out,
                                     .top = part->top,
                                     .sum = part->sum,
                                     .block_out = out,
                                     .block_top = top,
                                     .block_sum = top + TILE_ROWS,
                                     .rows = rows,
                                     .width = mr_cpu_kv_value_dim(run->kv)};
    run->kv->ops->fold(&fold);
}

static void run_tile(const struct attention_run *run, const struct attention_tile *tile)
{
    _Alignas(64) struct attention_part whole, part;
    _Alignas(64) float q[TILE_NUMBERS];
    load_queries(run, tile, (unsigned char *)q);
    clear_part(&whole, tile->rows, mr_cpu_kv_value_dim(run->kv));
    for (uint32_t block = tile->block_begin; block < tile->block_end; block++) {
        attend_block(run, tile, block, (const unsigned char *)q, &part);
        fold_block(run, &whole, tile->rows, part.out, part.top);
    }
    store_tile(run, tile, &whole);
}

/* ---- jobs ---- */

/* A thread's place in the list of jobs. Jobs are listed from the last sequence to the first:
 * prompts cost most and are last in a batch, so their jobs start first. */
struct attention_cursor {
    uint32_t sequence;  /* index in the batch of the current sequence, plus one */
    uint32_t first_job; /* index of the current sequence's first job */
    /* Index of the current sequence's first tile among those of all sequences. */
    uint32_t first_tile;
    size_t first_partial; /* offset of the current sequence's partial results, in floats */
};

static uint32_t block_count(const struct mr_cpu_attention_sequence *sequence)
{
    const uint32_t tokens = sequence->context_tokens + sequence->row_count;
    const uint32_t all = sequence->attends > tokens ? sequence->attends : tokens;
    return (all + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS;
}

static uint32_t tile_count(const struct attention_run *run,
                           const struct mr_cpu_attention_sequence *sequence)
{
    return (sequence->row_count + run->positions - 1) / run->positions * run->groups;
}

static uint32_t jobs_of(const struct attention_run *run,
                        const struct mr_cpu_attention_sequence *sequence)
{
    return tile_count(run, sequence) * (run->split ? block_count(sequence) : 1);
}

/* Returns the number of floats in the partial result of one tile for one block. */
static size_t partial_floats(const struct attention_run *run,
                             const struct mr_cpu_attention_sequence *sequence)
{
    const uint32_t positions =
        sequence->row_count < run->positions ? sequence->row_count : run->positions;
    return (size_t)positions * run->group * mr_cpu_kv_value_dim(run->kv) + 2u * TILE_ROWS;
}

static size_t partials_of(const struct attention_run *run,
                          const struct mr_cpu_attention_sequence *sequence)
{
    return (size_t)tile_count(run, sequence) * block_count(sequence) *
           partial_floats(run, sequence);
}

/* Moves the cursor to the sequence to which `job` belongs: the current sequence or a later one in
 * the list of jobs. */
static const struct mr_cpu_attention_sequence *seek(const struct attention_run *run,
                                                    struct attention_cursor *cursor, uint32_t job)
{
    for (;;) {
        const struct mr_cpu_attention_sequence *sequence =
            &run->args->sequences[cursor->sequence - 1];
        const uint32_t jobs = jobs_of(run, sequence);
        if (job - cursor->first_job < jobs) return sequence;
        cursor->sequence--;
        cursor->first_job += jobs;
        cursor->first_tile += tile_count(run, sequence);
        if (run->split) cursor->first_partial += partials_of(run, sequence);
    }
}

/* Returns the index-th tile of a sequence: group after group of query heads, and for each group
 * from the last positions to the first. */
static struct attention_tile make_tile(const struct attention_run *run,
                                       const struct mr_cpu_attention_sequence *sequence,
                                       uint32_t index)
{
    const uint32_t tiles =
        /* Number of tiles of each group. */
        tile_count(run, sequence) / run->groups;
    const uint32_t first = (tiles - 1 - index % tiles) * run->positions;
    const uint32_t left = sequence->row_count - first;
    const uint32_t positions = left < run->positions ? left : run->positions;
    const uint32_t position = sequence->context_tokens + first, window = run->args->window;
    const uint32_t oldest = window > 0 && position >= window ? position - window + 1 : 0;
    return (struct attention_tile){
        .sequence = sequence,
        .group = index / tiles,
        .kv_head = mr_cpu_kv_shares_keys(run->kv) ? 0 : index / tiles,
        .row = sequence->row_begin + first,
        .rows = positions * run->group,
        .position = position,
        .block_begin = oldest / MR_BLOCK_TOKENS,
        .block_end = last_key(run, sequence, position + positions - 1) / MR_BLOCK_TOKENS + 1};
}

/* Computes one block of a tile whose blocks are spread over threads. The thread that finishes the
 * tile's last block merges the partial results of all blocks and stores the tile. */
static void run_block(const struct attention_run *run, const struct attention_tile *tile,
                      uint32_t block, float *partials, atomic_uint *done)
{
    const uint32_t dim = mr_cpu_kv_value_dim(run->kv), blocks = block_count(tile->sequence);
    const size_t stride = partial_floats(run, tile->sequence), tops = stride - 2u * TILE_ROWS;
    _Alignas(64) struct attention_part part;
    if (block >= tile->block_begin && block < tile->block_end) {
        _Alignas(64) float q[TILE_NUMBERS];
        float *to = partials + block * stride;
        load_queries(run, tile, (unsigned char *)q);
        attend_block(run, tile, block, (const unsigned char *)q, &part);
        memcpy(to, part.out, (size_t)tile->rows * dim * sizeof *to);
        memcpy(to + tops, part.top, tile->rows * sizeof *to);
        memcpy(to + tops + TILE_ROWS, part.sum, tile->rows * sizeof *to);
    }
    if (atomic_fetch_add(done, 1) + 1 < blocks) return;
    atomic_store(done, 0);
    clear_part(&part, tile->rows, dim);
    for (uint32_t b = tile->block_begin; b < tile->block_end; b++)
        fold_block(run, &part, tile->rows, partials + b * stride, partials + b * stride + tops);
    store_tile(run, tile, &part);
}

static void run_jobs(void *context, size_t begin, size_t end)
{
    const struct attention_run *run = context;
    struct attention_cursor cursor = {.sequence = run->args->sequence_count};
    for (uint32_t job = (uint32_t)begin; job < end; job++) {
        const struct mr_cpu_attention_sequence *sequence = seek(run, &cursor, job);
        const uint32_t blocks = run->split ? block_count(sequence) : 1;
        const uint32_t index = (job - cursor.first_job) / blocks;
        const struct attention_tile tile = make_tile(run, sequence, index);
        if (!run->split) {
            run_tile(run, &tile);
            continue;
        }
        run_block(run, &tile, (job - cursor.first_job) % blocks,
                  run->kv->partials + cursor.first_partial +
                      (size_t)index * blocks * partial_floats(run, sequence),
                  &run->kv->blocks_done[cursor.first_tile + index]);
    }
}

/* Sets the number of query heads and positions in a tile. */
static void choose_tiles(struct attention_run *run)
{
    const struct mr_cpu_kv_spec *spec = &run->kv->spec;
    const uint32_t heads = run->args->head_count, fit = TILE_NUMBERS / spec->head_dim;
    const uint32_t most = fit < TILE_ROWS ? fit : TILE_ROWS;
    run->group = heads / spec->kv_head_count;
    while (run->group > most || heads % run->group != 0) {
        MR_ASSERT(mr_cpu_kv_shares_keys(run->kv));
        run->group--;
    }
    run->groups = heads / run->group;
    run->positions = most / run->group;
    if (run->positions > 16) /* Round down to a multiple of 16, the rows of an AMX tile. */
        run->positions -= run->positions % 16;
}

void mr_cpu_attention(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                      const float *qkv, void *out)
{
    const uint32_t threads = mr_parallel_thread_count();
    struct attention_run run = {.kv = kv, .args = attention, .qkv = qkv, .out = out};
    MR_ASSERT(attention->head_count % kv->spec.kv_head_count == 0);
    MR_ASSERT(attention->layer < kv->spec.layer_count);
    choose_tiles(&run);
    uint32_t tiles = 0, blocks = 0;
    size_t partials = 0;
    for (uint32_t s = 0; s < attention->sequence_count; s++) {
        const struct mr_cpu_attention_sequence *sequence = &attention->sequences[s];
        tiles += tile_count(&run, sequence);
        blocks += tile_count(&run, sequence) * block_count(sequence);
        partials += partials_of(&run, sequence);
    }
    /* With many tiles all threads are busy without splitting tiles into blocks, and an unsplit tile
     * stays in the cache of one core. */
    run.split = threads > 1 && tiles < 4 * threads && tiles <= MR_CPU_SPLIT_TILES &&
                partials <= MR_CPU_SPLIT_FLOATS;
    mr_parallel_for(run.split ? blocks : tiles, 1, run_jobs, &run);
}
