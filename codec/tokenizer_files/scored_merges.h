/* scored_merges - the merges of a vocabulary that has scores in place of a list of merges.
 *
 * SentencePiece, and tiktoken with ranks in place of scores, merge the adjacent pair whose joined
 * text is the token with the best score, the leftmost of equals. So every way to cut a token into
 * two tokens is a merge, and its rank follows the token's score.
 *
 * Threads: any. Memory: the merges are parts'. Errors: MR_BAD_FILE, MR_NOMEM. */
#ifndef MR_CODEC_TOKENIZER_FILES_SCORED_MERGES_H
#define MR_CODEC_TOKENIZER_FILES_SCORED_MERGES_H

#include "codec/tokenizer/tokenizer_parts.h"

/* Longest token that is made by merging: a token of n bytes costs n searches of up to n bytes. */
#define MR_SCORED_TOKEN_BYTES_MAX ((size_t)1024)

/* Sets parts->merges. scores[id] for each id of parts->vocab; NaN: the token is neither merged nor
 * made by merging. */
enum mr_status mr_scored_merges(struct mr_tokenizer_parts *parts, const float *scores,
                                struct mr_error *err);

#endif
