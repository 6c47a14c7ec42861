#include "ops/model/model.h"

#include "codec/check.h"
#include "ops/cpu_kernels/parallel.h"
#include "ops/decoder/decoder.h"
#include "ops/files/digest_cache.h"
#include "ops/files/model_files.h"
#include "ops/model/device_choice.h"
#include "ops/model/step_queue.h"
#include "ops/weights/adapter.h"
#include "ops/weights/weights_digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_model {
    struct mr_model_info info;
    /* The model's files; the weight files are closed after loading. */
    struct mr_model_source source;
    struct mr_compute *compute;
    enum mr_weight_numbers numbers;
    char numerics[64];
    char device[16]; /* the path as the user named it */
    struct mr_weights weights;
    struct mr_layer_sites sites; /* empty: the model was opened without adapters */
    struct mr_adapter_base adapter_base;
    struct mr_rope_table ropes[MR_ROPES_MAX];
    struct mr_kv_groups kv;
    struct mr_state_pool states;
    struct mr_decoder *decoder;
    struct mr_step_queue *queue;
};

/* ---- opening ---- */

enum mr_status mr_model_compute(const struct mr_model_options *options, struct mr_compute *out,
                                struct mr_error *err)
{
    struct mr_device device;
    enum mr_number number = MR_NUMBER_BF16;
    enum mr_status status = mr_device_parse(options->device, &device, err);
    if (status != MR_OK) return status;
    const bool integers = options->dtype == MR_DTYPE_INT8 || options->dtype == MR_DTYPE_INT4;
    if (options->dtype == MR_DTYPE_F32) number = MR_NUMBER_F32;
    if (options->dtype == MR_DTYPE_F16) number = MR_NUMBER_F16;
    *out = (struct mr_compute){.number = number};
    status = mr_device_choice_find_backend(&out->backend, options->backend, device, number, err);
    if (status == MR_OK && integers && !out->backend->integer_weights)
        return mr_fail(err, MR_BAD_CONFIG, "the backend %s cannot compute in int8 or int4",
                       out->backend->name);
    if (status == MR_OK && options->kv_int8 && !out->backend->int8_kv)
        return mr_fail(err, MR_BAD_CONFIG,
                       "kv-dtype int8 needs the backend cpu; the backend %s keeps KV in its own "
                       "number format (kv-dtype auto)",
                       out->backend->name);
    return status;
}

enum mr_status mr_model_check_options(const struct mr_model_options *options, struct mr_error *err)
{
    struct mr_compute compute;
    uint64_t free_bytes;
    enum mr_status status = mr_model_compute(options, &compute, err);
    if (status == MR_OK)
        status = mr_device_choice_probe(&compute, options->device, options->cuda_kernels,
                                        &free_bytes, err);
    if (status != MR_OK) return status;
    if (options->rows_max == 0 || options->sequences_max == 0)
        return mr_fail(err, MR_BAD_CONFIG, "a step must have room for a row and a sequence");
    return MR_OK;
}

/* Names the model's file in an error of its tensors. */
static enum mr_status blame(const struct mr_model_source *source, enum mr_status status,
                            struct mr_error *err)
{
    return source->path ? mr_mapped_file_blame(source->path, status, err) : status;
}

enum mr_status mr_model_check_files(const struct mr_model_source *source, struct mr_error *err)
{
    struct mr_weights_spec spec = {
        .config = &source->config, .tensors = source->tensors, .gguf_names = source->gguf_names};
    enum mr_status status = mr_weights_check(&spec, NULL, err);
    return status == MR_BAD_FILE ? blame(source, status, err) : status;
}

