#include "worker/ticket/messages.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

/* Packs a struct and deep copies of the data it points to into one block. The same code runs twice:
 * first with block NULL to count the bytes, then to copy. */
struct packer {
    char *block;
    size_t at;
};

static void *pack(struct packer *packer, const void *from, size_t bytes)
{
    size_t at = packer->at;
    packer->at = (at + bytes + 7) & ~(size_t)7;
    if (!packer->block) return NULL;
    if (bytes > 0) memcpy(packer->block + at, from, bytes);
    return packer->block + at;
}

static void pack_text(struct packer *packer, struct mr_text *text)
{
    if (!text->bytes) return;
    text->bytes = pack(packer, text->bytes, text->length);
}

static void pack_ids(struct packer *packer, const uint32_t **ids, size_t count)
{
    if (*ids) *ids = pack(packer, *ids, count * sizeof **ids);
}

static void pack_logprobs(struct packer *packer, const struct mr_logprobs **list, size_t count)
{
    const struct mr_logprobs *from = *list;
    if (!from) return;
    struct mr_logprobs *copy = pack(packer, from, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        struct mr_logprobs one = from[i];
        struct mr_token_logprob *top = pack(packer, one.top, one.top_count * sizeof *top);
        pack_text(packer, &one.chosen.text);
        pack_text(packer, &one.chosen.bytes);
        for (uint32_t k = 0; k < one.top_count; k++) {
            struct mr_token_logprob best = one.top[k];
            pack_text(packer, &best.text);
            pack_text(packer, &best.bytes);
            if (top) top[k] = best;
        }
        one.top = top;
        if (copy) copy[i] = one;
    }
    *list = copy;
}

static void pack_choices(struct packer *packer, struct mr_result *result)
{
    const struct mr_choice *from = result->choices;
    struct mr_choice *copy = pack(packer, from, result->choice_count * sizeof *copy);
    for (size_t i = 0; i < result->choice_count; i++) {
        struct mr_choice one = from[i];
        pack_text(packer, &one.stop_text);
        pack_text(packer, &one.text);
        pack_ids(packer, &one.token_ids, one.token_count);
        pack_logprobs(packer, &one.logprobs, one.token_count);
        if (copy) copy[i] = one;
    }
    result->choices = copy;
}

static void pack_scores(struct packer *packer, struct mr_result *result)
{
    const struct mr_score *from = result->scores;
    if (!from) return;
    struct mr_score *copy = pack(packer, from, result->score_count * sizeof *copy);
    for (size_t i = 0; i < result->score_count; i++) {
        struct mr_score one = from[i];
        pack_logprobs(packer, &one.logprobs, one.token_count);
        if (copy) copy[i] = one;
    }
    result->scores = copy;
}

static void pack_data(struct packer *packer, struct mr_result_data *data)
{
    const struct mr_data_entry *from = data->entries;
    const struct mr_text *names = data->labels;
    if (!from) return;
    struct mr_data_entry *copy = pack(packer, from, data->count * sizeof *copy);
    struct mr_text *labels = pack(packer, names, data->label_count * sizeof *labels);
    for (size_t i = 0; i < data->count; i++) {
        struct mr_data_entry one = from[i];
        if (one.numbers) one.numbers = pack(packer, one.numbers, one.count * sizeof *one.numbers);
        if (one.message) one.message = pack(packer, one.message, strlen(one.message) + 1);
        if (copy) copy[i] = one;
    }
    for (size_t i = 0; i < data->label_count; i++) {
        struct mr_text one = names[i];
        pack_text(packer, &one);
        if (labels) labels[i] = one;
    }
    data->entries = copy;
    data->labels = labels;
}

/* ---- the messages ---- */

static void pack_tokens(struct packer *packer, struct mr_token_record *record)
{
    pack_text(packer, &record->id);
    pack_text(packer, &record->text);
    pack_text(packer, &record->before);
    pack_ids(packer, &record->token_ids, record->token_count);
    pack_logprobs(packer, &record->logprobs, record->token_count);
}

static void pack_result(struct packer *packer, struct mr_result *result)
{
    pack_text(packer, &result->id);
    pack_text(packer, &result->model);
    pack_text(packer, &result->worker);
    pack_text(packer, &result->source_topic);
    pack_text(packer, &result->metadata);
    if (result->error_message)
        result->error_message =
            pack(packer, result->error_message, strlen(result->error_message) + 1);
    pack_choices(packer, result);
    pack_logprobs(packer, &result->prompt_logprobs, result->prompt_logprob_count);
    pack_scores(packer, result);
    pack_data(packer, &result->data);
    if (result->embedding)
        result->embedding =
            pack(packer, result->embedding, result->embedding_size * sizeof *result->embedding);
}

