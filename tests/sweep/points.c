#include "tests/sweep/points.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <jansson.h>
#include <librdkafka/rdkafka.h>
#include <msgpack.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <yaml.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static atomic_int armed = -1; /* the kind that is counted */
static atomic_uint_least64_t counted, failing;
static _Atomic(const char *) failed;
static atomic_bool traced;

#if defined(__SANITIZE_ADDRESS__)
void __sanitizer_print_stack_trace(void);
#else
static void __sanitizer_print_stack_trace(void)
{
}
#endif

const char *point_kind_name(enum point_kind kind)
{
    static const char *const names[] = {"memory", "system", "tensor"};
    return names[kind];
}

void points_arm(enum point_kind kind, uint64_t nth)
{
    atomic_store(&counted, 0);
    atomic_store(&failing, nth);
    atomic_store(&failed, NULL);
    atomic_store(&armed, (int)kind);
}

uint64_t points_disarm(void)
{
    atomic_store(&armed, -1);
    return atomic_load(&counted);
}

const char *points_failed(void)
{
    return atomic_load(&failed);
}

bool points_fail(enum point_kind kind, const char *name)
{
    if (atomic_load(&armed) != (int)kind) return false;
    if (atomic_fetch_add(&counted, 1) + 1 != atomic_load(&failing)) return false;
    atomic_store(&failed, name);
    if (atomic_load(&traced)) __sanitizer_print_stack_trace();
    return true;
}

void points_trace(void)
{
    atomic_store(&traced, true);
}

