#include "batching/sequence/job_texts.h"

#include "codec/check.h"

#include <string.h>

bool mr_job_computes_texts(const struct mr_request *request)
{
    return request->task != MR_TASK_GENERATE && request->task != MR_TASK_SCORE;
}

enum mr_status mr_job_check_texts(const struct mr_job_rules *rules,
                                  const struct mr_request *request, struct mr_error *err)
{
    const uint32_t labels = rules->heads == NULL ? 0 : rules->heads->label_count;
    if (rules->hidden_size == 0)
        return mr_fail(err, MR_UNSUPPORTED, "task embed: this worker computes no embeddings");
    if (request->task != MR_TASK_EMBED && labels == 0)
        return mr_fail(err, MR_UNSUPPORTED,
                       "the model has no head for the tasks classify and rerank, which a model "
                       "saved for sequence classification has");
    if (request->task == MR_TASK_RERANK && labels != 1)
        return mr_fail(err, MR_UNSUPPORTED, "task rerank: the model has %u labels, not one",
                       labels);
    const uint32_t size = mr_text_set_width(request, rules->heads, rules->hidden_size);
    if (request->task == MR_TASK_EMBED && request->pooling.dimensions > size)
        return mr_fail(err, MR_INVALID_REQUEST, "dimensions is %u, a vector has %u numbers",
                       request->pooling.dimensions, size);
    return MR_OK;
}

/* A text that cannot run gets an error of its own; the request fails if no other text is left. */
enum mr_status mr_job_check_inputs(const struct mr_job_rules *rules, struct mr_request *request,
                                   mr_job_token_check *check, struct mr_error *err)
{
    const struct mr_inputs *inputs = &request->inputs;
    size_t failed = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        struct mr_input *input = &inputs->list[i];
        struct mr_error own = {0};
        if (input->error == MR_OK)
            input->error = check(rules, input->token_ids, input->token_count, &own);
        if (input->error == MR_OK) continue;
        if (own.status != MR_OK)
            input->message = mr_arena_copy_text(request->arena, own.detail,
                                                strnlen(own.detail, sizeof own.detail));
        if (++failed == inputs->count)
            return mr_fail(err, input->error, "%s", input->message ? input->message : "");
    }
    return MR_OK;
}

static enum mr_model_pooling usual_pooling(const struct mr_job_rules *rules, enum mr_task task)
{
    return task == MR_TASK_EMBED ? rules->pooling : rules->heads->class_pooling;
}

enum mr_status mr_job_begin_texts(struct mr_job *job, const struct mr_job_rules *rules,
                                  struct mr_error *err)
{
    struct mr_pooling pooling = job->request->pooling;
    enum mr_status status = MR_OK;
    if (!pooling.last && !pooling.mean && !pooling.first) {
        const enum mr_model_pooling usual = usual_pooling(rules, job->request->task);
        pooling.mean = usual == MR_MODEL_POOLING_MEAN;
        pooling.first = usual == MR_MODEL_POOLING_FIRST;
    }
    for (uint32_t i = 0; i < job->choice_count && status == MR_OK; i++) {
        struct mr_sequence *sequence = &job->sequences[i];
        status = mr_embedding_create(&sequence->embedding, pooling, job->texts->longest,
                                     rules->hidden_size, err);
        job->held_bytes += mr_embedding_bytes(rules->hidden_size);
        if (status == MR_OK) MR_ASSERT(mr_job_next_text(job, sequence));
    }
    return status;
}

bool mr_job_next_text(struct mr_job *job, struct mr_sequence *sequence)
{
    const uint32_t index = mr_text_set_take(job->texts);
    MR_ASSERT(sequence->table == NULL);
    if (index == UINT32_MAX) return false;
    const struct mr_input *text = &job->texts->list[index];
    const uint32_t count = (uint32_t)text->token_count;
    MR_ASSERT(count <= sequence->capacity);
    memcpy(sequence->tokens, text->token_ids, count * sizeof *sequence->tokens);
    sequence->num_tokens = sequence->prompt_tokens = count;
    sequence->computed_before = sequence->stored_tokens = sequence->junction = 0;
    sequence->entry_due = false;
    sequence->text = index;
    sequence->second_begin = text->second_begin;
    mr_embedding_restart(sequence->embedding, count);
    return true;
}
