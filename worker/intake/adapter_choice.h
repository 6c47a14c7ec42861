/* adapter_choice - the model that a request names: the worker's, or one of its LoRA adapters
 * (worker/adapters/adapters.h). A ticket holds a version of its adapter until it ends.
 *
 * Owner: intake thread. Errors: MR_MODEL_NOT_FOUND. */
#ifndef MR_WORKER_INTAKE_ADAPTER_CHOICE_H
#define MR_WORKER_INTAKE_ADAPTER_CHOICE_H

#include "worker/adapters/adapters.h"
#include "worker/config/config.h"
#include "worker/ticket/ticket.h"

/* adapters: NULL if the worker has none, as below. */
enum mr_status mr_adapter_choice_make(const struct mr_config *config, struct mr_adapters *adapters,
                                      struct mr_ticket *ticket, struct mr_error *err);
/* Makes sure that the adapter's weights stay in memory until the ticket ends. MR_FULL: they are
 * being loaded. MR_MODEL_NOT_FOUND: the adapter was removed or replaced before. */
enum mr_status mr_adapter_choice_pin(struct mr_adapters *adapters, struct mr_ticket *ticket,
                                     uint64_t now_ns, struct mr_error *err);
/* Whether the adapter is still being loaded. */
bool mr_adapter_choice_waits(const struct mr_ticket *ticket);
/* The ticket ends. */
void mr_adapter_choice_drop(struct mr_adapters *adapters, struct mr_ticket *ticket,
                            uint64_t now_ns);

#endif
