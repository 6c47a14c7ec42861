#include "ops/files/model_files.h"

#include "ops/files/model_folder.h"
#include "ops/files/model_gguf.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static bool ends_with(const char *text, const char *suffix)
{
    const size_t length = strlen(text), end = strlen(suffix);
    return length >= end && strcmp(text + length - end, suffix) == 0;
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

/* ---- the kind of the path ---- */

/* True for ORGANIZATION/MODEL, the form of a name in a hub. */
static bool is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash && slash > path && slash[1] && !strchr(slash + 1, '/') &&
           !strchr("./~", path[0]) && !ends_with(path, ".gguf");
}

static enum mr_status not_there(const char *path, struct mr_error *err)
{
    if (errno == ENOENT && is_hub_name(path))
        return mr_fail(err, MR_BAD_FILE,
                       "%.60s: no such file or folder. Hub names are not resolved, a local path is "
                       "needed: download the model, then use its folder or .gguf file",
                       path);
    return mr_fail(err, MR_BAD_FILE, "%.120s: %s", path, strerror(errno));
}

/* Errors for a file of a model folder instead of the folder, and for files in formats that are not
 * read. */
static enum mr_status check_file(const char *path, struct mr_error *err)
{
    static const char *const of_folder[] = {".safetensors", ".json", ".model", ".jinja"};
    static const char *const unread[] = {".bin", ".pt", ".pth", ".onnx", ".ckpt"};
    for (size_t i = 0; i < sizeof(of_folder) / sizeof(of_folder[0]); i++)
        if (ends_with(path, of_folder[i]))
            return mr_fail(err, MR_BAD_FILE,
                           "%.120s: a file of a model folder; use the folder that contains it",
                           path);
    for (size_t i = 0; i < sizeof(unread) / sizeof(unread[0]); i++)
        if (ends_with(path, unread[i]))
            return mr_fail(err, MR_BAD_FILE,
                           "%.80s: %s files are not read; use a folder with *.safetensors or a "
                           ".gguf file",
                           path, unread[i]);
    return MR_OK;
}

/* ---- GGUF files in a folder ---- */

/* A file that can be opened as a model: not a projector of pictures, not a later part of a split.
 */
static bool is_gguf_model(const char *name)
{
    const char *of = strstr(name, "-of-");
    const bool later = of && of - name >= 6 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0;
    return ends_with(name, ".gguf") && strncmp(name, "mmproj", 6) != 0 && !later;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names the files of a folder with several, as many as fit. */
static enum mr_status name_files(const char *folder, char **names, size_t count,
                                 struct mr_error *err)
{
    char list[90] = "";
    size_t used = 0;
    qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 0; i < count; i++) {
        if (used + strlen(names[i]) + 6 > sizeof(list)) {
            snprintf(list + used, sizeof(list) - used, " ...");
            break;
        }
        used +=
            (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return mr_fail(err, MR_BAD_FILE, "%.50s: the folder has %zu GGUF models; name one of %s",
                   folder, count, list);
}

/* Sets path to the only GGUF model of the folder, or to "" if the folder has none. */
static enum mr_status find_gguf(const char *folder, char path[PATH_MAX], struct mr_error *err)
{
    enum { FILES_MAX = 1024 };
    char **names = calloc(FILES_MAX, sizeof(*names));
    size_t count = 0;
    path[0] = '\0';
    DIR *entries = names ? opendir(folder) : NULL;
    for (struct dirent *entry; entries && count < FILES_MAX && (entry = readdir(entries));)
        if (is_gguf_model(entry->d_name) && (names[count] = strdup(entry->d_name))) count++;
    enum mr_status status = MR_OK;
    if (!names)
        status = mr_fail(err, MR_NOMEM, "no memory for the files of a folder");
    else if (!entries)
        status = mr_fail(err, MR_BAD_FILE, "%.120s: %s", folder, strerror(errno));
    else if (count > 1)
        status = name_files(folder, names, count, err);
    else if (count == 1 && snprintf(path, PATH_MAX, "%s/%s", folder, names[0]) >= PATH_MAX)
        status = mr_fail(err, MR_BAD_FILE, "the path of the model's file is too long");
    if (entries) closedir(entries);
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return status;
}

static bool has(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

/* A folder with a configuration but without safetensors may be the copy of a repository of GGUF
 * files. */
static enum mr_status read_folder(struct mr_model_source *out, const char *folder,
                                  struct mr_error *err)
{
    char path[PATH_MAX];
    const bool config = has(folder, "config.json");
    if (config && (has(folder, "model.safetensors") || has(folder, "model.safetensors.index.json")))
        return mr_model_folder_read(out, folder, err);
    enum mr_status status = find_gguf(folder, path, err);
    if (status != MR_OK) return status;
    if (path[0]) return mr_model_gguf_read(out, path, err);
    if (config) return mr_model_folder_read(out, folder, err);
    return mr_fail(err, MR_BAD_FILE, "%.90s: the folder has neither config.json nor a .gguf file%s",
                   folder, has(folder, "snapshots") ? "; use a folder below its snapshots/" : "");
}

enum mr_status mr_model_files_read(struct mr_model_source *out, const char *path,
                                   struct mr_error *err)
{
    struct mr_model_source source = {0};
    *out = (struct mr_model_source){0};
    struct stat info;
    if (stat(path, &info) != 0) return not_there(path, err);
    const bool folder = S_ISDIR(info.st_mode);
    mr_model_source_set_name(&source, base_name(path));
    enum mr_status status = folder ? MR_OK : check_file(path, err);
    if (status == MR_OK)
        status = folder ? read_folder(&source, path, err) : mr_model_gguf_read(&source, path, err);
    if (status == MR_OK) status = check_vocabulary(&source, err);
    if (status == MR_OK) status = mr_model_source_set_path(&source, path, err);
    if (status != MR_OK) {
        mr_model_source_close(&source);
        return mr_mapped_file_blame(path, status, err);
    }
    *out = source;
    return MR_OK;
}
