#include "ops/files/model_folder.h"

#include "codec/tokenizer_files/sentencepiece.h"
#include "codec/tokenizer_files/tekken.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "ops/families/config_json.h"
#include "ops/families/json_keys.h"
#include "ops/files/folder_document.h"
#include "ops/files/text_modules.h"

#include <string.h>

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
    struct mr_folder_document config, generation;
    enum mr_status status = mr_folder_document_open(&config, folder, "config.json", true, err);
    if (status != MR_OK) return status;
    status = mr_model_config_from_json(&out->config, mr_folder_document_root(&config), err);
    if (status == MR_OK)
        status = mr_quantization_from_json(quantization, mr_folder_document_root(&config), err);
    if (status == MR_OK)
        status = mr_text_heads_read_config(&out->heads, &out->config,
                                           mr_folder_document_root(&config), err);
    mr_folder_document_close(&config);
    if (status != MR_OK) return status;
    status = mr_folder_document_open(&generation, folder, "generation_config.json", false, err);
    if (status == MR_OK) read_defaults(out, mr_folder_document_root(&generation));
    mr_folder_document_close(&generation);
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
    enum mr_status status = mr_folder_map(&file, folder, name, false, err);
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
    struct mr_folder_document document;
    enum mr_status status =
        copy_template_file(&out->chat_template, folder, "chat_template.jinja", &found, err);
    if (status != MR_OK) return status;
    if (found)
        return copy_template_file(&out->tool_template, folder,
                                  "additional_chat_templates/tool_use.jinja", &found, err);
    if (mr_json_given(mr_json_get(config, "chat_template")))
        return copy_templates(out, mr_json_get(config, "chat_template"), err);
    status = mr_folder_document_open(&document, folder, "chat_template.json", false, err);
    if (status == MR_OK)
        status = copy_templates(
            out, mr_json_get(mr_folder_document_root(&document), "chat_template"), err);
    mr_folder_document_close(&document);
    return status;
}

/* The files of a folder that describe a tokenizer: a vocabulary in one of three formats, and files
 * with properties of its tokens. Absent files are empty. */
struct tokenizer_folder {
    struct mr_mapped_file json, tekken, model, added;
    struct mr_folder_document config, special_map;
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
        mr_folder_document_open(&files->config, folder, "tokenizer_config.json", false, err);
    if (status == MR_OK)
        status = mr_folder_document_open(&files->special_map, folder, "special_tokens_map.json",
                                         false, err);
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]) && status == MR_OK; i++)
        status = mr_folder_map(optional[i].file, folder, optional[i].name, false, err);
    return status;
}

static void close_tokenizer(struct tokenizer_folder *files)
{
    mr_mapped_file_close(&files->json);
    mr_mapped_file_close(&files->tekken);
    mr_mapped_file_close(&files->model);
    mr_mapped_file_close(&files->added);
    mr_folder_document_close(&files->config);
    mr_folder_document_close(&files->special_map);
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
        struct mr_text text =
            token_text(mr_json_get(mr_folder_document_root(&files->config), name));
        if (text.length == 0)
            text = token_text(mr_json_get(mr_folder_document_root(&files->special_map), name));
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
    if (status == MR_OK)
        status = read_templates(out, folder, mr_folder_document_root(&files.config), err);
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
    if (status == MR_OK) status = mr_text_modules_read(&out->heads, &out->config, folder, err);
    if (status == MR_OK) status = read_tokenizer(out, folder, err);
    if (status == MR_OK) add_tokenizer_eos(out);
    if (status == MR_OK) status = read_weights(out, folder, &quantization, err);
    return status == MR_OK
               ? mr_text_heads_read_classes(&out->heads, &out->config, out->tensors, err)
               : status;
}
