#include "batching/sequence/job.h"

#include "batching/base/peak_blocks.h"
#include "codec/check.h"
#include "codec/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mr_job *mr_job_of_waiting(struct mr_queue_entry *entry)
{
    return (struct mr_job *)(void *)((char *)entry - offsetof(struct mr_job, waiting));
}

static enum mr_status check_ids(const uint32_t *ids, size_t count, uint32_t vocab_size,
                                const char *field, struct mr_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= vocab_size)
            return mr_fail(err, MR_INVALID_TOKEN_ID, "%s holds id %u, the vocabulary has %u", field,
                           ids[i], vocab_size);
    return MR_OK;
}

static enum mr_status check_tokens(const void *context, const uint32_t *ids, size_t count,
                                   struct mr_error *err)
{
    const struct mr_job_rules *rules = context;
    if (count == 0 || ids == NULL) return mr_fail(err, MR_EMPTY_PROMPT, "the prompt has no tokens");
    /* a generated token needs a place, a vector needs none */
    const size_t most = rules->context_tokens - !rules->whole_prompts;
    if (count > most)
        return mr_fail(err, MR_PROMPT_TOO_LONG, "the prompt has %zu tokens, at most %zu fit", count,
                       most);
    if (mr_blocks_for((uint32_t)count) > rules->block_count)
        return mr_fail(err, MR_PROMPT_TOO_LONG, "the prompt has %zu tokens, the KV pool holds %u",
                       count, rules->block_count * MR_BLOCK_TOKENS);
    return check_ids(ids, count, rules->vocab_size, "the prompt", err);
}

static enum mr_status check_prompt(const struct mr_job_rules *rules, struct mr_request *request,
                                   struct mr_error *err)
{
    if (request->inputs.count > 0)
        return mr_text_set_check_inputs(request, check_tokens, rules, err);
    return check_tokens(rules, request->token_ids, request->token_count, err);
}

static enum mr_status check_constraint(const struct mr_job_rules *rules,
                                       const struct mr_request *request, struct mr_error *err)
{
    if (request->constraint.kind == MR_CONSTRAINT_NONE) return MR_OK;
    if (request->grammar == NULL)
        return mr_fail(err, MR_INTERNAL, "the response_format was not compiled");
    if (rules->masks == NULL || rules->completion.eos_count == 0)
        return mr_fail(err, MR_UNSUPPORTED, "response_format: the model has no end token");
    return MR_OK;
}

/* Tokens of the request's longest continuation; 0: it has none. */
static uint32_t longest_continuation(const struct mr_request *request)
{
    size_t longest = 0;
    for (size_t i = 0; i < request->continuation_count; i++)
        if (request->continuations[i].token_count > longest)
            longest = request->continuations[i].token_count;
    return (uint32_t)longest;
}

