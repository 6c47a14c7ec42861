/* sampling_defaults - the sampling settings that a model's files recommend: generation_config.json
 * of a Hugging Face folder, or the keys general.sampling.* of a GGUF file. A value out of range is
 * ignored.
 *
 * Threads: pure functions. Memory: none. Errors: none. */
#ifndef MR_OPS_FILES_SAMPLING_DEFAULTS_H
#define MR_OPS_FILES_SAMPLING_DEFAULTS_H

#include "codec/wire/json.h"

#include <stdint.h>

struct mr_gguf;

struct mr_sampling_defaults {
    float temperature; /* NaN: not given; 0: greedy */
    /* 0: not given */
    float top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty;
    uint32_t top_k;
};

/* Reads the root of generation_config.json, which may be NULL. "do_sample": false makes the
 * temperature 0. */
struct mr_sampling_defaults mr_sampling_defaults_from_json(const struct mr_json_value *generation);
struct mr_sampling_defaults mr_sampling_defaults_from_gguf(const struct mr_gguf *gguf);

#endif
