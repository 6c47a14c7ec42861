#include "codec/tokenizer/detokenizer.h"

#include "codec/utf8.h"

#include <string.h>

/* Most bytes of a first token of which all spaces are removed, not only one at its start. */
#define FIRST_TOKEN_BYTES 1024

#define REPLACEMENT_BYTES (sizeof MR_UTF8_REPLACEMENT - 1)

void mr_detokenizer_init(struct mr_detokenizer *detokenizer, const struct mr_tokenizer *tokenizer,
                         bool skip_special)
{
    *detokenizer = (struct mr_detokenizer){
        .tokenizer = tokenizer, .skip_special = skip_special, .at_start = true};
}

size_t mr_detokenizer_bound(const struct mr_detokenizer *detokenizer, uint32_t id)
{
    struct mr_text bytes =
        mr_tokenizer_bytes(detokenizer->tokenizer, id, detokenizer->skip_special);
    return (detokenizer->pending_count + bytes.length) * REPLACEMENT_BYTES;
}

/* Writes the characters of text to out, and U+FFFD for invalid bytes. Stops in front of an
 * incomplete character at the end; *taken is the number of bytes read. */
static size_t write_text(struct mr_text text, char *out, size_t *taken)
{
    size_t length = 0, at = 0;
    while (at < text.length) {
        struct mr_utf8_step step = mr_utf8_next(text, at);
        if (!step.valid && mr_utf8_is_unfinished(text, at)) break;
        const char *from = step.valid ? text.bytes + at : MR_UTF8_REPLACEMENT;
        size_t bytes = step.valid ? step.length : REPLACEMENT_BYTES;
        memcpy(out + length, from, bytes);
        length += bytes;
        at += step.length;
    }
    *taken = at;
    return length;
}

static void keep_pending(struct mr_detokenizer *detokenizer, struct mr_text rest)
{
    memcpy(detokenizer->pending, rest.bytes, rest.length);
    detokenizer->pending_count = (uint8_t)rest.length;
}

/* Adds bytes of text to the incomplete character in detokenizer->pending until that character is
 * complete or proves invalid. Returns the number of bytes used. */
static size_t use_pending(struct mr_detokenizer *detokenizer, struct mr_text text, char *out,
                          size_t *length)
{
    size_t used = 0;
    while (detokenizer->pending_count > 0 && used < text.length) {
        char joined[4];
        size_t count = detokenizer->pending_count;
        memcpy(joined, detokenizer->pending, count);
        joined[count] = text.bytes[used];
        struct mr_text candidate = {joined, count + 1};
        struct mr_utf8_step step = mr_utf8_next(candidate, 0);
        /* the new byte cannot continue the pending character */
        if (!step.valid && step.length == count) {
            memcpy(out + *length, MR_UTF8_REPLACEMENT, REPLACEMENT_BYTES);
            *length += REPLACEMENT_BYTES;
            detokenizer->pending_count = 0;
            break;
        }
        used++;
        keep_pending(detokenizer, candidate);
        if (!step.valid) continue;
        memcpy(out + *length, joined, step.length);
        *length += step.length;
        detokenizer->pending_count = 0;
    }
    return used;
}

/* Removes the spaces with which the first token must not begin the text. Uses the memory
 * `first`. */
static struct mr_text strip_spaces(struct mr_detokenizer *detokenizer, struct mr_text text,
                                   char first[FIRST_TOKEN_BYTES])
{
    enum mr_first_space rule = mr_tokenizer_first_space(detokenizer->tokenizer);
    detokenizer->at_start = false;
    if (rule == MR_FIRST_SPACE_KEPT) return text;
    if (rule == MR_FIRST_SPACE_OF_TOKEN && text.length <= FIRST_TOKEN_BYTES) {
        size_t length = 0;
        for (size_t i = 0; i < text.length; i++)
            if (text.bytes[i] != ' ') first[length++] = text.bytes[i];
        return (struct mr_text){first, length};
    }
    if (text.bytes[0] != ' ') return text;
    detokenizer->at_start = rule == MR_FIRST_SPACE_UNTIL_TEXT && text.length == 1;
    return mr_text_part(text, 1, text.length);
}

size_t mr_detokenizer_push(struct mr_detokenizer *detokenizer, uint32_t id, char *out)
{
    struct mr_text text = mr_tokenizer_bytes(detokenizer->tokenizer, id, detokenizer->skip_special);
    if (text.length == 0) return 0;
    char first[FIRST_TOKEN_BYTES];
    if (detokenizer->at_start) text = strip_spaces(detokenizer, text, first);
    size_t length = 0, taken;
    size_t used = use_pending(detokenizer, text, out, &length);
    struct mr_text rest = mr_text_part(text, used, text.length);
    if (detokenizer->pending_count > 0) return length;
    length += write_text(rest, out + length, &taken);
    keep_pending(detokenizer, mr_text_part(rest, taken, rest.length));
    return length;
}

size_t mr_detokenizer_finish(struct mr_detokenizer *detokenizer, char *out)
{
    if (detokenizer->pending_count == 0) return 0;
    detokenizer->pending_count = 0;
    memcpy(out, MR_UTF8_REPLACEMENT, REPLACEMENT_BYTES);
    return REPLACEMENT_BYTES;
}
