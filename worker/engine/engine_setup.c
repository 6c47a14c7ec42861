#include "worker/engine/engine_setup.h"

#include "codec/sha256.h"
#include "kvcache/fingerprint.h"
#include "ops/model/torch_module.h"
#include "worker/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFILL_BATCH_MAX 8u
/* Sessions may protect at most one half of the KV pool from eviction, so that other requests keep
 * the other half. */
#define SESSION_SHARE 2u
/* Requests may wait in this worker while their predicted KV is at most 4 KV pools: about 4 rounds
 * of running sequences. Further requests stay in Kafka for other workers. */
#define QUEUE_POOLS_MAX   4u
#define PREFILL_BYTES_MAX ((uint64_t)4 << 30)
#define DRAFT_ROWS_MAX    64u
/* 64 rows of logits take 39 MB with a vocabulary of 152,000 tokens. With more rows, a scored prompt
 * could use longer chunks; the gain is not measured. */
#define SCORE_ROWS_MAX 64u
/* context length in tokens while the model's own limit is not known */
#define CONTEXT_UNKNOWN 8192u
/* a request that has waited 10 s is ranked one step of priority higher */
#define AGEING_NS        10000000000u
#define CACHE_PATH_BYTES ((size_t)1024)
#define MEBIBYTE         1048576.0
#define PROGRESS_NS      ((uint64_t)2000000000)
/* Larger weights keep their hash in a file: hashing them would add up to a second to every start
 * (bench_digest: 18 GB/s from memory, 10 GB/s while other work runs). */
#define DIGEST_CACHE_BYTES ((uint64_t)8 << 30)

static enum mr_status parse_dtype(const char *text, enum mr_dtype *out, struct mr_error *err)
{
    static const struct {
        const char *name;
        enum mr_dtype dtype;
    } names[] = {
        {"auto", MR_DTYPE_AUTO}, {"fp32", MR_DTYPE_F32},  {"bf16", MR_DTYPE_BF16},
        {"fp16", MR_DTYPE_F16},  {"int8", MR_DTYPE_INT8}, {"int4", MR_DTYPE_INT4},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i].name) != 0) continue;
        *out = names[i].dtype;
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_CONFIG, "dtype '%.20s' is none of auto fp32 bf16 fp16 int8 int4",
                   text);
}

/* The most tokens that one engine step computes. When chunked prefill is off, a whole prompt has to
 * fit. */
static uint32_t rows_max(const struct mr_config *config)
{
    uint32_t context_tokens = config->context_tokens ? config->context_tokens : CONTEXT_UNKNOWN;
    uint32_t rows = config->step_tokens;
    if (config->chunk_tokens <= 0 && rows < context_tokens) rows = context_tokens;
    return rows <= config->max_sequences ? config->max_sequences + 1 : rows;
}