static enum mr_status set_up(struct mr_model *model, const struct mr_model_options *options,
                             struct mr_error *err)
{
    struct mr_compute compute;
    model->numbers = mr_weight_numbers_of(options->dtype);
    uint32_t threads = options->thread_count > 0 ? options->thread_count : mr_parallel_core_count();
    enum mr_status status = mr_model_check_options(options, err);
    if (status == MR_OK) status = mr_model_compute(options, &compute, err);
    if (status == MR_OK) status = mr_parallel_set_thread_count(threads, err);
    if (status != MR_OK) return status;
    snprintf(model->device, sizeof(model->device), "%s", options->device);
    return mr_device_choice_open(&model->compute, &compute, options->device, options->cuda_kernels,
                                 err);
}

/* Takes over the files that the caller has read, or reads them. */
static enum mr_status read_files(struct mr_model *model, const struct mr_model_options *options,
                                 struct mr_error *err)
{
    if (!options->source) return mr_model_files_read(&model->source, options->path, err);
    model->source = *options->source;
    *options->source = (struct mr_model_source){0};
    return MR_OK;
}

static uint64_t stored_bytes(const struct mr_tensor_table *tensors)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tensors->count; i++)
        bytes += tensors->entries[i].size_bytes;
    return bytes;
}

/* Packs the weights, and hashes the bytes of each tensor before packing it unless `digest` is
 * NULL. */
static enum mr_status pack_weights(struct mr_model *model, const struct mr_model_options *options,
                                   struct mr_weights_digest *digest, struct mr_error *err)
{
    struct mr_weights_spec spec = {.config = &model->source.config,
                                   .tensors = model->source.tensors,
                                   .gguf_names = model->source.gguf_names,
                                   .compute = model->compute,
                                   .numbers = model->numbers,
                                   .sites = options->adapters ? &model->sites : NULL,
                                   .digest = digest,
                                   .progress = options->progress,
                                   .progress_context = options->progress_context};
    return mr_weights_load(&model->weights, &spec, err);
}

/* Packs the weights and fills `content` with the hash of all their bytes. */
static enum mr_status pack_and_hash(struct mr_model *model, const struct mr_model_options *options,
                                    unsigned char content[MR_DIGEST_BYTES], struct mr_error *err)
{
    struct mr_weights_digest *digest = NULL;
    enum mr_status status = mr_weights_digest_create(&digest, model->source.tensors, err);
    if (status == MR_OK) status = pack_weights(model, options, digest, err);
    if (status == MR_OK) status = mr_weights_digest_content(digest, content, err);
    mr_weights_digest_destroy(digest);
    return status;
}

static enum mr_status load_weights(struct mr_model *model, const struct mr_model_options *options,
                                   struct mr_error *err)
{
    const struct mr_tensor_table *tensors = model->source.tensors;
    unsigned char content[MR_DIGEST_BYTES];
    uint32_t file_count = mr_model_source_file_count(&model->source);
    struct mr_file_stamp *stamps = calloc(file_count, sizeof(*stamps));
    if (!stamps) return mr_fail(err, MR_NOMEM, "no memory for the files of the weights");
    mr_model_source_stamps(&model->source, stamps);
    const struct mr_digest_cache cache = {options->path, options->cache_folder, stamps, file_count};
    bool caches =
        options->digest_cache_bytes > 0 && stored_bytes(tensors) >= options->digest_cache_bytes;
    bool found = caches && mr_digest_cache_find(&cache, content);
    enum mr_status status = found ? pack_weights(model, options, NULL, err)
                                  : pack_and_hash(model, options, content, err);
    if (status == MR_OK) status = mr_tensor_table_check_files(tensors, err);
    if (status == MR_OK && caches && !found) (void)mr_digest_cache_keep(&cache, content);
    free(stamps);
    if (status == MR_BAD_FILE) status = blame(&model->source, status, err);
    if (status != MR_OK) return status;
    status = mr_weights_digest_of(&model->source.config, tensors, content,
                                  model->info.weights_digest, err);
    mr_model_source_close_weights(&model->source);
    return status;
}

/* A rope table has a position for each token of the longest sequence: the least of the model's
 * context, the tokens that fit into the KV pool, and options->context_tokens. */
