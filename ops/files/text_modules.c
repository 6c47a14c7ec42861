#include "ops/files/text_modules.h"

#include "ops/families/json_keys.h"
#include "ops/files/folder_document.h"
#include "ops/files/safetensors.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

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

/* The name after the last dot, as in torch.nn.modules.activation.Tanh. */
static struct mr_text class_of(struct mr_text path)
{
    const char *dot = memrchr(path.bytes, '.', path.length);
    return dot ? mr_text_part(path, (size_t)(dot - path.bytes) + 1, path.length) : path;
}

static enum mr_status set_activation(struct mr_head_layer *layer, const struct mr_json_value *root,
                                     struct mr_error *err)
{
    static const struct {
        const char *name;
        enum mr_head_activation activation;
    } names[] = {{"Tanh", MR_HEAD_TANH}, {"Identity", MR_HEAD_IDENTITY},
                 {"ReLU", MR_HEAD_RELU}, {"GELU", MR_HEAD_GELU},
                 {"SiLU", MR_HEAD_SILU}, {"Sigmoid", MR_HEAD_SIGMOID}};
    struct mr_text name = {"Tanh", 4}; /* of a file without the key */
    mr_json_text(mr_json_get(root, "activation_function"), &name);
    name = class_of(name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!mr_text_is(name, names[i].name)) continue;
        layer->activation = names[i].activation;
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_FILE, "the activation %.*s of a Dense module is not supported",
                   mr_model_config_shown(name), name.bytes);
}

/* Adds the layer of a Dense module, whose files are in a folder of their own. */
static enum mr_status read_dense(struct mr_text_heads *heads, const struct mr_model_config *config,
                                 const char *folder, struct mr_text path, struct mr_error *err)
{
    char inner[PATH_MAX];
    struct mr_folder_document document;
    struct mr_safetensors *weights = NULL;
    struct mr_text_head *head = &heads->vector;
    if (snprintf(inner, sizeof inner, "%s/%.*s", folder, (int)path.length, path.bytes) >=
        (int)sizeof inner)
        return mr_fail(err, MR_BAD_FILE, "the path of a Dense module is too long");
    enum mr_status status = mr_folder_document_open(&document, inner, "config.json", true, err);
    if (status == MR_OK) status = mr_safetensors_open(&weights, inner, err);
    if (status == MR_OK)
        status = mr_text_heads_add(heads, head, mr_safetensors_tensors(weights), "linear",
                                   mr_text_head_size(head, config->hidden_size), err);
    if (status == MR_OK)
        status = set_activation(&head->layers[head->layer_count - 1],
                                mr_folder_document_root(&document), err);
    mr_safetensors_close(weights);
    mr_folder_document_close(&document);
    return status;
}

static enum mr_status read_modules(struct mr_text_heads *heads,
                                   const struct mr_model_config *config, const char *folder,
                                   const struct mr_json_value *modules, struct mr_error *err)
{
    static const char *const known[] = {"Transformer", "Pooling", "Normalize"};
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < mr_json_count(modules) && status == MR_OK; i++) {
        struct mr_text type = {"", 0}, path = {"", 0};
        mr_json_text(mr_json_get(mr_json_at(modules, i), "type"), &type);
        mr_json_text(mr_json_get(mr_json_at(modules, i), "path"), &path);
        type = class_of(type);
        bool found = false;
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
            found |= mr_text_is(type, known[k]);
        if (mr_text_is(type, "Dense"))
            status = read_dense(heads, config, folder, path, err);
        else if (!found)
            return mr_fail(err, MR_BAD_FILE, "modules.json: the module %.*s is not supported",
                           mr_model_config_shown(type), type.bytes);
    }
    return status;
}

enum mr_status mr_text_modules_read(struct mr_text_heads *heads, struct mr_model_config *config,
                                    const char *folder, struct mr_error *err)
{
    struct mr_folder_document pooling, modules;
    enum mr_status status =
        mr_folder_document_open(&pooling, folder, "1_Pooling/config.json", false, err);
    if (status == MR_OK && mr_folder_document_root(&pooling))
        status = set_pooling(config, mr_folder_document_root(&pooling), err);
    mr_folder_document_close(&pooling);
    if (status != MR_OK) return status;
    status = mr_folder_document_open(&modules, folder, "modules.json", false, err);
    if (status == MR_OK)
        status = read_modules(heads, config, folder, mr_folder_document_root(&modules), err);
    mr_folder_document_close(&modules);
    return status;
}