/* Writes the path of the user's cache folder of millrace; "" when the environment names no home. */
static void cache_folder(char path[CACHE_PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    if (cache && cache[0] == '/')
        length = snprintf(path, CACHE_PATH_BYTES, "%s/millrace", cache);
    else if (home && home[0] == '/')
        length = snprintf(path, CACHE_PATH_BYTES, "%s/.cache/millrace", home);
    if (length <= 0 || (size_t)length >= CACHE_PATH_BYTES) path[0] = '\0';
}

static bool is_gpu(const struct mr_config *config)
{
    return strncmp(config->device, "cuda", 4) == 0;
}

/* Our kernels for a GPU; NULL: this build has none, an option turns them off, or the device is the
 * CPU. */
static const struct mr_cuda_kernels *kernels_of(const struct mr_config *config)
{
    if (!is_gpu(config)) return NULL;
    return strcmp(config->cuda_kernels, "off") != 0 ? mr_torch_module_cuda_kernels() : NULL;
}

/* Most rows of a decode step that a CUDA graph runs. */
static uint32_t graph_rows_max(const struct mr_config *config)
{
    const bool on = kernels_of(config) && strcmp(config->cuda_kernels, "no-graphs") != 0;
    return on ? config->max_sequences : 0;
}

/* Most drafts in one step. A backend whose results depend on the rows of the step gets no graphs,
 * because they would change answers. */
static uint32_t draft_rows_max(const struct mr_config *config, const char *backend)
{
    bool on = config->speculation == MR_SPECULATION_AUTO && strcmp(backend, "cpu") == 0;
    return on ? DRAFT_ROWS_MAX : 0;
}

static enum mr_status fill_options(const struct mr_config *config, const struct mr_machine *machine,
                                   struct mr_model_options *options, struct mr_error *err)
{
    *options = (struct mr_model_options){
        .path = config->model,
        .digest_cache_bytes = DIGEST_CACHE_BYTES,
        .device = config->device,
        .backend = config->backend,
        .cuda_kernels = kernels_of(config),
        .graph_rows_max = graph_rows_max(config),
        .warm_up = is_gpu(config),
        .adapters = config->adapter.count > 0 || (config->adapters && config->adapters[0]),
        .thread_count = config->threads > 0 ? config->threads : mr_machine_thread_count(machine),
        .kv_bytes = config->kv_memory_bytes,
        .memory_bytes = config->kv_memory_given ? 0 : mr_machine_usable_bytes(machine),
        .context_tokens = config->context_tokens,
        .rows_max = rows_max(config) + DRAFT_ROWS_MAX,
        .sequences_max = config->max_sequences + DRAFT_ROWS_MAX + SCORE_ROWS_MAX,
        .running_max = config->max_sequences,
        .kv_int8 = config->kv_dtype == MR_KV_DTYPE_INT8,
        .export_int8 = config->redis_kv == MR_REDIS_KV_INT8,
    };
    return parse_dtype(config->dtype, &options->dtype, err);
}

enum mr_status mr_engine_setup_check(const struct mr_config *config, struct mr_error *err)
{
    struct mr_model_options options;
    const struct mr_machine machine = {.core_count = 1}; /* the options are valid on any machine */
    enum mr_status status = fill_options(config, &machine, &options, err);
    return status == MR_OK ? mr_model_check_options(&options, err) : status;
}

enum mr_status mr_engine_setup_plan(const struct mr_config *config,
                                    const struct mr_model_source *source, struct mr_model_plan *out,
                                    struct mr_error *err)
{
    struct mr_model_options options;
    struct mr_machine machine;
    mr_machine_read(&machine, "");
    enum mr_status status = fill_options(config, &machine, &options, err);
    if (status != MR_OK) return status;
    return mr_model_plan_make(out, source, &options, err);
}

static enum mr_status open_model(struct mr_model_options *options, struct mr_model **out,
                                 struct mr_error *err)
{
    char folder[CACHE_PATH_BYTES];
    cache_folder(folder);
    options->cache_folder = folder;
    return mr_model_open(out, options, err);
}

enum mr_status
mr_engine_setup_model(const struct mr_config *config,
                      void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                      void *progress_context, struct mr_model **out, struct mr_error *err)
{
    struct mr_model_options options;
    struct mr_machine machine;
    mr_machine_read(&machine, "");
    *out = NULL;
    enum mr_status status = fill_options(config, &machine, &options, err);
    if (status != MR_OK) return status;
    options.progress = progress;
    options.progress_context = progress_context;
    return open_model(&options, out, err);
}

uint32_t mr_engine_setup_context(const struct mr_config *config, const struct mr_model_info *info)
{
    uint64_t tokens = info->context_tokens;
    uint64_t pool = (uint64_t)info->block_count * MR_BLOCK_TOKENS;
    if (config->context_tokens && config->context_tokens < tokens) tokens = config->context_tokens;
    return (uint32_t)(tokens < pool ? tokens : pool);
}

/* Hashes the texts of all token ids of the tokenizer into one digest. */
static enum mr_status tokenizer_digest(const struct mr_tokenizer *tokenizer,
                                       unsigned char out[MR_SHA256_BYTES], struct mr_error *err)
{
    struct mr_sha256 *hash = mr_sha256_create();
    if (!hash) return mr_fail(err, MR_NOMEM, "no memory for the tokenizer's digest");
    mr_sha256_begin(hash);
    for (uint32_t id = 0; id < mr_tokenizer_vocab_size(tokenizer); id++) {
        struct mr_text text = mr_tokenizer_bytes(tokenizer, id, false);
        mr_sha256_add_field(hash, "t", text.bytes, text.length);
    }
    mr_sha256_end(hash, out);
    mr_sha256_destroy(hash);
    return MR_OK;
}

static enum mr_status fingerprint(const struct mr_model *model, unsigned char out[MR_SHA256_BYTES],
                                  struct mr_error *err)
{
    const struct mr_model_info *info = mr_model_info(model);
    unsigned char tokenizer[MR_SHA256_BYTES];
    char numerics[64];
    snprintf(numerics, sizeof numerics, "%s %s", info->device, info->numerics);
    struct mr_kv_identity identity = {.weights = info->weights_digest,
                                      .tokenizer = tokenizer,
                                      .architecture = info->architecture,
                                      .layer_count = info->layer_count,
                                      .hidden_size = info->hidden_size,
                                      .head_count = info->head_count,
                                      .kv_head_count = info->kv_head_count,
                                      .head_dim = info->head_dim,
                                      .vocab_size = info->vocab_size,
                                      .rope = info->rope,
                                      .window_tokens = info->window_tokens,
                                      .kv_dtype = info->kv_dtype,
                                      .layout = info->kv_layout,
                                      .block_tokens = MR_BLOCK_TOKENS,
                                      .adapter = "",
                                      .numerics = numerics,
                                      .part_count = 1};
    struct mr_kv_fingerprint made;
    enum mr_status status = tokenizer_digest(mr_model_tokenizer(model), tokenizer, err);
    if (status == MR_OK) status = mr_kv_fingerprint_of(&identity, &made, err);
    if (status == MR_OK) memcpy(out, made.bytes, sizeof made.bytes);
    return status;
}

static uint64_t read_clock(void *self)
{
    (void)self;
    return mr_clock_ns();
}

enum mr_status mr_engine_setup_engine(const struct mr_config *config, struct mr_model *model,
                                      const struct mr_engine_user *user,
                                      const struct mr_remote_cache *remote, struct mr_engine **out,
                                      struct mr_error *err)
{
    const struct mr_model_info *info = mr_model_info(model);
    uint32_t context = mr_engine_setup_context(config, info);
    uint32_t rows = rows_max(config);
    if (info->both_ways && rows < context + config->max_sequences)
        rows = context + config->max_sequences;
    struct mr_engine_options options = {
        .model = mr_model_port_of(model, read_clock),
        .tokenizer = mr_model_tokenizer(model),
        .block_count = info->block_count,
        .window_slots = info->window_slots,
        .window_tokens = info->window_tokens,
        .state_slots = info->state_slots,
        .context_tokens = context,
        .sequences_max = config->max_sequences,
        .rows_max = rows,
        .draft_rows_max = info->both_ways ? 0 : draft_rows_max(config, info->backend),
        .score_rows_max = info->both_ways ? 0 : SCORE_ROWS_MAX,
        .chunk_tokens = config->chunk_tokens,
        .prefills_max = config->chunk_requests,
        .step_target_ms =
            config->step_target_ms == MR_OPTION_AUTO ? MR_STEP_TARGET_AUTO : config->step_target_ms,
        /* Texts of an encoder end with their first step, so they are all prefills. */
        .prefill_batch_max = info->both_ways ? config->max_sequences : PREFILL_BATCH_MAX,
        .prefill_bytes_max = PREFILL_BYTES_MAX,
        .geometry = {.kv_bytes_per_token = info->kv_bytes_per_token,
                     .activation_bytes_per_row = info->activation_bytes / rows},
        .prefix_cache = config->prefix_cache,
        .session_keep_ns = config->session_keep_ns,
        .session_blocks_max = info->block_count / SESSION_SHARE,
        .remote = config->prefix_cache ? remote : NULL,
        .prompt_cache_entries = config->prompt_entries,
        .prompt_cache_ttl_ns = config->prompt_entry_ttl_ns,
        .queue_count_max = config->queue_requests,
        .queue_bytes_max = config->queue_bytes,
        .queue_pools_max = QUEUE_POOLS_MAX,
        .tenant_count = config->tenant_count,
        .tenant_weights = config->tenant_count > 0 ? config->tenant_weights : NULL,
        .ageing_ns = AGEING_NS,
        .deadline_admission = config->deadline_admission,
        .wake = user->wake,
        .wake_context = user->context,
        .defaults = info->defaults,
        .eos_ids = info->eos_ids,
        .eos_count = info->eos_count,
    };
    *out = NULL;
    enum mr_status status = fingerprint(model, options.fingerprint, err);
    return status == MR_OK ? mr_engine_create(out, &options, &user->sink, err) : status;
}

/* ---- the source ---- */

static void on_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct mr_engine_setup *setup = context;
    uint64_t now_ns = mr_clock_ns();
    if (now_ns - setup->progress_ns < PROGRESS_NS || total_bytes == 0) return;
    setup->progress_ns = now_ns;
    mr_log_event(setup->log, MR_LOG_INFO, NULL, "loading model",
                 MR_LOG_NUMBER("percent", done_bytes * 100 / total_bytes));
}