static enum mr_status create_ropes(struct mr_model *model, const struct mr_model_options *options,
                                   struct mr_error *err)
{
    const struct mr_model_config *c = &model->source.config;
    uint64_t pool_tokens = (uint64_t)model->kv.block_count * MR_BLOCK_TOKENS;
    uint32_t positions =
        pool_tokens < c->context_tokens ? (uint32_t)pool_tokens : c->context_tokens;
    if (options->context_tokens > 0 && options->context_tokens < positions)
        positions = options->context_tokens;
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < c->rope_count; i++)
        status = mr_rope_table_create(&model->ropes[i], &c->ropes[i], positions, err);
    return status;
}

static enum mr_status create_decoder(struct mr_model *model, const struct mr_model_options *options,
                                     struct mr_error *err)
{
    struct mr_decoder_spec spec = {.config = &model->source.config,
                                   .weights = &model->weights,
                                   .ropes = model->ropes,
                                   .kv = &model->kv,
                                   .states = model->states.slot_count > 0 ? &model->states : NULL,
                                   .compute = model->compute,
                                   .rows_max = options->rows_max,
                                   .sequences_max = options->sequences_max,
                                   .rank_max = options->adapters ? MR_ADAPTER_LAYER_RANKS : 0};
    return mr_decoder_create(&model->decoder, &spec, err);
}

static enum mr_status create_queue(struct mr_model *model, const struct mr_model_options *options,
                                   struct mr_error *err)
{
    const struct mr_step_queue_spec spec = {.decoder = model->decoder,
                                            .vocab_size = model->source.config.vocab_size,
                                            .rows_max = options->rows_max,
                                            .samples_max = options->sequences_max * MR_CHOICES_MAX};
    return mr_step_queue_create(&model->queue, &spec, err);
}

static void fill_sizes(struct mr_model_info *info, const struct mr_model_config *c)
{
    info->layer_count = c->layer_count;
    info->hidden_size = c->hidden_size;
    info->head_count = c->head_count;
    info->kv_head_count = c->kv_head_count;
    info->head_dim = c->head_dim;
    info->ffn_size = c->ffn_size;
    info->vocab_size = c->vocab_size;
    info->both_ways = c->both_ways;
    info->pooling = c->pooling;
    info->context_tokens = c->context_tokens;
    info->eos_count = c->eos_count;
    memcpy(info->eos_ids, c->eos_ids, sizeof(info->eos_ids));
}

/* Writes all rotary embeddings, and for each whether it uses the divisors for long contexts. */
static void describe_ropes(struct mr_model *model)
{
    const struct mr_model_config *c = &model->source.config;
    struct mr_model_info *info = &model->info;
    size_t used = 0;
    for (uint32_t i = 0; i < c->rope_count; i++) {
        char text[320];
        bool is_long = mr_rope_table_is_long(&c->ropes[i], model->ropes[i].position_count);
        mr_model_config_describe_rope(c, i, text, sizeof(text));
        used += (size_t)snprintf(info->rope + used, sizeof(info->rope) - used, "%s%s%s",
                                 i > 0 ? "; " : "", text, is_long ? " long" : "");
        MR_ASSERT(used < sizeof(info->rope));
    }
}

/* Fills in the fields of info that, besides weights and sizes, decide the bytes of an exported
 * block. */
static void fill_kv_identity(struct mr_model *model)
{
    struct mr_model_info *info = &model->info;
    describe_ropes(model);
    info->window_tokens = model->source.config.window;
    info->kv_dtype = mr_number_name(model->compute->number);
    static const char *const int8_of[] = {"int8 of f32", "int8 of bf16", "int8 of f16"};
    static const char *const int8_for[] = {"int8 for f32", "int8 for bf16", "int8 for f16"};
    if (model->kv.exports_int8) info->kv_dtype = int8_of[model->compute->number];
    if (model->kv.int8) info->kv_dtype = int8_for[model->compute->number];
    const struct mr_backend *backend = model->compute->backend;
    info->kv_layout = model->kv.sliding ? backend->kv_layout_sliding : backend->kv_layout;
    snprintf(model->numerics, sizeof(model->numerics), "%s%s%s", backend->numerics(model->compute),
             model->weights.quantized ? " " : "", model->weights.quantized ? info->dtype : "");
    info->numerics = model->numerics;
}

