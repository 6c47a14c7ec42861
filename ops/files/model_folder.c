#include "ops/files/model_folder.h"

#include "codec/tokenizer_files/sentencepiece.h"
#include "codec/tokenizer_files/tekken.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "ops/families/config_json.h"
#include "ops/families/json_keys.h"
#include "ops/files/mapped_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A parsed JSON file of the model folder; file and json are zero when the file does not exist. */
struct document {
    struct mr_mapped_file file;
    struct mr_json *json;
};

static void close_document(struct document *document)
{
    mr_json_destroy(document->json);
    mr_mapped_file_close(&document->file);
}

static const struct mr_json_value *root_of(const struct document *document)
{
    return document->json ? mr_json_root(document->json) : NULL;
}

static enum mr_status map_file(struct mr_mapped_file *out, const char *folder, const char *name,
                               bool required, struct mr_error *err)
{
    char path[PATH_MAX];
    *out = (struct mr_mapped_file){0};
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return mr_fail(err, MR_BAD_FILE, "the path of the model folder is too long");
    if (!required && access(path, F_OK) != 0) return MR_OK;
    return mr_mapped_file_open(out, path, err);
}

static enum mr_status open_document(struct document *out, const char *folder, const char *name,
                                    bool required, struct mr_error *err)
{
    const struct mr_json_limits limits = {
        .bytes_max = (size_t)16 << 20, .values_max = (size_t)1 << 20, .depth_max = 64};
    *out = (struct document){0};
    enum mr_status status = map_file(&out->file, folder, name, required, err);
    if (status != MR_OK || !out->file.bytes) return status;
    struct mr_error inner = {0};
    status = mr_json_parse_wide(&out->json, mr_mapped_file_text(&out->file), &limits, &inner);
    if (status == MR_OK) return MR_OK;
    mr_mapped_file_close(&out->file);
    return mr_fail(err, status == MR_NOMEM ? MR_NOMEM : MR_BAD_FILE, "%s: %.150s", name,
                   inner.detail);
}

/* ---- configuration ---- */

static void read_defaults(struct mr_model_source *out, const struct mr_json_value *generation)
{
    out->defaults = mr_sampling_defaults_from_json(generation);
    mr_model_config_add_eos_json(&out->config, mr_json_get(generation, "eos_token_id"),
                                 out->config.vocab_size);
}

static enum mr_status read_configs(struct mr_model_source *out, const char *folder,
                                   struct mr_quantization *quantization, struct mr_error *err)
{
    struct document config, generation;
    enum mr_status status = open_document(&config, folder, "config.json", true, err);
    if (status != MR_OK) return status;
    status = mr_model_config_from_json(&out->config, root_of(&config), err);
    if (status == MR_OK) status = mr_quantization_from_json(quantization, root_of(&config), err);
    close_document(&config);
    if (status != MR_OK) return status;
    status = open_document(&generation, folder, "generation_config.json", false, err);
    if (status == MR_OK) read_defaults(out, root_of(&generation));
    close_document(&generation);
    return status;
}

/* ---- pooling: files of sentence-transformers ---- */

/* Sets the pooling of 1_Pooling/config.json, which has the mode by name or, in older files, as one
 * of several flags. */
static enum mr_status set_pooling(struct mr_model_config *config, const struct mr_json_value *root,
                                  struct mr_error *err)
{
    static const struct {
        const char *name, *flag;
        enum mr_model_pooling pooling;
    } modes[] = {{"cls", "pooling_mode_cls_token", MR_MODEL_POOLING_FIRST},
                 {"mean", "pooling_mode_mean_tokens", MR_MODEL_POOLING_MEAN},
                 {"lasttoken", "pooling_mode_lasttoken", MR_MODEL_POOLING_LAST}};
    struct mr_text name = {"", 0};
    mr_json_text(mr_json_get(root, "pooling_mode"), &name);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (!mr_text_is(name, modes[i].name) && !mr_json_bool_or(root, modes[i].flag, false))
            continue;
        config->pooling = modes[i].pooling;
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_FILE,
                   "1_Pooling/config.json: only the pooling modes cls, mean and lasttoken are "
                   "supported");
}

/* Refuses an encoder with layers after the pooling, whose vectors would be wrong without them. */
static enum mr_status check_modules(const struct mr_json_value *modules, struct mr_error *err)
{
    static const char *const known[] = {"Transformer", "Pooling", "Normalize"};
    for (size_t i = 0; i < mr_json_count(modules); i++) {
        struct mr_text type = {"", 0};
        mr_json_text(mr_json_get(mr_json_at(modules, i), "type"), &type);
        const char *dot = memrchr(type.bytes, '.', type.length);
        if (dot) type = mr_text_part(type, (size_t)(dot - type.bytes) + 1, type.length);
        bool found = false;
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
            found |= mr_text_is(type, known[k]);
        if (!found)
            return mr_fail(err, MR_BAD_FILE, "modules.json: the module %.*s is not supported",
                           mr_model_config_shown(type), type.bytes);
    }
    return MR_OK;
}