static double mebibytes(uint64_t bytes)
{
    return round((double)bytes / MEBIBYTE);
}

static void on_graph_progress(void *context, uint32_t done, uint32_t total)
{
    struct mr_engine_setup *setup = context;
    uint64_t now_ns = mr_clock_ns();
    if (done > 0 && now_ns - setup->progress_ns < PROGRESS_NS) return;
    setup->progress_ns = now_ns;
    mr_log_info(setup->log, "recording CUDA graphs of decode steps: %u of %u", done, total);
}

static void log_graphs(const struct mr_engine_setup *setup, const struct mr_decode_graphs *graphs)
{
    if (graphs->refusal.status != MR_OK)
        mr_log_warn(setup->log, "recorded %u CUDA graphs; the others cannot be recorded: %s",
                    graphs->count, graphs->refusal.detail);
    else if (graphs->count > 0)
        mr_log_info(setup->log, "recorded %u CUDA graphs of decode steps", graphs->count);
}

/* Logs the thread count and sizes chosen from the limits of the machine and of the control
 * groups. */
static void log_resources(const struct mr_engine_setup *setup, const struct mr_model_info *info)
{
    const struct mr_machine *machine = &setup->machine;
    double quota = machine->cpu_quota > 0 ? machine->cpu_quota : (double)NAN;
    double limit =
        machine->memory_limit_bytes > 0 ? mebibytes(machine->memory_limit_bytes) : (double)NAN;
    mr_log_event(setup->log, MR_LOG_INFO, NULL, "resources",
                 MR_LOG_NUMBER("threads", setup->thread_count),
                 MR_LOG_NUMBER("cores", machine->core_count), MR_LOG_NUMBER("cpu_quota", quota),
                 MR_LOG_NUMBER("kv_pool_mib", mebibytes(info->kv_pool_bytes)),
                 MR_LOG_NUMBER("weights_mib", mebibytes(info->weight_bytes)),
                 MR_LOG_NUMBER("memory_mib", mebibytes(machine->memory_bytes)),
                 MR_LOG_NUMBER("memory_limit_mib", limit));
}

