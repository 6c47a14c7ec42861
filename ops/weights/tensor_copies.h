/* tensor_copies - copies of the tensors that are being packed. A copy has the description of the
 * stored tensor and bytes of its own, read from the file by all threads: the file may be truncated
 * at any time, and reading its mapped pages would then end the process (ops/files/mapped_file.h).
 *
 * Owner:  one thread. Memory: the copies; it is reused for later copies until _destroy, and is as
 *         large as the tensors between two calls of _recycle.
 * Errors: MR_BAD_FILE when the file has become shorter or cannot be read; MR_NOMEM. */
#ifndef MR_OPS_WEIGHTS_TENSOR_COPIES_H
#define MR_OPS_WEIGHTS_TENSOR_COPIES_H

#include "ops/files/tensor_table.h"

struct mr_tensor_copies;
enum mr_status mr_tensor_copies_create(struct mr_tensor_copies **out, struct mr_error *err);
/* copies may be NULL. */
void mr_tensor_copies_destroy(struct mr_tensor_copies *copies);
/* Sets *out to the copy of a tensor, valid until _recycle; a second call returns the same copy. A
 * tensor without a file is its own copy. */
enum mr_status mr_tensor_copies_take(struct mr_tensor_copies *copies,
                                     const struct mr_stored_tensor *tensor,
                                     const struct mr_stored_tensor **out, struct mr_error *err);
/* Ends the use of all copies; later ones get their memory. */
void mr_tensor_copies_recycle(struct mr_tensor_copies *copies);

#endif
