#include "batching/sequence/thinking.h"

#include "codec/tokenizer/stop_match.h"

/* Searches the text for words that begin and end reasoning. */
static void read_text(struct mr_thinking *thinking, struct mr_text text)
{
    const struct mr_thinking_limit *limit = thinking->limit;
    struct mr_stop_hit hit;
    for (size_t at = 0; at < text.length; at += hit.end) {
        if (!mr_stop_match_feed(limit->words, &thinking->position, text.bytes + at,
                                text.length - at, &hit))
            return;
        thinking->open = hit.stop_index == 0;
        if (!thinking->open && !limit->channels) {
            thinking->limit = NULL;
            return;
        }
    }
}

void mr_thinking_init(struct mr_thinking *thinking, const struct mr_thinking_limit *limit)
{
    *thinking = (struct mr_thinking){.limit = limit->end_count > 0 ? limit : NULL};
    if (thinking->limit != NULL) read_text(thinking, limit->opened);
}

/* Reasoning between tags begins before all other text, or not at all. */
static void check_start(struct mr_thinking *thinking, struct mr_text text)
{
    for (size_t i = 0; i < text.length; i++)
        thinking->letters += !mr_text_is_space(text.bytes[i]);
    if (thinking->letters > mr_stop_match_held(thinking->limit->words, thinking->position))
        thinking->limit = NULL;
}

void mr_thinking_push(struct mr_thinking *thinking, uint32_t id, struct mr_text text)
{
    uint32_t next;
    if (thinking->limit == NULL) return;
    const struct mr_thinking_limit *limit = thinking->limit;
    const bool was_open = thinking->open;
    const bool forced = mr_thinking_forces(thinking, &next) && next == id;
    read_text(thinking, text);
    thinking->tokens += was_open;
    thinking->forced = forced && thinking->forced + 1 < limit->end_count ? thinking->forced + 1 : 0;
    if (thinking->limit == NULL || limit->channels) return;
    if (forced && thinking->forced == 0) thinking->limit = NULL; /* all of the end came */
    if (thinking->limit != NULL && !thinking->open) check_start(thinking, text);
}

bool mr_thinking_forces(const struct mr_thinking *thinking, uint32_t *id)
{
    const struct mr_thinking_limit *limit = thinking->limit;
    if (limit == NULL) return false;
    if (thinking->forced == 0 && !(thinking->open && thinking->tokens >= limit->tokens))
        return false;
    *id = limit->end_ids[thinking->forced];
    return true;
}
