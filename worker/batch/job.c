#include "worker/batch/job.h"

#include "codec/wire/json.h"
#include "codec/wire/json_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATE_BYTES_MAX ((size_t)4 << 20)
#define STATE_VERSION   1

static enum mr_status fail_state(const struct mr_batch_job *job, const char *reason,
                                 struct mr_error *err)
{
    return mr_fail(err, MR_BAD_FILE, "%.120s: %s", job->path, reason);
}

/* ---- ids ---- */

size_t mr_batch_job_request_id(const struct mr_batch_job *job, uint64_t line, uint32_t try,
                               char id[MR_BATCH_JOB_ID_BYTES])
{
    return (size_t)snprintf(id, MR_BATCH_JOB_ID_BYTES, "batch-%s-%" PRIu64 "-%" PRIu32, job->name,
                            line, try);
}

/* Reads the digits at *at; false: there are none, or too many. */
static bool read_digits(struct mr_text text, size_t *at, uint64_t *number)
{
    const size_t start = *at;
    *number = 0;
    for (; *at < text.length && text.bytes[*at] >= '0' && text.bytes[*at] <= '9'; ++*at)
        *number = *number * 10 + (uint64_t)(text.bytes[*at] - '0');
    return *at > start && *at - start <= 18;
}

bool mr_batch_job_read_id(const struct mr_batch_job *job, struct mr_text id, uint64_t *line,
                          uint32_t *try)
{
    static const char prefix[] = "batch-";
    size_t at = sizeof prefix - 1 + MR_BATCH_JOB_NAME_BYTES - 1;
    uint64_t number;
    if (id.length <= at || memcmp(id.bytes, prefix, sizeof prefix - 1) != 0 ||
        memcmp(id.bytes + sizeof prefix - 1, job->name, MR_BATCH_JOB_NAME_BYTES - 1) != 0 ||
        id.bytes[at++] != '-' || !read_digits(id, &at, line) || at >= id.length ||
        id.bytes[at++] != '-' || !read_digits(id, &at, &number) || at != id.length ||
        number > UINT32_MAX)
        return false;
    *try = (uint32_t)number;
    return true;
}

/* ---- the state file ---- */

bool mr_batch_job_offsets_resize(struct mr_batch_job_offsets *offsets, size_t count, int64_t value)
{
    if (count <= offsets->count) return true;
    int64_t *next = realloc(offsets->next, count * sizeof *next);
    if (!next) return false;
    for (size_t i = offsets->count; i < count; i++)
        next[i] = value;
    *offsets = (struct mr_batch_job_offsets){next, count};
    return true;
}

void mr_batch_job_offsets_free(struct mr_batch_job_offsets *offsets)
{
    free(offsets->next);
    *offsets = (struct mr_batch_job_offsets){0};
}

static bool read_offsets(struct mr_batch_job_offsets *offsets, const struct mr_json_value *array)
{
    const size_t count = mr_json_count(array);
    if (!mr_batch_job_offsets_resize(offsets, count, 0)) return false;
    for (size_t i = 0; i < count; i++)
        if (!mr_json_int(mr_json_at(array, i), &offsets->next[i])) return false;
    return true;
}

static enum mr_status read_state(struct mr_batch_job *job, const struct mr_json_value *root,
                                 struct mr_error *err)
{
    int64_t version, tries;
    struct mr_text name, topic;
    if (!mr_json_int(mr_json_get(root, "version"), &version) || version != STATE_VERSION ||
        !mr_json_text(mr_json_get(root, "job"), &name))
        return fail_state(job, "is not the state of a batch", err);
    if (!mr_text_is(name, job->name))
        return fail_state(job, "is of another input; give another output, or the same input", err);
    if (!mr_json_int(mr_json_get(root, "begun_ms"), &job->begun_ms) ||
        !mr_json_int(mr_json_get(root, "first_try"), &tries) || tries < 0 || tries > INT32_MAX ||
        !mr_json_text(mr_json_get(root, "topic"), &topic) || topic.length >= sizeof job->topic ||
        !read_offsets(&job->requests, mr_json_get(root, "requests")) ||
        !read_offsets(&job->results, mr_json_get(root, "results")))
        return fail_state(job, "is not the state of a batch", err);
    memcpy(job->topic, topic.bytes, topic.length);
    job->first_try = (uint32_t)tries;
    job->is_known = true;
    return MR_OK;
}

