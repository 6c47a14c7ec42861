#include "ops/families/family.h"

/* An encoder with the layers of BERT. */
#define BERT_FIELDS                                                                                \
    .encoder = true, .centered_norms = true, .norm_sum = true, .norm_embedding = true,             \
    .no_final_norm = true, .plain_ffn = true, .activation = MR_ACTIVATION_GELU, .positions = true

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

/* The encoders. */
static const struct mr_model_family rows[] = {
    {.name = "bert",
     .names = bert_names,
     .prefix = "bert.",
     BERT_FIELDS,
     .token_types = true,
     .defaults = {.vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "roberta",
     .names = bert_names,
     .prefix = "roberta.",
     BERT_FIELDS,
     .token_types = true,
     .positions_after_padding = true,
     .defaults = {.vocab_size = 50265, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "xlm-roberta",
     .names = bert_names,
     .prefix = "roberta.",
     BERT_FIELDS,
     .token_types = true,
     .positions_after_padding = true,
     .defaults = {.vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
    {.name = "distilbert",
     .names = distilbert_names,
     .prefix = "distilbert.",
     BERT_FIELDS,
     .defaults =
         {.head_count = 12, .vocab_size = 30522, .context_tokens = 512, .norm_epsilon = 1e-12}},
};

const struct mr_family_table mr_encoder_families = {rows, sizeof(rows) / sizeof(rows[0])};
