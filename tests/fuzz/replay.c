/* replay - runs a fuzz target once with each file of the folders and files given as arguments, in
 * place of libFuzzer. A finding ends the process, as it does under libFuzzer. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static size_t runs;

/* Runs the target with the bytes in a block of exactly their size, so that AddressSanitizer sees a
 * read behind them. */
static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    MR_ASSERT(file && fseek(file, 0, SEEK_END) == 0);
    size_t size = (size_t)ftell(file);
    uint8_t *bytes = malloc(size ? size : 1);
    rewind(file);
    MR_ASSERT(bytes && fread(bytes, 1, size, file) == size);
    fclose(file);
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    runs++;
}

static void run_folder(const char *path, DIR *folder)
{
    char inner[1024];
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        run_file(inner);
    }
    closedir(folder);
}

int main(int argc, char *argv[])
{
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder)
            run_folder(argv[i], folder);
        else
            run_file(argv[i]);
    }
    printf("%zu inputs\n", runs);
    return runs > 0 ? 0 : 1;
}
