#include "ops/files/folder_document.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

void mr_folder_document_close(struct mr_folder_document *document)
{
    mr_json_destroy(document->json);
    mr_mapped_file_close(&document->file);
}

const struct mr_json_value *mr_folder_document_root(const struct mr_folder_document *document)
{
    return document->json ? mr_json_root(document->json) : NULL;
}

enum mr_status mr_folder_map(struct mr_mapped_file *out, const char *folder, const char *name,
                             bool required, struct mr_error *err)
{
    char path[PATH_MAX];
    *out = (struct mr_mapped_file){0};
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return mr_fail(err, MR_BAD_FILE, "the path of the model folder is too long");
    if (!required && access(path, F_OK) != 0) return MR_OK;
    return mr_mapped_file_open(out, path, err);
}

enum mr_status mr_folder_document_open(struct mr_folder_document *out, const char *folder,
                                       const char *name, bool required, struct mr_error *err)
{
    const struct mr_json_limits limits = {
        .bytes_max = (size_t)16 << 20, .values_max = (size_t)1 << 20, .depth_max = 64};
    *out = (struct mr_folder_document){0};
    enum mr_status status = mr_folder_map(&out->file, folder, name, required, err);
    if (status != MR_OK || !out->file.bytes) return status;
    struct mr_error inner = {0};
    status = mr_json_parse_wide(&out->json, mr_mapped_file_text(&out->file), &limits, &inner);
    if (status == MR_OK) return MR_OK;
    mr_mapped_file_close(&out->file);
    return mr_fail(err, status == MR_NOMEM ? MR_NOMEM : MR_BAD_FILE, "%s: %.150s", name,
                   inner.detail);
}