static void pack_record(struct packer *packer, struct mr_kafka_record *record)
{
    const struct mr_kafka_header *from = record->headers;
    struct mr_kafka_header *copy = pack(packer, from, record->header_count * sizeof *copy);
    pack_text(packer, &record->key);
    pack_text(packer, &record->value);
    for (size_t i = 0; i < record->header_count; i++) {
        struct mr_kafka_header one = from[i];
        one.name = pack(packer, one.name, strlen(one.name) + 1);
        if (one.value) one.value = pack(packer, one.value, one.length);
        if (copy) copy[i] = one;
    }
    record->headers = copy;
    record->topic = NULL; /* the topic's name is in the ticket */
}

static void *create(struct packer *packer, size_t head_bytes, size_t *bytes)
{
    *bytes = packer->at;
    packer->at = head_bytes;
    packer->block = malloc(*bytes);
    return packer->block;
}

#define HEAD_BYTES(type) ((sizeof(type) + 7) & ~(size_t)7)

struct mr_drawn_mail *mr_drawn_mail_create(struct mr_ticket *ticket, uint32_t index,
                                           const struct mr_sample *sample)
{
    struct mr_drawn_mail *mail = malloc(sizeof *mail);
    if (!mail) return NULL;
    *mail = (struct mr_drawn_mail){.mail = {.bytes = sizeof *mail, .kind = MR_MAIL_DRAWN},
                                   .ticket = ticket,
                                   .index = index,
                                   .sample = *sample};
    return mail;
}

struct mr_tokens_mail *mr_tokens_mail_create(struct mr_ticket *ticket,
                                             const struct mr_token_record *record, uint64_t now_ns)
{
    struct packer packer = {.at = HEAD_BYTES(struct mr_tokens_mail)};
    struct mr_token_record copy = *record;
    size_t bytes = 0;
    pack_tokens(&packer, &copy);
    struct mr_tokens_mail *mail = create(&packer, HEAD_BYTES(struct mr_tokens_mail), &bytes);
    if (!mail) return NULL;
    *mail = (struct mr_tokens_mail){
        .mail = {.bytes = bytes, .kind = MR_MAIL_TOKENS}, .ticket = ticket, .made_ns = now_ns};
    mail->record = *record;
    pack_tokens(&packer, &mail->record);
    return mail;
}

struct mr_result_mail *mr_result_mail_create(struct mr_ticket *ticket, struct mr_request *request,
                                             const struct mr_result *result, uint64_t now_ns)
{
    struct packer packer = {.at = HEAD_BYTES(struct mr_result_mail)};
    struct mr_result copy = *result;
    size_t bytes = 0;
    pack_result(&packer, &copy);
    struct mr_result_mail *mail = create(&packer, HEAD_BYTES(struct mr_result_mail), &bytes);
    if (!mail) return NULL;
    *mail = (struct mr_result_mail){.mail = {.bytes = bytes, .kind = MR_MAIL_RESULT},
                                    .ticket = ticket,
                                    .request = request,
                                    .made_ns = now_ns};
    mail->result = *result;
    pack_result(&packer, &mail->result);
    return mail;
}

struct mr_refusal_mail *mr_refusal_mail_create(struct mr_ticket *ticket,
                                               const struct mr_kafka_record *record,
                                               struct mr_text metadata)
{
    struct packer packer = {.at = HEAD_BYTES(struct mr_refusal_mail)};
    struct mr_kafka_record copy = record ? *record : (struct mr_kafka_record){0};
    struct mr_text text = metadata;
    size_t bytes = 0;
    pack_text(&packer, &text);
    pack_record(&packer, &copy);
    struct mr_refusal_mail *mail = create(&packer, HEAD_BYTES(struct mr_refusal_mail), &bytes);
    if (!mail) return NULL;
    *mail = (struct mr_refusal_mail){.mail = {.bytes = bytes, .kind = MR_MAIL_REFUSAL},
                                     .ticket = ticket,
                                     .dead_letter = record != NULL};
    mail->metadata = metadata;
    mail->record = record ? *record : (struct mr_kafka_record){0};
    pack_text(&packer, &mail->metadata);
    pack_record(&packer, &mail->record);
    return mail;
}

void mr_mail_free(struct mr_mail *mail)
{
    if (!mail) return;
    MR_ASSERT(mail->kind <= MR_MAIL_REFUSAL);
    if (mail->kind == MR_MAIL_RESULT) mr_request_destroy(((struct mr_result_mail *)mail)->request);
    free(mail);
}
