/* gguf_split - a model in one GGUF file, or in the parts that llama.cpp's gguf-split writes:
 * NAME-00001-of-00003.gguf and so on, in one folder. The first part has the keys of the model; each
 * part has tensors, and the keys split.no (from 0) and split.count.
 *
 * Owner:  one thread opens and closes; immutable in between.
 * Memory: the files are mapped until _close; tensors and keys are borrowed from them.
 * Errors: MR_BAD_FILE names the part and the reason; MR_NOMEM. */
#ifndef MR_OPS_FILES_GGUF_SPLIT_H
#define MR_OPS_FILES_GGUF_SPLIT_H

#include "ops/files/gguf.h"

#define MR_GGUF_PARTS_MAX 999u

struct mr_gguf_split;

/* path: the only file, or the first part. */
enum mr_status mr_gguf_split_open(struct mr_gguf_split **out, const char *path,
                                  struct mr_error *err);
/* split may be NULL. */
void mr_gguf_split_close(struct mr_gguf_split *split);
/* Returns the file with the keys of the model: the only file, or the first part. */
const struct mr_gguf *mr_gguf_split_first(const struct mr_gguf_split *split);
/* Returns the tensors of all files, sorted by name. */
const struct mr_tensor_table *mr_gguf_split_tensors(const struct mr_gguf_split *split);
uint32_t mr_gguf_split_file_count(const struct mr_gguf_split *split);
/* Returns the stamp of file `index` as it was when the file was opened. */
struct mr_file_stamp mr_gguf_split_stamp(const struct mr_gguf_split *split, uint32_t index);

#endif