static enum mr_status read_pooling(struct mr_model_source *out, const char *folder,
                                   struct mr_error *err)
{
    struct document pooling, modules;
    enum mr_status status = open_document(&pooling, folder, "1_Pooling/config.json", false, err);
    if (status == MR_OK && root_of(&pooling))
        status = set_pooling(&out->config, root_of(&pooling), err);
    close_document(&pooling);
    if (status != MR_OK || !out->config.both_ways) return status;
    status = open_document(&modules, folder, "modules.json", false, err);
    if (status == MR_OK) status = check_modules(root_of(&modules), err);
    close_document(&modules);
    return status;
}

/* ---- tokenizer ---- */

/* Returns the text of a special token, which is "<s>" or {"content": "<s>", ...} in JSON. */
static struct mr_text token_text(const struct mr_json_value *value)
{
    struct mr_text text = {"", 0};
    if (!mr_json_text(value, &text)) mr_json_text(mr_json_get(value, "content"), &text);
    return text;
}

/* Returns the template called `name`. value: a list of named templates, or a single template, which
 * is the default. */
static struct mr_text template_text(const struct mr_json_value *value, const char *name)
{
    struct mr_text text = {"", 0}, found;
    if (strcmp(name, "default") == 0) mr_json_text(value, &text);
    for (size_t i = 0; i < mr_json_count(value); i++) {
        const struct mr_json_value *entry = mr_json_at(value, i);
        if (mr_json_text(mr_json_get(entry, "name"), &found) && mr_text_is(found, name))
            mr_json_text(mr_json_get(entry, "template"), &text);
    }
    return text;
}

/* Copies the text of an optional template file; *found: the file exists. */
static enum mr_status copy_template_file(struct mr_text *out, const char *folder, const char *name,
                                         bool *found, struct mr_error *err)
{
    struct mr_mapped_file file;
    enum mr_status status = map_file(&file, folder, name, false, err);
    *found = file.bytes != NULL;
    if (status == MR_OK && *found)
        status = mr_model_source_copy_text(out, mr_mapped_file_text(&file), err);
    mr_mapped_file_close(&file);
    return status;
}

static enum mr_status copy_templates(struct mr_model_source *out, const struct mr_json_value *value,
                                     struct mr_error *err)
{
    enum mr_status status =
        mr_model_source_copy_text(&out->chat_template, template_text(value, "default"), err);
    if (status != MR_OK) return status;
    return mr_model_source_copy_text(&out->tool_template, template_text(value, "tool_use"), err);
}

/* Reads the templates of a folder in transformers' order: template files, then the key
 * chat_template of tokenizer_config.json, or of chat_template.json. */
static enum mr_status read_templates(struct mr_model_source *out, const char *folder,
                                     const struct mr_json_value *config, struct mr_error *err)
{
    bool found;
    struct document beside;
    enum mr_status status =
        copy_template_file(&out->chat_template, folder, "chat_template.jinja", &found, err);
    if (status != MR_OK) return status;
    if (found)
        return copy_template_file(&out->tool_template, folder,
                                  "additional_chat_templates/tool_use.jinja", &found, err);
    if (mr_json_given(mr_json_get(config, "chat_template")))
        return copy_templates(out, mr_json_get(config, "chat_template"), err);
    status = open_document(&beside, folder, "chat_template.json", false, err);
    if (status == MR_OK)
        status = copy_templates(out, mr_json_get(root_of(&beside), "chat_template"), err);
    close_document(&beside);
    return status;
}

/* The files of a folder that describe a tokenizer: a vocabulary in one of three formats, and files
 * with properties of its tokens. Absent files are empty. */
struct tokenizer_folder {
    struct mr_mapped_file json, tekken, model, added;
    struct document config, special_map;
};

static enum mr_status open_tokenizer(struct tokenizer_folder *files, const char *folder,
                                     struct mr_error *err)
{
    const struct {
        struct mr_mapped_file *file;
        const char *name;
    } optional[] = {{&files->json, "tokenizer.json"},
                    {&files->tekken, "tekken.json"},
                    {&files->model, "tokenizer.model"},
                    {&files->added, "added_tokens.json"}};
    enum mr_status status =
        open_document(&files->config, folder, "tokenizer_config.json", false, err);
    if (status == MR_OK)
        status = open_document(&files->special_map, folder, "special_tokens_map.json", false, err);
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]) && status == MR_OK; i++)
        status = map_file(optional[i].file, folder, optional[i].name, false, err);
    return status;
}

