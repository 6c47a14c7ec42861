#include "worker/serve/readiness.h"

#include <stdio.h>

#define LINE_BYTES 320

struct page {
    char why[LINE_BYTES]; /* the first condition that does not hold; "": all hold */
    char lines[512];
    size_t length;
};

/* Adds the line of one condition. */
static void add(struct page *page, const char *line, bool holds)
{
    size_t room = sizeof page->lines - page->length;
    if (!holds && !page->why[0]) snprintf(page->why, sizeof page->why, "%s", line);
    int written = snprintf(page->lines + page->length, room, "%s\n", line);
    if (written > 0) page->length += (size_t)written < room ? (size_t)written : room - 1;
}

static void add_group(struct page *page, const struct mr_readiness *readiness)
{
    char line[LINE_BYTES];
    if (!readiness->joined)
        snprintf(line, sizeof line, "group: not joined");
    else if (readiness->partitions == 0)
        snprintf(line, sizeof line, "group: joined, no partition: there are fewer than workers");
    else
        snprintf(line, sizeof line, "group: joined, %u partitions", readiness->partitions);
    add(page, line, readiness->joined);
}

static void add_broker(struct page *page, const struct mr_readiness *readiness)
{
    char line[LINE_BYTES];
    uint64_t silent_ns =
        readiness->now_ns > readiness->heard_ns ? readiness->now_ns - readiness->heard_ns : 0;
    bool heard = readiness->heard_ns > 0;
    if (heard)
        snprintf(line, sizeof line, "broker: heard %.1f s ago", (double)silent_ns / 1e9);
    else
        snprintf(line, sizeof line, "broker: not heard yet");
    add(page, line,
        heard && silent_ns <= MR_READINESS_SILENT_NS + readiness->session_timeout_ns / 5);
}

static void add_writes(struct page *page, const char *refused_topic)
{
    char line[LINE_BYTES];
    if (refused_topic)
        snprintf(line, sizeof line, "writes: topic %.249s refuses records of this worker",
                 refused_topic);
    else
        snprintf(line, sizeof line, "writes: accepted");
    add(page, line, !refused_topic);
}

bool mr_readiness_write(const struct mr_readiness *readiness, char text[MR_READINESS_BYTES])
{
    struct page page = {.length = 0};
    if (readiness->draining) add(&page, "worker: draining", false);
    add(&page, readiness->loaded ? "model: loaded" : "model: loading", readiness->loaded);
    if (readiness->loaded) {
        add_group(&page, readiness);
        add_broker(&page, readiness);
        add_writes(&page, readiness->refused_topic);
    }
    if (readiness->redis)
        add(&page, readiness->redis_up ? "redis: up" : "redis: down (not required)", true);
    snprintf(text, MR_READINESS_BYTES, "%s%s\n%s", page.why[0] ? "not ready: " : "ready", page.why,
             page.lines);
    return !page.why[0];
}
