/* safetensors - the weights of a Hugging Face folder: model.safetensors, or the files listed in
 * model.safetensors.index.json. _open checks all headers and the index.
 *
 * Format of a file: u64 little-endian length of the header (at most 100,000,000), the header as a
 * JSON object {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}},
 * then the data. Offsets are relative to the start of the data. The tensors cover the data without
 * gaps and without overlap; end - begin is the product of the shape times the size of the type.
 *
 * Owner:  one thread opens and closes; immutable in between.
 * Memory: files are mapped and names belong to the parsed headers; both are valid until _close.
 * Errors: MR_BAD_FILE names the file, the tensor and the reason; MR_NOMEM. */
#ifndef MR_OPS_FILES_SAFETENSORS_H
#define MR_OPS_FILES_SAFETENSORS_H

#include "ops/files/mapped_file.h"
#include "ops/files/tensor_table.h"

#define MR_SAFETENSORS_HEADER_MAX ((size_t)100000000)
#define MR_SAFETENSORS_FILES_MAX  1024u

struct mr_safetensors;

enum mr_status mr_safetensors_open(struct mr_safetensors **out, const char *folder,
                                   struct mr_error *err);
/* Opens one file of the folder by its name. */
enum mr_status mr_safetensors_open_file(struct mr_safetensors **out, const char *folder,
                                        const char *name, struct mr_error *err);
/* safetensors may be NULL. */
void mr_safetensors_close(struct mr_safetensors *safetensors);
/* Returns the tensors of all files, sorted by name. */
const struct mr_tensor_table *mr_safetensors_tensors(const struct mr_safetensors *safetensors);
/* Returns the number of files that hold tensors, at most MR_SAFETENSORS_FILES_MAX. */
uint32_t mr_safetensors_file_count(const struct mr_safetensors *safetensors);
/* Returns the stamp of file number `index` as it was when it was opened. */
struct mr_file_stamp mr_safetensors_stamp(const struct mr_safetensors *safetensors, uint32_t index);

#endif