static enum mr_status check_continuations(const struct mr_job_rules *rules,
                                          const struct mr_request *request, struct mr_error *err)
{
    const uint64_t all = (uint64_t)request->token_count + longest_continuation(request);
    enum mr_status status = MR_OK;
    if (request->continuation_count > rules->scores_max)
        return mr_fail(err, MR_UNSUPPORTED, "%zu continuations, this worker scores at most %u",
                       request->continuation_count, rules->scores_max);
    if (all > rules->context_tokens ||
        (all + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS > rules->block_count)
        return mr_fail(err, MR_PROMPT_TOO_LONG,
                       "prompt and longest continuation have %llu tokens, at most %u fit",
                       (unsigned long long)all, rules->context_tokens);
    for (size_t i = 0; i < request->continuation_count && status == MR_OK; i++)
        status =
            check_ids(request->continuations[i].token_ids, request->continuations[i].token_count,
                      rules->vocab_size, "continuations", err);
    return status;
}

/* A request without max_tokens generates nothing: it must be for scores. */
static enum mr_status check_scores(const struct mr_job_rules *rules,
                                   const struct mr_request *request, struct mr_error *err)
{
    if (rules->whole_prompts && (!mr_request_reads_texts(request) || request->scores_prompt))
        return mr_fail(err, MR_UNSUPPORTED,
                       "the model is an encoder: it generates and scores no text, use task embed");
    if (mr_request_reads_texts(request))
        return mr_text_set_check(request, rules->heads, rules->hidden_size, err);
    if (request->scores_prompt && rules->scores_max == 0)
        return mr_fail(err, MR_UNSUPPORTED, "prompt_logprobs: this worker computes none");
    if (request->task == MR_TASK_SCORE) return check_continuations(rules, request, err);
    if (request->max_tokens > 0) return MR_OK;
    if (!request->scores_prompt) return mr_fail(err, MR_INVALID_REQUEST, "max_tokens is 0");
    if (request->choice_count > 1)
        return mr_fail(err, MR_INVALID_REQUEST, "n is %u and max_tokens is 0",
                       request->choice_count);
    return MR_OK;
}

static enum mr_status check_request(const struct mr_job_rules *rules, struct mr_request *request,
                                    struct mr_error *err)
{
    const struct mr_sampling *sampling = &request->sampling;
    enum mr_status status = check_prompt(rules, request, err);
    if (status == MR_OK) status = check_constraint(rules, request, err);
    if (status != MR_OK) return status;
    if (request->choice_count < 1 || request->choice_count > MR_CHOICES_MAX)
        return mr_fail(err, MR_INVALID_REQUEST, "n is %u, it must be 1 to %u",
                       request->choice_count, MR_CHOICES_MAX);
    status = check_scores(rules, request, err);
    if (status != MR_OK) return status;
    status = check_ids(sampling->allowed_token_ids, sampling->allowed_token_count,
                       rules->vocab_size, "allowed_token_ids", err);
    if (status == MR_OK)
        status = check_ids(request->stop_token_ids, request->stop_token_count, rules->vocab_size,
                           "stop_token_ids", err);
    for (size_t i = 0; status == MR_OK && i < sampling->logit_bias_count; i++)
        status =
            check_ids(&sampling->logit_bias[i].token_id, 1, rules->vocab_size, "logit_bias", err);
    return status;
}

/* Fills a field that the request does not set: with the model's default if `uses_model` and the
 * model has one (not 0), else with the value that means off. */
static void fill(float *field, bool uses_model, float model_default, float off)
{
    if (isnan(*field)) *field = uses_model && model_default != 0.0f ? model_default : off;
}

/* Sets job->sampling. A request without a temperature uses the model's default sampling, in every
 * field that it does not set. */
static void fill_sampling(struct mr_job *job, const struct mr_job_rules *rules)
{
    const struct mr_sampling_defaults *model = &rules->defaults;
    struct mr_sampling *sampling = &job->sampling;
    *sampling = job->request->sampling;
    const bool from_model = isnan(sampling->temperature);
    if (from_model) sampling->temperature = isnan(model->temperature) ? 1.0f : model->temperature;
    if (sampling->top_k == MR_TOP_K_UNSET) sampling->top_k = from_model ? model->top_k : 0;
    fill(&sampling->top_p, from_model, model->top_p, 1.0f);
    fill(&sampling->min_p, from_model, model->min_p, 0.0f);
    fill(&sampling->typical_p, from_model, model->typical_p, 1.0f);
    fill(&sampling->repetition_penalty, from_model, model->repetition_penalty, 1.0f);
    fill(&sampling->presence_penalty, from_model, model->presence_penalty, 0.0f);
    fill(&sampling->frequency_penalty, from_model, model->frequency_penalty, 0.0f);
}

uint64_t mr_job_seed(const struct mr_job *job, uint32_t choice)
{
    return job->seed + choice * 0x9e3779b97f4a7c15u;
}

/* Adds the token ids of one spelling of a bad word to the job, in memory of the request's arena. */
static enum mr_status encode_bad_word(struct mr_job *job, const struct mr_tokenizer *tokenizer,
                                      struct mr_tokenizer_scratch *scratch, struct mr_text word,
                                      struct mr_error *err)
{
    struct mr_arena *arena = job->request->arena;
    struct mr_id_list list = {.max = word.length + 4};
    list.ids = mr_arena_take_array(arena, list.max, sizeof *list.ids);
    if (list.ids == NULL)
        return mr_fail(err, MR_INVALID_REQUEST,
                       "bad_words need more memory than a request may use");
    enum mr_status status =
        mr_tokenizer_encode(tokenizer, scratch, word, (struct mr_encode_options){0}, &list, err);
    if (status != MR_OK || list.count == 0) return status;
    job->bad_words[job->bad_word_count] = list.ids;
    job->bad_word_counts[job->bad_word_count++] = (uint32_t)list.count;
    return MR_OK;
}

/* Encodes each bad word in two spellings: as given, and with a space before it, as after another
 * word. */
static enum mr_status encode_bad_words(struct mr_job *job, const struct mr_tokenizer *tokenizer,
                                       struct mr_error *err)
{
    size_t words = job->request->sampling.bad_word_count;
    if (words == 0) return MR_OK;
    struct mr_arena *arena = job->request->arena;
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    enum mr_status status = mr_fail(err, MR_NOMEM, "no memory for bad_words");
    job->bad_words = mr_arena_take_array(arena, 2 * words, sizeof *job->bad_words);
    job->bad_word_counts = mr_arena_take_array(arena, 2 * words, sizeof *job->bad_word_counts);
    if (scratch == NULL || job->bad_words == NULL || job->bad_word_counts == NULL) goto done;
    status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < words; i++) {
        struct mr_text word = job->request->sampling.bad_words[i];
        char *spaced = mr_arena_take(arena, word.length + 2);
        if (spaced == NULL) {
            status = mr_fail(err, MR_NOMEM, "no memory for bad_words");
            break;
        }
        spaced[0] = ' ';
        memcpy(spaced + 1, word.bytes, word.length);
        status = encode_bad_word(job, tokenizer, scratch, word, err);
        if (status == MR_OK)
            status = encode_bad_word(job, tokenizer, scratch,
                                     (struct mr_text){spaced, word.length + 1}, err);
    }
done:
    mr_tokenizer_scratch_destroy(scratch);
    return status;
}

