/* completion - what one choice of a request has produced, and whether it has ended.
 *
 * Each sampled token is pushed once. It becomes text (detokenizer), the text is looked at for stop
 * strings (Aho-Corasick, codec/tokenizer/stop_match.h), and the first of these that holds ends the
 * choice: cancelled / deadline, max_tokens, end-of-sequence id, stop token, stop string, max_chars,
 *     low confidence, context full.
 * Whatever the reason, an end or stop token is counted but left out of ids and text, and a stop
 * string that the last token completed is cut out of the text.
 *
 * Cut text and ids agree: when the text is cut (stop string, max_chars) the ids kept are those up
 * to and including the token in which the kept text ends, so a token that straddles the cut stays,
 * whole, as an id; none beyond it does. Without a cut all ids but the end token are kept.
 *
 * Streaming: a delta is valid UTF-8 and carries the ids that belong to it. Held back are only bytes
 * of an unfinished character, the longest suffix that may still become a stop string, and ids a cut
 * could still take away. The deltas joined, the one of the end included, equal the final text and
 * ids.
 *
 * min_tokens: the first min_tokens tokens are not looked at for end ids, stop tokens, stop strings
 * and confidence; mr_completion_suppressed() is what the sampler must not draw meanwhile.
 * ignore_eos: end-of-sequence ids are ordinary tokens. max_chars counts code points and is exact.
 * Confidence is mr_sample.probability; the token that fell below stays in the answer.
 *
 * Owner:  engine thread (creation: the submitting thread).
 * Memory: one zeroed block in _create, sized for the most tokens the choice can have; the text part
 *         is sized for the longest token of the vocabulary, so most of its pages are never touched.
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

/* New since the last delta: spans of the completion's own buffers, good until _destroy. */
struct mr_completion_delta {
    struct mr_text text;
    uint32_t index; /* of token_ids[0] among the choice's reported tokens */
    const uint32_t *token_ids;
    uint32_t token_count;
    const struct mr_logprobs *logprobs; /* [token_count], NULL when not asked for */
};

/* request and matcher are borrowed and must live longer; matcher (shared by the choices of a
 * request) may be NULL when there are no stop strings. room_tokens: tokens the context has room for
 * behind the prompt, >= 1; reaching it ends the choice with `context_full`. */
enum mr_status mr_completion_create(struct mr_completion **out,
                                    const struct mr_completion_model *model,
                                    const struct mr_request *request,
                                    const struct mr_stop_match *matcher, uint32_t room_tokens,
                                    struct mr_error *err);
/* completion may be NULL. */
void mr_completion_destroy(struct mr_completion *completion);
/* Bytes _create would take: for the queue's bounds. */
size_t mr_completion_bytes(const struct mr_completion_model *model,
                           const struct mr_request *request, uint32_t room_tokens);

/* One sampled token. verdict: MR_FINISH_NONE, or what the engine already knows at this step
 * (CANCELLED, DEADLINE): it wins, and the token is kept. Returns MR_FINISH_NONE or the reason, and
 * fills *delta (possibly empty). Not to be called again once a reason was returned. */
enum mr_finish mr_completion_push(struct mr_completion *completion, const struct mr_sample *sample,
                                  enum mr_finish verdict, struct mr_completion_delta *delta);
/* Ends the choice without a token (cancelled, deadline, pool_exhausted, error, rejected,
 * context_full ...) and flushes what was held back. A second call changes nothing and returns an
 * empty delta: the first reason stays. */
void mr_completion_finish(struct mr_completion *completion, enum mr_finish reason,
                          struct mr_completion_delta *delta);

/* What an earlier attempt drew, looked at before it is pushed again. */
struct mr_rehearsal {
    uint32_t count; /* samples that do not end the choice, from the first one on */
    /* The most of them, up to `shown`, at which a reader may cut: all that was handed out ends
     * where the text of the next token begins, and no text without a token came last. */
    uint32_t clean;
};

/* Pushes samples[0, count) without anybody reading. Uses the completion up, which must be new. */
struct mr_rehearsal mr_completion_rehearse(struct mr_completion *completion,
                                           const struct mr_sample *samples, uint32_t count,
                                           uint32_t shown);

/* Ids the sampler must not draw for the next token; *count 0 from min_tokens on. */
const uint32_t *mr_completion_suppressed(const struct mr_completion *completion, uint32_t *count);
/* Tokens pushed so far, an end token included. */
uint32_t mr_completion_tokens(const struct mr_completion *completion);
enum mr_finish mr_completion_reason(const struct mr_completion *completion);
/* The choice as it stands (partial before the end): pointers into the completion. */
struct mr_choice mr_completion_choice(const struct mr_completion *completion);
/* Asserts every invariant. */
void mr_completion_check(const struct mr_completion *completion);

#endif