static enum mr_status load(struct mr_batch_job *job, struct mr_error *err)
{
    static const struct mr_json_limits limits = {STATE_BYTES_MAX, STATE_BYTES_MAX, 4};
    struct mr_json *json = NULL;
    FILE *file = fopen(job->path, "re");
    if (!file) return errno == ENOENT ? MR_OK : fail_state(job, strerror(errno), err);
    char *bytes = malloc(STATE_BYTES_MAX);
    const size_t length = bytes ? fread(bytes, 1, STATE_BYTES_MAX, file) : 0;
    const bool failed = ferror(file) != 0;
    fclose(file);
    enum mr_status status = bytes ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for a state file");
    if (status == MR_OK && failed) status = fail_state(job, "cannot be read", err);
    if (status == MR_OK &&
        mr_json_parse(&json, (struct mr_text){bytes, length}, &limits, NULL) != MR_OK)
        status = fail_state(job, "is not the state of a batch", err);
    if (status == MR_OK) status = read_state(job, mr_json_root(json), err);
    mr_json_destroy(json);
    free(bytes);
    return status;
}

enum mr_status mr_batch_job_open(struct mr_batch_job *job,
                                 const unsigned char digest[MR_SHA256_BYTES], const char *out,
                                 struct mr_error *err)
{
    *job = (struct mr_batch_job){0};
    mr_sha256_hex(digest, (MR_BATCH_JOB_NAME_BYTES - 1) / 2, job->name);
    if (strcmp(out, "-") == 0) return MR_OK;
    const int length = snprintf(job->path, sizeof job->path, "%s.state", out);
    if ((size_t)length >= sizeof job->path)
        return mr_fail(err, MR_BAD_FILE, "%.100s...: the path is too long", out);
    enum mr_status status = load(job, err);
    if (status != MR_OK) mr_batch_job_close(job);
    return status;
}

void mr_batch_job_close(struct mr_batch_job *job)
{
    mr_batch_job_offsets_free(&job->requests);
    mr_batch_job_offsets_free(&job->results);
}

static void put_offsets(struct mr_json_writer *writer, const char *name,
                        const struct mr_batch_job_offsets *offsets)
{
    mr_json_name(writer, name);
    mr_json_begin_array(writer);
    for (size_t i = 0; i < offsets->count; i++)
        mr_json_put_int(writer, offsets->next[i]);
    mr_json_end(writer);
}

static enum mr_status encode(const struct mr_batch_job *job, char **bytes, size_t *length,
                             struct mr_error *err)
{
    struct mr_json_writer writer;
    mr_json_writer_init(&writer, STATE_BYTES_MAX);
    mr_json_begin_object(&writer);
    mr_json_name(&writer, "version");
    mr_json_put_int(&writer, STATE_VERSION);
    mr_json_name(&writer, "job");
    mr_json_put_string(&writer, job->name);
    mr_json_name(&writer, "topic");
    mr_json_put_string(&writer, job->topic);
    mr_json_name(&writer, "begun_ms");
    mr_json_put_int(&writer, job->begun_ms);
    mr_json_name(&writer, "first_try");
    mr_json_put_uint(&writer, job->first_try);
    put_offsets(&writer, "requests", &job->requests);
    put_offsets(&writer, "results", &job->results);
    mr_json_end(&writer);
    return mr_json_writer_take(&writer, bytes, length, err);
}

enum mr_status mr_batch_job_save(const struct mr_batch_job *job, struct mr_error *err)
{
    char next[MR_BATCH_JOB_PATH_BYTES + 8];
    char *bytes;
    size_t length;
    if (!job->path[0]) return MR_OK;
    enum mr_status status = encode(job, &bytes, &length, err);
    if (status != MR_OK) return status;
    snprintf(next, sizeof next, "%s.next", job->path);
    const int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const bool written = fd >= 0 && write(fd, bytes, length) == (ssize_t)length && fsync(fd) == 0;
    const int reason = errno;
    if (fd >= 0) close(fd);
    free(bytes);
    if (!written) return fail_state(job, strerror(reason), err);
    return rename(next, job->path) == 0 ? MR_OK : fail_state(job, strerror(errno), err);
}

void mr_batch_job_remove(const struct mr_batch_job *job)
{
    if (job->path[0]) unlink(job->path);
}