static const char *dtype_name(const struct mr_model *model)
{
    static const char *const integers[] = {
        [MR_WEIGHTS_STORED] = "quantized", [MR_WEIGHTS_INT8] = "int8", [MR_WEIGHTS_INT4] = "int4"};
    return model->weights.quantized ? integers[model->numbers]
                                    : mr_number_name(model->compute->number);
}

static void fill_info(struct mr_model *model)
{
    struct mr_model_info *info = &model->info;
    const struct mr_model_source *source = &model->source;
    fill_sizes(info, &source->config);
    info->dtype = dtype_name(model);
    fill_kv_identity(model);
    snprintf(info->name, sizeof(info->name), "%s", source->name);
    snprintf(info->architecture, sizeof(info->architecture), "%s", source->config.family->name);
    info->text_only = source->config.wraps_text;
    info->file_type = source->file_type;
    info->device = model->device;
    info->backend = model->compute->backend->name;
    info->parameter_count = model->weights.parameter_count;
    info->weight_bytes = model->weights.packed_bytes;
    info->kv_bytes_per_token = model->kv.block_bytes / MR_BLOCK_TOKENS;
    info->kv_pool_bytes = model->kv.pool_bytes;
    info->block_count = model->kv.block_count;
    info->window_slots = model->kv.slot_count;
    info->state_slots = model->states.slot_count;
    info->state_bytes = model->states.slot_bytes;
    info->activation_bytes = mr_decoder_bytes(model->decoder);
    info->heads = &source->heads;
    info->defaults = source->defaults;
    info->chat_template = source->chat_template;
    info->tool_template = source->tool_template;
    info->special = source->special;
}

static uint64_t pool_bytes(const struct mr_model *model, const struct mr_model_options *options)
{
    const uint64_t free_bytes = model->compute->backend->free_bytes(model->compute);
    if (free_bytes > 0 && options->memory_bytes > 0)
        return mr_kv_groups_device_pool_bytes(free_bytes);
    return mr_kv_groups_pool_bytes(options->kv_bytes, options->memory_bytes,
                                   model->weights.packed_bytes);
}

static enum mr_status create_kv(struct mr_model *model, const struct mr_model_options *options,
                                struct mr_error *err)
{
    struct mr_kv_groups_spec spec = {.config = &model->source.config,
                                     .step_tokens = options->rows_max,
                                     .kv_bytes = pool_bytes(model, options),
                                     .int8 = options->kv_int8};
    const uint32_t slots = mr_state_pool_divide(
        &model->source.config,
        options->running_max > 0 ? options->running_max : options->sequences_max, &spec.kv_bytes);
    enum mr_status status =
        mr_state_pool_create(&model->states, model->compute, &model->source.config, slots, err);
    if (status != MR_OK) return status;
    status = mr_kv_groups_create(&model->kv, model->compute, &spec, err);
    model->kv.exports_int8 = options->export_int8 && !options->kv_int8;
    return status;
}

static enum mr_status record_graphs(struct mr_model *model, const struct mr_model_options *options,
                                    struct mr_error *err)
{
    const struct mr_decode_graphs_spec spec = {options->graph_rows_max,
                                               model->ropes[0].position_count,
                                               options->graph_progress, options->progress_context};
    return mr_decode_graphs_record(&model->info.graphs, model->decoder, &spec, err);
}

