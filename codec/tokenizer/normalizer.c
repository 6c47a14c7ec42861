#include "codec/tokenizer/normalizer.h"

#include "codec/base64.h"
#include "codec/tokenizer/byte_alphabet.h"
#include "codec/unicode/charsmap.h"
#include "codec/unicode/unicode.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_MAX  32
#define MAPPED_MAX 3 /* most characters that a step puts in the place of one */

enum kind {
    NORMAL_FORM,
    PREPEND,
    REPLACE,
    STRIP,
    STRIP_MARKS,
    LOWERCASE,
    NMT,
    BERT_CLEAN,
    BERT_IDEOGRAPHS,
    BERT_MARKS,
    BYTE_LEVEL,
    PRECOMPILED,
    SENTENCE
};

struct step {
    enum kind kind;
    enum mr_normal_form form;
    bool left, right;             /* step STRIP: the ends at which it removes white space */
    struct mr_text pattern;       /* step REPLACE of plain text: the text to replace; owned */
    struct mr_regex *regex;       /* step REPLACE of a regular expression: the pattern to replace */
    struct mr_text content;       /* steps PREPEND and REPLACE: the text to insert; owned */
    struct mr_charsmap *charsmap; /* steps PRECOMPILED and SENTENCE; NULL: none */
    struct mr_added_tokens *kept; /* step SENTENCE: user-defined tokens */
    struct mr_sentence_rules rules; /* step SENTENCE: the flags; its texts are not used */
};

struct mr_normalizer {
    struct step steps[STEPS_MAX];
    size_t step_count;
};

/* ---- loading ---- */

static bool copy_text(struct mr_text *out, struct mr_text text)
{
    char *bytes = malloc(text.length + 1);
    if (!bytes) return false;
    if (text.length > 0) memcpy(bytes, text.bytes, text.length);
    bytes[text.length] = '\0';
    *out = (struct mr_text){bytes, text.length};
    return true;
}

static enum mr_status load_replace(struct step *step, const struct mr_json_value *component,
                                   struct mr_error *err)
{
    step->kind = REPLACE;
    const struct mr_json_value *pattern = mr_json_get(component, "pattern");
    struct mr_text text, content;
    if (!mr_json_text(mr_json_get(component, "content"), &content))
        return mr_fail(err, MR_BAD_FILE, "Replace has no content");
    if (!copy_text(&step->content, content)) return mr_fail(err, MR_NOMEM, "no memory");
    if (mr_json_text(mr_json_get(pattern, "Regex"), &text))
        return mr_regex_create(&step->regex, text, err);
    if (!mr_json_text(mr_json_get(pattern, "String"), &text) || text.length == 0)
        return mr_fail(err, MR_BAD_FILE, "Replace has no pattern");
    return copy_text(&step->pattern, text) ? MR_OK : mr_fail(err, MR_NOMEM, "no memory");
}

static enum mr_status load_prepend(struct step *step, const struct mr_json_value *component,
                                   struct mr_error *err)
{
    struct mr_text text;
    step->kind = PREPEND;
    if (!mr_json_text(mr_json_get(component, "prepend"), &text))
        return mr_fail(err, MR_BAD_FILE, "Prepend has no text");
    return copy_text(&step->content, text) ? MR_OK : mr_fail(err, MR_NOMEM, "no memory");
}

static enum mr_status load_strip(struct step *step, const struct mr_json_value *component,
                                 struct mr_error *err)
{
    step->kind = STRIP;
    if (!mr_json_bool(mr_json_get(component, "strip_left"), &step->left) ||
        !mr_json_bool(mr_json_get(component, "strip_right"), &step->right))
        return mr_fail(err, MR_BAD_FILE, "Strip lacks strip_left or strip_right");
    return MR_OK;
}

