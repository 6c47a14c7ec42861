#include "worker/base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0640

void mr_log_file_remember(struct mr_log_file *file, int fd)
{
    char link[64];
    struct stat stat;
    *file = (struct mr_log_file){.fd = fd};
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode) || stat.st_nlink == 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, file->path, sizeof file->path - 1);
    file->path[length > 0 ? length : 0] = '\0';
}

enum mr_status mr_log_file_reopen(const struct mr_log_file *file, struct mr_error *err)
{
    if (!file->path[0]) return MR_OK;
    int fd = open(file->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, MODE);
    if (fd < 0)
        return mr_fail(err, MR_BAD_CONFIG, "log file %.150s: %s", file->path, strerror(errno));
    int copied = dup2(fd, file->fd);
    int error = errno;
    close(fd);
    if (copied >= 0) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "log file %.150s: %s", file->path, strerror(error));
}
