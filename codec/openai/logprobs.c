#include "codec/openai/logprobs.h"

#include "codec/openai/copy.h"
#include "codec/utf8.h"

#include <string.h>

static struct mr_text text_of(struct mr_value entry)
{
    struct mr_text text = {"", 0};
    (void)mr_openai_get_text(entry, "text", &text);
    return text;
}

static double logprob_of(struct mr_value entry)
{
    struct mr_value value;
    return mr_openai_get(entry, "logprob", &value) ? mr_value_number(value) : 0;
}

static size_t top_count(struct mr_value entry, struct mr_value *top)
{
    return mr_openai_get(entry, "top", top) ? mr_value_count(*top) : 0;
}

/* A result has U+FFFD for the bytes of a part of a character, so these bytes are unknown. */
static void put_bytes(struct mr_json_writer *writer, struct mr_text text)
{
    mr_json_name(writer, "bytes");
    if (text.length > 0 && memmem(text.bytes, text.length, MR_UTF8_REPLACEMENT, 3)) {
        mr_json_put_null(writer);
        return;
    }
    mr_json_begin_array(writer);
    for (size_t i = 0; i < text.length; i++)
        mr_json_put_uint(writer, (unsigned char)text.bytes[i]);
    mr_json_end(writer);
}

/* Writes the members token, logprob and bytes. */
static void put_token(struct mr_json_writer *writer, struct mr_value entry)
{
    const struct mr_text text = text_of(entry);
    mr_openai_put_text(writer, "token", text);
    mr_json_name(writer, "logprob");
    mr_json_put_float(writer, (float)logprob_of(entry));
    put_bytes(writer, text);
}

void mr_openai_put_logprob_list(struct mr_json_writer *writer, struct mr_value logprobs)
{
    struct mr_value top;
    mr_json_begin_array(writer);
    for (size_t i = 0; i < mr_value_count(logprobs); i++) {
        struct mr_value entry = mr_value_at(logprobs, i);
        mr_json_begin_object(writer);
        put_token(writer, entry);
        mr_json_name(writer, "top_logprobs");
        mr_json_begin_array(writer);
        for (size_t k = 0, count = top_count(entry, &top); k < count; k++) {
            mr_json_begin_object(writer);
            put_token(writer, mr_value_at(top, k));
            mr_json_end(writer);
        }
        mr_json_end(writer);
        mr_json_end(writer);
    }
    mr_json_end(writer);
}

void mr_openai_put_chat_logprobs(struct mr_json_writer *writer, struct mr_value logprobs)
{
    mr_json_begin_object(writer);
    mr_json_name(writer, "content");
    mr_openai_put_logprob_list(writer, logprobs);
    mr_openai_put_null(writer, "refusal");
    mr_json_end(writer);
}

/* Writes a map from the text of each alternative to its log-probability; null if there are none.
 * Of two alternatives with one text the first, more probable one is kept. */
static void put_top_map(struct mr_json_writer *writer, struct mr_value entry)
{
    struct mr_value top;
    const size_t count = top_count(entry, &top);
    if (count == 0) {
        mr_json_put_null(writer);
        return;
    }
    mr_json_begin_object(writer);
    for (size_t k = 0; k < count; k++) {
        const struct mr_text text = text_of(mr_value_at(top, k));
        size_t same = 0;
        while (!mr_text_equal(text_of(mr_value_at(top, same)), text))
            same++;
        if (same < k) continue;
        mr_json_name_text(writer, text);
        mr_json_put_float(writer, (float)logprob_of(mr_value_at(top, k)));
    }
    mr_json_end(writer);
}

void mr_openai_put_text_logprobs(struct mr_json_writer *writer, struct mr_value logprobs)
{
    const size_t count = mr_value_count(logprobs);
    size_t offset = 0;
    mr_json_begin_object(writer);
    mr_json_name(writer, "tokens");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < count; i++)
        mr_json_put_text(writer, text_of(mr_value_at(logprobs, i)));
    mr_json_end(writer);
    mr_json_name(writer, "token_logprobs");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < count; i++)
        mr_json_put_float(writer, (float)logprob_of(mr_value_at(logprobs, i)));
    mr_json_end(writer);
    mr_json_name(writer, "top_logprobs");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < count; i++)
        put_top_map(writer, mr_value_at(logprobs, i));
    mr_json_end(writer);
    mr_json_name(writer, "text_offset");
    mr_json_begin_array(writer);
    for (size_t i = 0; i < count; i++) {
        mr_json_put_uint(writer, offset);
        offset += text_of(mr_value_at(logprobs, i)).length;
    }
    mr_json_end(writer);
    mr_json_end(writer);
}
