/* tokenizer_settings - reads the small files next to a vocabulary that describe its tokens:
 * tokenizer_config.json, special_tokens_map.json and added_tokens.json of a Hugging Face folder.
 * Each file may be absent.
 *
 * Threads: any. Memory: owns the parsed files; texts are borrowed from it.
 * Errors:  MR_BAD_FILE names the file, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_FILES_TOKENIZER_SETTINGS_H
#define MR_CODEC_TOKENIZER_FILES_TOKENIZER_SETTINGS_H

#include "codec/tokenizer/tokenizer_parts.h"
#include "codec/wire/json.h"

/* The bytes of the files; empty: the file is absent. */
struct mr_tokenizer_files {
    struct mr_text config, special_map, added;
};

struct mr_tokenizer_settings {
    struct mr_json *config, *special_map, *added; /* NULL: the file is absent */
};

/* Limits of a tokenizer.json and the files next to it. The largest known file has 2 million values
 * in 33 MB. */
extern const struct mr_json_limits mr_tokenizer_json_limits;

/* Parses a JSON file of this name; an error names it. */
enum mr_status mr_tokenizer_parse(struct mr_json **out, struct mr_text bytes, const char *name,
                                  struct mr_error *err);

enum mr_status mr_tokenizer_settings_open(struct mr_tokenizer_settings *out,
                                          const struct mr_tokenizer_files *files,
                                          struct mr_error *err);
void mr_tokenizer_settings_close(struct mr_tokenizer_settings *settings);

/* The id of the token that a setting such as "bos_token" names; MR_TOKEN_NONE: the setting is
 * absent, or no token has that text. */
uint32_t mr_tokenizer_settings_token(const struct mr_tokenizer_settings *settings,
                                     const struct mr_tokenizer_parts *parts, const char *name);
/* The value of a setting of tokenizer_config.json that is true or false; `otherwise` for any other
 * value or none. */
bool mr_tokenizer_settings_flag(const struct mr_tokenizer_settings *settings, const char *name,
                                bool otherwise);

/* Adds the tokens of added_tokens_decoder and added_tokens.json to parts->added, which it grows,
 * and marks the named special tokens as special. A token of parts with the same id is replaced. */
enum mr_status mr_tokenizer_settings_add_tokens(const struct mr_tokenizer_settings *settings,
                                                struct mr_tokenizer_parts *parts,
                                                struct mr_error *err);

#endif
