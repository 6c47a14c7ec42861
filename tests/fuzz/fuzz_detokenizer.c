/* The detokenizer against its oracle: the joined parts that it returns token by token equal the
 * text of all tokens, in which every maximal invalid part is U+FFFD.
 *
 * Input: a byte (bit 0: SentencePiece style, bit 1: skip special tokens, bit 2: ids of one byte),
 * then the ids. */
#include "codec/tokenizer/detokenizer.h"
#include "codec/tokenizer_files/tokenizer_json.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX ((size_t)1 << 20)

/* Both vocabularies have one token for each byte, and tokens that begin or end inside a
 * character. */
static struct mr_tokenizer *load(bool sentence_piece)
{
    static struct mr_tokenizer *loaded[2];
    const char *path = sentence_piece ? "tests/golden/tokenizer/llama2_style.json"
                                      : "tests/golden/tokenizer/qwen_style.json";
    if (loaded[sentence_piece]) return loaded[sentence_piece];
    static char json[1 << 18];
    FILE *file = fopen(path, "rb");
    MR_ASSERT(file);
    size_t length = fread(json, 1, sizeof json, file);
    fclose(file);
    struct mr_error err;
    MR_ASSERT(mr_tokenizer_from_json(&loaded[sentence_piece], (struct mr_text){json, length},
                                     (struct mr_text){"", 0}, &err) == MR_OK);
    return loaded[sentence_piece];
}

static size_t append(char *text, size_t length, const char *bytes, size_t count)
{
    MR_ASSERT(length + count <= TEXT_MAX);
    if (count) memcpy(text + length, bytes, count);
    return length + count;
}

/* The number of bytes of the character at the front of text or, with *valid false, of the longest
 * beginning of one (Unicode, table 3-7). This is a second implementation, as an oracle. */
static size_t character(const unsigned char *text, size_t length, bool *valid)
{
    unsigned char lead = text[0], low = 0x80, high = 0xbf;
    size_t more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3, at = 1;
    *valid = lead < 0x80 || (lead >= 0xc2 && lead <= 0xf4);
    if (!*valid) return 1;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    for (; at <= more; at++, low = 0x80, high = 0xbf) {
        *valid = at < length && text[at] >= low && text[at] <= high;
        if (!*valid) return at;
    }
    return at;
}

static size_t replaced(const char *bytes, size_t length, char *out)
{
    size_t done = 0;
    for (size_t at = 0; at < length;) {
        bool valid;
        size_t count = character((const unsigned char *)bytes + at, length - at, &valid);
        done = append(out, done, valid ? bytes + at : "\xef\xbf\xbd", valid ? count : 3);
        at += count;
    }
    return done;
}

/* The bytes of all ids at once, without the first space if the tokenizer drops it. */
static size_t joined(const struct mr_tokenizer *tokenizer, struct fuzz_cursor ids, bool narrow,
                     bool skip_special, char *out)
{
    size_t length = 0;
    while (ids.left > 0) {
        uint32_t id = narrow ? fuzz_u8(&ids) : fuzz_u16(&ids);
        struct mr_text bytes = mr_tokenizer_bytes(tokenizer, id, skip_special);
        length = append(out, length, bytes.bytes, bytes.length);
    }
    if (length && out[0] == ' ' && mr_tokenizer_first_space(tokenizer) == MR_FIRST_SPACE_OF_TEXT)
        memmove(out, out + 1, --length);
    return length;
}

static size_t streamed(const struct mr_tokenizer *tokenizer, struct fuzz_cursor ids, bool narrow,
                       bool skip_special, char *out)
{
    struct mr_detokenizer detokenizer;
    size_t length = 0;
    mr_detokenizer_init(&detokenizer, tokenizer, skip_special);
    while (ids.left > 0) {
        uint32_t id = narrow ? fuzz_u8(&ids) : fuzz_u16(&ids);
        size_t bound = mr_detokenizer_bound(&detokenizer, id);
        char *part = malloc(bound ? bound : 1);
        MR_ASSERT(part);
        size_t count = mr_detokenizer_push(&detokenizer, id, part);
        MR_ASSERT(count <= bound && detokenizer.pending_count <= 3);
        length = append(out, length, part, count);
        free(part);
    }
    char rest[12];
    return append(out, length, rest, mr_detokenizer_finish(&detokenizer, rest));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char whole[TEXT_MAX], expected[TEXT_MAX], parts[TEXT_MAX];
    struct fuzz_cursor cursor = {data, size};
    uint8_t flags = fuzz_u8(&cursor);
    if (size > 4096) return 0;
    const struct mr_tokenizer *tokenizer = load(flags & 1u);
    bool skip_special = flags >> 1 & 1u, narrow = flags >> 2 & 1u;
    size_t length = joined(tokenizer, cursor, narrow, skip_special, whole);
    size_t wanted = replaced(whole, length, expected);
    size_t got = streamed(tokenizer, cursor, narrow, skip_special, parts);
    MR_ASSERT(got == wanted && memcmp(parts, expected, got) == 0);
    return 0;
}
