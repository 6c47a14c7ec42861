#include "ops/files/digest_cache.h"

#include "codec/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD      "millrace weights 1 "
#define HEX_BYTES (2 * MR_SHA256_BYTES)
/* head, hexadecimal key, space, hexadecimal hash, line feed */
#define LINE_BYTES  (sizeof(HEAD) - 1 + HEX_BYTES + 1 + HEX_BYTES + 1)
#define NAME_BYTES  16u /* of the key, in the name of a file in the user's folder */
#define FOLDER_MODE 0700
#define FILE_MODE   0644

enum place { BESIDE_THE_MODEL, IN_THE_USERS_FOLDER, PLACE_COUNT };

static bool key_of(const struct mr_digest_cache *cache, unsigned char key[MR_SHA256_BYTES])
{
    struct mr_sha256 *state = mr_sha256_create();
    if (!state) return false;
    mr_sha256_begin(state);
    for (uint32_t i = 0; i < cache->stamp_count; i++) {
        const struct mr_file_stamp *stamp = &cache->stamps[i];
        char text[128];
        snprintf(text, sizeof(text), "%llu %llu %lld %lld", (unsigned long long)stamp->inode,
                 (unsigned long long)stamp->size_bytes, (long long)stamp->modified_ns,
                 (long long)stamp->changed_ns);
        mr_sha256_add_field(state, "file", text, strlen(text));
    }
    mr_sha256_end(state, key);
    mr_sha256_destroy(state);
    return true;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Writes the path of the cache file; false when the place does not exist or the path is too
 * long. */
static bool path_of(const struct mr_digest_cache *cache, enum place place,
                    const unsigned char key[MR_SHA256_BYTES], char path[PATH_MAX])
{
    int length;
    if (place == BESIDE_THE_MODEL) {
        const char *slash = is_folder(cache->model_path) ? "/" : "";
        length = snprintf(path, PATH_MAX, "%s%s.millrace-digest", cache->model_path, slash);
    } else {
        char name[2 * NAME_BYTES];
        if (!cache->user_folder || !cache->user_folder[0]) return false;
        mr_sha256_hex(key, NAME_BYTES, name);
        length =
            snprintf(path, PATH_MAX, "%s/%.*s.digest", cache->user_folder, (int)sizeof(name), name);
    }
    return length > 0 && length < PATH_MAX;
}

static void write_line(char line[LINE_BYTES], const unsigned char key[MR_SHA256_BYTES],
                       const unsigned char hash[MR_SHA256_BYTES])
{
    char *at = line + sizeof(HEAD) - 1;
    memcpy(line, HEAD, sizeof(HEAD) - 1);
    mr_sha256_hex(key, MR_SHA256_BYTES, at);
    at[HEX_BYTES] = ' ';
    mr_sha256_hex(hash, MR_SHA256_BYTES, at + HEX_BYTES + 1);
    line[LINE_BYTES - 1] = '\n';
}

/* ---- finding ---- */

static bool parse_hex(const char *text, unsigned char hash[MR_SHA256_BYTES])
{
    for (size_t i = 0; i < MR_SHA256_BYTES; i++) {
        int high = mr_text_hex_value(text[2 * i]), low = mr_text_hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        hash[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

static bool read_line(const char *path, char line[LINE_BYTES])
{
    char more;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    bool whole = read(descriptor, line, LINE_BYTES) == (ssize_t)LINE_BYTES &&
                 read(descriptor, &more, 1) == 0;
    close(descriptor);
    return whole;
}

bool mr_digest_cache_find(const struct mr_digest_cache *cache, unsigned char hash[MR_SHA256_BYTES])
{
    unsigned char key[MR_SHA256_BYTES];
    char path[PATH_MAX], line[LINE_BYTES], expected[LINE_BYTES];
    if (!key_of(cache, key)) return false;
    for (unsigned place = 0; place < PLACE_COUNT; place++) {
        if (!path_of(cache, (enum place)place, key, path) || !read_line(path, line)) continue;
        if (!parse_hex(line + LINE_BYTES - 1 - HEX_BYTES, hash)) continue;
        write_line(expected, key, hash);
        if (memcmp(line, expected, LINE_BYTES) == 0) return true;
    }
    return false;
}

/* ---- keeping ---- */

/* False when a weight file was changed less than MR_DIGEST_CACHE_AGE_NS before the cache file, open
 * as descriptor, was written. Both times come from the file system's clock. */
static bool is_old_enough(const struct mr_digest_cache *cache, int descriptor)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0) return false;
    int64_t now_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    for (uint32_t i = 0; i < cache->stamp_count; i++)
        if (cache->stamps[i].modified_ns > now_ns - MR_DIGEST_CACHE_AGE_NS ||
            cache->stamps[i].changed_ns > now_ns - MR_DIGEST_CACHE_AGE_NS)
            return false;
    return true;
}

/* Writes a new file and renames it, so that no reader sees a partial line. */
static bool replace(const struct mr_digest_cache *cache, const char *path,
                    const char line[LINE_BYTES])
{
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    int descriptor = mkostemp(temporary, O_CLOEXEC);
    if (descriptor < 0) return false;
    bool kept = write(descriptor, line, LINE_BYTES) == (ssize_t)LINE_BYTES &&
                fchmod(descriptor, FILE_MODE) == 0 && is_old_enough(cache, descriptor);
    close(descriptor);
    kept = kept && rename(temporary, path) == 0;
    if (!kept) unlink(temporary);
    return kept;
}

/* Creates the missing folders of a path. */
static void make_folders(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof(part)) return;
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        char kept = part[i];
        part[i] = '\0';
        (void)mkdir(part, FOLDER_MODE);
        part[i] = kept;
    }
}

bool mr_digest_cache_keep(const struct mr_digest_cache *cache,
                          const unsigned char hash[MR_SHA256_BYTES])
{
    unsigned char key[MR_SHA256_BYTES];
    char path[PATH_MAX], line[LINE_BYTES];
    if (!key_of(cache, key)) return false;
    write_line(line, key, hash);
    for (unsigned place = 0; place < PLACE_COUNT; place++) {
        if (!path_of(cache, (enum place)place, key, path)) continue;
        if (place == IN_THE_USERS_FOLDER) make_folders(cache->user_folder);
        if (replace(cache, path, line)) return true;
    }
    return false;
}
