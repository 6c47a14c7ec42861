#include "ops/files/model_files.h"

#include "ops/files/model_folder.h"
#include "ops/files/model_gguf.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Returns the last component of the path, without trailing slashes. */
static struct mr_text base_name(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return (struct mr_text){path + begin, end - begin};
}

static enum mr_status check_vocabulary(const struct mr_model_source *source, struct mr_error *err)
{
    uint32_t tokens = mr_tokenizer_vocab_size(source->tokenizer);
    if (tokens > source->config.vocab_size)
        return mr_fail(err, MR_BAD_FILE,
                       "the tokenizer has %u tokens, more than the model's vocabulary of %u",
                       tokens, source->config.vocab_size);
    return MR_OK;
}

enum mr_status mr_model_files_read(struct mr_model_source *out, const char *path,
                                   struct mr_error *err)
{
    struct mr_model_source source = {0};
    *out = (struct mr_model_source){0};
    struct stat info;
    if (stat(path, &info) != 0)
        return mr_fail(err, MR_BAD_FILE, "%.120s: %s", path, strerror(errno));
    mr_model_source_set_name(&source, base_name(path));
    enum mr_status status = S_ISDIR(info.st_mode) ? mr_model_folder_read(&source, path, err)
                                                  : mr_model_gguf_read(&source, path, err);
    if (status == MR_OK) status = check_vocabulary(&source, err);
    if (status != MR_OK) {
        mr_model_source_close(&source);
        return status;
    }
    *out = source;
    return MR_OK;
}
