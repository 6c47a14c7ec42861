/* worker_rules - warnings about a configuration whose single options are valid, a check whether the
 * worker's memory is enough, and the rights that it needs in Kafka.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_CLI_WORKER_RULES_H
#define MR_WORKER_CLI_WORKER_RULES_H

#include "ops/model/model_plan.h"
#include "worker/config/config.h"
#include "worker/engine/machine.h"

#include <stdbool.h>

/* Called with one finding: a sentence. */
typedef void mr_worker_rules_report(void *context, const char *text);

/* Reports combinations of options that lose a guarantee, leak data, or are rarely intended. */
void mr_worker_rules_check(const struct mr_config *config, bool worker_id_given,
                           mr_worker_rules_report *report, void *context);

/* Upper limit of the worker's memory on this machine, in bytes: weights and KV pool unless they are
 * on a GPU, queue, fetched records, producer, remote cache, and a share for the rest. */
uint64_t mr_worker_rules_memory(const struct mr_config *config, const struct mr_model_plan *plan);
/* Writes a sentence that compares that limit with the memory that the process may use, and on a GPU
 * the model with the free memory there. False: the memory is not enough. */
bool mr_worker_rules_fits(const struct mr_config *config, const struct mr_model_plan *plan,
                          const struct mr_machine *machine, char *text, size_t text_bytes);

/* The rights that the worker needs, one finding each, such as "Read on topic millrace.requests". */
void mr_worker_rules_rights(const struct mr_config *config, mr_worker_rules_report *report,
                            void *context);

#endif
