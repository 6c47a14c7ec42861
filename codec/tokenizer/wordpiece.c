#include "codec/tokenizer/wordpiece.h"

#include "codec/check.h"
#include "codec/utf8.h"

#include <string.h>

/* Sets ends[i] to the end of the i-th character. Returns their number, at most chars_max + 1. */
static uint32_t find_ends(const struct mr_wordpiece *wordpiece, struct mr_text word, size_t *ends)
{
    uint32_t count = 0;
    for (size_t at = 0; at < word.length && count <= wordpiece->chars_max;) {
        at += mr_utf8_next(word, at).length;
        ends[count++] = at;
    }
    return count;
}

void mr_wordpiece_encode(const struct mr_wordpiece *wordpiece, struct mr_text word,
                         struct mr_id_list *out)
{
    size_t ends[MR_WORDPIECE_CHARS_MAX + 1];
    char text[MR_WORDPIECE_PREFIX_BYTES_MAX + MR_WORDPIECE_CHARS_MAX * 4];
    const size_t before = out->count, prefix = wordpiece->prefix_length;
    MR_ASSERT(wordpiece->chars_max <= MR_WORDPIECE_CHARS_MAX);
    const uint32_t count = find_ends(wordpiece, word, ends);
    bool known = count <= wordpiece->chars_max;
    for (uint32_t first = 0, next; known && first < count; first = next) {
        const size_t start = first > 0 ? ends[first - 1] : 0, used = first > 0 ? prefix : 0;
        uint32_t id = MR_TOKEN_NONE;
        memcpy(text, wordpiece->prefix, used);
        memcpy(text + used, word.bytes + start, word.length - start);
        for (next = count; id == MR_TOKEN_NONE && next > first; next--)
            id = mr_vocab_find(wordpiece->vocab,
                               (struct mr_text){text, used + ends[next - 1] - start});
        known = id != MR_TOKEN_NONE;
        next++; /* the loop has gone one past the token's last character */
        if (known) mr_id_list_add(out, id);
    }
    if (known) return;
    out->count = before;
    mr_id_list_add(out, wordpiece->unk_id);
}
