/* The topics and names that tests of publish use. */
#ifndef MR_TESTS_WORKER_OUTPUT_OPTIONS_H
#define MR_TESTS_WORKER_OUTPUT_OPTIONS_H

#include "worker/publish/output.h"

static const struct mr_output_options test_output = {.tokens_topic = "tokens",
                                                     .results_topic = "results",
                                                     .dlq_topic = "dlq",
                                                     .worker = "w",
                                                     .model = "m",
                                                     .group = "g"};

#endif
