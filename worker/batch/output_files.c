#include "worker/batch/output_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES ((size_t)1 << 20)

static const char id_start[] = "{\"id\":\"batch_req_";

static enum mr_status fail_file(const struct mr_batch_output_file *file, const char *reason,
                                struct mr_error *err)
{
    return mr_fail(err, MR_BAD_FILE, "%.120s: %s", file->path, reason);
}

static bool is_packed(const char *path)
{
    const size_t length = strlen(path);
    return (length > 3 && strcmp(path + length - 3, ".gz") == 0) ||
           (length > 4 && strcmp(path + length - 4, ".zst") == 0);
}

static bool is_same(int a, int b)
{
    struct stat first, second;
    return a >= 0 && b >= 0 && fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* Opens a file to append to. creates false: a file that does not exist stays closed. */
static enum mr_status open_file(struct mr_batch_output_file *file, bool creates,
                                struct mr_error *err)
{
    struct stat facts;
    const int flags = O_RDWR | O_APPEND | O_CLOEXEC | (creates ? O_CREAT : 0);
    file->fd = open(file->path, flags, 0666);
    if (file->fd < 0)
        return errno == ENOENT && !creates ? MR_OK : fail_file(file, strerror(errno), err);
    if (fstat(file->fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return fail_file(file, "is not a regular file; use - to write to a pipe", err);
    return MR_OK;
}

static enum mr_status set_path(struct mr_batch_output_file *file, const char *path,
                               const char *suffix, struct mr_error *err)
{
    const int length = snprintf(file->path, sizeof file->path, "%s%s", path, suffix);
    if ((size_t)length >= sizeof file->path) return fail_file(file, "the path is too long", err);
    if (is_packed(file->path)) return fail_file(file, "output is not compressed", err);
    return MR_OK;
}

static enum mr_status open_answers(struct mr_batch_output *output, int input_fd,
                                   struct mr_error *err)
{
    struct mr_batch_output_file *answers = &output->answers;
    enum mr_status status = open_file(answers, true, err);
    if (status != MR_OK) return status;
    if (is_same(answers->fd, input_fd)) return fail_file(answers, "is the input too", err);
    if (flock(answers->fd, LOCK_EX | LOCK_NB) != 0)
        return fail_file(answers, "another millrace batch is writing to it", err);
    return MR_OK;
}

enum mr_status mr_batch_output_open(struct mr_batch_output *output, const char *out,
                                    const char *errors, int input_fd, struct mr_error *err)
{
    *output = (struct mr_batch_output){.answers.fd = -1, .errors.fd = -1};
    output->is_stdout = strcmp(out, "-") == 0;
    output->is_one = output->is_stdout && !errors[0];
    enum mr_status status = set_path(&output->answers, out, "", err);
    if (status == MR_OK && !output->is_one)
        status = errors[0] ? set_path(&output->errors, errors, "", err)
                           : set_path(&output->errors, out, ".errors", err);
    if (status == MR_OK && output->is_stdout)
        output->answers.fd = STDOUT_FILENO;
    else if (status == MR_OK)
        status = open_answers(output, input_fd, err);
    if (status == MR_OK && !output->is_one) status = open_file(&output->errors, false, err);
    if (status == MR_OK &&
        (is_same(output->errors.fd, input_fd) || is_same(output->errors.fd, output->answers.fd)))
        status = fail_file(&output->errors, "is the input or the output too", err);
    if (status != MR_OK) mr_batch_output_close(output);
    return status;
}

void mr_batch_output_close(struct mr_batch_output *output)
{
    if (output->answers.fd >= 0 && !output->is_stdout) close(output->answers.fd);
    if (output->errors.fd >= 0) close(output->errors.fd);
    output->answers.fd = output->errors.fd = -1;
}

/* ---- what earlier runs have written ---- */

/* Reads the line number in the id at the start of a line; 0: the line is not one of this job. */
static uint64_t line_number(struct mr_text line, const char *job_name)
{
    const size_t start = sizeof id_start - 1, name = strlen(job_name);
    uint64_t number = 0;
    size_t at = start + name + 1;
    if (line.length <= at || memcmp(line.bytes, id_start, start) != 0 ||
        memcmp(line.bytes + start, job_name, name) != 0 || line.bytes[at - 1] != '-')
        return 0;
    for (; at < line.length && line.bytes[at] >= '0' && line.bytes[at] <= '9' && number < 1u << 31;
         at++)
        number = number * 10 + (uint64_t)(line.bytes[at] - '0');
    return at < line.length && line.bytes[at] == '"' ? number : 0;
}

struct recall {
    struct mr_batch_output_file *file;
    const char *job_name;
    struct mr_bits *done;
    uint64_t whole; /* bytes up to the last line feed */
};

static enum mr_status recall_line(struct recall *recall, struct mr_text line, struct mr_error *err)
{
    const uint64_t number = line_number(line, recall->job_name);
    if (number == 0 || number > recall->done->line_count)
        return fail_file(recall->file, "has lines that are not of this input; give another output",
                         err);
    if (!mr_bits_set(recall->done, number))
        return mr_fail(err, MR_BAD_FILE,
                       "%.100s: has line %" PRIu64 " of the input for the second "
                       "time",
                       recall->file->path, number);
    recall->file->lines++;
    return MR_OK;
}

/* Reads the file in pieces. Only the beginning of a line is needed, so that a long line need not
 * fit the buffer. */
static enum mr_status recall_lines(struct recall *recall, char *buffer, struct mr_error *err)
{
    char head[128];
    size_t head_length = 0;
    uint64_t offset = 0;
    for (;;) {
        const ssize_t length = pread(recall->file->fd, buffer, READ_BYTES, (off_t)offset);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return fail_file(recall->file, strerror(errno), err);
        if (length == 0) return MR_OK;
        for (const char *at = buffer, *end = buffer + length; at < end;) {
            const char *feed = memchr(at, '\n', (size_t)(end - at));
            const size_t part = (size_t)((feed ? feed : end) - at);
            const size_t room = sizeof head - head_length, taken = part < room ? part : room;
            memcpy(head + head_length, at, taken);
            head_length += taken;
            at += part + (feed != NULL);
            if (!feed) continue;
            enum mr_status status = recall_line(recall, (struct mr_text){head, head_length}, err);
            if (status != MR_OK) return status;
            recall->whole = offset + (uint64_t)(at - buffer);
            head_length = 0;
        }
        offset += (uint64_t)length;
    }
}

static enum mr_status recall_file(struct mr_batch_output_file *file, const char *job_name,
                                  struct mr_bits *done, struct mr_error *err)
{
    struct recall recall = {.file = file, .job_name = job_name, .done = done};
    file->lines = 0;
    if (file->fd < 0) return MR_OK;
    char *buffer = malloc(READ_BYTES);
    if (!buffer) return mr_fail(err, MR_NOMEM, "no memory to read %.100s", file->path);
    enum mr_status status = recall_lines(&recall, buffer, err);
    free(buffer);
    if (status == MR_OK && ftruncate(file->fd, (off_t)recall.whole) != 0)
        status = fail_file(file, strerror(errno), err);
    return status;
}

enum mr_status mr_batch_output_recall(struct mr_batch_output *output, const char *job_name,
                                      struct mr_bits *done, struct mr_error *err)
{
    enum mr_status status =
        output->is_stdout ? MR_OK : recall_file(&output->answers, job_name, done, err);
    return status == MR_OK ? recall_file(&output->errors, job_name, done, err) : status;
}

enum mr_status mr_batch_output_drop_errors(struct mr_batch_output *output, struct mr_error *err)
{
    if (output->errors.fd < 0) return MR_OK;
    return ftruncate(output->errors.fd, 0) == 0 ? MR_OK
                                                : fail_file(&output->errors, strerror(errno), err);
}

/* ---- writing ---- */

static bool write_all(int fd, struct mr_text line)
{
    for (size_t at = 0; at < line.length;) {
        const ssize_t written = write(fd, line.bytes + at, line.length - at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        at += (size_t)written;
    }
    return true;
}

enum mr_status mr_batch_output_append(struct mr_batch_output *output, bool is_error,
                                      struct mr_text line, struct mr_error *err)
{
    struct mr_batch_output_file *file =
        is_error && !output->is_one ? &output->errors : &output->answers;
    enum mr_status status = file->fd < 0 ? open_file(file, true, err) : MR_OK;
    if (status != MR_OK) return status;
    if (!write_all(file->fd, line)) return fail_file(file, strerror(errno), err);
    (is_error ? &output->errors : &output->answers)->lines++;
    return MR_OK;
}

enum mr_status mr_batch_output_sync(struct mr_batch_output *output, struct mr_error *err)
{
    struct mr_batch_output_file *files[] = {&output->answers, &output->errors};
    for (size_t i = output->is_stdout; i < 2; i++)
        if (files[i]->fd >= 0 && fdatasync(files[i]->fd) != 0)
            return fail_file(files[i], strerror(errno), err);
    return MR_OK;
}
