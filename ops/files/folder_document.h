/* folder_document - the JSON files of a model folder.
 *
 * Owner:  one thread. Memory: values are borrowed from the document until _close.
 * Errors: MR_BAD_FILE names the file and the reason; MR_NOMEM. */
#ifndef MR_OPS_FILES_FOLDER_DOCUMENT_H
#define MR_OPS_FILES_FOLDER_DOCUMENT_H

#include "codec/wire/json.h"
#include "ops/files/mapped_file.h"

/* A parsed JSON file of the model folder; file and json are zero when the file does not exist. */
struct mr_folder_document {
    struct mr_mapped_file file;
    struct mr_json *json;
};

/* Maps a file of the folder. *out is zero when a file that is not required does not exist. */
enum mr_status mr_folder_map(struct mr_mapped_file *out, const char *folder, const char *name,
                             bool required, struct mr_error *err);
enum mr_status mr_folder_document_open(struct mr_folder_document *out, const char *folder,
                                       const char *name, bool required, struct mr_error *err);
/* NULL when the file does not exist. */
const struct mr_json_value *mr_folder_document_root(const struct mr_folder_document *document);
void mr_folder_document_close(struct mr_folder_document *document);

#endif
