/* worker_rules - what of a worker's configuration deserves a warning though each option is valid,
 * whether the memory that it may use is enough, and which rights it needs in Kafka
 * (docker/guide/kafka.md, Rights).
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

/* Combinations of options that lose a guarantee, leak something, or are rarely meant. */
void mr_worker_rules_check(const struct mr_config *config, bool worker_id_given,
                           mr_worker_rules_report *report, void *context);

/* The memory of the machine that a worker takes at most, in bytes: weights and KV pool unless they
 * are on a GPU, queue, fetched records, producer, Redis, and a share for the rest. */
uint64_t mr_worker_rules_memory(const struct mr_config *config, const struct mr_model_plan *plan);
/* One sentence that compares it with the memory that the process may use, and what is on a GPU with
 * what is free there. False: it is not enough. */
bool mr_worker_rules_fits(const struct mr_config *config, const struct mr_model_plan *plan,
                          const struct mr_machine *machine, char *text, size_t text_bytes);

/* The rights that the worker needs, one finding each, such as "Read on topic millrace.requests". */
void mr_worker_rules_rights(const struct mr_config *config, mr_worker_rules_report *report,
                            void *context);

#endif
