#include "ops/files/model_gguf.h"

#include "ops/files/gguf_config.h"
#include "ops/files/gguf_tokenizer.h"

static enum mr_status copy_texts(struct mr_model_source *out, const struct mr_gguf *gguf,
                                 struct mr_error *err)
{
    static const char *const keys[MR_SPECIAL_TEXT_COUNT] = {
        [MR_BOS_TEXT] = "tokenizer.ggml.bos_token_id",
        [MR_EOS_TEXT] = "tokenizer.ggml.eos_token_id",
        [MR_UNK_TEXT] = "tokenizer.ggml.unknown_token_id",
        [MR_PAD_TEXT] = "tokenizer.ggml.padding_token_id"};
    struct mr_text template_text = {"", 0}, for_tools = {"", 0};
    mr_gguf_text(gguf, "tokenizer.chat_template", &template_text);
    mr_gguf_text(gguf, "tokenizer.chat_template.tool_use", &for_tools);
    enum mr_status status = mr_model_source_copy_text(&out->chat_template, template_text, err);
    if (status == MR_OK) status = mr_model_source_copy_text(&out->tool_template, for_tools, err);
    for (size_t i = 0; i < MR_SPECIAL_TEXT_COUNT && status == MR_OK; i++)
        if (keys[i])
            status = mr_model_source_copy_text(&out->special.of[i],
                                               mr_gguf_token_text(gguf, keys[i]), err);
    return status;
}

/* Returns the name of the file's general.file_type, in llama.cpp's numbering; NULL when unknown. */
static const char *file_type_of(const struct mr_gguf *gguf)
{
    static const char *const names[] = {
        [0] = "F32",     [1] = "F16",     [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
        [8] = "Q5_0",    [9] = "Q5_1",    [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
        [13] = "Q3_K_L", [14] = "Q4_K_S", [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
        [18] = "Q6_K",   [21] = "Q2_K_S", [25] = "IQ4_NL", [30] = "IQ4_XS", [32] = "BF16",
        [38] = "MXFP4"};
    uint32_t type;
    if (!mr_gguf_u32(gguf, "general.file_type", &type)) return NULL;
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

enum mr_status mr_model_gguf_read(struct mr_model_source *out, const char *path,
                                  struct mr_error *err)
{
    enum mr_status status = mr_gguf_split_open(&out->gguf, path, err);
    if (status != MR_OK) return status;
    const struct mr_gguf *gguf = mr_gguf_split_first(out->gguf);
    out->tensors = mr_gguf_split_tensors(out->gguf);
    status = mr_model_config_from_gguf(&out->config, gguf, out->tensors, err);
    if (status == MR_OK) status = mr_gguf_tokenizer_create(&out->tokenizer, gguf, err);
    if (status == MR_OK) status = copy_texts(out, gguf, err);
    if (status != MR_OK) return status;
    struct mr_text name;
    if (mr_gguf_text(gguf, "general.name", &name) && name.length > 0)
        mr_model_source_set_name(out, name);
    out->defaults = mr_sampling_defaults_from_gguf(gguf);
    out->file_type = file_type_of(gguf);
    out->gguf_names = true;
    return MR_OK;
}
