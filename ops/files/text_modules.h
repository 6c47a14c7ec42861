/* text_modules - reads the files with which sentence-transformers says how a text becomes a vector:
 * 1_Pooling/config.json, modules.json, and the folders of its Dense modules.
 *
 * Owner:  one thread. Memory: the heads own what is read. Errors: MR_BAD_FILE names the file; an
 *         encoder with a module of another kind is refused, because its vectors would be wrong. */
#ifndef MR_OPS_FILES_TEXT_MODULES_H
#define MR_OPS_FILES_TEXT_MODULES_H

#include "ops/files/text_heads.h"

/* Sets config->pooling and heads->vector. A folder without these files changes nothing. */
enum mr_status mr_text_modules_read(struct mr_text_heads *heads, struct mr_model_config *config,
                                    const char *folder, struct mr_error *err);

#endif