/* Creates a job of `choices` sequences with room for `capacity` tokens each, which begin with the
 * prompt, if the request has one. */
static struct mr_job *allocate(const struct mr_request *request, uint32_t choices,
                               uint32_t capacity)
{
    size_t head = sizeof(struct mr_job) + choices * sizeof(struct mr_sequence);
    size_t tokens = (size_t)capacity * sizeof(uint32_t);
    struct mr_job *job = calloc(1, head + choices * tokens);
    if (job == NULL) return NULL;
    job->held_bytes = head + choices * tokens;
    uint32_t *ids = (uint32_t *)(void *)((char *)job + head);
    for (uint32_t i = 0; i < choices; i++) {
        struct mr_sequence *sequence = &job->sequences[i];
        sequence->job = job;
        sequence->choice = i;
        sequence->tokens = ids + (size_t)i * capacity;
        sequence->capacity = capacity;
        sequence->prompt_tokens = (uint32_t)request->token_count;
        sequence->num_tokens = sequence->prompt_tokens;
        if (request->token_count > 0)
            memcpy(sequence->tokens, request->token_ids, request->token_count * sizeof(uint32_t));
    }
    job->choice_count = choices;
    return job;
}

/* The earlier of two times, each of which may be 0 for never. */
static uint64_t earlier(uint64_t one, uint64_t two)
{
    if (one == 0 || two == 0) return one + two;
    return one < two ? one : two;
}

bool mr_job_is_overdue(const struct mr_job *job, uint64_t now_ns)
{
    uint64_t run_end_ns = job->run_limit_ns > 0 ? job->started_ns + job->run_limit_ns : 0;
    uint64_t end_ns = earlier(job->deadline_ns, job->started ? run_end_ns : job->start_by_ns);
    return end_ns != 0 && end_ns <= now_ns;
}

/* KV blocks that all choices need if each generates all tokens it may. The choices share the
 * prompt's full blocks. */
static uint64_t blocks_of(const struct mr_job *job)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    uint64_t all = mr_blocks_for(sequence->capacity);
    if (job->texts != NULL) return all * job->choice_count;
    return all + (job->choice_count - 1) * (all - sequence->prompt_tokens / MR_BLOCK_TOKENS);
}

