/* The text grows only at its end: bytes [0, text_length) are known, bytes [0, safe_length) can no
 * longer be cut, bytes [0, emitted_bytes) have been emitted. The text of token i begins at
 * starts[i]; cutting the text and emitting a delta use starts[] to decide which ids belong to the
 * text. */
#include "batching/sequence/completion.h"

#include "codec/check.h"
#include "codec/tokenizer/detokenizer.h"
#include "codec/utf8.h"

#include <stdlib.h>
#include <string.h>

#define FLUSH_BYTES_MAX 12u /* most bytes that the detokenizer writes when the text ends */

struct mr_completion {
    struct mr_completion_model model;
    const struct mr_request *request;
    const struct mr_stop_match *matcher;
    struct mr_detokenizer detokenizer;
    struct mr_thinking thinking;
    uint32_t stop_position;

    char *text;
    size_t text_capacity, text_length, safe_length, emitted_bytes;
    uint64_t char_count;

    uint32_t *token_ids;          /* [tokens_max] ids of the output, without end tokens */
    uint32_t *starts;             /* [tokens_max] offset in text where each token's text begins */
    struct mr_logprobs *logprobs; /* [tokens_max]; NULL when not requested */
    struct mr_token_logprob *top; /* [tokens_max * top_width] most likely tokens at each position */
    uint32_t *suppressed;         /* [suppressed_count] end-of-sequence ids and stop tokens */
    uint32_t tokens_max, top_width, suppressed_count;
    uint32_t token_count, emitted_tokens, pushed, room_tokens;

    enum mr_finish reason, stopped_by;
    struct mr_text stop_text;
    uint32_t stop_token;
};

/* The kind of the pushed token, and its effect on the text. */
struct effect {
    bool is_eos, is_stop_token, is_cut;
    bool is_forced;  /* the token ends reasoning that was too long, so its chance says nothing */
    bool is_stopped; /* the token completed a stop string */
    struct mr_text stop_text;
};

/* ---- memory ---- */

struct layout {
    size_t text_bytes, tokens, top, suppressed, logprobs, total;
};

static struct layout lay_out(const struct mr_completion_model *model,
                             const struct mr_request *request, uint32_t room_tokens)
{
    struct layout sizes = {0};
    size_t token_bytes = mr_token_text_bytes_max(model->texts);
    sizes.tokens = request->max_tokens < room_tokens ? request->max_tokens : room_tokens;
    sizes.text_bytes = sizes.tokens * token_bytes;
    if (request->max_chars > 0 && sizes.text_bytes / 4 > request->max_chars)
        sizes.text_bytes = (size_t)request->max_chars * 4 + token_bytes;
    sizes.text_bytes += FLUSH_BYTES_MAX + request->echoed.length;
    if (request->sampling.logprobs >= 0) {
        sizes.logprobs = sizes.tokens;
        sizes.top = sizes.tokens * (size_t)request->sampling.logprobs;
    }
    sizes.suppressed = model->eos_count + request->stop_token_count;
    sizes.total = sizeof(struct mr_completion) + sizes.logprobs * sizeof(struct mr_logprobs) +
                  sizes.top * sizeof(struct mr_token_logprob) +
                  (2 * sizes.tokens + sizes.suppressed) * sizeof(uint32_t) + sizes.text_bytes;
    return sizes;
}

size_t mr_completion_bytes(const struct mr_completion_model *model,
                           const struct mr_request *request, uint32_t room_tokens)
{
    return lay_out(model, request, room_tokens).total;
}

static void place_parts(struct mr_completion *completion, const struct layout *sizes)
{
    struct mr_logprobs *logprobs = (struct mr_logprobs *)(void *)(completion + 1);
    completion->logprobs = sizes->logprobs > 0 ? logprobs : NULL;
    completion->top = (struct mr_token_logprob *)(void *)(logprobs + sizes->logprobs);
    completion->token_ids = (uint32_t *)(void *)(completion->top + sizes->top);
    completion->starts = completion->token_ids + sizes->tokens;
    completion->suppressed = completion->starts + sizes->tokens;
    completion->text = (char *)(completion->suppressed + sizes->suppressed);
    completion->text_capacity = sizes->text_bytes;
    completion->tokens_max = (uint32_t)sizes->tokens;
}

static void list_suppressed(struct mr_completion *completion)
{
    const struct mr_request *request = completion->request;
    uint32_t count = 0;
    if (!request->ignore_eos)
        for (uint32_t i = 0; i < completion->model.eos_count; i++)
            completion->suppressed[count++] = completion->model.eos_ids[i];
    for (size_t i = 0; i < request->stop_token_count; i++)
        completion->suppressed[count++] = request->stop_token_ids[i];
    completion->suppressed_count = count;
}

