/* tokenizer_json - makes a tokenizer from a tokenizer.json, the file of PyPI `tokenizers`.
 *
 * Every component of the file is supported or refused by its name; nothing is guessed. The members
 * "truncation" and "padding" are ignored: a worker never shortens or pads a prompt.
 *
 * Threads: any. Memory: the tokenizer copies all data that it needs.
 * Errors:  MR_BAD_FILE names the component or the member, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_FILES_TOKENIZER_JSON_H
#define MR_CODEC_TOKENIZER_FILES_TOKENIZER_JSON_H

#include "codec/tokenizer/tokenizer.h"

/* Makes a tokenizer from json, the bytes of a tokenizer.json, and config, the bytes of a
 * tokenizer_config.json, which may be empty. Only the names of the begin and end token are read
 * from config. The post-processor of json decides which tokens are added to a text. `transformers`
 * 5 does the same: with a tokenizer.json it ignores add_bos_token and add_eos_token. */
enum mr_status mr_tokenizer_from_json(struct mr_tokenizer **out, struct mr_text json,
                                      struct mr_text config, struct mr_error *err);

#endif
