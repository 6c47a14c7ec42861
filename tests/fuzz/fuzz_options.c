/* The YAML file of options, read as `millrace serve --config FILE` reads it.
 *
 * Input: the file. */
#include "tests/fuzz/fuzz.h"
#include "worker/config/options.h"
#include "worker/config/options_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int file = -1;
static FILE *nowhere;

static const char *write_file(const uint8_t *data, size_t size)
{
    static char path[64];
    if (file < 0) {
        file = memfd_create("options", MFD_CLOEXEC);
        nowhere = fopen("/dev/null", "w");
        MR_ASSERT(file >= 0 && nowhere);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    MR_ASSERT(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    return path;
}

/* An option that reads another file could block on a device, so such inputs are skipped. */
static bool names_a_device(const uint8_t *data, size_t size)
{
    return size && (memmem(data, size, "dev", 3) || memmem(data, size, "proc", 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char program[] = "millrace", command[] = "serve", flag[] = "--config";
    char path[64], *words[] = {program, command, flag, path, NULL}, *environment[] = {NULL};
    struct mr_config *config = NULL;
    struct mr_error err = {0};
    if (names_a_device(data, size)) return 0;
    snprintf(path, sizeof path, "%s", write_file(data, size));
    enum mr_status status = mr_config_create(&config, 4, words, environment, &err);
    MR_ASSERT((status == MR_OK) == (config != NULL));
    MR_ASSERT(status == MR_OK || (status == MR_BAD_CONFIG && err.detail[0]));
    if (config) mr_config_print(config, nowhere);
    mr_config_destroy(config);
    return 0;
}