enum mr_status mr_completion_create(struct mr_completion **out,
                                    const struct mr_completion_model *model,
                                    const struct mr_request *request,
                                    const struct mr_stop_match *matcher, uint32_t room_tokens,
                                    struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(room_tokens > 0);
    MR_ASSERT(matcher != NULL || request->stop_count == 0);
    struct layout sizes = lay_out(model, request, room_tokens);
    struct mr_completion *completion = calloc(1, sizes.total);
    if (completion == NULL)
        return mr_fail(err, MR_NOMEM, "no memory for an answer of %zu tokens", sizes.tokens);
    place_parts(completion, &sizes);
    completion->model = *model;
    completion->request = request;
    completion->matcher = request->stop_count > 0 ? matcher : NULL;
    completion->room_tokens = room_tokens;
    completion->stop_token = MR_TOKEN_NONE;
    if (request->sampling.logprobs > 0)
        completion->top_width = (uint32_t)request->sampling.logprobs;
    mr_detokenizer_init(&completion->detokenizer, model->tokenizer, !request->keep_special);
    mr_thinking_init(&completion->thinking, &request->thinking);
    list_suppressed(completion);
    if (request->echoed.length > 0)
        memcpy(completion->text, request->echoed.bytes, request->echoed.length);
    completion->text_length = completion->safe_length = request->echoed.length;
    *out = completion;
    return MR_OK;
}

void mr_completion_destroy(struct mr_completion *completion)
{
    free(completion);
}

/* ---- text ---- */

