#include "worker/cli/default_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Folders that are searched for the model: first relative to the working directory, then relative
 * to the folder of the program. */
static const char *const folders[] = {".deps/model", "../.deps/model", "../share/millrace/model"};

static bool is_readable(char *path, size_t size, const char *base, const char *folder)
{
    int length = snprintf(path, size, "%s%s/%s.gguf", base, folder, MR_DEFAULT_MODEL);
    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

enum mr_status mr_default_model_find(char *path, size_t size, struct mr_error *err)
{
    char program[4096] = ""; /* the folder of the program's file, ending in a slash */
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash) slash[1] = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (is_readable(path, size, "", folders[i]) || is_readable(path, size, program, folders[i]))
            return MR_OK;
    return mr_fail(
        err, MR_BAD_CONFIG,
        "the demo model was not found: use --model PATH, or fetch it with docker/deps.sh model");
}
