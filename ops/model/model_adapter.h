/* model_adapter - the adapters (LoRA) of an open model: made from files, and given to a step as
 * `adapter` of its sequences (ops/decoder/batch.h).
 *
 * Threads: any, also while steps run. An adapter is destroyed after the last step with it was
 *          collected, and before the model is closed.
 * Memory:  as ops/weights/adapter.h. Errors: as there; MR_BAD_CONFIG: the model was opened without
 *          adapters (struct mr_model_options). */
#ifndef MR_OPS_MODEL_MODEL_ADAPTER_H
#define MR_OPS_MODEL_MODEL_ADAPTER_H

#include "ops/model/model.h"
#include "ops/weights/adapter.h"
#include "ops/weights/weights.h"

enum mr_status mr_model_adapter_create(const struct mr_model *model,
                                       const struct mr_adapter_files *files,
                                       struct mr_adapter_weights **out, struct mr_error *err);
/* Checks the files against those of a model that is not open, and sets *out to an adapter without
 * weights, for its counts. */
enum mr_status mr_model_adapter_check(const struct mr_model_source *source,
                                      const struct mr_adapter_files *files,
                                      struct mr_adapter_weights **out, struct mr_error *err);

#endif