static bool is_among(const uint32_t *ids, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

/* True when text produced already can still be removed: by a stop string or by max_chars. */
static bool may_be_cut(const struct mr_completion *completion)
{
    return completion->matcher != NULL || completion->request->max_chars > 0;
}

/* Cuts the text to text[0, length) and the ids to those up to the token in which this text ends. */
static void cut(struct mr_completion *completion, size_t length, struct effect *effect)
{
    MR_ASSERT(length >= completion->safe_length && length <= completion->text_length);
    completion->text_length = length;
    while (completion->token_count > 0 && completion->starts[completion->token_count - 1] >= length)
        completion->token_count--;
    effect->is_cut = true;
}

/* Searches text[from, text_length) for the end of a stop string; one that ends in the first
 * min_tokens tokens does not count. Cuts the text before the first one found, or after it when
 * include_stop is set. */
static void match_stop(struct mr_completion *completion, size_t from, struct effect *effect)
{
    if (completion->matcher == NULL) return;
    struct mr_stop_hit hit;
    size_t end = from;
    do {
        if (!mr_stop_match_feed(completion->matcher, &completion->stop_position,
                                completion->text + end, completion->text_length - end, &hit))
            return;
        end += hit.end;
    } while (completion->pushed <= completion->request->min_tokens);
    effect->is_stopped = true;
    effect->stop_text = completion->request->stops[hit.stop_index];
    cut(completion, completion->request->include_stop ? end : end - hit.length, effect);
}

/* Counts the characters of text[from, text_length) and cuts the text after character number
 * max_chars. */
static void limit_chars(struct mr_completion *completion, size_t from, struct effect *effect)
{
    uint32_t most = completion->request->max_chars;
    if (most == 0) return;
    struct mr_text text = {completion->text, completion->text_length};
    size_t at = from;
    while (at < text.length && completion->char_count < most) {
        at += mr_utf8_next(text, at).length;
        completion->char_count++;
    }
    if (at < text.length) cut(completion, at, effect);
}

static void note_logprobs(struct mr_completion *completion, const struct mr_sample *sample)
{
    if (completion->logprobs == NULL) return;
    const struct mr_token_text *texts = completion->model.texts;
    struct mr_token_logprob *top =
        completion->top + (size_t)completion->token_count * completion->top_width;
    uint32_t count =
        sample->top_count < completion->top_width ? sample->top_count : completion->top_width;
    for (uint32_t i = 0; i < count; i++)
        top[i] = mr_token_text_logprob(texts, sample->top_ids[i], sample->top_logprobs[i]);
    completion->logprobs[completion->token_count] = (struct mr_logprobs){
        .chosen = mr_token_text_logprob(texts, sample->token_id, sample->logprob),
        .top = top,
        .top_count = count};
}

static void append(struct mr_completion *completion, const struct mr_sample *sample,
                   struct effect *effect)
{
    MR_ASSERT(completion->token_count < completion->tokens_max);
    size_t from = completion->text_length;
    MR_ASSERT(from + mr_detokenizer_bound(&completion->detokenizer, sample->token_id) <=
              completion->text_capacity);
    note_logprobs(completion, sample);
    completion->token_ids[completion->token_count] = sample->token_id;
    completion->starts[completion->token_count++] = (uint32_t)from;
    completion->text_length +=
        mr_detokenizer_push(&completion->detokenizer, sample->token_id, completion->text + from);
    match_stop(completion, from, effect);
    limit_chars(completion, from < completion->text_length ? from : completion->text_length,
                effect);
}

/* ---- the end ---- */

static enum mr_finish finish_reason(const struct mr_completion *completion,
                                    const struct mr_sample *sample, const struct effect *effect)
{
    const struct mr_request *request = completion->request;
    if (completion->pushed >= request->max_tokens) return MR_FINISH_LENGTH;
    if (effect->is_eos) return MR_FINISH_EOS;
    if (effect->is_stop_token) return MR_FINISH_STOP_TOKEN;
    if (effect->is_stopped) return MR_FINISH_STOP_STRING;
    if (request->max_chars > 0 && completion->char_count >= request->max_chars)
        return MR_FINISH_MAX_CHARS;
    if (completion->pushed > request->min_tokens && !effect->is_forced &&
        sample->probability < request->min_confidence)
        return MR_FINISH_LOW_CONFIDENCE;
    if (completion->pushed >= completion->room_tokens) return MR_FINISH_CONTEXT_FULL;
    return MR_FINISH_NONE;
}

/* How the answer itself ended, ignoring other reasons in the same step. */
static enum mr_finish stopped_by(const struct effect *effect)
{
    if (effect->is_eos) return MR_FINISH_EOS;
    if (effect->is_stop_token) return MR_FINISH_STOP_TOKEN;
    return effect->is_stopped ? MR_FINISH_STOP_STRING : MR_FINISH_NONE;
}

/* Called when the choice ends: an incomplete character at the end of the text becomes U+FFFD, if
 * max_chars allows one more character. */
static void flush(struct mr_completion *completion)
{
    uint32_t most = completion->request->max_chars;
    if (most > 0 && completion->char_count >= most) return;
    completion->text_length +=
        mr_detokenizer_finish(&completion->detokenizer, completion->text + completion->text_length);
}

static void end(struct mr_completion *completion, enum mr_finish reason, bool is_cut)
{
    MR_ASSERT(reason != MR_FINISH_NONE);
    if (!is_cut) flush(completion);
    completion->reason = reason;
}

/* Emits the text and ids that are new since the last delta and can no longer be cut. */
static void emit(struct mr_completion *completion, struct mr_completion_delta *delta)
{
    size_t held = 0;
    bool is_over = completion->reason != MR_FINISH_NONE;
    if (!is_over && completion->matcher != NULL)
        held = mr_stop_match_held(completion->matcher, completion->stop_position);
    completion->safe_length = completion->text_length - held;
    uint32_t first = completion->emitted_tokens, next = first;
    while (next < completion->token_count && (is_over || !may_be_cut(completion) ||
                                              completion->starts[next] < completion->safe_length))
        next++;
    *delta = (struct mr_completion_delta){
        .text = {completion->text + completion->emitted_bytes,
                 completion->safe_length - completion->emitted_bytes},
        .index = first,
        .token_ids = completion->token_ids + first,
        .token_count = next - first,
        .logprobs = completion->logprobs == NULL ? NULL : completion->logprobs + first,
        .before = {completion->text, completion->emitted_bytes}};
    completion->emitted_bytes = completion->safe_length;
    completion->emitted_tokens = next;
}

enum mr_finish mr_completion_push(struct mr_completion *completion, const struct mr_sample *sample,
                                  enum mr_finish verdict, struct mr_completion_delta *delta)
{
    const struct mr_request *request = completion->request;
    struct effect effect = {0};
    uint32_t forced;
    MR_ASSERT(completion->reason == MR_FINISH_NONE);
    MR_ASSERT(completion->pushed < completion->tokens_max);
    completion->pushed++;
    effect.is_forced = mr_thinking_forces(&completion->thinking, &forced);
    mr_thinking_push(&completion->thinking, sample->token_id,
                     mr_tokenizer_bytes(completion->model.tokenizer, sample->token_id, false));
    if (completion->pushed > request->min_tokens || request->constraint.kind != MR_CONSTRAINT_NONE)
        effect.is_eos =
            !request->ignore_eos &&
            is_among(completion->model.eos_ids, completion->model.eos_count, sample->token_id);
    if (completion->pushed > request->min_tokens)
        effect.is_stop_token =
            is_among(request->stop_token_ids, request->stop_token_count, sample->token_id);
    if (!effect.is_eos && !effect.is_stop_token) append(completion, sample, &effect);
    enum mr_finish reason =
        verdict != MR_FINISH_NONE ? verdict : finish_reason(completion, sample, &effect);
    if (reason != MR_FINISH_NONE) completion->stopped_by = stopped_by(&effect);
    if (reason == MR_FINISH_STOP_TOKEN) completion->stop_token = sample->token_id;
    if (reason == MR_FINISH_STOP_STRING) completion->stop_text = effect.stop_text;
    if (reason != MR_FINISH_NONE) end(completion, reason, effect.is_cut);
    emit(completion, delta);
    return reason;
}

void mr_completion_finish(struct mr_completion *completion, enum mr_finish reason,
                          struct mr_completion_delta *delta)
{
    if (completion->reason == MR_FINISH_NONE) end(completion, reason, false);
    emit(completion, delta);
}

/* True when the emitted text ends exactly where the text of the next token begins. */
static bool is_clean(const struct mr_completion *completion)
{
    uint32_t next = completion->emitted_tokens;
    size_t begins =
        next < completion->token_count ? completion->starts[next] : completion->text_length;
    return completion->emitted_bytes == begins;
}

struct mr_replay mr_completion_try_replay(struct mr_completion *completion,
                                          const struct mr_sample *samples, uint32_t count,
                                          uint32_t shown)
{
    struct mr_replay replay = {0};
    struct mr_completion_delta delta;
    bool text_last = false;
    MR_ASSERT(completion->pushed == 0);
    for (uint32_t i = 0; i < count; i++) {
        if (mr_completion_push(completion, &samples[i], MR_FINISH_NONE, &delta) != MR_FINISH_NONE)
            break;
        replay.count = i + 1;
        if (delta.token_count > 0 || delta.text.length > 0) text_last = delta.token_count == 0;
        if (i < shown && !text_last && is_clean(completion)) replay.clean = i + 1;
    }
    return replay;
}

/* ---- state ---- */

const uint32_t *mr_completion_suppressed(const struct mr_completion *completion, uint32_t ahead,
                                         uint32_t *count)
{
    bool is_early = completion->pushed + ahead < completion->request->min_tokens;
    *count = is_early ? completion->suppressed_count : 0;
    return completion->suppressed;
}

const struct mr_thinking *mr_completion_thinking(const struct mr_completion *completion)
{
    return &completion->thinking;
}

bool mr_completion_may_end(const struct mr_completion *completion, uint32_t id)
{
    const struct mr_request *request = completion->request;
    const struct mr_completion_model *model = &completion->model;
    return (!request->ignore_eos && is_among(model->eos_ids, model->eos_count, id)) ||
           is_among(request->stop_token_ids, request->stop_token_count, id);
}

struct mr_choice mr_completion_choice(const struct mr_completion *completion)
{
    return (struct mr_choice){.finish = completion->reason,
                              .stopped_by = completion->stopped_by,
                              .stop_text = completion->stop_text,
                              .stop_token = completion->stop_token,
                              .text = {completion->text, completion->text_length},
                              .token_ids = completion->token_ids,
                              .token_count = completion->token_count,
                              .completion_tokens = completion->pushed,
                              .logprobs = completion->logprobs};
}

void mr_completion_check(const struct mr_completion *completion)
{
    MR_ASSERT(completion->text_length <= completion->text_capacity);
    MR_ASSERT(completion->emitted_bytes <= completion->safe_length);
    MR_ASSERT(completion->safe_length <= completion->text_length);
    MR_ASSERT(completion->emitted_tokens <= completion->token_count);
    MR_ASSERT(completion->token_count <= completion->pushed);
    MR_ASSERT(completion->pushed <= completion->tokens_max);
    for (uint32_t i = 1; i < completion->token_count; i++)
        MR_ASSERT(completion->starts[i - 1] <= completion->starts[i]);
    MR_ASSERT(mr_utf8_is_valid((struct mr_text){completion->text, completion->text_length}));
    MR_ASSERT(mr_utf8_is_valid((struct mr_text){completion->text, completion->emitted_bytes}));
    if (completion->reason == MR_FINISH_NONE) return;
    MR_ASSERT(completion->emitted_bytes == completion->text_length);
    MR_ASSERT(completion->emitted_tokens == completion->token_count);
}
