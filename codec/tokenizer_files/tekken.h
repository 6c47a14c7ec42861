/* tekken - makes a tokenizer from a tekken.json, the file of Mistral's models since Mistral Nemo.
 *
 * The file has a pattern that cuts the text, and a vocabulary of byte strings in base64. A rank is
 * the order in which byte strings are merged. It is also the id, counted from the end of the
 * special tokens. A piece of text that is in the vocabulary is one token. Ids equal those of PyPI
 * `mistral-common`, which uses `tiktoken`.
 *
 * Threads: any. Memory: the tokenizer copies all data that it needs.
 * Errors:  MR_BAD_FILE names the member, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_FILES_TEKKEN_H
#define MR_CODEC_TOKENIZER_FILES_TEKKEN_H

#include "codec/tokenizer/tokenizer.h"
#include "codec/tokenizer_files/tokenizer_settings.h"

/* json: the bytes of a tekken.json. The only other file that is read is tokenizer_config.json, for
 * add_bos_token and add_eos_token. Without these settings the begin token is added and the end
 * token is not, as in `mistral-common`. */
enum mr_status mr_tokenizer_from_tekken(struct mr_tokenizer **out, struct mr_text json,
                                        const struct mr_tokenizer_files *files,
                                        struct mr_error *err);

#endif
