#include "worker/remote_cache/redis_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 320
#define MEBIBYTE   1048576.0
/* Deadlines have milliseconds, and synchronized clocks differ by less than a second. */
#define SKEW_MS 1000

void mr_redis_rules_describe(const struct mr_redis_survey *survey, char *text, size_t text_bytes)
{
    text[0] = '\0';
    if (!survey->version[0]) return;
    int length = snprintf(text, text_bytes, ", Redis %s", survey->version);
    if (!survey->has_policy || length < 0 || (size_t)length >= text_bytes) return;
    if (survey->policy.maxmemory_bytes > 0)
        snprintf(text + length, text_bytes - (size_t)length, ", %.0f MiB, %s",
                 (double)survey->policy.maxmemory_bytes / MEBIBYTE, survey->policy.eviction);
    else
        snprintf(text + length, text_bytes - (size_t)length, ", no memory limit");
}

void mr_redis_rules_check(const struct mr_redis_survey *survey, bool values_expire,
                          mr_redis_rules_report *report, void *context)
{
    char text[TEXT_BYTES];
    if (strcmp(survey->denied, "info") == 0) {
        report(context, false,
               "the login may not run info, so the memory limit and the eviction policy cannot be "
               "checked");
    } else if (survey->denied[0]) {
        snprintf(text, sizeof text,
                 "the login may not run %s, so the worker does without Redis where it needs them; "
                 "grant the commands and keys of docker/README.md, Redis, ACL",
                 survey->denied);
        report(context, true, text);
    }
    if (survey->is_replica)
        report(context, true,
               "the server is a read-only replica; use the URL of its master or of the cluster");
    if (survey->has_policy) {
        mr_redis_policy_judge(&survey->policy, values_expire, text);
        if (text[0]) report(context, false, text);
    }
    if (survey->has_clock && (survey->clock_ms > SKEW_MS || survey->clock_ms < -SKEW_MS)) {
        snprintf(text, sizeof text,
                 "its clock is %.1f seconds %s this machine's: deadlines and waiting times compare "
                 "the clocks of producers and workers; synchronize them",
                 (double)(survey->clock_ms < 0 ? -survey->clock_ms : survey->clock_ms) / 1000,
                 survey->clock_ms < 0 ? "behind" : "ahead of");
        report(context, false, text);
    }
}
