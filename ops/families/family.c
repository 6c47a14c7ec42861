#include "ops/families/family.h"

/* ---- families that are refused by name ---- */

#define LATENT "GGUF files with latent attention are not supported; the Hugging Face folder is"
#define INDEXER                                                                                    \
    "its sparse attention, where an indexer chooses the tokens, is not supported; DeepSeek V3 is"
#define STATE                                                                                      \
    "state-space (recurrent) layers of this kind are not supported; LFM2, Granite 4 and "          \
    "Qwen3-Next are"
#define ENCODER                                                                                    \
    "this kind of encoder is not supported; folders of BERT, RoBERTa, XLM-RoBERTa, DistilBERT, "   \
    "ModernBERT, Nomic BERT and Jina v3 are"
#define PICTURES                                                                                   \
    "its text layers attend to pictures, which are not supported; Gemma 3 (its text part) is"
#define ALIBI        "its position biases (ALiBi) are not supported; GPT-NeoX and Falcon are"
#define PLAIN_FOLDER "GGUF files of this family are not supported; the Hugging Face folder is"

static const struct {
    const char *name, *reason; /* reason: the missing feature, and the nearest supported family */
} refused[] = {
    {"deepseek2", LATENT},
    {"minicpm3", LATENT},
    {"deepseek_v32", INDEXER},
    {"glm_moe_dsa", INDEXER},
    {"deepseek_v4", INDEXER},
    {"mamba", STATE},
    {"falcon_mamba", STATE},
    {"jamba", STATE},
    {"zamba2", STATE},
    {"nemotron_h", STATE},
    {"kimi_linear", STATE},
    {"rwkv", STATE},
    {"rwkv6", STATE},
    {"rwkv7", STATE},
    {"recurrent_gemma", STATE},
    {"t5", ENCODER},
    {"t5encoder", ENCODER},
    {"bart", ENCODER},
    {"whisper", ENCODER},
    {"bert", ENCODER}, /* in GGUF files */
    {"nomic-bert", ENCODER},
    {"gemma-embedding", ENCODER},
    {"mllama", PICTURES},
    {"clip",
     "it encodes pictures and has no text layers; use the language model of its repository"},
    {"siglip_vision_model",
     "it encodes pictures and has no text layers; use the language model of its repository"},
    {"llama4", "its chunked attention and temperature tuning are not supported; Llama 3 is"},
    {"llama4_text", "its chunked attention and temperature tuning are not supported; Llama 3 is"},
    {"gemma3n", "its per-layer embeddings are not supported; Gemma 3 is"},
    {"gemma3n_text", "its per-layer embeddings are not supported; Gemma 3 is"},
    {"gemma4",
     "its per-layer embeddings and shared key/value layers are not supported; Gemma 3 is"},
    {"gemma4_text",
     "its per-layer embeddings and shared key/value layers are not supported; Gemma 3 is"},
    {"apertus", PLAIN_FOLDER},
    {"mpt", ALIBI},
    {"bloom", ALIBI},
};

/* ---- lookup ---- */

static const struct mr_family_table *const tables[] = {
    &mr_dense_families,  &mr_plain_families,     &mr_expert_families,
    &mr_latent_families, &mr_recurrent_families, &mr_encoder_families};

const struct mr_model_family *mr_model_family_at(size_t index)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (index < tables[i]->count) return &tables[i]->rows[index];
        index -= tables[i]->count;
    }
    return NULL;
}

static bool is_alias(const struct mr_model_family *row, struct mr_text name)
{
    for (const char *const *alias = row->aliases; alias && *alias; alias++)
        if (mr_text_is(name, *alias)) return true;
    return false;
}

enum mr_status mr_model_family_find(const struct mr_model_family **out, struct mr_text name,
                                    bool gguf, struct mr_error *err)
{
    int shown = (int)(name.length < 64 ? name.length : 64);
    *out = NULL;
    const struct mr_model_family *row;
    for (size_t i = 0; (row = mr_model_family_at(i)) != NULL; i++) {
        const char *own = gguf ? row->gguf : row->name;
        if ((own && mr_text_is(name, own)) || is_alias(row, name)) {
            *out = row;
            return MR_OK;
        }
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (mr_text_is(name, refused[i].name))
            return mr_fail(err, MR_BAD_FILE, "model architecture \"%.*s\" is refused: %s", shown,
                           name.bytes, refused[i].reason);
    return mr_fail(
        err, MR_BAD_FILE,
        "model architecture \"%.*s\" is not supported; Llama, Mistral, Mixtral, Qwen 2 "
        "and 3, Gemma 1 to 3, Phi 1 to 3.5, SmolLM 3, OLMo 2 and 3, Granite 3 and 4, StableLM 2, "
        "StarCoder 2, Nemotron, GPT-2, GPT-J, GPT-NeoX, Falcon, LFM2, Bamba, Falcon-H1, OLMo "
        "Hybrid, Mamba 2, Qwen3-Next, Qwen 3.5, GLM 4, ERNIE 4.5, Seed-OSS, EXAONE 4, Command R, "
        "Hunyuan, OLMoE, AFMoE, Helium, DeepSeek V2 and V3, Kimi K2 and gpt-oss are",
        shown, name.bytes);
}
