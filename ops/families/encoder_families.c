#include "ops/families/family.h"

/* An encoder with the layers of BERT, and one with its feed-forward network. */
#define BERT_FIELDS                                                                                \
    .encoder = true, .centered_norms = true, .norm_sum = true, .norm_embedding = true,             \
    .no_final_norm = true
#define PLAIN_FIELDS BERT_FIELDS, .plain_ffn = true, .activation = MR_ACTIVATION_GELU

/* BERT, RoBERTa and XLM-RoBERTa. */
static const struct mr_weight_name bert_names[] = {
    {MR_WEIGHT_EMBEDDING, "token_embd", "embeddings.word_embeddings"},
    {MR_WEIGHT_Q, "blk.%u.attn_q", "encoder.layer.%u.attention.self.query"},
    {MR_WEIGHT_K, "blk.%u.attn_k", "encoder.layer.%u.attention.self.key"},
    {MR_WEIGHT_V, "blk.%u.attn_v", "encoder.layer.%u.attention.self.value"},
    {MR_WEIGHT_ATTENTION_OUT, "blk.%u.attn_output", "encoder.layer.%u.attention.output.dense"},
    {MR_WEIGHT_ATTENTION_POST_NORM, "blk.%u.attn_output_norm",
     "encoder.layer.%u.attention.output.LayerNorm"},
    {MR_WEIGHT_UP, "blk.%u.ffn_up", "encoder.layer.%u.intermediate.dense"},
    {MR_WEIGHT_DOWN, "blk.%u.ffn_down", "encoder.layer.%u.output.dense"},
    {MR_WEIGHT_FFN_POST_NORM, "blk.%u.layer_output_norm", "encoder.layer.%u.output.LayerNorm"},
    {0}};

static const struct mr_weight_name distilbert_names[] = {
    {MR_WEIGHT_EMBEDDING, NULL, "embeddings.word_embeddings"},
    {MR_WEIGHT_Q, NULL, "transformer.layer.%u.attention.q_lin"},
    {MR_WEIGHT_K, NULL, "transformer.layer.%u.attention.k_lin"},
    {MR_WEIGHT_V, NULL, "transformer.layer.%u.attention.v_lin"},
    {MR_WEIGHT_ATTENTION_OUT, NULL, "transformer.layer.%u.attention.out_lin"},
    {MR_WEIGHT_ATTENTION_POST_NORM, NULL, "transformer.layer.%u.sa_layer_norm"},
    {MR_WEIGHT_UP, NULL, "transformer.layer.%u.ffn.lin1"},
    {MR_WEIGHT_DOWN, NULL, "transformer.layer.%u.ffn.lin2"},
    {MR_WEIGHT_FFN_POST_NORM, NULL, "transformer.layer.%u.output_layer_norm"},
    {0}};

static const struct mr_weight_name nomic_names[] = {
    {MR_WEIGHT_EMBEDDING, NULL, "embeddings.word_embeddings"},
    {MR_WEIGHT_EMBEDDING_NORM, NULL, "emb_ln"},
    {MR_WEIGHT_QKV, NULL, "encoder.layers.%u.attn.Wqkv"},
    {MR_WEIGHT_ATTENTION_OUT, NULL, "encoder.layers.%u.attn.out_proj"},
    {MR_WEIGHT_ATTENTION_POST_NORM, NULL, "encoder.layers.%u.norm1"},
    {MR_WEIGHT_GATE, NULL, "encoder.layers.%u.mlp.fc12"},
    {MR_WEIGHT_UP, NULL, "encoder.layers.%u.mlp.fc11"},
    {MR_WEIGHT_DOWN, NULL, "encoder.layers.%u.mlp.fc2"},
    {MR_WEIGHT_FFN_POST_NORM, NULL, "encoder.layers.%u.norm2"},
    {0}};

