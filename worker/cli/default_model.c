#include "worker/cli/default_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Relative to the working directory, and to the folder of the program. */
static const char *const places[] = {".deps/model", "../.deps/model", "../share/millrace/model"};

static bool is_there(char *path, size_t size, const char *folder, const char *place)
{
    int length = snprintf(path, size, "%s%s/%s.gguf", folder, place, MR_DEFAULT_MODEL);
    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

enum mr_status mr_default_model_find(char *path, size_t size, struct mr_error *err)
{
    char folder[4096] = "";
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (is_there(path, size, "", places[i]) || is_there(path, size, folder, places[i]))
            return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "the demo model is not here; give --model PATH");
}