static enum mr_status load_precompiled(struct step *step, const struct mr_json_value *component,
                                       struct mr_error *err)
{
    struct mr_text text = {"", 0};
    step->kind = PRECOMPILED;
    if (!mr_json_text(mr_json_get(component, "precompiled_charsmap"), &text))
        return mr_fail(err, MR_BAD_FILE, "Precompiled has no precompiled_charsmap");
    size_t max = text.length / 4 * 3 + 3, length = 0;
    unsigned char *block = malloc(max);
    if (!block) return mr_fail(err, MR_NOMEM, "no memory");
    enum mr_status status =
        mr_base64_decode(text, block, max, &length)
            ? mr_charsmap_create(&step->charsmap, (struct mr_text){(char *)block, length}, err)
            : mr_fail(err, MR_BAD_FILE, "precompiled_charsmap is not base64");
    free(block);
    return status;
}

static bool flag_of(const struct mr_json_value *component, const char *name, bool usual)
{
    bool flag = usual;
    mr_json_bool(mr_json_get(component, name), &flag);
    return flag;
}

/* BertNormalizer is up to five steps. strip_accents null has the value of lowercase. */
static enum mr_status load_bert(struct mr_normalizer *normalizer,
                                const struct mr_json_value *component, struct mr_error *err)
{
    const bool lower = flag_of(component, "lowercase", true);
    const bool strip = flag_of(component, "strip_accents", lower);
    const struct {
        enum kind kind;
        bool wanted;
    } steps[] = {{BERT_CLEAN, flag_of(component, "clean_text", true)},
                 {BERT_IDEOGRAPHS, flag_of(component, "handle_chinese_chars", true)},
                 {NORMAL_FORM, strip},
                 {BERT_MARKS, strip},
                 {LOWERCASE, lower}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (!steps[i].wanted) continue;
        if (normalizer->step_count == STEPS_MAX)
            return mr_fail(err, MR_BAD_FILE, "more than %d normalizers", STEPS_MAX);
        normalizer->steps[normalizer->step_count++] =
            (struct step){.kind = steps[i].kind, .form = MR_NFD};
    }
    return MR_OK;
}

static bool load_plain(struct step *step, struct mr_text type)
{
    static const struct {
        const char *name;
        enum kind kind;
        enum mr_normal_form form;
    } plain[] = {
        {"NFC", NORMAL_FORM, MR_NFC},
        {"NFD", NORMAL_FORM, MR_NFD},
        {"NFKC", NORMAL_FORM, MR_NFKC},
        {"NFKD", NORMAL_FORM, MR_NFKD},
        {"Lowercase", LOWERCASE, 0},
        {"StripAccents", STRIP_MARKS, 0},
        {"Nmt", NMT, 0},
        {"ByteLevel", BYTE_LEVEL, 0},
    };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (!mr_text_is(type, plain[i].name)) continue;
        step->kind = plain[i].kind;
        step->form = plain[i].form;
        return true;
    }
    return false;
}

static enum mr_status load(struct mr_normalizer *normalizer, const struct mr_json_value *component,
                           unsigned depth, struct mr_error *err);

static enum mr_status load_sequence(struct mr_normalizer *normalizer,
                                    const struct mr_json_value *component, unsigned depth,
                                    struct mr_error *err)
{
    const struct mr_json_value *list = mr_json_get(component, "normalizers");
    if (!list || mr_json_kind(list) != MR_JSON_ARRAY || depth > 4)
        return mr_fail(err, MR_BAD_FILE, "normalizer Sequence has no list");
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < mr_json_count(list) && status == MR_OK; i++)
        status = load(normalizer, mr_json_at(list, i), depth + 1, err);
    return status;
}

