#include "ops/families/part_scales.h"

#include "ops/families/json_keys.h"

static enum mr_status read_one(float *out, const struct mr_json_value *value, const char *key,
                               struct mr_error *err)
{
    double number = 1.0;
    if (mr_json_given(value) && (!mr_json_number(value, &number) || !(number > 0.0)))
        return mr_fail(err, MR_BAD_FILE, "config.json: \"%s\" is not a positive number", key);
    *out = (float)number;
    return MR_OK;
}

enum mr_status mr_part_scales_read(struct mr_part_scales *out, const struct mr_json_value *root,
                                   struct mr_error *err)
{
    const struct {
        const char *key;
        float *to;
    } single[] = {
        {"attention_in_multiplier", &out->attention_in},   {"key_multiplier", &out->key},
        {"attention_out_multiplier", &out->attention_out}, {"ssm_in_multiplier", &out->mixer_in},
        {"ssm_out_multiplier", &out->mixer_out},
    };
    const struct mr_json_value *rows = mr_json_get(root, "ssm_multipliers");
    const struct mr_json_value *ffn = mr_json_get(root, "mlp_multipliers");
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < sizeof(single) / sizeof(single[0]); i++)
        status = read_one(single[i].to, mr_json_get(root, single[i].key), single[i].key, err);
    for (size_t i = 0; status == MR_OK && i < 5; i++)
        status = read_one(&out->mixer_rows[i], mr_json_at(rows, i), "ssm_multipliers", err);
    if (status == MR_OK) status = read_one(&out->gate, mr_json_at(ffn, 0), "mlp_multipliers", err);
    return status == MR_OK ? read_one(&out->down, mr_json_at(ffn, 1), "mlp_multipliers", err)
                           : status;
}
