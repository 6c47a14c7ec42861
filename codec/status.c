#include "codec/status.h"

#include "codec/check.h"

#include <stdio.h>

static const struct {
    const char *name;
    enum mr_status_class status_class;
    const char *code;
    bool retryable;
} statuses[MR_STATUS_COUNT] = {
#define X(name, class_, code, retryable) {#name, MR_CLASS_##class_, code, retryable},
    MR_STATUS_LIST(X)
#undef X
};

const char *mr_status_name(enum mr_status status)
{
    MR_ASSERT(status < MR_STATUS_COUNT);
    return statuses[status].name;
}

enum mr_status_class mr_status_class(enum mr_status status)
{
    MR_ASSERT(status < MR_STATUS_COUNT);
    return statuses[status].status_class;
}

const char *mr_status_code(enum mr_status status)
{
    MR_ASSERT(status < MR_STATUS_COUNT);
    return statuses[status].code;
}

bool mr_status_is_retryable(enum mr_status status)
{
    MR_ASSERT(status < MR_STATUS_COUNT);
    return statuses[status].retryable;
}

enum mr_status mr_fail(struct mr_error *err, enum mr_status status, const char *fmt, ...)
{
    if (!err) return status;
    va_list args;
    va_start(args, fmt);
    err->status = status;
    vsnprintf(err->detail, sizeof err->detail, fmt, args);
    va_end(args);
    return status;
}
