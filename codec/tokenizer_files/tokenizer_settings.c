#include "codec/tokenizer_files/tokenizer_settings.h"

#include <stdlib.h>
#include <string.h>

/* Most tokens that the files next to a vocabulary may add. Gemma 3 adds 6,415. */
#define ADDED_MAX 65536

const struct mr_json_limits mr_tokenizer_json_limits = {(size_t)256 << 20, (size_t)16 << 20, 32};

enum mr_status mr_tokenizer_parse(struct mr_json **out, struct mr_text bytes, const char *name,
                                  struct mr_error *err)
{
    struct mr_error cause;
    enum mr_status status = mr_json_parse_wide(out, bytes, &mr_tokenizer_json_limits, &cause);
    if (status == MR_OK) return MR_OK;
    if (status == MR_NOMEM) return mr_fail(err, status, "no memory for %s", name);
    return mr_fail(err, MR_BAD_FILE, "%s: %.150s", name, cause.detail);
}

static enum mr_status parse_present(struct mr_json **out, struct mr_text bytes, const char *name,
                                    struct mr_error *err)
{
    *out = NULL;
    return bytes.length > 0 ? mr_tokenizer_parse(out, bytes, name, err) : MR_OK;
}

enum mr_status mr_tokenizer_settings_open(struct mr_tokenizer_settings *out,
                                          const struct mr_tokenizer_files *files,
                                          struct mr_error *err)
{
    *out = (struct mr_tokenizer_settings){0};
    enum mr_status status =
        parse_present(&out->config, files->config, "tokenizer_config.json", err);
    if (status == MR_OK)
        status =
            parse_present(&out->special_map, files->special_map, "special_tokens_map.json", err);
    if (status == MR_OK)
        status = parse_present(&out->added, files->added, "added_tokens.json", err);
    if (status != MR_OK) mr_tokenizer_settings_close(out);
    return status;
}

void mr_tokenizer_settings_close(struct mr_tokenizer_settings *settings)
{
    mr_json_destroy(settings->config);
    mr_json_destroy(settings->special_map);
    mr_json_destroy(settings->added);
    *settings = (struct mr_tokenizer_settings){0};
}

static const struct mr_json_value *root_of(const struct mr_json *file)
{
    return file ? mr_json_root(file) : NULL;
}

/* ---- names and flags ---- */

/* Reads the text of a token, which is a text or an object with the member "content". */
static bool read_token(const struct mr_json_value *value, struct mr_text *text)
{
    return mr_json_text(value, text) || mr_json_text(mr_json_get(value, "content"), text);
}

static struct mr_added_token *find_added(const struct mr_tokenizer_parts *parts,
                                         struct mr_text content)
{
    for (size_t i = 0; i < parts->added_count; i++)
        if (mr_text_equal(parts->added[i].content, content)) return &parts->added[i];
    return NULL;
}

uint32_t mr_tokenizer_settings_token(const struct mr_tokenizer_settings *settings,
                                     const struct mr_tokenizer_parts *parts, const char *name)
{
    struct mr_text text;
    if (!read_token(mr_json_get(root_of(settings->config), name), &text) &&
        !read_token(mr_json_get(root_of(settings->special_map), name), &text))
        return MR_TOKEN_NONE;
    const struct mr_added_token *token = find_added(parts, text);
    return token ? token->id : mr_vocab_find(parts->vocab, text);
}

bool mr_tokenizer_settings_flag(const struct mr_tokenizer_settings *settings, const char *name,
                                bool otherwise)
{
    mr_json_bool(mr_json_get(root_of(settings->config), name), &otherwise);
    return otherwise;
}

/* ---- added tokens ---- */

static void put_added(struct mr_tokenizer_parts *parts, struct mr_added_token token)
{
    for (size_t i = 0; i < parts->added_count; i++) {
        if (parts->added[i].id != token.id) continue;
        parts->added[i] = token;
        return;
    }
    parts->added[parts->added_count++] = token;
}

static bool flag_of(const struct mr_json_value *value, const char *name, bool otherwise)
{
    mr_json_bool(mr_json_get(value, name), &otherwise);
    return otherwise;
}

