/* Measures the encoding of a text, and of texts that are slow to tokenize. Prints the best of five
 * runs on one thread.
 *
 *   bench_tokenizer TOKENIZER [TEXT]
 *
 * TOKENIZER: a .gguf file or a tokenizer.json; TEXT: a file; without it, LICENSE repeated 200
 * times. */
#include "codec/tokenizer/tokenizer.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "ops/files/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS   5
#define MEBIBYTE ((size_t)1 << 20)
#define IDS_MAX  ((size_t)1 << 24)

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct mr_text read_file(const char *path)
{
    struct mr_text text = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file) return text;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)length + 1);
    if (bytes) text = (struct mr_text){bytes, fread(bytes, 1, (size_t)length, file)};
    fclose(file);
    return text;
}

static struct mr_tokenizer *load(const char *path)
{
    struct mr_tokenizer *tokenizer = NULL;
    struct mr_error err = {.detail = ""};
    struct mr_gguf *gguf = NULL;
    double start = seconds();
    if (strstr(path, ".gguf")) {
        if (mr_gguf_open(&gguf, path, &err) == MR_OK)
            mr_gguf_tokenizer_create(&tokenizer, gguf, &err);
        mr_gguf_close(gguf);
    } else {
        mr_tokenizer_from_json(&tokenizer, read_file(path), (struct mr_text){NULL, 0}, &err);
    }
    if (tokenizer)
        printf("loaded in %.3f s, %u tokens\n", seconds() - start,
               mr_tokenizer_vocab_size(tokenizer));
    else
        fprintf(stderr, "%s: %s\n", path, err.detail);
    return tokenizer;
}

/* The pattern repeated, at most `bytes` long. */
static struct mr_text repeated(struct mr_text pattern, size_t bytes)
{
    char *text = malloc(bytes + 1);
    size_t used = 0;
    while (text && used + pattern.length <= bytes) {
        memcpy(text + used, pattern.bytes, pattern.length);
        used += pattern.length;
    }
    return (struct mr_text){text, used};
}

static struct mr_text random_letters(size_t bytes)
{
    char *text = malloc(bytes);
    uint64_t seed = 1;
    for (size_t i = 0; text && i < bytes; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        text[i] = (char)('a' + (seed >> 33) % 26);
    }
    return (struct mr_text){text, text ? bytes : 0};
}

static void measure(const struct mr_tokenizer *tokenizer, const char *name, struct mr_text text)
{
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t *ids = malloc(IDS_MAX * sizeof *ids);
    struct mr_error err = {.detail = ""};
    double best = 1e9;
    struct mr_id_list list = {.ids = ids, .max = IDS_MAX};
    enum mr_status status = scratch && ids ? MR_OK : MR_NOMEM;
    for (int round = 0; round < ROUNDS && status == MR_OK; round++) {
        double start = seconds();
        status =
            mr_tokenizer_encode(tokenizer, scratch, text,
                                (struct mr_encode_options){.parse_special = true}, &list, &err);
        double took = seconds() - start;
        if (took < best) best = took;
    }
    if (status == MR_OK)
        printf("%-16s %9zu bytes %9zu tokens %8.3f s %7.1f MB/s\n", name, text.length, list.count,
               best, (double)text.length / best / 1e6);
    else
        printf("%-16s %s\n", name, err.detail);
    free(ids);
    mr_tokenizer_scratch_destroy(scratch);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s TOKENIZER [TEXT]\n", argv[0]);
        return 2;
    }
    struct mr_tokenizer *tokenizer = load(argv[1]);
    if (!tokenizer) return 1;
    struct mr_text text = read_file(argc > 2 ? argv[2] : "LICENSE");
    if (argc == 2) text = repeated(text, text.length * 200);
    measure(tokenizer, "text", text);
    static const struct {
        const char *name, *pattern;
    } hostile[] = {{"one letter", "a"},
                   {"spaces", " "},
                   {"line ends", "\n"},
                   {"apostrophes", "'"},
                   {"digits", "7"},
                   {"marks", "\u0301\u0316"},
                   {"indented lines", "\n    "},
                   {"han", "\u4eca\u5929\u5929\u6c14"}};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct mr_text pattern = {hostile[i].pattern, strlen(hostile[i].pattern)};
        measure(tokenizer, hostile[i].name, repeated(pattern, MEBIBYTE));
    }
    measure(tokenizer, "random letters", random_letters(MEBIBYTE));
    mr_tokenizer_destroy(tokenizer);
    return 0;
}