static enum mr_status load(struct mr_normalizer *normalizer, const struct mr_json_value *component,
                           unsigned depth, struct mr_error *err)
{
    struct mr_text type;
    if (!mr_json_text(mr_json_get(component, "type"), &type))
        return mr_fail(err, MR_BAD_FILE, "a normalizer has no type");
    if (mr_text_is(type, "Sequence")) return load_sequence(normalizer, component, depth, err);
    if (mr_text_is(type, "BertNormalizer")) return load_bert(normalizer, component, err);
    if (normalizer->step_count == STEPS_MAX)
        return mr_fail(err, MR_BAD_FILE, "more than %d normalizers", STEPS_MAX);
    struct step *step = &normalizer->steps[normalizer->step_count++];
    if (mr_text_is(type, "Replace")) return load_replace(step, component, err);
    if (mr_text_is(type, "Prepend")) return load_prepend(step, component, err);
    if (mr_text_is(type, "Strip")) return load_strip(step, component, err);
    if (mr_text_is(type, "Precompiled")) return load_precompiled(step, component, err);
    if (load_plain(step, type)) return MR_OK;
    return mr_fail(err, MR_BAD_FILE, "unknown normalizer %.40s", type.bytes);
}

enum mr_status mr_normalizer_create(struct mr_normalizer **out,
                                    const struct mr_json_value *component, struct mr_error *err)
{
    *out = NULL;
    struct mr_normalizer *normalizer = calloc(1, sizeof *normalizer);
    if (!normalizer) return mr_fail(err, MR_NOMEM, "no memory for a normalizer");
    enum mr_status status =
        mr_json_is_null(component) ? MR_OK : load(normalizer, component, 0, err);
    if (status != MR_OK) {
        mr_normalizer_destroy(normalizer);
        return status;
    }
    *out = normalizer;
    return MR_OK;
}

enum mr_status mr_normalizer_from_rules(struct mr_normalizer **out,
                                        const struct mr_sentence_rules *rules, struct mr_error *err)
{
    *out = NULL;
    struct mr_normalizer *normalizer = calloc(1, sizeof *normalizer);
    if (!normalizer) return mr_fail(err, MR_NOMEM, "no memory for a normalizer");
    struct step *step = &normalizer->steps[normalizer->step_count++];
    step->kind = SENTENCE;
    step->rules = *rules;
    enum mr_status status =
        mr_added_tokens_create(&step->kept, rules->kept, rules->kept_count, err);
    if (status == MR_OK && rules->charsmap.length > 0)
        status = mr_charsmap_create(&step->charsmap, rules->charsmap, err);
    if (status != MR_OK) {
        mr_normalizer_destroy(normalizer);
        return status;
    }
    *out = normalizer;
    return MR_OK;
}

static void free_text(struct mr_text text)
{
    union {
        const char *in;
        char *out;
    } pun = {.in = text.bytes};
    free(pun.out);
}

void mr_normalizer_destroy(struct mr_normalizer *normalizer)
{
    if (!normalizer) return;
    for (size_t i = 0; i < normalizer->step_count; i++) {
        mr_regex_destroy(normalizer->steps[i].regex);
        mr_charsmap_destroy(normalizer->steps[i].charsmap);
        mr_added_tokens_destroy(normalizer->steps[i].kept);
        free_text(normalizer->steps[i].pattern);
        free_text(normalizer->steps[i].content);
    }
    free(normalizer);
}

void mr_normalizer_scratch_init(struct mr_normalizer_scratch *scratch, size_t bytes_max,
                                struct mr_regex_scratch *regex)
{
    mr_buffer_init(&scratch->buffers[0], bytes_max);
    mr_buffer_init(&scratch->buffers[1], bytes_max);
    scratch->regex = regex;
}

void mr_normalizer_scratch_drop(struct mr_normalizer_scratch *scratch)
{
    mr_buffer_drop(&scratch->buffers[0]);
    mr_buffer_drop(&scratch->buffers[1]);
}

/* ---- running ---- */

static enum mr_status no_room(struct mr_error *err)
{
    return mr_fail(err, MR_NOMEM, "no memory for normalized text");
}

static size_t ascii_end(struct mr_text text, size_t at)
{
    while (at < text.length && (unsigned char)text.bytes[at] < 0x80)
        at++;
    return at;
}

