/* config.json, generation_config.json and tokenizer_config.json of a Hugging Face folder; the other
 * files are those of a small model of tests/golden.
 *
 * Input: the three files with a byte of value 0 between them. */
#include "ops/files/model_folder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memory_file.h"

#include <math.h>

static void check_config(const struct mr_model_config *config)
{
    MR_ASSERT(config->family && config->layer_count >= 1 && config->layer_count <= MR_LAYERS_MAX);
    MR_ASSERT(config->head_count >= 1 && config->kv_head_count >= 1);
    MR_ASSERT(config->head_count % config->kv_head_count == 0);
    MR_ASSERT(config->head_dim >= 1 && config->hidden_size >= 1 && config->ffn_size >= 1);
    MR_ASSERT(config->vocab_size >= 1 && config->context_tokens >= 1);
    MR_ASSERT(isfinite(config->norm_epsilon) && config->norm_epsilon >= 0);
    MR_ASSERT(isfinite(config->attention_scale) && config->attention_scale > 0);
    MR_ASSERT(config->experts.top_k <= config->experts.count);
    MR_ASSERT(config->rope_count >= 1 && config->rope_count <= MR_ROPES_MAX);
    for (uint32_t i = 0; i < config->rope_count; i++) {
        const struct mr_rope_config *rope = &config->ropes[i];
        MR_ASSERT(isfinite(rope->theta) && rope->theta > 0);
        MR_ASSERT(rope->rotary_dim <= config->head_dim && rope->rotary_dim % 2 == 0);
    }
    for (uint32_t i = 0; i < config->layer_count; i++)
        MR_ASSERT(config->rope_of[i] < config->rope_count || config->rope_of[i] == MR_NO_ROPE);
    MR_ASSERT(config->eos_count <= MR_EOS_IDS_MAX);
    for (uint32_t i = 0; i < config->eos_count; i++)
        MR_ASSERT(config->eos_ids[i] < config->vocab_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_cursor cursor = {data, size};
    struct mr_model_source source = {0};
    struct mr_error err = {0};
    memory_file_clear();
    struct mr_text config = fuzz_part(&cursor), generation = fuzz_part(&cursor);
    memory_file_set("/config.json", config);
    memory_file_set("/generation_config.json", generation);
    memory_file_set("/tokenizer_config.json", fuzz_rest(&cursor));
    enum mr_status status = mr_model_folder_read(&source, "tests/golden/models/qwen2", &err);
    MR_ASSERT(status == MR_OK || (status == MR_BAD_FILE && err.detail[0]));
    if (status == MR_OK) {
        check_config(&source.config);
        const struct mr_sampling_defaults *defaults = &source.defaults;
        MR_ASSERT(isnan(defaults->temperature) || defaults->temperature >= 0);
        MR_ASSERT(defaults->top_p >= 0 && defaults->top_p <= 1);
        MR_ASSERT(defaults->typical_p >= 0 && defaults->typical_p <= 1);
        MR_ASSERT(defaults->repetition_penalty >= 0 && defaults->repetition_penalty <= 100);
    }
    mr_model_source_close(&source);
    return 0;
}
