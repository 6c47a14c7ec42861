#include "ops/files/sampling_defaults.h"

#include "ops/files/gguf.h"

#include <math.h>
#include <stddef.h>

/* The keys of both kinds of files (NULL: GGUF has none), and the range of accepted values.
 * `closed`: the range includes its lowest value. */
static const struct field {
    const char *json, *gguf;
    size_t offset;
    double lowest, highest;
    bool closed;
} fields[] = {
    {"temperature", "general.sampling.temp", offsetof(struct mr_sampling_defaults, temperature), 0,
     100, true},
    {"top_p", "general.sampling.top_p", offsetof(struct mr_sampling_defaults, top_p), 0, 1, false},
    {"min_p", "general.sampling.min_p", offsetof(struct mr_sampling_defaults, min_p), 0, 1, true},
    {"typical_p", NULL, offsetof(struct mr_sampling_defaults, typical_p), 0, 1, false},
    {"repetition_penalty", "general.sampling.penalty_repeat",
     offsetof(struct mr_sampling_defaults, repetition_penalty), 0, 100, false},
    {"presence_penalty", NULL, offsetof(struct mr_sampling_defaults, presence_penalty), -2, 2,
     true},
    {"frequency_penalty", NULL, offsetof(struct mr_sampling_defaults, frequency_penalty), -2, 2,
     true},
};

static void set(struct mr_sampling_defaults *out, const struct field *field, double number)
{
    bool fits = number <= field->highest &&
                (field->closed ? number >= field->lowest : number > field->lowest);
    if (fits) *(float *)(void *)((char *)out + field->offset) = (float)number;
}

struct mr_sampling_defaults mr_sampling_defaults_from_json(const struct mr_json_value *generation)
{
    struct mr_sampling_defaults out = {.temperature = NAN};
    double number;
    int64_t top_k;
    bool draws = true;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (mr_json_number(mr_json_get(generation, fields[i].json), &number))
            set(&out, &fields[i], number);
    if (mr_json_int(mr_json_get(generation, "top_k"), &top_k) && top_k > 0 && top_k <= UINT32_MAX)
        out.top_k = (uint32_t)top_k;
    mr_json_bool(mr_json_get(generation, "do_sample"), &draws);
    if (!draws) out.temperature = 0.0f;
    return out;
}

struct mr_sampling_defaults mr_sampling_defaults_from_gguf(const struct mr_gguf *gguf)
{
    struct mr_sampling_defaults out = {.temperature = NAN};
    double number;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].gguf && mr_gguf_number(gguf, fields[i].gguf, &number))
            set(&out, &fields[i], number);
    mr_gguf_u32(gguf, "general.sampling.top_k", &out.top_k);
    return out;
}
