#include "worker/serve/readiness.h"

#include "codec/wire/json_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 320

struct page {
    struct mr_json_writer json;
    char why[MR_READINESS_REASON_BYTES]; /* the first condition that does not hold; "": all hold */
};

static void put_text(struct mr_json_writer *json, const char *name, const char *text)
{
    mr_json_name(json, name);
    mr_json_put_text(json, (struct mr_text){text, strlen(text)});
}

static void put_bool(struct mr_json_writer *json, const char *name, bool value)
{
    mr_json_name(json, name);
    mr_json_put_bool(json, value);
}

/* Adds one condition. required: the worker is not ready without it. */
static void add(struct page *page, const char *name, bool holds, bool required, const char *text)
{
    if (!holds && required && !page->why[0])
        snprintf(page->why, sizeof page->why, "%s: %s", name, text);
    mr_json_begin_object(&page->json);
    put_text(&page->json, "name", name);
    put_bool(&page->json, "ok", holds);
    put_bool(&page->json, "required", required);
    put_text(&page->json, "text", text);
    mr_json_end(&page->json);
}

static void add_group(struct page *page, const struct mr_readiness *readiness)
{
    char text[TEXT_BYTES];
    if (!readiness->joined)
        snprintf(text, sizeof text, "not joined");
    else if (readiness->partitions == 0)
        snprintf(text, sizeof text,
                 "joined without a partition: there are fewer partitions than workers");
    else
        snprintf(text, sizeof text, "joined, %u partitions", readiness->partitions);
    add(page, "group", readiness->joined, true, text);
}

static void add_broker(struct page *page, const struct mr_readiness *readiness)
{
    char text[TEXT_BYTES];
    uint64_t silent_ns =
        readiness->now_ns > readiness->heard_ns ? readiness->now_ns - readiness->heard_ns : 0;
    bool heard = readiness->heard_ns > 0;
    if (heard)
        snprintf(text, sizeof text, "answered %.1f s ago", (double)silent_ns / 1e9);
    else
        snprintf(text, sizeof text, "has not answered yet");
    add(page, "broker",
        heard && silent_ns <= MR_READINESS_SILENT_NS + readiness->session_timeout_ns / 5, true,
        text);
}

static void add_writes(struct page *page, const char *refused_topic)
{
    char text[TEXT_BYTES];
    if (refused_topic)
        snprintf(text, sizeof text, "topic %.249s refuses records of this worker", refused_topic);
    else
        snprintf(text, sizeof text, "accepted");
    add(page, "writes", !refused_topic, true, text);
}

bool mr_readiness_write(const struct mr_readiness *readiness, char text[MR_READINESS_BYTES],
                        char *why)
{
    struct page page = {.why = ""};
    char *bytes = NULL;
    size_t length = 0;
    mr_json_writer_init(&page.json, MR_READINESS_BYTES - 1);
    mr_json_begin_object(&page.json);
    mr_json_name(&page.json, "checks");
    mr_json_begin_array(&page.json);
    if (readiness->failure) add(&page, "worker", false, true, readiness->failure);
    if (readiness->draining) add(&page, "worker", false, true, "draining");
    add(&page, "model", readiness->loaded, true, readiness->loaded ? "loaded" : "loading");
    if (readiness->loaded) {
        add_group(&page, readiness);
        add_broker(&page, readiness);
        add_writes(&page, readiness->refused_topic);
    }
    if (readiness->redis)
        add(&page, "redis", readiness->redis_up && !readiness->redis_refuses, false,
            !readiness->redis_up       ? "down"
            : readiness->redis_refuses ? "up, but refuses writes"
                                       : "up");
    mr_json_end(&page.json);
    put_bool(&page.json, "ready", !page.why[0]);
    put_text(&page.json, "reason", page.why);
    mr_json_end(&page.json);
    if (mr_json_writer_take(&page.json, &bytes, &length, NULL) == MR_OK)
        snprintf(text, MR_READINESS_BYTES, "%s\n", bytes);
    else
        snprintf(text, MR_READINESS_BYTES, "{\"ready\":%s}\n", page.why[0] ? "false" : "true");
    free(bytes);
    if (why) memcpy(why, page.why, sizeof page.why);
    return !page.why[0];
}