static void fill_submission(struct mr_job *job, const struct mr_job_rules *rules,
                            const struct mr_submission *submission)
{
    const struct mr_request *request = job->request;
    job->ticket = submission->ticket;
    job->adapter = submission->adapter;
    job->tenant_index = submission->tenant_index;
    job->priority = submission->priority;
    job->arrival_ns = submission->arrival_ns;
    job->deadline_ns = submission->deadline_ns;
    job->start_by_ns = submission->start_by_ns;
    job->run_limit_ns = submission->run_limit_ns;
    const bool caches = rules->prefix_cache && !rules->whole_prompts;
    job->reads_cache = caches && request->cache_read;
    job->writes_cache = caches && request->cache_write;
    mr_kv_cache_namespace(&rules->fingerprint, submission->tenant == NULL ? "" : submission->tenant,
                          job->root);
    if (job->adapter) mr_block_hash_adapter(job->root, job->adapter->digest);
    if (request->cache_salt.length > 0)
        mr_block_hash_salt(job->root, request->cache_salt.bytes, request->cache_salt.length);
    const struct mr_sampling *sampling = &request->sampling;
    job->seed = sampling->has_seed
                    ? sampling->seed
                    : mr_hash_bytes(MR_HASH_START, request->id.bytes, request->id.length);
    if (request->arena != NULL) job->held_bytes += mr_arena_bytes(request->arena);
    mr_request_key_set(&job->key, submission->tenant_index, request->id);
    job->waiting = (struct mr_queue_entry){
        .id = mr_request_key_text(&job->key),
        .priority = submission->priority,
        .arrival_ns = submission->arrival_ns,
        .deadline_ns = earlier(submission->deadline_ns, submission->start_by_ns),
        .held_bytes = job->held_bytes,
        .blocks = blocks_of(job),
        .tenant = submission->tenant_index,
    };
    const char *tenant = submission->tenant == NULL ? "" : submission->tenant;
    size_t length = strnlen(tenant, MR_JOB_TENANT_BYTES - 1);
    memcpy(job->tenant, tenant, length);
}

static enum mr_status make_completions(struct mr_job *job, const struct mr_job_rules *rules,
                                       uint32_t room, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    if (job->request->stop_count > 0)
        status = mr_stop_match_create(&job->matcher, job->request->arena, job->request->stops,
                                      job->request->stop_count, err);
    for (uint32_t i = 0; status == MR_OK && i < job->choice_count; i++)
        status = mr_completion_create(&job->sequences[i].completion, &rules->completion,
                                      job->request, job->matcher, room, err);
    if (status == MR_OK)
        job->held_bytes +=
            job->choice_count * mr_completion_bytes(&rules->completion, job->request, room);
    return status;
}

static enum mr_status make_guidance(struct mr_job *job, const struct mr_job_rules *rules,
                                    struct mr_error *err)
{
    const struct mr_request *request = job->request;
    if (request->constraint.kind == MR_CONSTRAINT_NONE) return MR_OK;
    job->held_bytes += mr_guidance_bytes(rules->masks, job->choice_count);
    job->rules = rules;
    return mr_guidance_create(&job->guidance, request->grammar, rules->masks, job->choice_count,
                              err);
}

static enum mr_status make_lookups(struct mr_job *job, const struct mr_job_rules *rules,
                                   struct mr_error *err)
{
    enum mr_status status = MR_OK;
    if (!rules->speculates || !job->request->speculate || !job->draws) return MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < job->choice_count; i++) {
        struct mr_sequence *sequence = &job->sequences[i];
        job->held_bytes += mr_prompt_lookup_bytes(sequence->capacity);
        status = mr_prompt_lookup_create(&sequence->lookup, sequence->capacity,
                                         sequence->prompt_tokens, err);
    }
    return status;
}

static enum mr_status make_scores(struct mr_job *job, struct mr_error *err)
{
    const struct mr_request *request = job->request;
    struct mr_sequence *sequence = &job->sequences[0];
    const bool task = request->task == MR_TASK_SCORE;
    if (!request->scores_prompt && !task) return MR_OK;
    const int32_t logprobs = task ? request->sampling.logprobs : (int32_t)request->prompt_logprobs;
    const struct mr_scores_spec spec = {.token_count = sequence->prompt_tokens,
                                        .top_width = logprobs > 0 ? (uint32_t)logprobs : 0,
                                        .continuations = request->continuations,
                                        .continuation_count =
                                            (uint32_t)request->continuation_count};
    enum mr_status status = mr_scores_create(&job->scores, &spec, err);
    if (status != MR_OK) return status;
    job->scoring = (struct mr_sampling){.logprobs = (int32_t)spec.top_width};
    sequence->scores = job->scores;
    job->held_bytes += mr_scores_bytes(&spec);
    if (task) mr_job_set_continuation(job);
    return MR_OK;
}

static bool is_known(const struct mr_job_rules *rules, const struct mr_sample *sample)
{
    if (sample->token_id >= rules->vocab_size || sample->top_count > MR_LOGPROBS_MAX) return false;
    return check_ids(sample->top_ids, sample->top_count, rules->vocab_size, "kept", NULL) == MR_OK;
}

/* Pushes the tokens that an earlier attempt sampled into a temporary completion, to find how many
 * of them the job can continue from, and how many of those need not be emitted again. */
