#include "worker/adapters/adapter_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
    char names[256];
    struct mr_adapter_stamp stamp; /* of the last one */
};

static void see(void *context, struct mr_text name, const char *path,
                const struct mr_adapter_stamp *stamp)
{
    struct seen *seen = context;
    const size_t used = strlen(seen->names);
    assert_int_equal(access(path, R_OK), 0);
    snprintf(seen->names + used, sizeof seen->names - used, "%.*s ", (int)name.length, name.bytes);
    seen->stamp = *stamp;
}

static void write_file(const char *folder, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fputs("x", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static void folders_and_gguf_files_are_adapters(void **state)
{
    (void)state;
    char folder[] = "/tmp/millrace-XXXXXX", inner[64], paths[5][128];
    struct seen seen = {0}, again = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(inner, sizeof inner, "%s/peft", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    write_file(inner, "adapter_config.json", paths[0]);
    write_file(folder, "note.txt", paths[1]);
    write_file(folder, ".hidden.gguf", paths[2]);
    assert_true(mr_adapter_folder_scan(folder, see, &seen));
    assert_string_equal(seen.names, ""); /* the folder has no tensors yet */
    write_file(inner, "adapter_model.safetensors", paths[3]);
    assert_true(mr_adapter_folder_scan(folder, see, &seen));
    assert_string_equal(seen.names, "peft ");
    assert_false(mr_adapter_stamp_is_settled(&seen.stamp));
    write_file(inner, "adapter_model.safetensors", paths[3]);
    assert_true(mr_adapter_folder_scan(folder, see, &again));
    assert_memory_not_equal(&again.stamp, &seen.stamp, sizeof seen.stamp);
    write_file(folder, "small.gguf", paths[4]);
    assert_true(mr_adapter_folder_scan(folder, see, &again));
    assert_non_null(strstr(again.names, "small "));
    for (int i = 0; i < 5; i++)
        assert_int_equal(unlink(paths[i]), 0);
    assert_int_equal(rmdir(inner) + rmdir(folder), 0);
    assert_false(mr_adapter_folder_scan(folder, see, &seen));
    assert_true(mr_adapter_stamp_is_settled(&(struct mr_adapter_stamp){0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_and_gguf_files_are_adapters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
