/* A folder with a copy of a tiny model of tests/golden in which a test changes files. */
#ifndef MR_TESTS_WORKER_MODEL_COPY_H
#define MR_TESTS_WORKER_MODEL_COPY_H

#include "tests/unit/ops/scratch.h"

#define TINY_MODEL "tests/golden/models/grouped_tied"

/* The bytes of a file of the tiny model as a text. */
static inline void model_file(const char *name, char *text, size_t text_bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", TINY_MODEL, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, text_bytes - 1, file);
    fclose(file);
    text[length] = '\0';
}

/* Links all files but `changed`, which gets `to` in place of `from`. NULL: links all. */
static inline void model_copy_open(struct scratch *copy, const char *changed, const char *from,
                                   const char *to)
{
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    char here[1024], target[2048], text[65536], edited[70000];
    scratch_open(copy);
    assert_non_null(getcwd(here, sizeof here));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (changed && strcmp(names[i], changed) == 0) continue;
        snprintf(target, sizeof target, "%s/%s/%s", here, TINY_MODEL, names[i]);
        snprintf(copy->path, sizeof copy->path, "%s/%s", copy->folder, names[i]);
        assert_int_equal(symlink(target, copy->path), 0);
    }
    if (!changed) return;
    model_file(changed, text, sizeof text);
    char *at = strstr(text, from);
    assert_non_null(at);
    int length =
        snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    scratch_write(copy, changed, edited, (size_t)length);
}

#endif
