/* replay - runs a fuzz target once with each input of the files given as arguments, in place of
 * libFuzzer. A file is one input; a file NAME.ar is a corpus, an archive of ar(1) with an input a
 * member. A finding ends the process, as it does under libFuzzer. */
#include "tests/fuzz/fuzz.h"

#include <ar.h>
#include <stdio.h>
#include <stdlib.h>

static size_t runs;

/* Runs the target with the next bytes of the file in a block of exactly their size, so that
 * AddressSanitizer sees a read past their end. */
static void run_input(const char *name, FILE *file, size_t size)
{
    uint8_t *bytes = malloc(size ? size : 1);
    MR_ASSERT(bytes && fread(bytes, 1, size, file) == size);
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%s\n", name);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    runs++;
}

/* Members start at even offsets. Their names have at most 15 bytes, so all of them are in the
 * headers. */
static void run_archive(FILE *file)
{
    char magic[SARMAG];
    struct ar_hdr member;
    MR_ASSERT(fread(magic, SARMAG, 1, file) == 1 && memcmp(magic, ARMAG, SARMAG) == 0);
    while (fread(&member, sizeof member, 1, file) == 1) {
        MR_ASSERT(memcmp(member.ar_fmag, ARFMAG, sizeof member.ar_fmag) == 0);
        size_t size = strtoull(member.ar_size, NULL, 10);
        *(char *)memchr(member.ar_name, '/', sizeof member.ar_name) = '\0';
        run_input(member.ar_name, file, size);
        MR_ASSERT(size % 2 == 0 || fgetc(file) == '\n');
    }
    MR_ASSERT(feof(file));
}

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    MR_ASSERT(file && fseek(file, 0, SEEK_END) == 0);
    size_t size = (size_t)ftell(file), length = strlen(path);
    rewind(file);
    if (length > 3 && strcmp(path + length - 3, ".ar") == 0)
        run_archive(file);
    else
        run_input(path, file, size);
    fclose(file);
}

int main(int argc, char *argv[])
{
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    printf("%zu inputs\n", runs);
    return runs > 0 ? 0 : 1;
}
