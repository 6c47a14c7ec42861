#include "ops/files/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHOWN_BYTES 60u /* of a path that is put before a sentence */

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* True for the few lines that Git stores in place of a large file until `git lfs pull` fetches
 * it. */
static bool is_lfs_pointer(const struct mr_mapped_file *file)
{
    static const char begin[] = "version https://git-lfs.";
    const size_t length = sizeof begin - 1;
    return file->size >= length && memcmp(file->bytes, begin, length) == 0;
}

static enum mr_status map_descriptor(struct mr_mapped_file *out, int descriptor, const char *path,
                                     struct mr_error *err)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return mr_fail(err, MR_BAD_FILE, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return mr_fail(err, MR_BAD_FILE, "%s: not a regular file", path);
    if (info.st_size <= 0) return mr_fail(err, MR_BAD_FILE, "%s: the file is empty", path);
    size_t size = (size_t)info.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return mr_fail(err, MR_BAD_FILE, "%s: the file cannot be mapped: %s", path,
                       strerror(errno));
    (void)madvise(bytes, size, MADV_WILLNEED);
    out->bytes = bytes;
    out->size = size;
    out->stamp = (struct mr_file_stamp){.inode = (uint64_t)info.st_ino,
                                        .size_bytes = (uint64_t)info.st_size,
                                        .modified_ns = nanoseconds(info.st_mtim),
                                        .changed_ns = nanoseconds(info.st_ctim)};
    return MR_OK;
}

enum mr_status mr_mapped_file_open(struct mr_mapped_file *out, const char *path,
                                   struct mr_error *err)
{
    *out = (struct mr_mapped_file){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return mr_fail(err, MR_BAD_FILE, "%s: %s", path, strerror(errno));
    enum mr_status status = map_descriptor(out, descriptor, path, err);
    close(descriptor);
    if (status == MR_OK && is_lfs_pointer(out)) {
        mr_mapped_file_close(out);
        return mr_fail(
            err, MR_BAD_FILE,
            "%s: a Git LFS pointer instead of the file; run `git lfs pull` to fetch the file",
            path);
    }
    return status;
}

enum mr_status mr_mapped_file_blame(const char *path, enum mr_status status, struct mr_error *err)
{
    const size_t length = strlen(path);
    const char *end = length > SHOWN_BYTES ? path + length - SHOWN_BYTES : path;
    if (!err || strstr(err->detail, end)) return status;
    const struct mr_error cause = *err;
    return mr_fail(err, status, "%s%s: %s", end > path ? "..." : "", end, cause.detail);
}

void mr_mapped_file_close(struct mr_mapped_file *file)
{
    if (file->bytes) munmap((void *)(uintptr_t)file->bytes, file->size);
    *file = (struct mr_mapped_file){0};
}

struct mr_text mr_mapped_file_text(const struct mr_mapped_file *file)
{
    return (struct mr_text){(const char *)file->bytes, file->size};
}