/* Appends text in step->form. ASCII text is in every Unicode normal form, and only the last ASCII
 * character of a run can compose with the character after the run. So runs of ASCII are copied,
 * except for their last character. */
static enum mr_status run_form(const struct step *step, struct mr_text text, struct mr_buffer *out,
                               struct mr_error *err)
{
    for (size_t at = 0; at < text.length;) {
        size_t plain = ascii_end(text, at);
        if (plain < text.length && plain > at) plain--;
        if (!mr_buffer_append(out, mr_text_part(text, at, plain))) return no_room(err);
        if (plain == text.length) break;
        size_t end = plain + 1;
        while (end < text.length && (unsigned char)text.bytes[end] >= 0x80)
            end++;
        enum mr_status status =
            mr_unicode_normalize(mr_text_part(text, plain, end), step->form, out, err);
        if (status != MR_OK) return status;
        at = end;
    }
    return MR_OK;
}

static enum mr_status run_replace_text(const struct step *step, struct mr_text text,
                                       struct mr_buffer *out, struct mr_error *err)
{
    size_t at = 0;
    while (at < text.length) {
        const char *found =
            memmem(text.bytes + at, text.length - at, step->pattern.bytes, step->pattern.length);
        if (!found) break;
        size_t start = (size_t)(found - text.bytes);
        if (!mr_buffer_append(out, mr_text_part(text, at, start))) return no_room(err);
        if (!mr_buffer_append(out, step->content)) return no_room(err);
        at = start + step->pattern.length;
    }
    return mr_buffer_append(out, mr_text_part(text, at, text.length)) ? MR_OK : no_room(err);
}

static enum mr_status run_replace_regex(const struct step *step, struct mr_regex_scratch *scratch,
                                        struct mr_text text, struct mr_buffer *out,
                                        struct mr_error *err)
{
    struct mr_regex_cursor cursor = {0};
    size_t at = 0;
    for (;;) {
        struct mr_regex_match match;
        enum mr_status status = mr_regex_next(step->regex, scratch, text, &cursor, &match, err);
        if (status != MR_OK) return status;
        if (!match.found) break;
        if (!mr_buffer_append(out, mr_text_part(text, at, match.start))) return no_room(err);
        if (!mr_buffer_append(out, step->content)) return no_room(err);
        at = match.end;
    }
    return mr_buffer_append(out, mr_text_part(text, at, text.length)) ? MR_OK : no_room(err);
}

static enum mr_status run_strip(const struct step *step, struct mr_text text, struct mr_buffer *out,
                                struct mr_error *err)
{
    size_t start = text.length, end = 0;
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step character = mr_utf8_next(text, at);
        if (!mr_unicode_is_space(character.code_point)) {
            if (start > at) start = at;
            end = at + character.length;
        }
        at += character.length;
    }
    if (start > end) start = end; /* the text is only white space */
    size_t from = step->left ? start : 0;
    size_t to = step->right ? end : text.length;
    if (start == end && (step->left || step->right)) from = to = 0;
    return mr_buffer_append(out, mr_text_part(text, from, to)) ? MR_OK : no_room(err);
}

/* True for the control characters that the component Nmt removes. */
static bool nmt_removes(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
           c == 0x9f;
}

