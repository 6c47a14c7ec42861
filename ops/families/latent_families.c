#include "ops/families/family.h"

/* Folders of DeepSeek store rotary numbers in pairs. */
#define DEEPSEEK_FIELDS                                                                            \
    .names = shared_names, .latent = true, .norm_before = true, .folder_rotary_pairs = true,       \
    .experts = true, .plain_shared = true

static const struct mr_weight_name shared_names[] = {
    {MR_WEIGHT_SHARED_GATE, "blk.%u.ffn_gate_shexp",
     "model.layers.%u.mlp.shared_experts.gate_proj"},
    {MR_WEIGHT_SHARED_UP, "blk.%u.ffn_up_shexp", "model.layers.%u.mlp.shared_experts.up_proj"},
    {MR_WEIGHT_SHARED_DOWN, "blk.%u.ffn_down_shexp",
     "model.layers.%u.mlp.shared_experts.down_proj"},
    {0}};

/* The families whose layers have latent attention. */
static const struct mr_model_family rows[] = {
    {.name = "deepseek_v2", DEEPSEEK_FIELDS, .routing = MR_ROUTING_GROUPS},
    {.name = "deepseek_v3", /* also Kimi K2 */
     DEEPSEEK_FIELDS,
     .latent_halves = true,
     .routing = MR_ROUTING_SIGMOID,
     .defaults = {.dense_layers = 3}},
    {.name = "kimi_k2",
     DEEPSEEK_FIELDS,
     .routing = MR_ROUTING_SIGMOID,
     .defaults = {.dense_layers = 3}},
    {.name = "glm4_moe_lite",
     DEEPSEEK_FIELDS,
     .latent_halves = true,
     .routing = MR_ROUTING_SIGMOID,
     .defaults = {.norm_epsilon = 1e-5, .dense_layers = 1}},
    {.name = "minicpm3",
     .latent = true,
     .norm_before = true,
     .depth_scales = true,
     .defaults = {.norm_epsilon = 1e-5, .tied_head = true}},
};

const struct mr_family_table mr_latent_families = {rows, sizeof(rows) / sizeof(rows[0])};
