#include "ops/files/adapter_files.h"

#include "ops/families/json_keys.h"

#include <limits.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Keys of adapter_config.json that do not change the computation, and those read here. Any other
 * key must have the value false, null, 0 or nothing in it, because it may change the computation.
 */
static const char *const known_keys[] = {"alpha_pattern",
                                         "auto_mapping",
                                         "base_model_name_or_path",
                                         "bias",
                                         "corda_config",
                                         "eva_config",
                                         "exclude_modules",
                                         "fan_in_fan_out",
                                         "inference_mode",
                                         "init_lora_weights",
                                         "layers_pattern",
                                         "layers_to_transform",
                                         "loftq_config",
                                         "lora_alpha",
                                         "lora_dropout",
                                         "lora_ga_config",
                                         "megatron_config",
                                         "megatron_core",
                                         "peft_type",
                                         "peft_version",
                                         "qalora_group_size",
                                         "r",
                                         "rank_pattern",
                                         "revision",
                                         "runtime_config",
                                         "target_modules",
                                         "target_parameters",
                                         "task_type",
                                         "use_rslora"};

/* Keys that decide the scale. */
static const char *const scale_keys[] = {"r", "lora_alpha", "use_rslora", "rank_pattern",
                                         "alpha_pattern"};

/* ---- adapter_config.json ---- */

static bool is_off(const struct mr_json_value *value)
{
    bool on;
    double number;
    struct mr_text text;
    if (mr_json_is_null(value)) return true;
    if (mr_json_bool(value, &on)) return !on;
    if (mr_json_number(value, &number)) return number == 0.0;
    if (mr_json_text(value, &text)) return text.length == 0;
    return mr_json_count(value) == 0;
}

static enum mr_status check_keys(const struct mr_json_value *config, struct mr_error *err)
{
    struct mr_json_member member = {0};
    struct mr_text text;
    while (mr_json_next(config, &member))
        if (!mr_stored_name_in(member.name, known_keys, sizeof known_keys / sizeof *known_keys) &&
            !is_off(member.value))
            return mr_fail(err, MR_BAD_FILE, "adapter_config.json: %.*s is not supported",
                           mr_stored_name_shown(member.name), member.name.bytes);
    if (!mr_json_text(mr_json_get(config, "peft_type"), &text) || !mr_text_is(text, "LORA"))
        return mr_fail(err, MR_BAD_FILE, "adapter_config.json: peft_type is not LORA");
    if (mr_json_text(mr_json_get(config, "bias"), &text) && !mr_text_is(text, "none"))
        return mr_fail(err, MR_BAD_FILE,
                       "adapter_config.json: bias is \"%.*s\", only \"none\" is supported",
                       mr_stored_name_shown(text), text.bytes);
    if (mr_json_number_or(config, "r", 0) <= 0 || !mr_json_get(config, "lora_alpha"))
        return mr_fail(err, MR_BAD_FILE, "adapter_config.json: r or lora_alpha is missing");
    return MR_OK;
}

/* True when a pattern of rank_pattern or alpha_pattern matches the module: PEFT's rule is the
 * regular expression (.*\.)?(key)$ from the start of the name. */
