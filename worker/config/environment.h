/* environment - distinguishes options from other environment variables that begin with MILLRACE_:
 * Kubernetes injects several for each service whose name begins with "millrace", and the scripts of
 * the source tree have their own.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_CONFIG_ENVIRONMENT_H
#define MR_WORKER_CONFIG_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#define MR_VARIABLE_HEAD           "MILLRACE_"
#define MR_VARIABLE_NAME_BYTES_MAX ((size_t)128)

enum mr_variable_kind {
    MR_VARIABLE_OTHER,   /* does not begin with MILLRACE_ */
    MR_VARIABLE_OPTION,  /* MILLRACE_<NAME>: an option, if one has that name */
    MR_VARIABLE_SERVICE, /* describes a Kubernetes service, such as MILLRACE_PORT=tcp://10.0.0.1:80
                          */
    MR_VARIABLE_SCRIPT   /* of docker/deps.sh, docker/compose.yaml or the tests */
};

struct mr_variable {
    enum mr_variable_kind kind;
    char name[MR_VARIABLE_NAME_BYTES_MAX];   /* as written, cut if longer */
    char option[MR_VARIABLE_NAME_BYTES_MAX]; /* the option's name: MILLRACE_KV_MEMORY: kv-memory */
    const char *value;                       /* borrowed: the text after '=' */
};

/* Takes NAME=VALUE apart. */
void mr_variable_read(struct mr_variable *out, const char *text);
/* Writes the name of the variable of an option: kv-memory: MILLRACE_KV_MEMORY. */
void mr_variable_name_of(const char *option, char name[MR_VARIABLE_NAME_BYTES_MAX]);

#endif
