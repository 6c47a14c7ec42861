/* A configuration whose model does not exist, for the benchmarks that open one. */
#ifndef MR_TESTS_WORKER_BENCH_NO_MODEL_H
#define MR_TESTS_WORKER_BENCH_NO_MODEL_H

#include "worker/config/config.h"

static const struct mr_config no_model = {.model = "none.gguf",
                                          .device = "cpu",
                                          .dtype = "auto",
                                          .output = "",
                                          .max_sequences = 1,
                                          .step_tokens = 16,
                                          .kv_memory_bytes = 1 << 20};

#endif