/* True for the characters that the component Nmt replaces by a space. */
static bool nmt_spaces(uint32_t c)
{
    return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
           (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xfeff || c == 0xfffd;
}

/* True for the ideographs that BertNormalizer encloses in spaces. */
static bool is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static size_t clean_character(uint32_t c, uint32_t out[MAPPED_MAX])
{
    out[0] = mr_unicode_is_space(c) ? ' ' : c;
    if (c == '\t' || c == '\n' || c == '\r') return 1;
    return c == 0xfffd || mr_unicode_is_bert_control(c) ? 0 : 1;
}

/* Maps one character in a step of this kind; returns the number of code points. */
static size_t map_character(enum kind kind, uint32_t c, uint32_t out[MAPPED_MAX])
{
    if (kind == BERT_CLEAN) return clean_character(c, out);
    if (kind == BERT_IDEOGRAPHS && is_ideograph(c)) {
        out[0] = out[2] = ' ';
        out[1] = c;
        return 3;
    }
    out[0] = c;
    if (kind == BERT_IDEOGRAPHS) return 1;
    if (kind == BERT_MARKS) return mr_unicode_is_bert_mark(c) ? 0 : 1;
    if (kind == LOWERCASE) return mr_unicode_lower(c, out);
    out[0] = kind == NMT && nmt_spaces(c) ? ' ' : c;
    if (kind == NMT) return nmt_removes(c) ? 0 : 1;
    return mr_unicode_is_stripped_mark(c) ? 0 : 1;
}

static enum mr_status run_map(const struct step *step, struct mr_text text, struct mr_buffer *out,
                              struct mr_error *err)
{
    for (size_t at = 0; at < text.length;) {
        struct mr_utf8_step character = mr_utf8_next(text, at);
        uint32_t points[MAPPED_MAX];
        size_t count = map_character(step->kind, character.code_point, points);
        for (size_t i = 0; i < count; i++) {
            char *place = mr_buffer_reserve(out, 4);
            if (!place) return no_room(err);
            mr_buffer_commit(out, mr_utf8_put(place, points[i]));
        }
        at += character.length;
    }
    return MR_OK;
}

/* The component Precompiled of the reference implementation: a cluster of up to five bytes is
 * replaced as a whole, by the replacement of its shortest known beginning; otherwise its characters
 * are replaced one by one. */
static enum mr_status run_precompiled(const struct step *step, struct mr_text text,
                                      struct mr_buffer *out, struct mr_error *err)
{
    for (size_t at = 0; at < text.length;) {
        size_t end = mr_unicode_cluster_end(text, at);
        struct mr_text part = mr_text_part(text, at, end), new_text;
        if (part.length < 6 && mr_charsmap_find(step->charsmap, part, true, &new_text) > 0) {
            if (!mr_buffer_append(out, new_text)) return no_room(err);
            at = end;
        }
        while (at < end) {
            size_t next = at + mr_utf8_next(text, at).length;
            part = mr_text_part(text, at, next);
            bool known = mr_charsmap_find(step->charsmap, part, true, &new_text) > 0;
            if (!mr_buffer_append(out, known ? new_text : part)) return no_room(err);
            at = next;
        }
    }
    return MR_OK;
}

/* ---- SentencePiece ---- */

/* The replacement of the start of text: a user-defined token, a sequence of the character map, or
 * else one character. Sets *taken to the bytes replaced. */
static struct mr_text next_sentence_part(const struct step *step, struct mr_text text,
                                         size_t *taken)
{
    struct mr_text part;
    *taken = mr_added_tokens_prefix(step->kept, text);
    if (*taken > 0) return mr_text_part(text, 0, *taken);
    *taken = step->charsmap ? mr_charsmap_find(step->charsmap, text, false, &part) : 0;
    if (*taken > 0) return part;
    *taken = mr_utf8_next(text, 0).length;
    return mr_text_part(text, 0, *taken);
}

/* Appends text to out with the escape for its spaces. */
static bool append_spaced(struct mr_buffer *out, struct mr_text text, struct mr_text space)
{
    for (size_t at = 0; at < text.length;) {
        const char *found = memchr(text.bytes + at, ' ', text.length - at);
        size_t end = found ? (size_t)(found - text.bytes) : text.length;
        if (!mr_buffer_append(out, mr_text_part(text, at, end))) return false;
        if (found && !mr_buffer_append(out, space)) return false;
        at = found ? end + 1 : end;
    }
    return true;
}

static bool ends_with(struct mr_text text, struct mr_text end)
{
    return text.length >= end.length &&
           memcmp(text.bytes + text.length - end.length, end.bytes, end.length) == 0;
}

/* Normalizes as SentencePiece does (Normalizer::Normalize of its normalizer.cc). */
static enum mr_status run_sentence(const struct step *step, struct mr_text text, bool at_start,
                                   struct mr_buffer *out, struct mr_error *err)
{
    const struct mr_sentence_rules *rules = &step->rules;
    bool remove = rules->remove_extra_spaces;
    bool dummy = rules->add_dummy_prefix && (at_start || rules->prefix_every_part);
    struct mr_text space =
        rules->escape_spaces ? (struct mr_text){"\xe2\x96\x81", 3} : (struct mr_text){" ", 1};
    size_t at = 0, taken = 0;
    while (remove && at < text.length) {
        struct mr_text part = next_sentence_part(step, mr_text_part(text, at, text.length), &taken);
        if (!mr_text_is(part, " ")) break;
        at += taken;
    }
    if (at == text.length) return MR_OK;
    if (dummy && !rules->space_as_suffix && !mr_buffer_append(out, space)) return no_room(err);
    bool after_space = remove;
    while (at < text.length) {
        struct mr_text part = next_sentence_part(step, mr_text_part(text, at, text.length), &taken);
        size_t start = 0;
        while (after_space && start < part.length && part.bytes[start] == ' ')
            start++;
        if (!append_spaced(out, mr_text_part(part, start, part.length), space)) return no_room(err);
        if (start < part.length) after_space = remove && part.bytes[part.length - 1] == ' ';
        at += taken;
    }
    while (remove && ends_with(mr_buffer_text(out), space))
        out->length -= space.length;
    bool suffix = dummy && rules->space_as_suffix;
    return !suffix || mr_buffer_append(out, space) ? MR_OK : no_room(err);
}

static enum mr_status run_step(const struct step *step, struct mr_regex_scratch *regex,
                               struct mr_text text, bool at_start, struct mr_buffer *out,
                               struct mr_error *err)
{
    switch (step->kind) {
    case NORMAL_FORM:
        return run_form(step, text, out, err);
    case PREPEND:
        if (!mr_buffer_append(out, step->content) || !mr_buffer_append(out, text))
            return no_room(err);
        return MR_OK;
    case REPLACE:
        if (step->regex) return run_replace_regex(step, regex, text, out, err);
        return run_replace_text(step, text, out, err);
    case STRIP:
        return run_strip(step, text, out, err);
    case STRIP_MARKS:
    case LOWERCASE:
    case NMT:
    case BERT_CLEAN:
    case BERT_IDEOGRAPHS:
    case BERT_MARKS:
        return run_map(step, text, out, err);
    case BYTE_LEVEL:
        return mr_byte_alphabet_encode(text, out) ? MR_OK : no_room(err);
    case PRECOMPILED:
        return run_precompiled(step, text, out, err);
    case SENTENCE:
        return run_sentence(step, text, at_start, out, err);
    }
    return MR_OK;
}

enum mr_status mr_normalizer_run(const struct mr_normalizer *normalizer,
                                 struct mr_normalizer_scratch *scratch, struct mr_text text,
                                 bool at_start, struct mr_text *out, struct mr_error *err)
{
    *out = text;
    unsigned turn = 0; /* index of the buffer that *out does not point into */
    for (size_t i = 0; i < normalizer->step_count && out->length > 0; i++) {
        const struct step *step = &normalizer->steps[i];
        if (step->kind == NORMAL_FORM && ascii_end(*out, 0) == out->length) continue;
        struct mr_buffer *buffer = &scratch->buffers[turn];
        turn = 1 - turn;
        mr_buffer_clear(buffer);
        enum mr_status status = run_step(step, scratch->regex, *out, at_start, buffer, err);
        if (status != MR_OK) return status;
        *out = mr_buffer_text(buffer);
    }
    return MR_OK;
}