static enum mr_status matches(struct mr_text key, const char *module, bool *out,
                              struct mr_error *err)
{
    char pattern[300];
    regex_t regex;
    int length = snprintf(pattern, sizeof pattern, "^(.*\\.)?(%.*s)$", (int)key.length, key.bytes);
    const bool is_posix =
        !memchr(key.bytes, '\\', key.length) && !memchr(key.bytes, '?', key.length);
    if (!is_posix || length >= (int)sizeof pattern ||
        regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return mr_fail(err, MR_BAD_FILE,
                       "adapter_config.json: the pattern \"%.*s\" is not supported",
                       mr_stored_name_shown(key), key.bytes);
    *out = regexec(&regex, module, 0, NULL, 0) == 0;
    regfree(&regex);
    return MR_OK;
}

/* Sets *out to the number of the first key that matches the module; unchanged if none does. */
static enum mr_status look_up(const struct mr_json_value *patterns, const char *module, double *out,
                              struct mr_error *err)
{
    struct mr_json_member member = {0};
    while (mr_json_next(patterns, &member)) {
        bool found = false;
        enum mr_status status = matches(member.name, module, &found, err);
        if (status != MR_OK) return status;
        if (found && mr_json_number(member.value, out)) return MR_OK;
    }
    return MR_OK;
}

enum mr_status mr_adapter_files_scale(const struct mr_adapter_files *files, const char *module,
                                      uint32_t rank, float *scale, struct mr_error *err)
{
    if (!files->config) {
        *scale = files->gguf_alpha > 0.0f ? files->gguf_alpha / (float)rank : 1.0f;
        return MR_OK;
    }
    const struct mr_json_value *config = mr_json_root(files->config);
    double alpha = mr_json_number_or(config, "lora_alpha", 0);
    double stated = mr_json_number_or(config, "r", 0);
    enum mr_status status = look_up(mr_json_get(config, "alpha_pattern"), module, &alpha, err);
    if (status == MR_OK)
        status = look_up(mr_json_get(config, "rank_pattern"), module, &stated, err);
    if (status != MR_OK) return status;
    if (stated != rank)
        return mr_fail(err, MR_BAD_FILE,
                       "%s: the tensors have rank %u, adapter_config.json states %g", module, rank,
                       stated);
    const bool rooted = mr_json_bool_or(config, "use_rslora", false);
    *scale = (float)(alpha / (rooted ? sqrt(rank) : (double)rank));
    return MR_OK;
}

static enum mr_status read_config(struct mr_adapter_files *files, const char *folder,
                                  struct mr_error *err)
{
    const struct mr_json_limits limits = {
        .bytes_max = (size_t)1 << 20, .values_max = (size_t)1 << 16, .depth_max = 16};
    char path[PATH_MAX];
    struct mr_error inner = {0};
    if (snprintf(path, sizeof path, "%s/adapter_config.json", folder) >= (int)sizeof path)
        return mr_fail(err, MR_BAD_FILE, "the path of the adapter is too long");
    enum mr_status status = mr_mapped_file_open(&files->config_file, path, err);
    if (status == MR_OK)
        status = mr_mapped_file_hold(&files->config_file, 0, files->config_file.size, err);
    if (status != MR_OK) return status;
    status = mr_json_parse_wide(&files->config, mr_mapped_file_text(&files->config_file), &limits,
                                &inner);
    if (status != MR_OK)
        return mr_fail(err, status == MR_NOMEM ? MR_NOMEM : MR_BAD_FILE,
                       "adapter_config.json: %.150s", inner.detail);
    return check_keys(mr_json_root(files->config), err);
}

static enum mr_status open_folder(struct mr_adapter_files *files, const char *folder,
                                  struct mr_error *err)
{
    enum mr_status status = read_config(files, folder, err);
    if (status == MR_OK)
        status =
            mr_safetensors_open_file(&files->safetensors, folder, "adapter_model.safetensors", err);
    if (status == MR_OK) files->tensors = mr_safetensors_tensors(files->safetensors);
    return status;
}

/* ---- GGUF ---- */

static enum mr_status open_gguf(struct mr_adapter_files *files, const char *path,
                                struct mr_error *err)
{
    struct mr_text type = {"", 0}, kind = {"", 0}, base = {"", 0};
    double alpha = 0;
    enum mr_status status = mr_gguf_open(&files->gguf, path, err);
    if (status != MR_OK) return status;
    (void)mr_gguf_text(files->gguf, "general.type", &type);
    (void)mr_gguf_text(files->gguf, "adapter.type", &kind);
    (void)mr_gguf_text(files->gguf, "general.architecture", &base);
    if (!mr_text_is(type, "adapter") || !mr_text_is(kind, "lora"))
        return mr_fail(err, MR_BAD_FILE,
                       "the file is not a LoRA adapter (general.type, "
                       "adapter.type)");
    if (mr_gguf_find(files->gguf, "adapter.alora.invocation_tokens"))
        return mr_fail(err, MR_BAD_FILE, "adapter.alora.invocation_tokens is not supported");
    (void)mr_gguf_number(files->gguf, "adapter.lora.alpha", &alpha);
    files->gguf_alpha = (float)alpha;
    snprintf(files->architecture, sizeof files->architecture, "%.*s", (int)base.length, base.bytes);
    files->gguf_names = true;
    files->tensors = mr_gguf_tensors(files->gguf);
    return MR_OK;
}

/* ---- both ---- */

static void hash_scale(const struct mr_adapter_files *files, struct mr_sha256 *hash)
{
    if (!files->config)
        mr_sha256_add_field(hash, "alpha", &files->gguf_alpha, sizeof files->gguf_alpha);
    for (size_t i = 0; files->config && i < sizeof scale_keys / sizeof *scale_keys; i++) {
        struct mr_text raw = {"", 0};
        (void)mr_json_raw_member(mr_mapped_file_text(&files->config_file), scale_keys[i], &raw);
        mr_sha256_add_field(hash, scale_keys[i], raw.bytes, raw.length);
    }
}

/* Reads the bytes of all tensors into memory, and hashes them. */
static enum mr_status hold_all(struct mr_adapter_files *files, struct mr_error *err)
{
    struct mr_sha256 hash;
    mr_sha256_begin(&hash);
    mr_sha256_add_field(&hash, "millrace.adapter.1", "", 0);
    hash_scale(files, &hash);
    for (uint32_t i = 0; i < files->tensors->count; i++) {
        const struct mr_stored_tensor *tensor = &files->tensors->entries[i];
        enum mr_status status = mr_stored_tensor_hold(tensor, err);
        if (status != MR_OK) return status;
        const char *storage = mr_storage_name(tensor->storage);
        mr_sha256_add_field(&hash, "name", tensor->name.bytes, tensor->name.length);
        mr_sha256_add_field(&hash, "type", storage, strlen(storage));
        mr_sha256_add_field(&hash, "shape", tensor->dims, tensor->dim_count * sizeof *tensor->dims);
        mr_sha256_add_field(&hash, "bytes", tensor->bytes, tensor->size_bytes);
        files->bytes += tensor->size_bytes;
    }
    mr_sha256_end(&hash, files->digest);
    /* A file that was written while it was read may be half old, half new. */
    enum mr_status status = mr_tensor_table_check_files(files->tensors, err);
    if (status == MR_OK && files->config) status = mr_mapped_file_check(&files->config_file, err);
    return status;
}

enum mr_status mr_adapter_files_open(struct mr_adapter_files *out, const char *path,
                                     struct mr_error *err)
{
    struct mr_adapter_files files = {.path = strdup(path)};
    struct stat info;
    *out = (struct mr_adapter_files){0};
    if (!files.path) return mr_fail(err, MR_NOMEM, "no memory to open %.150s", path);
    const bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    *out = files; /* tensors refer to the file of the configuration by its place */
    enum mr_status status = is_folder ? open_folder(out, path, err) : open_gguf(out, path, err);
    if (status == MR_OK) status = hold_all(out, err);
    if (status == MR_OK && out->tensors->count == 0)
        status = mr_fail(err, MR_BAD_FILE, "the adapter has no tensors");
    if (status == MR_OK) return MR_OK;
    mr_adapter_files_close(out);
    return mr_mapped_file_blame(path, status, err);
}

void mr_adapter_files_close(struct mr_adapter_files *files)
{
    mr_gguf_close(files->gguf);
    mr_safetensors_close(files->safetensors);
    mr_json_destroy(files->config);
    mr_mapped_file_close(&files->config_file);
    free(files->path);
    *files = (struct mr_adapter_files){0};
}
