/* cancels - applies cancel records.
 *
 * The key of a cancel record is a request id. The record cancels the tenant's requests with that id
 * that wait or run in this worker. If there are none, it cancels a request that arrives later
 * (worker/intake/cancel_memory.h). The record's header millrace-tenant names the tenant; without it
 * the record applies to every tenant.
 *
 * Owner: intake thread. Memory: none. Errors: none. */
#ifndef MR_WORKER_INTAKE_CANCELS_H
#define MR_WORKER_INTAKE_CANCELS_H

#include "worker/intake/admission.h"

void mr_cancels_apply(struct mr_admission *admission, const struct mr_kafka_record *record,
                      const struct mr_time *now);

#endif
