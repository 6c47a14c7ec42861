/* completion - the text and ids that one choice of a request has produced, and whether it has
 * ended.
 *
 * Each sampled token is pushed once. The detokenizer turns it into text, the text is searched for
 * stop strings (Aho-Corasick, codec/tokenizer/stop_match.h), and the first of these conditions that
 * holds ends the choice: cancelled or deadline, max_tokens, end-of-sequence id, stop token, stop
 * string, max_chars, low confidence, context full.
 * For every reason, an end or stop token is counted but is not part of ids and text, and a stop
 * string that the last token completed is cut from the text.
 *
 * Cut text and ids agree: when the text is cut (stop string, max_chars), the last id kept is the
 * token in which the kept text ends. A token whose text lies on both sides of the cut is kept as an
 * id. Without a cut all ids except the end token are kept.
 *
 * Streaming: a delta is valid UTF-8 and carries the ids that belong to it. A delta holds back bytes
 * of an incomplete character, the longest suffix that may still become a stop string, and ids that
 * a cut could still remove. All deltas joined, including the last one, equal the final text and
 * ids.
 *
 * A request with echo: the text begins with request->echoed, which belongs to no token, is emitted
 * with the first delta, and is neither counted (max_chars) nor searched (stop strings).
 *
 * min_tokens: the first min_tokens tokens are not checked for end ids, stop tokens, ends of stop
 * strings and confidence; until then the sampler must not draw the ids of
 * mr_completion_suppressed(). A stop string that begins in these tokens and ends after them is
 * cut too.
 * A constrained answer that is complete ends before min_tokens.
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

#include "batching/sequence/thinking.h"
#include "batching/sequence/token_text.h"
#include "codec/records/request.h"
#include "codec/records/result.h"
#include "codec/tokenizer/stop_match.h"
#include "ops/model/model.h"

struct mr_completion;

/* The same for every request of a worker; all pointers are borrowed. */
struct mr_completion_model {
    const struct mr_tokenizer *tokenizer;
    const struct mr_token_text *texts;
    const uint32_t *eos_ids; /* [eos_count] end-of-sequence ids */
    uint32_t eos_count;
};

/* Text and ids since the last delta. They point into the completion's buffers and are valid until
 * mr_completion_destroy(). */
struct mr_completion_delta {
    struct mr_text text;
    uint32_t index; /* position of token_ids[0] among the choice's output tokens */
    const uint32_t *token_ids;
    uint32_t token_count;
    const struct mr_logprobs *logprobs; /* [token_count]; NULL when not requested */
    struct mr_text before;              /* the text of the deltas before */
};

/* request and matcher are borrowed and must outlive the completion. matcher is shared by the
 * choices of a request and may be NULL when there are no stop strings. room_tokens: the most
 * tokens that fit the context after the prompt, >= 1; a choice that reaches room_tokens ends with
 * the reason `context_full`. */
enum mr_status mr_completion_create(struct mr_completion **out,
                                    const struct mr_completion_model *model,
                                    const struct mr_request *request,
                                    const struct mr_stop_match *matcher, uint32_t room_tokens,
                                    struct mr_error *err);
/* completion may be NULL. */
void mr_completion_destroy(struct mr_completion *completion);
/* Bytes that mr_completion_create() allocates; they count towards the request queue's bound of
 * bytes. */
size_t mr_completion_bytes(const struct mr_completion_model *model,
                           const struct mr_request *request, uint32_t room_tokens);

/* Adds one sampled token. verdict: MR_FINISH_NONE, or the reason for which the engine ends the
 * choice in this step (CANCELLED, DEADLINE), which takes precedence over other reasons; the token
 * is kept. Returns the reason for which the choice ended, or MR_FINISH_NONE, and fills *delta
 * (possibly empty). Must not be called again after it has returned a reason. */
enum mr_finish mr_completion_push(struct mr_completion *completion, const struct mr_sample *sample,
                                  enum mr_finish verdict, struct mr_completion_delta *delta);
/* Ends the choice without a token (cancelled, deadline, pool_exhausted, error, rejected,
 * context_full ...) and emits the text held back. A second call keeps the first reason and returns
 * an empty delta. */
void mr_completion_finish(struct mr_completion *completion, enum mr_finish reason,
                          struct mr_completion_delta *delta);

/* How many output tokens of an earlier attempt a new attempt can continue from. */
struct mr_replay {
    uint32_t count; /* number of leading tokens that do not end the choice */
    /* The largest number of leading tokens, at most `shown`, after which a reader can continue: the
     * text emitted for them ends where the text of the next token begins, and the last delta that
     * had text also had a token. */
    uint32_t clean;
};

/* Pushes samples[0, count) into a new completion, which cannot be used otherwise afterwards, and
 * returns how much of them can be kept. */
struct mr_replay mr_completion_try_replay(struct mr_completion *completion,
                                          const struct mr_sample *samples, uint32_t count,
                                          uint32_t shown);

/* Returns the ids that the sampler must not draw for the token that follows `ahead` more tokens;
 * *count is 0 once the choice has min_tokens tokens. */
const uint32_t *mr_completion_suppressed(const struct mr_completion *completion, uint32_t ahead,
                                         uint32_t *count);
/* The limit on the tokens of reasoning. */
const struct mr_thinking *mr_completion_thinking(const struct mr_completion *completion);
/* True when a sampled token with this id may end the choice by itself: an end-of-sequence id or a
 * stop token. */
bool mr_completion_may_end(const struct mr_completion *completion, uint32_t id);
/* The output of the choice so far, complete once the choice has ended. Its pointers point into the
 * completion. */
struct mr_choice mr_completion_choice(const struct mr_completion *completion);
/* Asserts every invariant of the completion. */
void mr_completion_check(const struct mr_completion *completion);

#endif