static const struct mr_weight_name jina_names[] = {
    {MR_WEIGHT_EMBEDDING, NULL, "embeddings.word_embeddings"},
    {MR_WEIGHT_EMBEDDING_NORM, NULL, "emb_ln"},
    {MR_WEIGHT_QKV, NULL, "encoder.layers.%u.mixer.Wqkv"},
    {MR_WEIGHT_ATTENTION_OUT, NULL, "encoder.layers.%u.mixer.out_proj"},
    {MR_WEIGHT_ATTENTION_POST_NORM, NULL, "encoder.layers.%u.norm1"},
    {MR_WEIGHT_UP, NULL, "encoder.layers.%u.mlp.fc1"},
    {MR_WEIGHT_DOWN, NULL, "encoder.layers.%u.mlp.fc2"},
    {MR_WEIGHT_FFN_POST_NORM, NULL, "encoder.layers.%u.norm2"},
    {0}};

static const struct mr_weight_name modernbert_names[] = {
    {MR_WEIGHT_EMBEDDING, NULL, "embeddings.tok_embeddings"},
    {MR_WEIGHT_EMBEDDING_NORM, NULL, "embeddings.norm"},
    {MR_WEIGHT_FINAL_NORM, NULL, "final_norm"},
    {MR_WEIGHT_ATTENTION_NORM, NULL, "layers.%u.attn_norm"},
    {MR_WEIGHT_QKV, NULL, "layers.%u.attn.Wqkv"},
    {MR_WEIGHT_ATTENTION_OUT, NULL, "layers.%u.attn.Wo"},
    {MR_WEIGHT_FFN_NORM, NULL, "layers.%u.mlp_norm"},
    {MR_WEIGHT_GATE_UP, NULL, "layers.%u.mlp.Wi"},
    {MR_WEIGHT_DOWN, NULL, "layers.%u.mlp.Wo"},
    {0}};

/* The encoders. */
static const struct mr_model_family rows[] = {
    {.name = "bert",
     .names = bert_names,
     .prefix = "bert.",
     PLAIN_FIELDS,
     .positions = true,
     .token_types = true,
     .defaults = {.vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "roberta",
     .names = bert_names,
     .prefix = "roberta.",
     PLAIN_FIELDS,
     .positions = true,
     .token_types = true,
     .positions_after_padding = true,
     .defaults = {.vocab_size = 50265, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "xlm-roberta",
     .names = bert_names,
     .prefix = "roberta.",
     PLAIN_FIELDS,
     .positions = true,
     .token_types = true,
     .positions_after_padding = true,
     .defaults = {.vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "distilbert",
     .names = distilbert_names,
     .prefix = "distilbert.",
     PLAIN_FIELDS,
     .positions = true,
     .defaults =
         {.head_count = 12, .vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "nomic_bert",
     .names = nomic_names,
     .prefix = "nomic_bert.",
     BERT_FIELDS,
     .activation = MR_ACTIVATION_SILU,
     .token_types = true,
     .defaults = {.vocab_size = 30528,
                  .context_tokens = 2048,
                  .norm_epsilon = 1e-12,
                  .rope_theta = 1000.0}},
    {.name = "jina_embeddings_v3",
     .names = jina_names,
     .prefix = "roberta.",
     PLAIN_FIELDS,
     .token_types = true,
     .defaults = {.vocab_size = 250002,
                  .context_tokens = 8194,
                  .norm_epsilon = 1e-5,
                  .rope_theta = 20000.0}},
    {.name = "modernbert",
     .names = modernbert_names,
     .prefix = "model.",
     .encoder = true,
     .centered_norms = true,
     .norms_without_bias = true,
     .norm_before = true,
     .bare_first_layer = true,
     .norm_embedding = true,
     .activation = MR_ACTIVATION_GELU,
     .window_rope = MR_WINDOW_ROPE_OWN_BASE,
     .fused = true,
     .window_both_ways = true,
     .defaults = {.vocab_size = 50368,
                  .context_tokens = 8192,
                  .window = 128,
                  .norm_epsilon = 1e-5,
                  .rope_theta = 160000.0,
                  .window_rope_theta = 10000.0}},
};

const struct mr_family_table mr_encoder_families = {rows, sizeof(rows) / sizeof(rows[0])};
