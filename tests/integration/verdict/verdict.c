#include "tests/integration/verdict/verdict.h"

#include "codec/hash.h"
#include "tests/integration/verdict/verdict_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *verdict_text(enum verdict_kind kind)
{
    static const char *const texts[VERDICT_COUNT] = {
#define X(name, text) text,
        VERDICT_LIST(X)
#undef X
    };
    return texts[kind];
}

void *verdict_memory(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes > 0 ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "verdict: out of memory\n");
        exit(2);
    }
    return memory;
}

static void *zeroed(size_t bytes)
{
    return memset(verdict_memory(NULL, bytes), 0, bytes);
}

static struct mr_text copy_text(struct mr_text text)
{
    char *copy = verdict_memory(NULL, text.length + 1);
    if (text.length > 0) memcpy(copy, text.bytes, text.length);
    copy[text.length] = '\0';
    return (struct mr_text){copy, text.length};
}

static uint32_t *copy_ids(const uint32_t *ids, size_t count)
{
    uint32_t *copy = verdict_memory(NULL, count * sizeof *copy);
    if (count > 0) memcpy(copy, ids, count * sizeof *copy);
    return copy;
}

static struct verdict_place copy_place(const struct verdict_place *place)
{
    struct verdict_place copy = *place;
    copy.topic = copy_text((struct mr_text){place->topic, strlen(place->topic)}).bytes;
    return copy;
}

bool verdict_same_place(const struct verdict_place *a, const struct verdict_place *b)
{
    return a->partition == b->partition && a->offset == b->offset &&
           strcmp(a->topic, b->topic) == 0;
}

void verdict_accuse(struct verdict *verdict, enum verdict_kind kind, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    verdict->figures.violations[kind]++;
    verdict->figures.violation_count++;
    if (verdict->options.report) verdict->options.report(verdict->options.context, kind, what);
}

/* ---- create and destroy ---- */

struct verdict *verdict_create(const struct verdict_options *options)
{
    struct verdict *verdict = zeroed(sizeof *verdict);
    verdict->options = *options;
    return verdict;
}

static void free_text(struct mr_text text)
{
    free((void *)(uintptr_t)text.bytes);
}

static void free_place(const struct verdict_place *place)
{
    free((void *)(uintptr_t)place->topic);
}

static void free_answer(struct answer *answer)
{
    for (uint32_t i = 0; i < answer->choice_count; i++) {
        free_text(answer->choices[i].text);
        free((void *)(uintptr_t)answer->choices[i].token_ids);
    }
    free(answer->choices);
    free_place(&answer->source);
    free(answer);
}

static void free_subject(struct subject *subject)
{
    for (struct piece *piece = subject->pieces, *next; piece; piece = next) {
        next = piece->next;
        free(piece->ids);
        free_text(piece->text);
        free(piece);
    }
    for (struct answer *answer = subject->answers, *next; answer; answer = next) {
        next = answer->next;
        free_answer(answer);
    }
    free(subject->id);
    free(subject);
}

void verdict_destroy(struct verdict *verdict)
{
    if (!verdict) return;
    for (struct subject *subject = verdict->first, *next; subject; subject = next) {
        next = subject->order_next;
        free_subject(subject);
    }
    for (size_t i = 0; i < verdict->request_count; i++)
        free_place(&verdict->requests[i].place);
    for (size_t i = 0; i < verdict->commit_count; i++) {
        free_place(&verdict->commits[i].place);
        free_text(verdict->commits[i].metadata);
    }
    for (size_t i = 0; i < verdict->dead_count; i++)
        free_place(&verdict->dead[i]);
    for (size_t i = 0; i < verdict->refusal_count; i++)
        free_place(&verdict->refusals[i].place);
    free(verdict->refusals);
    free(verdict->requests);
    free(verdict->commits);
    free(verdict->dead);
    free(verdict->dead_ms);
    free(verdict);
}

/* ---- input ---- */

static struct subject *subject_of(struct verdict *verdict, struct mr_text id)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, id.bytes, id.length);
    struct subject **bucket = &verdict->buckets[hash % VERDICT_BUCKETS];
    for (struct subject *subject = *bucket; subject; subject = subject->next)
        if (strlen(subject->id) == id.length && memcmp(subject->id, id.bytes, id.length) == 0)
            return subject;
    struct subject *subject = zeroed(sizeof *subject);
    subject->id = (char *)(uintptr_t)copy_text(id).bytes;
    subject->next = *bucket;
    *bucket = subject;
    if (verdict->last)
        verdict->last->order_next = subject;
    else
        verdict->first = subject;
    verdict->last = subject;
    return subject;
}

/* Makes room for one more element at index count. */
static void *grown(void *array, size_t count, size_t *max, size_t bytes)
{
    if (count < *max) return array;
    *max = *max > 0 ? *max * 2 : 64;
    return verdict_memory(array, *max * bytes);
}