static enum mr_status warm_up(struct mr_model *model, const struct mr_model_options *options,
                              struct mr_error *err)
{
    if (!options->warm_up) return MR_OK;
    uint32_t blocks = model->kv.block_count;
    if (model->kv.sliding && model->kv.slot_count < blocks) blocks = model->kv.slot_count;
    const uint64_t pool_tokens = (uint64_t)blocks * MR_BLOCK_TOKENS;
    const uint32_t positions = model->ropes[0].position_count;
    const struct mr_warm_up_spec spec = {
        options->rows_max, pool_tokens < positions ? (uint32_t)pool_tokens : positions};
    return mr_warm_up(model->queue, &spec, err);
}

/* A model whose texts cannot be divided into chunks has steps with room for the longest text, and
 * KV for one step. */
static void fit_whole_texts(const struct mr_model *model, struct mr_model_options *options)
{
    uint32_t longest = model->source.config.context_tokens;
    if (options->context_tokens > 0 && options->context_tokens < longest)
        longest = options->context_tokens;
    if (options->rows_max < longest + options->sequences_max)
        options->rows_max = longest + options->sequences_max;
    options->warm_up = false;
    options->graph_rows_max = 0;
}

static enum mr_status open_parts(struct mr_model *model, const struct mr_model_options *given,
                                 struct mr_error *err)
{
    struct mr_model_options changed = *given;
    const struct mr_model_options *options = &changed;
    enum mr_status status = set_up(model, options, err);
    if (status == MR_OK) status = read_files(model, options, err);
    if (status == MR_OK && model->source.config.both_ways) fit_whole_texts(model, &changed);
    if (status == MR_OK) status = load_weights(model, options, err);
    if (status == MR_OK) status = create_kv(model, options, err);
    if (status == MR_OK) status = create_ropes(model, options, err);
    if (status == MR_OK) status = create_decoder(model, options, err);
    if (status == MR_OK) status = create_queue(model, options, err);
    if (status == MR_OK) status = record_graphs(model, options, err);
    if (status == MR_OK) status = warm_up(model, options, err);
    return status;
}

enum mr_status mr_model_open(struct mr_model **out, const struct mr_model_options *options,
                             struct mr_error *err)
{
    *out = NULL;
    struct mr_model *model = calloc(1, sizeof(*model));
    if (!model) return mr_fail(err, MR_NOMEM, "no memory for a model");
    enum mr_status status = open_parts(model, options, err);
    if (status != MR_OK) {
        mr_model_close(model);
        return status;
    }
    fill_info(model);
    model->adapter_base =
        (struct mr_adapter_base){&model->source.config, &model->sites, model->compute};
    *out = model;
    return MR_OK;
}

void mr_model_close(struct mr_model *model)
{
    if (!model) return;
    mr_step_queue_destroy(model->queue);
    mr_decoder_destroy(model->decoder);
    mr_state_pool_destroy(&model->states);
    mr_kv_groups_destroy(&model->kv);
    for (uint32_t i = 0; i < MR_ROPES_MAX; i++)
        mr_rope_table_destroy(&model->ropes[i]);
    mr_weights_destroy(&model->weights);
    mr_layer_sites_destroy(&model->sites);
    if (model->compute) model->compute->backend->close(model->compute);
    mr_model_source_close(&model->source);
    free(model);
}

const struct mr_model_info *mr_model_info(const struct mr_model *model)
{
    return &model->info;
}

const struct mr_tokenizer *mr_model_tokenizer(const struct mr_model *model)
{
    return model->source.tokenizer;
}

const struct mr_adapter_base *mr_model_adapter_base(const struct mr_model *model)
{
    return &model->adapter_base;
}

/* ---- a step ---- */

uint32_t mr_model_steps_ahead(const struct mr_model *model)
{
    return mr_decoder_steps_ahead(model->decoder);
}

enum mr_status mr_model_launch(struct mr_model *model, const struct mr_model_step *step,
                               struct mr_error *err)
{
    return mr_step_queue_launch(model->queue, step, err);
}