/* A function that fails with this value and errno, and otherwise calls the real one. */
#define POINT(kind, type, name, real, value, error, parameters, arguments)                         \
    type point_##name parameters;                                                                  \
    type point_##name parameters                                                                   \
    {                                                                                              \
        if (points_fail(kind, #name)) {                                                            \
            errno = error;                                                                         \
            return value;                                                                          \
        }                                                                                          \
        return real arguments;                                                                     \
    }
#define MEMORY(type, name, parameters, arguments)                                                  \
    POINT(POINT_MEMORY, type, name, name, NULL, ENOMEM, parameters, arguments)
#define SYSTEM(type, name, error, parameters, arguments)                                           \
    POINT(POINT_SYSTEM, type, name, name, -1, error, parameters, arguments)

/* clang-format off */
MEMORY(void *, malloc, (size_t size), (size))
MEMORY(void *, calloc, (size_t count, size_t size), (count, size))
MEMORY(void *, realloc, (void *block, size_t size), (block, size))
MEMORY(char *, strdup, (const char *text), (text))
MEMORY(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
MEMORY(FILE *, open_memstream, (char **text, size_t *length), (text, length))
MEMORY(json_t *, json_loadb, (const char *text, size_t length, size_t flags, json_error_t *error), (text, length, flags, error))
MEMORY(EVP_CIPHER_CTX *, EVP_CIPHER_CTX_new, (void), ())
MEMORY(redisReader *, redisReaderCreate, (void), ())
MEMORY(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method), (method))
MEMORY(SSL *, SSL_new, (SSL_CTX *context), (context))
MEMORY(pcre2_compile_context *, pcre2_compile_context_create, (pcre2_general_context *general), (general))
MEMORY(pcre2_match_context *, pcre2_match_context_create, (pcre2_general_context *general), (general))
MEMORY(pcre2_match_data *, pcre2_match_data_create, (uint32_t count, pcre2_general_context *general), (count, general))
POINT(POINT_MEMORY, int, yaml_parser_initialize, yaml_parser_initialize, 0, ENOMEM, (yaml_parser_t *parser), (parser))
POINT(POINT_MEMORY, msgpack_unpack_return, msgpack_unpack_next, msgpack_unpack_next, MSGPACK_UNPACK_NOMEM_ERROR, ENOMEM,
      (msgpack_unpacked *out, const char *bytes, size_t length, size_t *at), (out, bytes, length, at))
SYSTEM(int, access, EIO, (const char *path, int mode), (path, mode))
SYSTEM(int, connect, ECONNREFUSED, (int fd, const struct sockaddr *to, socklen_t length), (fd, to, length))
SYSTEM(int, eventfd, EMFILE, (unsigned value, int flags), (value, flags))
SYSTEM(int, fseek, EIO, (FILE *file, long offset, int whence), (file, offset, whence))
SYSTEM(int, fstat, EIO, (int fd, struct stat *out), (fd, out))
SYSTEM(long, ftell, EIO, (FILE *file), (file))
SYSTEM(int, gethostname, ENAMETOOLONG, (char *name, size_t size), (name, size))
SYSTEM(ssize_t, getrandom, EINTR, (void *out, size_t size, unsigned flags), (out, size, flags))
SYSTEM(int, madvise, EINVAL, (void *at, size_t length, int advice), (at, length, advice))
SYSTEM(int, ppoll, EINTR, (struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
       (fds, count, timeout, mask))
SYSTEM(ssize_t, read, EIO, (int fd, void *out, size_t size), (fd, out, size))
SYSTEM(ssize_t, readv, ECONNRESET, (int fd, const struct iovec *parts, int count), (fd, parts, count))
SYSTEM(int, sched_getaffinity, EINVAL, (pid_t process, size_t size, cpu_set_t *set), (process, size, set))
SYSTEM(ssize_t, sendmsg, EPIPE, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SYSTEM(int, setsockopt, EINVAL, (int fd, int level, int name, const void *value, socklen_t length),
       (fd, level, name, value, length))
SYSTEM(int, signalfd, EMFILE, (int fd, const sigset_t *mask, int flags), (fd, mask, flags))
SYSTEM(int, socket, EMFILE, (int domain, int type, int protocol), (domain, type, protocol))
SYSTEM(int, stat, EIO, (const char *path, struct stat *out), (path, out))
POINT(POINT_SYSTEM, FILE *, fopen, fopen, NULL, EMFILE, (const char *path, const char *mode), (path, mode))
POINT(POINT_SYSTEM, size_t, fread, fread, 0, EIO, (void *out, size_t size, size_t count, FILE *file), (out, size, count, file))
POINT(POINT_SYSTEM, int, getaddrinfo, getaddrinfo, EAI_AGAIN, EAGAIN,
      (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out), (host, service, hints, out))
POINT(POINT_SYSTEM, void *, mmap, mmap, MAP_FAILED, ENOMEM,
      (void *at, size_t length, int protection, int flags, int fd, off_t offset), (at, length, protection, flags, fd, offset))
POINT(POINT_SYSTEM, int, pthread_create, pthread_create, EAGAIN, EAGAIN,
      (pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument), (thread, attributes, body, argument))
/* clang-format on */

/* Writes of eight bytes signal a wake (worker/base/wake.c). They go to an eventfd, where they
 * cannot fail. */
ssize_t point_write(int fd, const void *bytes, size_t size);
ssize_t point_write(int fd, const void *bytes, size_t size)
{
    if (size == sizeof(uint64_t) || !points_fail(POINT_SYSTEM, "write"))
        return write(fd, bytes, size);
    errno = EIO;
    return -1;
}

int point_open(const char *path, int flags, ...);
int point_open(const char *path, int flags, ...)
{
    errno = EMFILE;
    return points_fail(POINT_SYSTEM, "open") ? -1 : open(path, flags);
}

pcre2_code *point_pcre2_compile(PCRE2_SPTR pattern, size_t length, uint32_t options, int *code,
                                size_t *offset, pcre2_compile_context *context);
pcre2_code *point_pcre2_compile(PCRE2_SPTR pattern, size_t length, uint32_t options, int *code,
                                size_t *offset, pcre2_compile_context *context)
{
    if (!points_fail(POINT_MEMORY, "pcre2_compile"))
        return pcre2_compile(pattern, length, options, code, offset, context);
    *code = PCRE2_ERROR_NOMEMORY;
    *offset = 0;
    return NULL;
}

rd_kafka_t *point_rd_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, char *reason,
                               size_t size);
rd_kafka_t *point_rd_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, char *reason,
                               size_t size)
{
    if (!points_fail(POINT_SYSTEM, "rd_kafka_new")) return rd_kafka_new(type, conf, reason, size);
    snprintf(reason, size, "no thread can be started");
    return NULL;
}

rd_kafka_topic_t *point_rd_kafka_topic_new(rd_kafka_t *rk, const char *topic,
                                           rd_kafka_topic_conf_t *conf);
rd_kafka_topic_t *point_rd_kafka_topic_new(rd_kafka_t *rk, const char *topic,
                                           rd_kafka_topic_conf_t *conf)
{
    return points_fail(POINT_SYSTEM, "rd_kafka_topic_new") ? NULL
                                                           : rd_kafka_topic_new(rk, topic, conf);
}