static enum mr_status try_replay(const struct mr_job *job, const struct mr_job_rules *rules,
                                 uint32_t room, const struct mr_submission *submission,
                                 struct mr_replay *replay, struct mr_error *err)
{
    uint32_t count = 0;
    struct mr_completion *trial = NULL;
    *replay = (struct mr_replay){0};
    while (count < submission->kept_count && is_known(rules, &submission->kept[count]))
        count++;
    if (count == 0 || job->choice_count > 1) return MR_OK;
    enum mr_status status = MR_OK;
    if (job->guidance != NULL)
        status = mr_guidance_count_allowed(job->guidance, rules->masks, submission->kept, count,
                                           &count, err);
    if (status != MR_OK || count == 0) return status;
    status =
        mr_completion_create(&trial, &rules->completion, job->request, job->matcher, room, err);
    if (status != MR_OK) return status;
    *replay = mr_completion_try_replay(trial, submission->kept, count, submission->kept_shown);
    mr_completion_destroy(trial);
    return MR_OK;
}

static enum mr_status resume(struct mr_job *job, const struct mr_job_rules *rules, uint32_t room,
                             const struct mr_submission *submission, struct mr_error *err)
{
    struct mr_replay replay;
    struct mr_completion_delta unused;
    struct mr_sequence *sequence = &job->sequences[0];
    enum mr_status status = try_replay(job, rules, room, submission, &replay, err);
    if (status != MR_OK || replay.count == 0) return status;
    if (job->guidance != NULL)
        status =
            mr_guidance_resume(job->guidance, rules->masks, submission->kept, replay.count, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < replay.count; i++) {
        mr_sequence_append(sequence, submission->kept[i].token_id);
        if (i < replay.clean)
            mr_completion_push(sequence->completion, &submission->kept[i], MR_FINISH_NONE, &unused);
    }
    job->resumed = true;
    job->kept_count = replay.count - replay.clean;
    if (job->kept_count == 0) return MR_OK;
    size_t bytes = job->kept_count * sizeof *job->kept;
    job->kept = malloc(bytes);
    if (job->kept == NULL)
        return mr_fail(err, MR_NOMEM, "no memory for the tokens of an earlier attempt");
    memcpy(job->kept, submission->kept + replay.clean, bytes);
    job->held_bytes += bytes;
    return MR_OK;
}

enum mr_status mr_job_create(struct mr_job **out, const struct mr_job_rules *rules,
                             const struct mr_submission *submission, struct mr_error *err)
{
    *out = NULL;
    struct mr_request *request = submission->request;
    enum mr_status status = check_request(rules, request, err);
    if (status != MR_OK) return status;
    struct mr_text_set *texts = NULL;
    if (mr_request_reads_texts(request))
        status = mr_text_set_create(&texts, request, rules->heads, rules->hidden_size, err);
    if (status != MR_OK) return status;
    uint32_t prompt = texts != NULL ? texts->longest : (uint32_t)request->token_count;
    /* a text that fills the context has an empty completion, which needs room nevertheless */
    uint32_t room = rules->context_tokens > prompt ? rules->context_tokens - prompt : 1;
    uint32_t most = request->max_tokens < room ? request->max_tokens : room;
    uint32_t choices = request->choice_count;
    if (texts != NULL) choices = texts->good < MR_CHOICES_MAX ? texts->good : MR_CHOICES_MAX;
    struct mr_job *job = allocate(request, choices, prompt + most + longest_continuation(request));
    if (job == NULL) {
        mr_text_set_destroy(texts);
        return mr_fail(err, MR_NOMEM, "no memory for a request of %u tokens", prompt);
    }
    job->texts = texts;
    if (texts != NULL) job->held_bytes += mr_text_set_bytes(texts, choices);
    job->request = request;
    job->draws = request->max_tokens > 0;
    status = make_completions(job, rules, room, err);
    if (status == MR_OK) status = make_guidance(job, rules, err);
    if (status == MR_OK) status = make_lookups(job, rules, err);
    if (status == MR_OK) status = make_scores(job, err);
    if (status == MR_OK && texts != NULL)
        status = mr_text_set_begin(texts, job->sequences, choices, rules->pooling, err);
    if (status == MR_OK) status = resume(job, rules, room, submission, err);
    if (status == MR_OK) status = encode_bad_words(job, rules->completion.tokenizer, err);
    if (status != MR_OK) goto failed;
    fill_sampling(job, rules);
    fill_submission(job, rules, submission);
    *out = job;
    return MR_OK;
failed:
    mr_job_destroy(job);
    return status;
}

