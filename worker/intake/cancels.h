/* cancels - cancel records: which requests one cancels.
 *
 * A cancel record names an id. It cancels the tenant's requests with that id that wait or run in
 * this worker; if there are none, a request that arrives later is cancelled on arrival
 * (worker/intake/cancel_memory.h). The tenant is the one in the record's header millrace-tenant;
 * without that header the record is for every tenant.
 *
 * Owner: intake thread. Memory: none. Errors: none. */
#ifndef MR_WORKER_INTAKE_CANCELS_H
#define MR_WORKER_INTAKE_CANCELS_H

#include "worker/intake/admission.h"

void mr_cancels_apply(struct mr_admission *admission, const struct mr_kafka_record *record,
                      const struct mr_time *now);

#endif