enum mr_status mr_model_collect(struct mr_model *model, struct mr_error *err)
{
    return mr_step_queue_collect(model->queue, err);
}

static enum mr_status run(struct mr_model *model, const struct mr_model_step *step,
                          struct mr_error *err)
{
    enum mr_status status = mr_step_queue_launch(model->queue, step, err);
    return status == MR_OK ? mr_step_queue_collect(model->queue, err) : status;
}

enum mr_status mr_model_forward(struct mr_model *model, const struct mr_batch *batch,
                                struct mr_error *err)
{
    return run(model, &(struct mr_model_step){.batch = batch}, err);
}

enum mr_status mr_model_sample(struct mr_model *model, const struct mr_sample_row *rows,
                               uint32_t count, struct mr_sample *samples, struct mr_error *err)
{
    const struct mr_batch none = {0};
    const struct mr_model_step step = {
        .batch = &none, .rows = rows, .sample_count = count, .samples = samples};
    return run(model, &step, err);
}

enum mr_status mr_model_logits(struct mr_model *model, uint32_t row, float *out,
                               struct mr_error *err)
{
    const float *logits = mr_decoder_logits(model->decoder, row, err);
    if (!logits) return MR_BACKEND;
    memcpy(out, logits, model->info.vocab_size * sizeof(float));
    return MR_OK;
}

void mr_model_hidden(const struct mr_model *model, uint32_t index, float *out)
{
    mr_decoder_hidden(model->decoder, index, out);
}

/* ---- KV blocks ---- */

bool mr_model_kv_populate(struct mr_model *model)
{
    return mr_kv_groups_populate(&model->kv);
}

void mr_model_kv_copy(struct mr_model *model, struct mr_kv_place from, struct mr_kv_place to,
                      uint32_t token_count)
{
    MR_ASSERT(token_count <= MR_BLOCK_TOKENS);
    mr_kv_groups_copy(&model->kv, from, to, token_count);
}

void mr_model_state_copy(struct mr_model *model, uint32_t from, uint32_t to)
{
    mr_state_pool_copy(&model->states, from, to);
}

size_t mr_model_kv_export_bytes(const struct mr_model *model, uint32_t token_count)
{
    return mr_kv_groups_export_bytes(&model->kv, token_count);
}

void *mr_model_kv_bytes_of(struct mr_model *model, uint32_t block)
{
    bool has_slots = model->kv.sliding != NULL || model->kv.full == NULL;
    if (has_slots || model->kv.exports_int8) return NULL;
    return model->compute->backend->kv_bytes_of(model->kv.full, block);
}

static enum mr_status check_transfer(const struct mr_model *model, uint32_t token_count,
                                     size_t size, struct mr_error *err)
{
    MR_ASSERT(token_count <= MR_BLOCK_TOKENS);
    size_t expected = mr_kv_groups_export_bytes(&model->kv, token_count);
    if (size != expected)
        return mr_fail(err, MR_MALFORMED, "%u tokens of KV have %zu bytes, not %zu", token_count,
                       expected, size);
    return MR_OK;
}

enum mr_status mr_model_kv_export(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, void *bytes, size_t size,
                                  struct mr_error *err)
{
    enum mr_status status = check_transfer(model, token_count, size, err);
    if (status == MR_OK && !mr_kv_groups_export(&model->kv, place, token_count, bytes))
        status = mr_fail(err, MR_MALFORMED, "block %u has a number that int8 cannot represent",
                         place.block);
    return status;
}

enum mr_status mr_model_kv_import(struct mr_model *model, struct mr_kv_place place,
                                  uint32_t token_count, const void *bytes, size_t size,
                                  struct mr_error *err)
{
    enum mr_status status = check_transfer(model, token_count, size, err);
    if (status == MR_OK) mr_kv_groups_import(&model->kv, place, token_count, bytes);
    return status;
}
