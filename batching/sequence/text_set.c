#include "batching/sequence/text_set.h"

#include "codec/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct mr_text_head no_layers = {.layer_count = 0};

static const struct mr_text_head *head_of(const struct mr_request *request,
                                          const struct mr_text_heads *heads)
{
    if (heads == NULL) return &no_layers;
    return request->task == MR_TASK_EMBED ? &heads->vector : &heads->classes;
}

uint32_t mr_text_set_width(const struct mr_request *request, const struct mr_text_heads *heads,
                           uint32_t hidden_size)
{
    return mr_text_head_size(head_of(request, heads), hidden_size);
}

enum mr_status mr_text_set_check(const struct mr_request *request,
                                 const struct mr_text_heads *heads, uint32_t hidden_size,
                                 struct mr_error *err)
{
    const uint32_t labels = heads == NULL ? 0 : heads->label_count;
    if (hidden_size == 0)
        return mr_fail(err, MR_UNSUPPORTED, "task embed: this worker computes no embeddings");
    if (request->task != MR_TASK_EMBED && labels == 0)
        return mr_fail(err, MR_UNSUPPORTED,
                       "the model has no head for the tasks classify and rerank, which a model "
                       "saved for sequence classification has");
    if (request->task == MR_TASK_RERANK && labels != 1)
        return mr_fail(err, MR_UNSUPPORTED, "task rerank: the model has %u labels, not one",
                       labels);
    const uint32_t size = mr_text_set_width(request, heads, hidden_size);
    if (request->task == MR_TASK_EMBED && request->pooling.dimensions > size)
        return mr_fail(err, MR_INVALID_REQUEST, "dimensions is %u, a vector has %u numbers",
                       request->pooling.dimensions, size);
    return MR_OK;
}

enum mr_status mr_text_set_check_inputs(struct mr_request *request, mr_text_check *check,
                                        const void *context, struct mr_error *err)
{
    const struct mr_inputs *inputs = &request->inputs;
    size_t failed = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        struct mr_input *input = &inputs->list[i];
        struct mr_error own = {0};
        if (input->error == MR_OK)
            input->error = check(context, input->token_ids, input->token_count, &own);
        if (input->error == MR_OK) continue;
        if (own.status != MR_OK)
            input->message = mr_arena_copy_text(request->arena, own.detail, strlen(own.detail));
        if (++failed == inputs->count)
            return mr_fail(err, input->error, "%s", input->message ? input->message : "");
    }
    return MR_OK;
}

static void count_texts(struct mr_text_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct mr_input *input = &set->list[i];
        set->entries[i] =
            (struct mr_data_entry){.index = i, .error = input->error, .message = input->message};
        if (input->error != MR_OK) continue;
        const uint32_t tokens = (uint32_t)input->token_count;
        set->good++;
        set->token_count += tokens;
        if (tokens > set->longest) set->longest = tokens;
    }
}

size_t mr_text_set_bytes(const struct mr_text_set *set, uint32_t sequences)
{
    return sizeof *set + set->count * (sizeof *set->entries + set->width * sizeof(float)) +
           sequences * mr_embedding_bytes(set->hidden_size);
}

enum mr_status mr_text_set_create(struct mr_text_set **out, struct mr_request *request,
                                  const struct mr_text_heads *heads, uint32_t hidden_size,
                                  struct mr_error *err)
{
    const bool several = request->inputs.count > 0;
    const size_t count = several ? request->inputs.count : 1;
    const size_t width = mr_text_set_width(request, heads, hidden_size);
    const size_t scratch = hidden_size + (heads == NULL ? 0 : heads->scratch_size);
    const size_t floats = count * width + scratch;
    struct mr_text_set *set = *out =
        calloc(1, sizeof *set + count * sizeof *set->entries + floats * sizeof(float));
    if (set == NULL) return mr_fail(err, MR_NOMEM, "no memory for %zu vectors", count);
    set->request = request;
    set->heads = heads;
    set->single =
        (struct mr_input){.token_ids = request->token_ids, .token_count = request->token_count};
    set->list = several ? request->inputs.list : &set->single;
    set->count = (uint32_t)count;
    set->hidden_size = hidden_size;
    set->width = (uint32_t)width;
    set->entries = (struct mr_data_entry *)(void *)(set + 1);
    set->numbers = (float *)(void *)(set->entries + count);
    set->scratch = set->numbers + count * width;
    count_texts(set);
    return MR_OK;
}

void mr_text_set_destroy(struct mr_text_set *set)
{
    free(set);
}

/* Returns the index of the next text to compute; UINT32_MAX: all have begun. */
static uint32_t take(struct mr_text_set *set)
{
    while (set->next < set->count && set->list[set->next].error != MR_OK)
        set->next++;
    return set->next < set->count ? set->next++ : UINT32_MAX;
}

