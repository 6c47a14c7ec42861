#include "worker/client/follow.h"

#include "worker/base/printable.h"

#include <stdlib.h>
#include <string.h>

void mr_follow_init(struct mr_follow *follow, FILE *out)
{
    *follow = (struct mr_follow){.out = out, .attempt = 1};
}

void mr_follow_free(struct mr_follow *follow)
{
    free(follow->shown);
    free(follow->begins);
    follow->shown = NULL;
    follow->begins = NULL;
}

static bool grow(struct mr_follow *follow, size_t length)
{
    size_t capacity = follow->shown_capacity > 0 ? follow->shown_capacity : 4096;
    while (capacity < length)
        capacity *= 2;
    if (capacity > MR_FOLLOW_BYTES_MAX) return false;
    if (capacity == follow->shown_capacity) return true;
    char *grown = realloc(follow->shown, capacity);
    if (!grown) return false;
    follow->shown = grown;
    follow->shown_capacity = capacity;
    return true;
}

void mr_follow_print(const struct mr_follow *follow, struct mr_text text)
{
    if (follow->escapes)
        mr_print_escaped(follow->out, text, "\n\t");
    else
        fwrite(text.bytes, 1, text.length, follow->out);
}

static void show(struct mr_follow *follow, struct mr_text text)
{
    if (text.length == 0) return;
    mr_follow_print(follow, text);
    fflush(follow->out);
    if (!grow(follow, follow->shown_length + text.length)) return;
    memcpy(follow->shown + follow->shown_length, text.bytes, text.length);
    follow->shown_length += text.length;
}

/* Prints text that begins at byte `at` of the answer, leaving out the part that was printed
 * before. */
static void show_at(struct mr_follow *follow, size_t at, struct mr_text text)
{
    size_t printed = follow->shown_length > at ? follow->shown_length - at : 0;
    if (printed > text.length) printed = text.length;
    bool same = printed == 0 || memcmp(follow->shown + at, text.bytes, printed) == 0;
    if (!same) {
        fputs("\n", follow->out);
        follow->shown_length = at;
        printed = 0;
    }
    show(follow, (struct mr_text){text.bytes + printed, text.length - printed});
}

/* Starts a new attempt at byte 0 of the answer, or, if the attempt continues an earlier one, at the
 * byte where the token of its first record begins. */
static void begin_attempt(struct mr_follow *follow, const struct mr_token_record *record)
{
    uint32_t from = record->resumed_at > 0 ? record->index : 0;
    follow->attempt = record->attempt;
    follow->gap = from > follow->next_index || (follow->gap && from > 0);
    if (follow->gap) return;
    if (from < follow->begins_count) {
        follow->attempt_bytes = follow->begins[from];
        follow->begins_count = from;
    }
    if (from == 0) follow->attempt_bytes = 0;
    follow->next_index = from;
}

/* Stores the byte of the answer at which the record's text begins, for each token index in the
 * record. */
static bool store_begin(struct mr_follow *follow, const struct mr_token_record *record)
{
    size_t end = (size_t)record->index + (record->token_count > 0 ? record->token_count : 1);
    if (end > MR_FOLLOW_BYTES_MAX / sizeof *follow->begins) return false;
    if (end > follow->begins_capacity) {
        size_t *grown = realloc(follow->begins, 2 * end * sizeof *grown);
        if (!grown) return false;
        follow->begins = grown;
        follow->begins_capacity = 2 * end;
    }
    while (follow->begins_count < end)
        follow->begins[follow->begins_count++] = follow->attempt_bytes;
    return true;
}

void mr_follow_tokens(struct mr_follow *follow, const struct mr_token_record *record)
{
    if (record->choice != 0 || record->attempt < follow->attempt) return;
    follow->token_records++;
    if (record->attempt > follow->attempt) begin_attempt(follow, record);
    /* the token record is a duplicate */
    if (record->index < follow->next_index && record->token_count > 0) return;
    if (record->index > follow->next_index) follow->gap = true;
    if (!follow->gap && !store_begin(follow, record)) follow->gap = true;
    if (follow->gap) return;
    show_at(follow, follow->attempt_bytes, record->text);
    follow->attempt_bytes += record->text.length;
    follow->next_index = record->index + (uint32_t)record->token_count;
}

void mr_follow_restart(struct mr_follow *follow)
{
    if (follow->shown_length > 0) fputs("\n", follow->out);
    follow->shown_length = 0;
    follow->begins_count = 0;
    follow->attempt = 0; /* the next record begins an attempt */
    follow->attempt_bytes = 0;
    follow->next_index = 0;
    follow->gap = false;
}

void mr_follow_result(struct mr_follow *follow, const struct mr_result *result)
{
    if (result->choice_count > 0 && result->choices[0].text.length > 0)
        show_at(follow, 0, result->choices[0].text);
}
