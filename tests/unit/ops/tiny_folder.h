/* tiny_folder - copies a committed tiny model to a temporary folder, where a test may change its
 * files. Needs the root of the tree as the current folder. */
#ifndef MR_TESTS_OPS_TINY_FOLDER_H
#define MR_TESTS_OPS_TINY_FOLDER_H

#include "scratch.h"

#define TINY_MODELS "tests/golden/models/"

static inline void tiny_folder_open(struct scratch *scratch, const char *model)
{
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "model.safetensors"};
    scratch_open(scratch);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        static struct bytes bytes;
        char from[256], to[160];
        snprintf(from, sizeof from, TINY_MODELS "%s/%s", model, names[i]);
        snprintf(to, sizeof to, "%s/%s", scratch->folder, names[i]);
        FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
        assert_true(in && out);
        while ((bytes.size = fread(bytes.data, 1, sizeof bytes.data, in)) > 0)
            assert_int_equal(fwrite(bytes.data, 1, bytes.size, out), bytes.size);
        assert_int_equal(fclose(in) + fclose(out), 0);
    }
}

static inline void tiny_folder_remove(struct scratch *scratch, const char *name)
{
    snprintf(scratch->path, sizeof scratch->path, "%s/%s", scratch->folder, name);
    assert_int_equal(unlink(scratch->path), 0);
}

#endif
