#include "ops/files/model_source.h"

#include <stdlib.h>
#include <string.h>

enum mr_status mr_model_source_copy_text(struct mr_text *out, struct mr_text text,
                                         struct mr_error *err)
{
    *out = (struct mr_text){0};
    char *copy = malloc(text.length + 1);
    if (!copy) return mr_fail(err, MR_NOMEM, "no memory for a text of %zu bytes", text.length);
    if (text.length > 0) memcpy(copy, text.bytes, text.length);
    copy[text.length] = '\0';
    *out = (struct mr_text){copy, text.length};
    return MR_OK;
}

enum mr_status mr_model_source_set_path(struct mr_model_source *source, const char *path,
                                        struct mr_error *err)
{
    source->path = strdup(path);
    return source->path ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for a path");
}

void mr_model_source_set_name(struct mr_model_source *source, struct mr_text name)
{
    size_t length = name.length < sizeof(source->name) ? name.length : sizeof(source->name) - 1;
    memcpy(source->name, name.bytes, length);
    source->name[length] = '\0';
}

uint32_t mr_model_source_file_count(const struct mr_model_source *source)
{
    return source->gguf ? mr_gguf_split_file_count(source->gguf)
                        : mr_safetensors_file_count(source->safetensors);
}

void mr_model_source_stamps(const struct mr_model_source *source, struct mr_file_stamp *stamps)
{
    uint32_t count = mr_model_source_file_count(source);
    for (uint32_t i = 0; i < count; i++)
        stamps[i] = source->gguf ? mr_gguf_split_stamp(source->gguf, i)
                                 : mr_safetensors_stamp(source->safetensors, i);
}

void mr_model_source_close_weights(struct mr_model_source *source)
{
    mr_gguf_split_close(source->gguf);
    mr_quantized_folder_destroy(source->quantized);
    mr_safetensors_close(source->safetensors);
    source->gguf = NULL;
    source->safetensors = NULL;
    source->quantized = NULL;
    source->tensors = NULL;
}

static void drop_text(struct mr_text *text)
{
    free((void *)(uintptr_t)text->bytes);
    *text = (struct mr_text){0};
}

enum mr_status mr_model_source_replace_text(struct mr_text *text, struct mr_text with,
                                            struct mr_error *err)
{
    struct mr_text copy;
    enum mr_status status = mr_model_source_copy_text(&copy, with, err);
    if (status != MR_OK) return status;
    drop_text(text);
    *text = copy;
    return MR_OK;
}

void mr_model_source_close(struct mr_model_source *source)
{
    mr_model_source_close_weights(source);
    free(source->path);
    source->path = NULL;
    mr_tokenizer_destroy(source->tokenizer);
    source->tokenizer = NULL;
    mr_text_heads_destroy(&source->heads);
    drop_text(&source->chat_template);
    drop_text(&source->tool_template);
    for (size_t i = 0; i < MR_SPECIAL_TEXT_COUNT; i++)
        drop_text(&source->special.of[i]);
}
