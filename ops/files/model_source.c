#include "ops/files/model_source.h"

#include "ops/files/gguf_tokenizer.h"
#include "ops/files/model_folder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum mr_status mr_model_source_keep(struct mr_text *out, struct mr_text text, struct mr_error *err)
{
    *out = (struct mr_text){0};
    char *copy = malloc(text.length + 1);
    if (!copy) return mr_fail(err, MR_NOMEM, "no memory for a text of %zu bytes", text.length);
    if (text.length > 0) memcpy(copy, text.bytes, text.length);
    copy[text.length] = '\0';
    *out = (struct mr_text){copy, text.length};
    return MR_OK;
}

static enum mr_status keep_gguf_texts(struct mr_model_source *out, struct mr_error *err)
{
    struct mr_text template_text = {"", 0};
    mr_gguf_text(out->gguf, "tokenizer.chat_template", &template_text);
    enum mr_status status = mr_model_source_keep(&out->chat_template, template_text, err);
    if (status == MR_OK)
        status = mr_model_source_keep(
            &out->bos_text, mr_gguf_token_text(out->gguf, "tokenizer.ggml.bos_token_id"), err);
    if (status == MR_OK)
        status = mr_model_source_keep(
            &out->eos_text, mr_gguf_token_text(out->gguf, "tokenizer.ggml.eos_token_id"), err);
    return status;
}

static void read_gguf_defaults(struct mr_model_source *out)
{
    double number;
    if (mr_gguf_number(out->gguf, "general.sampling.temp", &number) && number >= 0.0)
        out->default_temperature = (float)number;
    if (mr_gguf_number(out->gguf, "general.sampling.top_p", &number) && number > 0.0 &&
        number <= 1.0)
        out->default_top_p = (float)number;
    mr_gguf_u32(out->gguf, "general.sampling.top_k", &out->default_top_k);
}

static void set_name(struct mr_model_source *out, struct mr_text name)
{
    size_t length = name.length < sizeof(out->name) ? name.length : sizeof(out->name) - 1;
    memcpy(out->name, name.bytes, length);
    out->name[length] = '\0';
}

static enum mr_status read_gguf(struct mr_model_source *out, const char *path, struct mr_error *err)
{
    enum mr_status status = mr_gguf_open(&out->gguf, path, err);
    if (status == MR_OK) status = mr_model_config_from_gguf(&out->config, out->gguf, err);
    if (status == MR_OK) status = mr_gguf_tokenizer_create(&out->tokenizer, out->gguf, err);
    if (status == MR_OK) status = keep_gguf_texts(out, err);
    if (status != MR_OK) return status;
    struct mr_text name;
    if (mr_gguf_text(out->gguf, "general.name", &name) && name.length > 0) set_name(out, name);
    read_gguf_defaults(out);
    out->gguf_names = true;
    out->tensors = mr_gguf_tensors(out->gguf);
    return MR_OK;
}

/* The last part of the path, trailing slashes aside. */
static struct mr_text base_name(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return (struct mr_text){path + begin, end - begin};
}

static enum mr_status check_vocabulary(const struct mr_model_source *source, struct mr_error *err)
{
    uint32_t tokens = mr_tokenizer_vocab_size(source->tokenizer);
    if (tokens > source->config.vocab_size)
        return mr_fail(err, MR_BAD_FILE, "the tokenizer has %u tokens, the model knows %u", tokens,
                       source->config.vocab_size);
    return MR_OK;
}

enum mr_status mr_model_source_open(struct mr_model_source *out, const char *path,
                                    struct mr_error *err)
{
    struct mr_model_source source = {.default_temperature = NAN, .default_top_p = NAN};
    *out = (struct mr_model_source){0};
    struct stat info;
    if (stat(path, &info) != 0)
        return mr_fail(err, MR_BAD_FILE, "%.120s: %s", path, strerror(errno));
    set_name(&source, base_name(path));
    enum mr_status status = S_ISDIR(info.st_mode) ? mr_model_folder_read(&source, path, err)
                                                  : read_gguf(&source, path, err);
    if (status == MR_OK) status = check_vocabulary(&source, err);
    if (status != MR_OK) {
        mr_model_source_close(&source);
        return status;
    }
    *out = source;
    return MR_OK;
}

void mr_model_source_close_weights(struct mr_model_source *source)
{
    mr_gguf_close(source->gguf);
    mr_safetensors_close(source->safetensors);
    source->gguf = NULL;
    source->safetensors = NULL;
    source->tensors = NULL;
}

static void drop_text(struct mr_text *text)
{
    free((void *)(uintptr_t)text->bytes);
    *text = (struct mr_text){0};
}

void mr_model_source_close(struct mr_model_source *source)
{
    mr_model_source_close_weights(source);
    mr_tokenizer_destroy(source->tokenizer);
    source->tokenizer = NULL;
    drop_text(&source->chat_template);
    drop_text(&source->bos_text);
    drop_text(&source->eos_text);
}