static void close_tokenizer(struct tokenizer_folder *files)
{
    mr_mapped_file_close(&files->json);
    mr_mapped_file_close(&files->tekken);
    mr_mapped_file_close(&files->model);
    mr_mapped_file_close(&files->added);
    close_document(&files->config);
    close_document(&files->special_map);
}

/* Makes the tokenizer from the first of tokenizer.json, tekken.json and tokenizer.model. */
static enum mr_status make_tokenizer(struct mr_tokenizer **out,
                                     const struct tokenizer_folder *files, const char *folder,
                                     struct mr_error *err)
{
    const struct mr_tokenizer_files beside = {.config = mr_mapped_file_text(&files->config.file),
                                              .special_map =
                                                  mr_mapped_file_text(&files->special_map.file),
                                              .added = mr_mapped_file_text(&files->added)};
    if (files->json.bytes)
        return mr_tokenizer_from_json(out, mr_mapped_file_text(&files->json), beside.config, err);
    if (files->tekken.bytes)
        return mr_tokenizer_from_tekken(out, mr_mapped_file_text(&files->tekken), &beside, err);
    if (files->model.bytes)
        return mr_tokenizer_from_sentencepiece(out, mr_mapped_file_text(&files->model), &beside,
                                               err);
    return mr_fail(err, MR_BAD_FILE,
                   "%.160s has no tokenizer.json, tekken.json or tokenizer.model; add one of them",
                   folder);
}

/* Copies the texts of the special tokens from tokenizer_config.json, else from
 * special_tokens_map.json, else from the tokenizer's own begin and end token. */
static enum mr_status copy_special(struct mr_model_source *out,
                                   const struct tokenizer_folder *files, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (unsigned i = 0; i < MR_SPECIAL_TEXT_COUNT && status == MR_OK; i++) {
        const char *name = mr_special_text_name(i);
        struct mr_text text = token_text(mr_json_get(root_of(&files->config), name));
        if (text.length == 0) text = token_text(mr_json_get(root_of(&files->special_map), name));
        if (text.length == 0 && i == MR_BOS_TEXT)
            text = mr_tokenizer_bytes(out->tokenizer, mr_tokenizer_bos_id(out->tokenizer), false);
        if (text.length == 0 && i == MR_EOS_TEXT)
            text = mr_tokenizer_bytes(out->tokenizer, mr_tokenizer_eos_id(out->tokenizer), false);
        status = mr_model_source_copy_text(&out->special.of[i], text, err);
    }
    return status;
}

static enum mr_status read_tokenizer(struct mr_model_source *out, const char *folder,
                                     struct mr_error *err)
{
    struct tokenizer_folder files = {0};
    enum mr_status status = open_tokenizer(&files, folder, err);
    if (status == MR_OK) status = make_tokenizer(&out->tokenizer, &files, folder, err);
    if (status == MR_OK) status = read_templates(out, folder, root_of(&files.config), err);
    if (status == MR_OK) status = copy_special(out, &files, err);
    close_tokenizer(&files);
    return status;
}

static enum mr_status read_weights(struct mr_model_source *out, const char *folder,
                                   const struct mr_quantization *quantization, struct mr_error *err)
{
    enum mr_status status = mr_safetensors_open(&out->safetensors, folder, err);
    if (status == MR_OK)
        status = mr_quantized_folder_create(&out->quantized, quantization,
                                            mr_safetensors_tensors(out->safetensors), err);
    if (status == MR_OK) out->tensors = mr_quantized_folder_tensors(out->quantized);
    return status;
}

/* Adds the tokenizer's end token to those that end an answer, as vLLM does: a model trained further
 * for chat often names its new end token only in the tokenizer's files. */
static void add_tokenizer_eos(struct mr_model_source *out)
{
    uint32_t id = mr_tokenizer_eos_id(out->tokenizer);
    if (id < out->config.vocab_size) mr_model_config_add_eos(&out->config, id);
}

enum mr_status mr_model_folder_read(struct mr_model_source *out, const char *folder,
                                    struct mr_error *err)
{
    struct mr_quantization quantization = {0};
    enum mr_status status = read_configs(out, folder, &quantization, err);
    if (status == MR_OK) status = read_pooling(out, folder, err);
    if (status == MR_OK) status = read_tokenizer(out, folder, err);
    if (status == MR_OK) add_tokenizer_eos(out);
    return status == MR_OK ? read_weights(out, folder, &quantization, err) : status;
}
