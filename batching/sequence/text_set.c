#include "batching/sequence/text_set.h"

#include "codec/check.h"

#include <math.h>
#include <stdlib.h>

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

size_t mr_text_set_bytes(const struct mr_text_set *set)
{
    return sizeof *set + set->count * (sizeof *set->entries + set->width * sizeof(float));
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

uint32_t mr_text_set_take(struct mr_text_set *set)
{
    while (set->next < set->count && set->list[set->next].error != MR_OK)
        set->next++;
    return set->next < set->count ? set->next++ : UINT32_MAX;
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
    result->data = set->entries;
    result->data_count = set->count;
    if (request->task == MR_TASK_EMBED) return;
    result->data_kind = request->task == MR_TASK_RERANK ? MR_DATA_RANKS : MR_DATA_CLASSES;
    if (request->task == MR_TASK_CLASSIFY) {
        result->labels = set->heads->labels;
        result->label_count = set->heads->label_count;
        return;
    }
    qsort(set->entries, set->count, sizeof *set->entries, compare_scores);
    result->data_count = keep_top(set->entries, set->count, set->good, request->inputs.top);
}
