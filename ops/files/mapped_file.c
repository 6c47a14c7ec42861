#include "ops/files/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEAD_BYTES  64u /* enough to recognize a Git LFS pointer */
#define SHOWN_BYTES 60u /* bytes of a path that is put before a sentence */

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

static struct mr_file_stamp stamp_of(const struct stat *info)
{
    return (struct mr_file_stamp){.inode = (uint64_t)info->st_ino,
                                  .size_bytes = (uint64_t)info->st_size,
                                  .modified_ns = nanoseconds(info->st_mtim),
                                  .changed_ns = nanoseconds(info->st_ctim)};
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
    (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_WILLNEED);
    *out = (struct mr_mapped_file){bytes, size, stamp_of(&info), descriptor, strdup(path)};
    if (out->path) return MR_OK;
    munmap(bytes, size);
    *out = (struct mr_mapped_file){0};
    return mr_fail(err, MR_NOMEM, "no memory to open %s", path);
}

enum mr_status mr_mapped_file_map(struct mr_mapped_file *out, const char *path,
                                  struct mr_error *err)
{
    *out = (struct mr_mapped_file){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return mr_fail(err, MR_BAD_FILE, "%s: %s", path, strerror(errno));
    enum mr_status status = map_descriptor(out, descriptor, path, err);
    if (status != MR_OK) {
        close(descriptor);
        return status;
    }
    status = mr_mapped_file_hold(out, 0, out->size < HEAD_BYTES ? out->size : HEAD_BYTES, err);
    if (status == MR_OK && is_lfs_pointer(out))
        status =
            mr_fail(err, MR_BAD_FILE,
                    "%s: a Git LFS pointer instead of the file; run `git lfs pull` to fetch the "
                    "file",
                    path);
    if (status != MR_OK) mr_mapped_file_close(out);
    return status;
}

enum mr_status mr_mapped_file_open(struct mr_mapped_file *out, const char *path,
                                   struct mr_error *err)
{
    enum mr_status status = mr_mapped_file_map(out, path, err);
    if (status != MR_OK) return status;
    status = mr_mapped_file_hold(out, 0, out->size, err);
    if (status != MR_OK) mr_mapped_file_close(out);
    return status;
}

enum mr_status mr_mapped_file_read(const struct mr_mapped_file *file, size_t first, size_t size,
                                   void *out, struct mr_error *err)
{
    unsigned char *to = out;
    while (size > 0) {
        ssize_t count = pread(file->descriptor, to, size, (off_t)first);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return mr_fail(err, MR_BAD_FILE, "%s: %s", file->path, strerror(errno));
        if (count == 0)
            return mr_fail(err, MR_BAD_FILE,
                           "%.120s: the file ends at byte %zu of %zu: it became shorter while it "
                           "was read",
                           file->path, first, file->size);
        to += count;
        first += (size_t)count;
        size -= (size_t)count;
    }
    return MR_OK;
}

/* The copy replaces the mapped pages only when it is complete. */
enum mr_status mr_mapped_file_hold(const struct mr_mapped_file *file, size_t first, size_t size,
                                   struct mr_error *err)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = first / page * page;
    const size_t end = first + size, length = (end - begin + page - 1) / page * page;
    if (size == 0) return MR_OK;
    void *copy = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return mr_fail(err, MR_NOMEM, "no memory for %zu bytes of %s", length, file->path);
    const size_t left = file->size - begin;
    enum mr_status status =
        mr_mapped_file_read(file, begin, length < left ? length : left, copy, err);
    void *place = (void *)(uintptr_t)(file->bytes + begin);
    if (status == MR_OK &&
        mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED)
        status = mr_fail(err, MR_NOMEM, "no memory for %zu bytes of %s", length, file->path);
    if (status != MR_OK) munmap(copy, length);
    return status;
}

enum mr_status mr_mapped_file_check(const struct mr_mapped_file *file, struct mr_error *err)
{
    struct stat info;
    if (fstat(file->descriptor, &info) != 0)
        return mr_fail(err, MR_BAD_FILE, "%s: %s", file->path, strerror(errno));
    const struct mr_file_stamp now = stamp_of(&info), then = file->stamp;
    if (now.size_bytes == then.size_bytes && now.modified_ns == then.modified_ns) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "%.150s: the file was changed while it was read", file->path);
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
    if (file->bytes) {
        munmap((void *)(uintptr_t)file->bytes, file->size);
        close(file->descriptor);
        free(file->path);
    }
    *file = (struct mr_mapped_file){0};
}

struct mr_text mr_mapped_file_text(const struct mr_mapped_file *file)
{
    return (struct mr_text){(const char *)file->bytes, file->size};
}
