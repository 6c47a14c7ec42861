#include "worker/batch/unpacked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define INPUT_BYTES  ((size_t)128 << 10)
#define GZIP_WINDOW  (15 + 16) /* zlib: the largest window, and a gzip header */
#define SPOOL_FOLDER "/var/tmp"

enum packing { PLAIN, GZIP, ZSTD };

struct mr_unpacked {
    int fd;
    enum packing packing;
    const char *path;
    z_stream gzip;
    ZSTD_DStream *zstd;
    ZSTD_inBuffer zstd_input;
    char *input;     /* [INPUT_BYTES] compressed bytes */
    bool is_ended;   /* the last compressed byte was read from the file */
    bool is_between; /* between two members (gzip) or frames (zstd): the file may end here */
};

static enum packing packing_of(const char *path)
{
    const size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0) return GZIP;
    return length > 4 && strcmp(path + length - 4, ".zst") == 0 ? ZSTD : PLAIN;
}

static enum mr_status fail_file(const struct mr_unpacked *file, const char *reason,
                                struct mr_error *err)
{
    return mr_fail(err, MR_BAD_FILE, "%.100s: %s", file->path, reason);
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* Copies stdin to a file without a name, which the kernel removes when it is closed. */
static enum mr_status spool_stdin(struct mr_unpacked *file, struct mr_error *err)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || !folder[0]) folder = SPOOL_FOLDER;
    file->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file->fd < 0)
        return mr_fail(err, MR_BAD_FILE, "cannot create a temporary file in %.100s: %s", folder,
                       strerror(errno));
    for (;;) {
        ssize_t length = read(STDIN_FILENO, file->input, INPUT_BYTES);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return fail_file(file, strerror(errno), err);
        if (length == 0) return MR_OK;
        if (!write_all(file->fd, file->input, (size_t)length))
            return mr_fail(err, MR_BAD_FILE, "cannot copy stdin to %.100s: %s", folder,
                           strerror(errno));
    }
}

enum mr_status mr_unpacked_open(struct mr_unpacked **out, const char *path, struct mr_error *err)
{
    *out = NULL;
    struct mr_unpacked *file = calloc(1, sizeof *file);
    if (!file) return mr_fail(err, MR_NOMEM, "no memory to read %.100s", path);
    const bool from_stdin = strcmp(path, "-") == 0;
    file->fd = -1;
    file->path = from_stdin ? "stdin" : path;
    file->packing = packing_of(path);
    file->input = malloc(INPUT_BYTES);
    enum mr_status status = MR_OK;
    if (file->packing == GZIP && inflateInit2(&file->gzip, GZIP_WINDOW) != Z_OK) status = MR_NOMEM;
    if (file->packing == ZSTD && !(file->zstd = ZSTD_createDStream())) status = MR_NOMEM;
    if (!file->input || status != MR_OK) {
        mr_unpacked_close(file);
        return mr_fail(err, MR_NOMEM, "no memory to read %.100s", path);
    }
    if (from_stdin)
        status = spool_stdin(file, err);
    else if ((file->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        status = fail_file(file, strerror(errno), err);
    if (status == MR_OK) status = mr_unpacked_rewind(file, err);
    if (status != MR_OK) {
        mr_unpacked_close(file);
        return status;
    }
    *out = file;
    return MR_OK;
}

void mr_unpacked_close(struct mr_unpacked *file)
{
    if (!file) return;
    if (file->packing == GZIP) inflateEnd(&file->gzip);
    ZSTD_freeDStream(file->zstd);
    if (file->fd >= 0) close(file->fd);
    free(file->input);
    free(file);
}

int mr_unpacked_fd(const struct mr_unpacked *file)
{
    return file->fd;
}

enum mr_status mr_unpacked_rewind(struct mr_unpacked *file, struct mr_error *err)
{
    if (lseek(file->fd, 0, SEEK_SET) != 0)
        return fail_file(file, "is not a regular file; use - to read from a pipe", err);
    if (file->packing == GZIP) {
        inflateReset(&file->gzip);
        file->gzip.avail_in = 0;
    }
    if (file->packing == ZSTD) ZSTD_initDStream(file->zstd);
    file->zstd_input = (ZSTD_inBuffer){file->input, 0, 0};
    file->is_ended = false;
    file->is_between = true;
    return MR_OK;
}

static enum mr_status read_input(struct mr_unpacked *file, char *bytes, size_t most, size_t *length,
                                 struct mr_error *err)
{
    ssize_t count;
    do
        count = read(file->fd, bytes, most);
    while (count < 0 && errno == EINTR);
    *length = count > 0 ? (size_t)count : 0;
    file->is_ended = count == 0;
    return count < 0 ? fail_file(file, strerror(errno), err) : MR_OK;
}

/* Decompresses once; *length may be 0 although the file goes on. */
static enum mr_status inflate_once(struct mr_unpacked *file, char *bytes, size_t most,
                                   size_t *length, struct mr_error *err)
{
    z_stream *gzip = &file->gzip;
    enum mr_status status = MR_OK;
    if (gzip->avail_in == 0) {
        size_t count = 0;
        status = read_input(file, file->input, INPUT_BYTES, &count, err);
        gzip->next_in = (unsigned char *)file->input;
        gzip->avail_in = (unsigned)count;
    }
    if (status != MR_OK || gzip->avail_in == 0) return status;
    gzip->next_out = (unsigned char *)bytes;
    gzip->avail_out = (unsigned)most;
    const int code = inflate(gzip, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END) return fail_file(file, "is not valid gzip", err);
    *length = most - gzip->avail_out;
    file->is_between = code == Z_STREAM_END;
    if (file->is_between) inflateReset(gzip); /* a file may have several members */
    return MR_OK;
}

static enum mr_status decompress_once(struct mr_unpacked *file, char *bytes, size_t most,
                                      size_t *length, struct mr_error *err)
{
    ZSTD_outBuffer output = {bytes, most, 0};
    enum mr_status status = MR_OK;
    if (file->zstd_input.pos == file->zstd_input.size) {
        file->zstd_input.pos = 0;
        status = read_input(file, file->input, INPUT_BYTES, &file->zstd_input.size, err);
    }
    if (status != MR_OK) return status;
    /* at the end of the file too: the last bytes may still be in the decompressor */
    const size_t left = ZSTD_decompressStream(file->zstd, &output, &file->zstd_input);
    if (ZSTD_isError(left)) return fail_file(file, "is not valid zstd", err);
    if (file->zstd_input.size > 0) file->is_between = left == 0;
    if (output.pos > 0) file->is_ended = false;
    *length = output.pos;
    return MR_OK;
}

enum mr_status mr_unpacked_read(struct mr_unpacked *file, char *bytes, size_t most, size_t *length,
                                struct mr_error *err)
{
    *length = 0;
    if (file->packing == PLAIN) return read_input(file, bytes, most, length, err);
    if (most > INPUT_BYTES) most = INPUT_BYTES;
    enum mr_status status = MR_OK;
    while (status == MR_OK && *length == 0 && !file->is_ended)
        status = file->packing == GZIP ? inflate_once(file, bytes, most, length, err)
                                       : decompress_once(file, bytes, most, length, err);
    if (status == MR_OK && *length == 0 && !file->is_between)
        return fail_file(file, "is cut off", err);
    return status;
}