/* Reads "32000": {"content": "<x>", "special": true ...}. */
static enum mr_status add_decoder_token(struct mr_tokenizer_parts *parts,
                                        const struct mr_json_member *member, struct mr_error *err)
{
    uint64_t id = 0;
    struct mr_added_token token = {.id = 0};
    const struct mr_json_value *value = member->value;
    for (size_t i = 0; i < member->name.length && id < MR_VOCAB_TOKENS_MAX; i++) {
        unsigned digit = (unsigned)member->name.bytes[i] - '0';
        id = digit < 10 ? id * 10 + digit : MR_VOCAB_TOKENS_MAX;
    }
    if (member->name.length == 0 || id >= MR_VOCAB_TOKENS_MAX ||
        !mr_json_text(mr_json_get(value, "content"), &token.content))
        return mr_fail(err, MR_BAD_FILE,
                       "tokenizer_config.json: an entry of added_tokens_decoder is not an id with "
                       "a content");
    token.id = (uint32_t)id;
    token.special = flag_of(value, "special", false);
    token.lstrip = flag_of(value, "lstrip", false);
    token.rstrip = flag_of(value, "rstrip", false);
    token.single_word = flag_of(value, "single_word", false);
    token.normalized = flag_of(value, "normalized", !token.special);
    if (token.content.length > 0) put_added(parts, token);
    return MR_OK;
}

/* Reads "<x>": 32000 of added_tokens.json; the entries of added_tokens_decoder have flags too. */
static enum mr_status add_listed_token(struct mr_tokenizer_parts *parts,
                                       const struct mr_json_member *member, struct mr_error *err)
{
    int64_t id = -1;
    if (!mr_json_int(member->value, &id) || id < 0 || id >= (int64_t)MR_VOCAB_TOKENS_MAX)
        return mr_fail(err, MR_BAD_FILE, "added_tokens.json: a token id is not a number in range");
    if (member->name.length > 0 && !find_added(parts, member->name))
        put_added(parts, (struct mr_added_token){.content = member->name, .id = (uint32_t)id});
    return MR_OK;
}

/* Marks the token that value names as special. A token of the vocabulary becomes an added token. */
static void mark_special(struct mr_tokenizer_parts *parts, const struct mr_json_value *value)
{
    struct mr_text text;
    if (!read_token(value, &text) || text.length == 0) return;
    struct mr_added_token *token = find_added(parts, text);
    uint32_t id = mr_vocab_find(parts->vocab, text);
    if (token)
        token->special = true;
    else if (id != MR_TOKEN_NONE)
        put_added(parts, (struct mr_added_token){.content = text, .id = id, .special = true});
}

static void mark_all_special(struct mr_tokenizer_parts *parts, const struct mr_json_value *root)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        mark_special(parts, mr_json_get(root, names[i]));
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const struct mr_json_value *list = mr_json_get(root, lists[i]);
        for (size_t j = 0; j < mr_json_count(list); j++)
            mark_special(parts, mr_json_at(list, j));
    }
}

/* Most tokens that mark_all_special marks. */
static size_t marks_of(const struct mr_json_value *root)
{
    return 7 + mr_json_count(mr_json_get(root, "additional_special_tokens")) +
           mr_json_count(mr_json_get(root, "extra_special_tokens"));
}

enum mr_status mr_tokenizer_settings_add_tokens(const struct mr_tokenizer_settings *settings,
                                                struct mr_tokenizer_parts *parts,
                                                struct mr_error *err)
{
    const struct mr_json_value *config = root_of(settings->config);
    const struct mr_json_value *special_map = root_of(settings->special_map);
    const struct mr_json_value *decoder = mr_json_get(config, "added_tokens_decoder");
    const struct mr_json_value *added = root_of(settings->added);
    size_t most = parts->added_count + mr_json_count(decoder) + mr_json_count(added) +
                  marks_of(config) + marks_of(special_map);
    /* each token is compared with all others */
    if (most - parts->added_count > ADDED_MAX)
        return mr_fail(err, MR_BAD_FILE, "tokenizer_config.json: %zu added tokens, the limit is %d",
                       most - parts->added_count, ADDED_MAX);
    struct mr_added_token *grown = realloc(parts->added, most * sizeof *grown);
    if (!grown) return mr_fail(err, MR_NOMEM, "no memory for %zu added tokens", most);
    parts->added = grown;
    enum mr_status status = MR_OK;
    struct mr_json_member member = {0};
    while (status == MR_OK && mr_json_next(decoder, &member))
        status = add_decoder_token(parts, &member, err);
    member = (struct mr_json_member){0};
    while (status == MR_OK && mr_json_next(added, &member))
        status = add_listed_token(parts, &member, err);
    mark_all_special(parts, config);
    mark_all_special(parts, special_map);
    return status;
}