void verdict_request(struct verdict *verdict, const struct verdict_place *place, struct mr_text id,
                     bool streams, int64_t time_ms)
{
    verdict->requests = grown(verdict->requests, verdict->request_count, &verdict->request_max,
                              sizeof *verdict->requests);
    struct request *request = &verdict->requests[verdict->request_count++];
    *request = (struct request){.place = copy_place(place), .time_ms = time_ms};
    if (!id.bytes) return;
    request->subject = subject_of(verdict, id);
    if (!request->subject->asked) verdict->figures.ids++;
    request->subject->asked = true;
    request->subject->streams |= streams;
    request->subject->records++;
}

void verdict_tokens(struct verdict *verdict, const struct mr_token_record *record)
{
    struct subject *subject = subject_of(verdict, record->id);
    struct piece *piece = zeroed(sizeof *piece);
    piece->attempt = record->attempt;
    piece->choice = record->choice;
    piece->index = record->index;
    piece->count = (uint32_t)record->token_count;
    piece->resumed_at = record->resumed_at;
    piece->ids = copy_ids(record->token_ids, record->token_count);
    piece->text = copy_text(record->text);
    if (subject->last_piece)
        subject->last_piece->next = piece;
    else
        subject->pieces = piece;
    subject->last_piece = piece;
    verdict->figures.token_records++;
    verdict->figures.tokens += piece->count;
}

static struct mr_choice copy_choice(const struct mr_choice *choice)
{
    return (struct mr_choice){.finish = choice->finish,
                              .text = copy_text(choice->text),
                              .token_ids = copy_ids(choice->token_ids, choice->token_count),
                              .token_count = choice->token_count};
}

static struct verdict_place source_of(const struct mr_result *result)
{
    char topic[256];
    snprintf(topic, sizeof topic, "%.*s", (int)result->source_topic.length,
             result->source_topic.bytes ? result->source_topic.bytes : "");
    struct verdict_place source = {topic, result->source_partition, result->source_offset};
    return copy_place(&source);
}

void verdict_result(struct verdict *verdict, const struct mr_result *result, int64_t time_ms)
{
    verdict->figures.results++;
    if (result->error == MR_DUPLICATE_ID) {
        verdict->refusals = grown(verdict->refusals, verdict->refusal_count, &verdict->refusal_max,
                                  sizeof *verdict->refusals);
        verdict->refusals[verdict->refusal_count++] =
            (struct commit){.place = source_of(result), .time_ms = time_ms};
        verdict->figures.duplicate_ids++;
        return;
    }
    struct subject *subject = subject_of(verdict, result->id);
    struct answer *answer = zeroed(sizeof *answer);
    answer->attempt = result->attempt;
    answer->whole = result->error != MR_RECORD_TOO_LARGE;
    answer->time_ms = time_ms;
    answer->source = source_of(result);
    answer->choice_count = (uint32_t)result->choice_count;
    answer->choices = verdict_memory(NULL, result->choice_count * sizeof *answer->choices);
    for (size_t i = 0; i < result->choice_count; i++)
        answer->choices[i] = copy_choice(&result->choices[i]);
    if (subject->last_answer)
        subject->last_answer->next = answer;
    else
        subject->answers = answer;
    if (!subject->last_answer) verdict->figures.answered++;
    subject->last_answer = answer;
}

void verdict_dead_letter(struct verdict *verdict, const struct verdict_place *place,
                         int64_t time_ms)
{
    size_t max = verdict->dead_max;
    verdict->dead_ms = grown(verdict->dead_ms, verdict->dead_count, &max, sizeof(int64_t));
    verdict->dead =
        grown(verdict->dead, verdict->dead_count, &verdict->dead_max, sizeof *verdict->dead);
    verdict->dead_ms[verdict->dead_count] = time_ms;
    verdict->dead[verdict->dead_count++] = copy_place(place);
    verdict->figures.dead_letters++;
}

void verdict_commit(struct verdict *verdict, const struct verdict_place *place,
                    struct mr_text metadata, int64_t time_ms)
{
    verdict->commits = grown(verdict->commits, verdict->commit_count, &verdict->commit_max,
                             sizeof *verdict->commits);
    verdict->commits[verdict->commit_count++] =
        (struct commit){copy_place(place), copy_text(metadata), time_ms};
}

void verdict_broken(struct verdict *verdict, const struct verdict_place *place, const char *why)
{
    verdict_accuse(verdict, VERDICT_BROKEN_RECORD, "%s/%d/%lld: %s", place->topic, place->partition,
                   (long long)place->offset, why);
}

uint32_t verdict_requests(const struct verdict *verdict)
{
    return (uint32_t)verdict->request_count;
}

uint32_t verdict_open(const struct verdict *verdict)
{
    uint32_t open = 0;
    for (const struct subject *subject = verdict->first; subject; subject = subject->order_next)
        if (subject->asked && !subject->answers) open++;
    return open;
}
