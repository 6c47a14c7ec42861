#include "ops/files/digest_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/ops/scratch.h"

static const unsigned char hash[MR_SHA256_BYTES] = {1, 2, 3, [31] = 255};
static const unsigned char other[MR_SHA256_BYTES] = {9};

/* stamps of files that were written long ago */
static const struct mr_file_stamp old[2] = {{11, 1000, 500, 600}, {12, 2000, 700, 800}};

static bool finds(const struct mr_digest_cache *cache)
{
    unsigned char found[MR_SHA256_BYTES];
    if (!mr_digest_cache_find(cache, found)) return false;
    assert_memory_equal(found, hash, sizeof found);
    return true;
}

static void a_hash_is_found_while_every_stamp_is_the_same(void **state)
{
    (void)state;
    struct scratch scratch;
    scratch_open(&scratch);
    struct mr_file_stamp stamps[2] = {old[0], old[1]};
    struct mr_digest_cache cache = {scratch.folder, NULL, stamps, 2};
    assert_false(finds(&cache));
    assert_true(mr_digest_cache_keep(&cache, hash));
    assert_true(finds(&cache));
    stamps[1].inode++;
    assert_false(finds(&cache));
    stamps[1] = old[1];
    stamps[1].size_bytes++;
    assert_false(finds(&cache));
    stamps[1] = old[1];
    stamps[0].modified_ns++;
    assert_false(finds(&cache));
    stamps[0] = old[0];
    stamps[0].changed_ns--;
    assert_false(finds(&cache));
    stamps[0] = old[0];
    cache.stamp_count = 1;
    assert_false(finds(&cache));
    cache.stamp_count = 2;
    assert_true(finds(&cache));
    scratch_close(&scratch);
}

static void a_new_hash_replaces_the_old_one(void **state)
{
    (void)state;
    struct scratch scratch;
    scratch_open(&scratch);
    struct mr_digest_cache before = {scratch.folder, NULL, &old[0], 1},
                           now = {scratch.folder, NULL, &old[1], 1};
    assert_true(mr_digest_cache_keep(&before, other));
    assert_true(mr_digest_cache_keep(&now, hash));
    assert_true(finds(&now));
    assert_false(finds(&before));
    scratch_close(&scratch);
}

static void a_gguf_file_has_its_hash_beside_it(void **state)
{
    (void)state;
    struct scratch scratch;
    char model[160];
    scratch_open(&scratch);
    snprintf(model, sizeof model, "%s", scratch_write(&scratch, "m.gguf", "x", 1));
    struct mr_digest_cache cache = {model, NULL, old, 2};
    assert_true(mr_digest_cache_keep(&cache, hash));
    assert_true(finds(&cache));
    snprintf(model, sizeof model, "%s/m.gguf.millrace-digest", scratch.folder);
    assert_int_equal(access(model, R_OK), 0);
    scratch_close(&scratch);
}

/* In /proc no file can be created, not even by root. */
static void a_folder_that_is_not_writable_leaves_the_users_folder(void **state)
{
    (void)state;
    struct scratch scratch;
    char deep[128], path[256];
    scratch_open(&scratch);
    snprintf(deep, sizeof deep, "%s/cache/millrace", scratch.folder);
    struct mr_digest_cache cache = {"/proc", NULL, old, 2};
    assert_false(mr_digest_cache_keep(&cache, hash));
    cache.user_folder = deep;
    assert_false(finds(&cache));
    assert_true(mr_digest_cache_keep(&cache, hash));
    assert_true(finds(&cache));
    struct mr_digest_cache second = {"/proc", deep, old, 1};
    assert_false(finds(&second));
    DIR *folder = opendir(deep);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.100s", deep, entry->d_name);
        assert_int_equal(unlink(path), 0);
        count++;
    }
    closedir(folder);
    assert_int_equal(count, 1);
    assert_int_equal(rmdir(deep), 0);
    snprintf(deep, sizeof deep, "%s/cache", scratch.folder);
    assert_int_equal(rmdir(deep), 0);
    scratch_close(&scratch);
}

static void a_damaged_file_is_as_good_as_none(void **state)
{
    (void)state;
    struct scratch scratch;
    char line[256];
    scratch_open(&scratch);
    struct mr_digest_cache cache = {scratch.folder, NULL, old, 2};
    assert_true(mr_digest_cache_keep(&cache, hash));
    snprintf(scratch.path, sizeof scratch.path, "%s/.millrace-digest", scratch.folder);
    FILE *file = fopen(scratch.path, "rb");
    assert_non_null(file);
    size_t length = fread(line, 1, sizeof line, file);
    fclose(file);
    assert_true(length > 100 && length < sizeof line);
    for (size_t i = 0; i < length; i++) {
        unsigned char found[MR_SHA256_BYTES];
        line[i] ^= 1;
        scratch_write(&scratch, ".millrace-digest", line, length);
        /* A changed digit of the hash itself cannot be detected; a change of any other byte can. */
        bool digit = i + 1 + 2 * MR_SHA256_BYTES >= length && i + 1 < length;
        if (!digit) assert_false(mr_digest_cache_find(&cache, found));
        line[i] ^= 1;
    }
    scratch_write(&scratch, ".millrace-digest", line, length - 1);
    assert_false(finds(&cache));
    line[length] = '\n';
    scratch_write(&scratch, ".millrace-digest", line, length + 1);
    assert_false(finds(&cache));
    scratch_write(&scratch, ".millrace-digest", line, length);
    assert_true(finds(&cache));
    scratch_close(&scratch);
}

/* Such a file could change again within the same tick of its time stamp. */
static void the_hash_of_a_file_that_was_just_written_is_not_kept(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_mapped_file file;
    scratch_open(&scratch);
    assert_int_equal(mr_mapped_file_open(&file, scratch_write(&scratch, "m", "x", 1), NULL), MR_OK);
    struct mr_digest_cache cache = {scratch.folder, NULL, &file.stamp, 1};
    assert_false(mr_digest_cache_keep(&cache, hash));
    assert_false(finds(&cache));
    mr_mapped_file_close(&file);
    scratch_close(&scratch); /* checks that no other file was left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hash_is_found_while_every_stamp_is_the_same),
        cmocka_unit_test(a_new_hash_replaces_the_old_one),
        cmocka_unit_test(a_gguf_file_has_its_hash_beside_it),
        cmocka_unit_test(a_folder_that_is_not_writable_leaves_the_users_folder),
        cmocka_unit_test(a_damaged_file_is_as_good_as_none),
        cmocka_unit_test(the_hash_of_a_file_that_was_just_written_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