void mr_job_destroy(struct mr_job *job)
{
    if (job == NULL) return;
    for (uint32_t i = 0; i < job->choice_count; i++) {
        mr_completion_destroy(job->sequences[i].completion);
        mr_prompt_lookup_destroy(job->sequences[i].lookup);
        mr_embedding_destroy(job->sequences[i].embedding);
    }
    mr_text_set_destroy(job->texts);
    mr_scores_destroy(job->scores);
    mr_guidance_destroy(job->guidance);
    free(job->kept);
    free(job);
}

bool mr_job_samples_ahead(const struct mr_job *job, const struct mr_sequence *sequence)
{
    const struct mr_sampling *sampling = &job->sampling;
    bool penalties = sampling->presence_penalty < 0 || sampling->presence_penalty > 0 ||
                     sampling->frequency_penalty < 0 || sampling->frequency_penalty > 0 ||
                     sampling->repetition_penalty < 1 || sampling->repetition_penalty > 1;
    uint32_t suppressed;
    (void)mr_completion_suppressed(sequence->completion, 0, &suppressed);
    return !penalties && !mr_thinking_is_open(mr_completion_thinking(sequence->completion)) &&
           job->guidance == NULL && job->bad_word_count == 0 && suppressed == 0;
}

struct mr_sample_row mr_job_score_row(const struct mr_sequence *sequence, uint32_t position,
                                      uint32_t head)
{
    const struct mr_job *job = sequence->job;
    const struct mr_scores *scores = sequence->scores;
    const bool is_head = scores->continuations != NULL && position == scores->first;
    return (struct mr_sample_row){.sampling = &job->scoring,
                                  .position = position,
                                  .history = sequence->tokens,
                                  .history_count = position,
                                  .prompt_count = sequence->prompt_tokens,
                                  .given = true,
                                  .given_id = is_head ? scores->continuations[head].token_ids[0]
                                                      : sequence->tokens[position]};
}

void mr_job_set_continuation(struct mr_job *job)
{
    const struct mr_scores *scores = job->scores;
    const struct mr_continuation *continuation = &scores->continuations[scores->current];
    struct mr_sequence *sequence = &job->sequences[0];
    memcpy(sequence->tokens + scores->first, continuation->token_ids,
           continuation->token_count * sizeof *sequence->tokens);
    sequence->num_tokens = sequence->prompt_tokens = scores->end - 1;
}

uint32_t mr_job_lasting_tokens(const struct mr_job *job, uint32_t count)
{
    if (job->scores == NULL || job->scores->continuations == NULL) return count;
    return count < job->scores->first ? count : job->scores->first;
}

struct mr_sample_row mr_job_sample_row(const struct mr_job *job, const struct mr_sequence *sequence,
                                       uint32_t drafts)
{
    struct mr_sample_row row = {
        .sampling = &job->sampling,
        .seed = mr_job_seed(job, sequence->choice),
        .position = sequence->num_tokens + drafts,
        .history = sequence->tokens,
        .history_count = sequence->num_tokens + drafts,
        .prompt_count = sequence->prompt_tokens,
        .bad_words = (const uint32_t *const *)job->bad_words,
        .bad_word_counts = job->bad_word_counts,
        .bad_word_count = job->bad_word_count,
    };
    row.suppressed = mr_completion_suppressed(sequence->completion, drafts, &row.suppressed_count);
    row.given = mr_thinking_forces(mr_completion_thinking(sequence->completion), &row.given_id);
    return row;
}

#define SPARSE_TOKENS 4096u
#define LONG_TOKENS   16384u

uint32_t mr_job_next_border(const struct mr_sequence *sequence, uint32_t after)
{
    const uint32_t prompt = sequence->prompt_tokens;
    if (sequence->table->state == MR_NO_STATE || !sequence->job->writes_cache || prompt == 0)
        return UINT32_MAX;
    const uint32_t borders[] = {
        (prompt - 1) / MR_BLOCK_TOKENS * MR_BLOCK_TOKENS, sequence->junction,
        prompt < LONG_TOKENS ? 0 : (after / SPARSE_TOKENS + 1) * SPARSE_TOKENS};
    uint32_t next = UINT32_MAX;
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
        if (borders[i] > after && borders[i] < prompt && borders[i] < next) next = borders[i];
    return next;
}
