#include "worker/adapters/adapter_folder.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SECOND_NS ((int64_t)1000000000)

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * SECOND_NS + time.tv_nsec;
}

bool mr_adapter_stamp_is_settled(const struct mr_adapter_stamp *stamp)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < 2; i++)
        if (stamp->changed_ns[i] > ns_of(now) - SECOND_NS) return false;
    return true;
}

/* Adds file number `index` to the stamp; false: there is no such file. */
static bool stamp_file(struct mr_adapter_stamp *stamp, int index, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    stamp->inodes[index] = info.st_ino;
    stamp->bytes[index] = (uint64_t)info.st_size;
    stamp->modified_ns[index] = ns_of(info.st_mtim);
    stamp->changed_ns[index] = ns_of(info.st_ctim);
    return true;
}

static bool stamp_folder(struct mr_adapter_stamp *stamp, const char *path)
{
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors"};
    bool found = true;
    for (int i = 0; found && i < 2; i++) {
        char file[PATH_MAX];
        const int length = snprintf(file, sizeof file, "%s/%s", path, names[i]);
        found = length < (int)sizeof file && stamp_file(stamp, i, file);
    }
    return found;
}

bool mr_adapter_folder_scan(const char *folder,
                            void (*found)(void *context, struct mr_text name, const char *path,
                                          const struct mr_adapter_stamp *stamp),
                            void *context)
{
    static const char suffix[] = ".gguf";
    const size_t suffix_length = sizeof suffix - 1;
    DIR *entries = opendir(folder);
    if (!entries) return false;
    for (const struct dirent *entry; (entry = readdir(entries));) {
        char path[PATH_MAX];
        struct mr_adapter_stamp stamp = {0};
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.') continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        const bool gguf =
            length > suffix_length && strcmp(entry->d_name + length - suffix_length, suffix) == 0;
        if (gguf) length -= suffix_length;
        if (gguf ? stamp_file(&stamp, 0, path) : stamp_folder(&stamp, path))
            found(context, (struct mr_text){entry->d_name, length}, path, &stamp);
    }
    closedir(entries);
    return true;
}
