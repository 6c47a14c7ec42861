/* completion - the text and ids that one choice of a request has produced, and whether it has
 * ended.
 *
 * Each sampled token is pushed once. The detokenizer turns it into text, the text is searched for
 * stop strings (Aho-Corasick, codec/tokenizer/stop_match.h), and the first of these conditions that
 * holds ends the choice: cancelled or deadline, max_tokens, end-of-sequence id, stop token, stop
 * string, max_chars, low confidence, context full.
 * Whatever the reason, an end or stop token is counted but is not part of ids and text, and a stop
 * string that the last token completed is cut from the text.
 *
 * Cut text and ids agree: when the text is cut (stop string, max_chars), the last id kept is the
 * token in which the kept text ends. A token whose text lies on both sides of the cut is kept as an
 * id. Without a cut all ids but the end token are kept.
 *
 * Streaming: a delta is valid UTF-8 and carries the ids that belong to it. A delta holds back bytes
 * of an incomplete character, the longest suffix that may still become a stop string, and ids that
 * a cut could still remove. All deltas joined, including the last one, equal the final text and
 * ids.
 *
 * min_tokens: the first min_tokens tokens are not checked for end ids, stop tokens, stop strings
 * and confidence; the sampler must not draw the ids of mr_completion_suppressed() meanwhile.
 * ignore_eos: end-of-sequence ids are ordinary tokens. max_chars counts code points and is exact.
 * Confidence is mr_sample.probability; the token that falls below min_confidence is kept.
 *
 * Owner:  engine thread; the submitting thread creates it.
 * Memory: one zeroed block in _create, sized for the most tokens the choice can have. The text is
 *         sized for the longest token of the vocabulary; pages that are not used are never touched.
 *         _push and _finish allocate nothing.
 * Errors: only _create. */
#ifndef MR_BATCHING_SEQUENCE_COMPLETION_H
#define MR_BATCHING_SEQUENCE_COMPLETION_H

#include "batching/sequence/token_text.h"
#include "codec/records/request.h"
#include "codec/records/result.h"
#include "codec/tokenizer/stop_match.h"
#include "ops/model.h"

struct mr_completion;

/* The same for every request of a worker; all borrowed. */
struct mr_completion_model {
    const struct mr_tokenizer *tokenizer;
    const struct mr_token_text *texts;
    const uint32_t *eos_ids; /* [eos_count] */
    uint32_t eos_count;
};

/* Text and ids since the last delta: spans of the completion's buffers, valid until _destroy. */
struct mr_completion_delta {
    struct mr_text text;
    uint32_t index; /* of token_ids[0] among the choice's reported tokens */
    const uint32_t *token_ids;
    uint32_t token_count;
    const struct mr_logprobs *logprobs; /* [token_count]; NULL when not requested */
};

/* request and matcher are borrowed and must outlive the completion. matcher is shared by the
 * choices of a request and may be NULL when there are no stop strings. room_tokens: tokens the
 * context has room for behind the prompt, >= 1; reaching it ends the choice with `context_full`. */
enum mr_status mr_completion_create(struct mr_completion **out,
                                    const struct mr_completion_model *model,
                                    const struct mr_request *request,
                                    const struct mr_stop_match *matcher, uint32_t room_tokens,
                                    struct mr_error *err);
/* completion may be NULL. */
void mr_completion_destroy(struct mr_completion *completion);
/* Bytes that _create allocates, for the queue's bounds. */
size_t mr_completion_bytes(const struct mr_completion_model *model,
                           const struct mr_request *request, uint32_t room_tokens);

/* Adds one sampled token. verdict: MR_FINISH_NONE, or a reason the engine already has in this step
 * (CANCELLED, DEADLINE), which takes precedence; the token is kept. Returns MR_FINISH_NONE or the
 * reason, and fills *delta (possibly empty). Must not be called after a reason was returned. */
enum mr_finish mr_completion_push(struct mr_completion *completion, const struct mr_sample *sample,
                                  enum mr_finish verdict, struct mr_completion_delta *delta);
/* Ends the choice without a token (cancelled, deadline, pool_exhausted, error, rejected,
 * context_full ...) and flushes the text held back. A second call keeps the first reason and
 * returns an empty delta. */
void mr_completion_finish(struct mr_completion *completion, enum mr_finish reason,
                          struct mr_completion_delta *delta);

/* How much of an earlier attempt's output a new attempt can resume from. */
struct mr_replay {
    uint32_t count; /* leading samples that do not end the choice */
    /* The most of them, up to `shown`, after which a reader can continue: the emitted text ends
     * where the text of the next token begins, and the last delta with content had a token. */
    uint32_t clean;
};

/* Pushes samples[0, count) into a new completion that serves only this trial. */
struct mr_replay mr_completion_try_replay(struct mr_completion *completion,
                                          const struct mr_sample *samples, uint32_t count,
                                          uint32_t shown);

/* Ids that the sampler must not draw for the next token; *count is 0 from min_tokens on. */
const uint32_t *mr_completion_suppressed(const struct mr_completion *completion, uint32_t *count);
/* The choice so far, complete once the choice has ended; points into the completion. */
struct mr_choice mr_completion_choice(const struct mr_completion *completion);
/* Asserts every invariant. */
void mr_completion_check(const struct mr_completion *completion);

#endif