enum mr_status mr_text_set_begin(struct mr_text_set *set, struct mr_sequence *sequences,
                                 uint32_t count, enum mr_model_pooling usual, struct mr_error *err)
{
    struct mr_pooling pooling = set->request->pooling;
    enum mr_status status = MR_OK;
    if (set->request->task != MR_TASK_EMBED) usual = set->heads->class_pooling;
    if (!pooling.last && !pooling.mean && !pooling.first) {
        pooling.mean = usual == MR_MODEL_POOLING_MEAN;
        pooling.first = usual == MR_MODEL_POOLING_FIRST;
    }
    for (uint32_t i = 0; i < count && status == MR_OK; i++) {
        status = mr_embedding_create(&sequences[i].embedding, pooling, set->longest,
                                     set->hidden_size, err);
        if (status == MR_OK) MR_ASSERT(mr_text_set_next(set, &sequences[i]));
    }
    return status;
}

bool mr_text_set_next(struct mr_text_set *set, struct mr_sequence *sequence)
{
    const uint32_t index = take(set);
    MR_ASSERT(sequence->table == NULL);
    if (index == UINT32_MAX) return false;
    const struct mr_input *text = &set->list[index];
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

/* Cuts the vector, and then scales it to the length 1 if the request wants that; a zero vector
 * stays. Returns its size. */
static uint32_t shorten(const struct mr_pooling *pooling, float *vector, uint32_t size)
{
    double squares = 0;
    if (pooling->dimensions > 0 && pooling->dimensions < size) size = pooling->dimensions;
    for (uint32_t i = 0; i < size; i++)
        squares += (double)vector[i] * (double)vector[i];
    if (!pooling->normalize || !(squares > 0)) return size;
    const double factor = 1.0 / sqrt(squares);
    for (uint32_t i = 0; i < size; i++)
        vector[i] = (float)((double)vector[i] * factor);
    return size;
}

void mr_text_set_finish(struct mr_text_set *set, uint32_t index,
                        const struct mr_embedding *embedding)
{
    const struct mr_request *request = set->request;
    struct mr_data_entry *entry = &set->entries[index];
    float *out = set->numbers + (size_t)index * set->width;
    MR_ASSERT(index < set->count && entry->error == MR_OK && entry->count == 0);
    mr_embedding_mean(embedding, set->scratch);
    mr_text_head_apply(head_of(request, set->heads), set->scratch, set->hidden_size, out,
                       set->scratch + set->hidden_size);
    entry->numbers = out;
    entry->count = set->width;
    if (request->task == MR_TASK_EMBED)
        entry->count = shorten(&request->pooling, out, set->width);
    else if (!request->inputs.raw)
        mr_head_activate(request->task == MR_TASK_RERANK ? set->heads->rank_activation
                                                         : set->heads->class_activation,
                         out, set->width);
    set->done++;
}

/* Higher scores first; texts with an error last; else the order of the request. */
static int compare_scores(const void *a, const void *b)
{
    const struct mr_data_entry *left = a, *right = b;
    if (left->count == 0 || right->count == 0) {
        if (left->count != right->count) return left->count == 0 ? 1 : -1;
    } else if (left->numbers[0] > right->numbers[0] || left->numbers[0] < right->numbers[0]) {
        return left->numbers[0] > right->numbers[0] ? -1 : 1;
    }
    return left->index < right->index ? -1 : 1;
}

/* Drops the documents after the first `top`, not the errors. */
static uint32_t keep_top(struct mr_data_entry *entries, uint32_t count, uint32_t good, uint32_t top)
{
    if (top == 0 || top >= good) return count;
    for (uint32_t i = good; i < count; i++)
        entries[top + i - good] = entries[i];
    return count - (good - top);
}

void mr_text_set_report(struct mr_text_set *set, struct mr_result *result)
{
    const struct mr_request *request = set->request;
    MR_ASSERT(mr_text_set_done(set));
    result->prompt_tokens = set->token_count;
    result->embedding_base64 = request->embedding_base64;
    if (request->task == MR_TASK_EMBED && request->inputs.count == 0) {
        result->embedding = set->entries[0].numbers;
        result->embedding_size = set->entries[0].count;
        return;
    }
    result->data = (struct mr_result_data){
        .entries = set->entries, .count = set->count, .base64 = request->embedding_base64};
    if (request->task == MR_TASK_EMBED) return;
    result->data.form = request->task == MR_TASK_RERANK ? MR_DATA_RANKS : MR_DATA_CLASSES;
    if (request->task == MR_TASK_CLASSIFY) {
        result->data.labels = set->heads->labels;
        result->data.label_count = set->heads->label_count;
        return;
    }
    qsort(set->entries, set->count, sizeof *set->entries, compare_scores);
    result->data.count = keep_top(set->entries, set->count, set->good, request->inputs.top);
}
