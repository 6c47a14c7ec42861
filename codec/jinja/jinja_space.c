#include "codec/jinja/jinja_space.h"

#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

size_t mr_jinja_space_at(struct mr_text text, size_t at)
{
    if (at >= text.length) return 0;
    struct mr_utf8_step step = mr_utf8_next(text, at);
    bool separator = step.code_point >= 0x1c && step.code_point <= 0x1f;
    return step.valid && (separator || mr_unicode_is_space(step.code_point)) ? step.length : 0;
}

size_t mr_jinja_space_start(struct mr_text text)
{
    size_t end = text.length;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && end - start < 4 && !mr_utf8_is_start(text.bytes[start]))
            start--;
        if (mr_jinja_space_at(text, start) != end - start) break;
        end = start;
    }
    return end;
}