static enum mr_status open_adapters(struct mr_engine_setup *setup, struct mr_error *err)
{
    if (!setup->adapters) return MR_OK;
    enum mr_status status = mr_adapters_open(setup->adapters, setup->model, mr_clock_ns(), err);
    if (status != MR_OK) return status;
    mr_log_event(setup->log, MR_LOG_INFO, NULL, "adapters",
                 MR_LOG_NUMBER("listed", mr_adapters_stats(setup->adapters).listed));
    return mr_adapters_start(setup->adapters, err);
}

static enum mr_status open_source(void *self, const struct mr_engine_user *user,
                                  struct mr_engine_parts *parts, struct mr_error *err)
{
    struct mr_engine_setup *setup = self;
    struct mr_model_options options;
    setup->progress_ns = mr_clock_ns();
    mr_machine_read(&setup->machine, setup->machine_root ? setup->machine_root : "");
    enum mr_status status = fill_options(setup->config, &setup->machine, &options, err);
    setup->thread_count = options.thread_count;
    options.source = setup->source;
    options.progress = on_progress;
    options.graph_progress = on_graph_progress;
    options.progress_context = setup;
    if (status == MR_OK) status = open_model(&options, &setup->model, err);
    if (status == MR_OK) status = open_adapters(setup, err);
    if (status == MR_OK)
        status = mr_engine_setup_engine(setup->config, setup->model, user, setup->remote,
                                        &setup->engine, err);
    if (status != MR_OK) return status;
    const struct mr_model_info *info = mr_model_info(setup->model);
    log_resources(setup, info);
    log_graphs(setup, &info->graphs);
    *parts =
        (struct mr_engine_parts){.engine = setup->engine,
                                 .model = info,
                                 .tokenizer = mr_model_tokenizer(setup->model),
                                 .context_tokens = mr_engine_setup_context(setup->config, info)};
    return MR_OK;
}

/* Prepares part of the KV pool's memory ahead of requests; only in a server, where there is idle
 * time before the first request. */
static bool populate(void *self)
{
    struct mr_engine_setup *setup = self;
    return setup->config->command == MR_COMMAND_SERVE && mr_model_kv_populate(setup->model);
}

static void close_source(void *self)
{
    struct mr_engine_setup *setup = self;
    mr_engine_destroy(setup->engine);
    if (setup->adapters) mr_adapters_close(setup->adapters);
    mr_model_close(setup->model);
}

struct mr_engine_source mr_engine_setup_source(struct mr_engine_setup *setup)
{
    return (struct mr_engine_source){.self = setup,
                                     .open = open_source,
                                     .populate = populate,
                                     .clock_ns = read_clock,
                                     .close = close_source};
}
