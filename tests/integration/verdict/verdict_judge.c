#include "tests/integration/verdict/verdict_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- requests and results ---- */

static struct request *request_at(struct verdict *verdict, const struct verdict_place *place)
{
    for (size_t k = 0; k < verdict->request_count; k++)
        if (verdict_same_place(&verdict->requests[k].place, place)) return &verdict->requests[k];
    return NULL;
}

static void accuse_second(struct verdict *verdict, const struct verdict_place *place)
{
    if (verdict->options.single)
        verdict_accuse(verdict, VERDICT_SECOND_RESULT, "%s/%d/%lld was refused and answered again",
                       place->topic, place->partition, (long long)place->offset);
}

static void join_refusals(struct verdict *verdict)
{
    for (size_t i = 0; i < verdict->refusal_count; i++) {
        const struct commit *refusal = &verdict->refusals[i];
        struct request *found = request_at(verdict, &refusal->place);
        if (!found) {
            verdict_accuse(verdict, VERDICT_UNASKED, "duplicate_id for %s/%d/%lld",
                           refusal->place.topic, refusal->place.partition,
                           (long long)refusal->place.offset);
        } else if (found->refused) {
            accuse_second(verdict, &found->place);
        } else {
            found->refused = true;
            found->refused_ms = refusal->time_ms;
        }
    }
}

static void join_dead_letters(struct verdict *verdict)
{
    for (size_t i = 0; i < verdict->dead_count; i++) {
        struct request *found = request_at(verdict, &verdict->dead[i]);
        if (!found) {
            verdict_accuse(verdict, VERDICT_UNASKED, "dead letter of %s/%d/%lld",
                           verdict->dead[i].topic, verdict->dead[i].partition,
                           (long long)verdict->dead[i].offset);
        } else if (!found->dead) {
            found->dead = true;
            found->dead_ms = verdict->dead_ms[i];
        }
    }
}

static void judge_refused(struct verdict *verdict, const struct request *request)
{
    for (const struct answer *answer = request->subject ? request->subject->answers : NULL; answer;
         answer = answer->next)
        if (verdict_same_place(&answer->source, &request->place))
            accuse_second(verdict, &request->place);
}

static void judge_request(struct verdict *verdict, const struct request *request)
{
    if (request->refused) {
        judge_refused(verdict, request);
        return;
    }
    if (request->dead || (request->subject && request->subject->answers)) return;
    verdict_accuse(verdict, VERDICT_LOST_RESULT, "%s: %s/%d/%lld has no result",
                   request->subject ? request->subject->id : "(no id)", request->place.topic,
                   request->place.partition, (long long)request->place.offset);
}

static bool same_text(struct mr_text a, struct mr_text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

static bool same_choice(const struct mr_choice *a, const struct mr_choice *b)
{
    return a->finish == b->finish && same_text(a->text, b->text) &&
           a->token_count == b->token_count &&
           (a->token_count == 0 ||
            memcmp(a->token_ids, b->token_ids, a->token_count * sizeof *a->token_ids) == 0);
}

static bool same_answer(const struct answer *a, const struct answer *b)
{
    if (!a->whole || !b->whole) return true;
    if (a->choice_count != b->choice_count) return false;
    for (uint32_t i = 0; i < a->choice_count; i++)
        if (!same_choice(&a->choices[i], &b->choices[i])) return false;
    return true;
}

/* Selects the valid result, the first of the highest attempt, and reports violations of the others.
 */
static const struct answer *judge_answers(struct verdict *verdict, const struct subject *subject)
{
    const struct answer *best = subject->answers;
    for (const struct answer *answer = best ? best->next : NULL; answer; answer = answer->next) {
        verdict->figures.duplicates++;
        if (verdict->options.single)
            verdict_accuse(verdict, VERDICT_SECOND_RESULT, "%s: results of attempts %u and %u",
                           subject->id, best->attempt, answer->attempt);
        if (answer->attempt < best->attempt) {
            verdict_accuse(verdict, VERDICT_LATE_RESULT, "%s: attempt %u behind attempt %u",
                           subject->id, answer->attempt, best->attempt);
        } else if (answer->attempt == best->attempt) {
            verdict->figures.same_attempt++;
            if (!same_answer(answer, best))
                verdict_accuse(verdict, VERDICT_UNEQUAL_RESULTS, "%s: two results of attempt %u",
                               subject->id, best->attempt);
        } else {
            best = answer;
        }
    }
    return best;
}

static bool is_refusal(const struct answer *answer)
{
    switch (answer->choice_count > 0 ? answer->choices[0].finish : MR_FINISH_NONE) {
    case MR_FINISH_REJECTED:
    case MR_FINISH_ERROR:
    case MR_FINISH_DEADLINE:
    case MR_FINISH_CANCELLED:
    case MR_FINISH_POOL_EXHAUSTED:
    case MR_FINISH_NONE:
        return true;
    default:
        return false;
    }
}

static void count_answers(struct verdict *verdict, const struct subject *subject,
                          const struct answer *best)
{
    size_t count = 0;
    for (const struct answer *answer = subject->answers; answer; answer = answer->next)
        count++;
    if (count > 1) verdict->figures.repeated_ids++;
    if (best && best->attempt > 1) verdict->figures.later_attempt++;
    if (best && is_refusal(best)) verdict->figures.refused++;
    if (count >= VERDICT_RESULTS_SHOWN) count = VERDICT_RESULTS_SHOWN - 1;
    verdict->figures.results_per_id[count]++;
}

/* ---- token records ---- */

/* The stream of one attempt and choice, assembled like a client's. */
struct stream {
    uint32_t *ids, count, max;
    char *text;
    size_t text_length;
    bool begun, gap, cut; /* cut: continues inside a record, so the text is unknown */
    bool quiet;           /* violations of these records are already reported */
    int64_t closing_at;   /* index of the last record without tokens; -1: none */
};

static void end_stream(struct stream *stream)
{
    free(stream->ids);
    free(stream->text);
}

static void add_ids(struct stream *stream, const uint32_t *ids, uint32_t count)
{
    stream->max = stream->count + count;
    stream->ids = verdict_memory(stream->ids, stream->max * sizeof *stream->ids);
    if (count > 0) memcpy(stream->ids + stream->count, ids, count * sizeof *ids);
    stream->count = stream->max;
}

static void add_text(struct stream *stream, struct mr_text text)
{
    stream->text = verdict_memory(stream->text, stream->text_length + text.length + 1);
    if (text.length > 0) memcpy(stream->text + stream->text_length, text.bytes, text.length);
    stream->text_length += text.length;
}

static void read_attempt(struct verdict *verdict, const struct subject *subject, uint32_t attempt,
                         uint32_t choice, struct stream *stream);

/* The tokens below `until` of lower attempts: those of the highest attempt that reaches `until`. */
static void read_before(struct verdict *verdict, const struct subject *subject,
                        const struct piece *first, struct stream *stream)
{
    uint32_t until = first->index;
    for (uint32_t attempt = first->attempt; attempt > 1 && until > 0; attempt--) {
        struct stream lower = {.closing_at = -1, .quiet = true};
        read_attempt(verdict, subject, attempt - 1, first->choice, &lower);
        if (lower.count < until) {
            end_stream(&lower);
            continue;
        }
        /* the text up to `until`, record by record */
        uint32_t at = 0;
        for (const struct piece *piece = subject->pieces; piece && at < until;
             piece = piece->next) {
            if (piece->attempt != attempt - 1 || piece->choice != first->choice) continue;
            if (piece->index != at) continue;
            add_text(stream, piece->text);
            at += piece->count;
        }
        if (at != until) stream->cut = true;
        add_ids(stream, lower.ids, until);
        end_stream(&lower);
        return;
    }
}

static void read_piece(struct verdict *verdict, const struct subject *subject,
                       const struct piece *piece, struct stream *stream)
{
    if (piece->index > stream->count) {
        if (!stream->gap && !stream->quiet)
            verdict_accuse(verdict, VERDICT_GAP, "%s: attempt %u goes from index %u to %u",
                           subject->id, piece->attempt, stream->count, piece->index);
        stream->gap = true;
        return;
    }
    uint32_t known = stream->count - piece->index;
    if (known > piece->count) known = piece->count;
    for (uint32_t i = 0; i < known; i++)
        if (stream->ids[piece->index + i] != piece->ids[i]) {
            if (stream->quiet) return;
            verdict_accuse(verdict, VERDICT_UNEQUAL_TOKENS,
                           "%s: two records of attempt %u differ at index %u", subject->id,
                           piece->attempt, piece->index + i);
            return;
        }
    if (known == piece->count && piece->count > 0) return;
    if (piece->count == 0 && (piece->index != stream->count || stream->closing_at == piece->index))
        return;
    if (known > 0) stream->cut = true;
    if (piece->count == 0) stream->closing_at = piece->index;
    add_ids(stream, piece->ids + known, piece->count - known);
    add_text(stream, piece->text);
}

static void read_attempt(struct verdict *verdict, const struct subject *subject, uint32_t attempt,
                         uint32_t choice, struct stream *stream)
{
    for (const struct piece *piece = subject->pieces; piece; piece = piece->next) {
        if (piece->attempt != attempt || piece->choice != choice) continue;
        if (!stream->begun && piece->resumed_at >= 0 && piece->index > 0)
            read_before(verdict, subject, piece, stream);
        stream->begun = true;
        read_piece(verdict, subject, piece, stream);
    }
}

static void compare(struct verdict *verdict, const struct subject *subject,
                    const struct answer *answer, uint32_t choice, const struct stream *stream)
{
    const struct mr_choice *said = &answer->choices[choice];
    if (stream->gap) return; /* already reported */
    if (stream->count < said->token_count) {
        verdict_accuse(verdict, VERDICT_GAP, "%s: attempt %u has %u tokens, its result %zu",
                       subject->id, answer->attempt, stream->count, said->token_count);
    } else if (stream->count > said->token_count ||
               (stream->count > 0 &&
                memcmp(stream->ids, said->token_ids, stream->count * sizeof *stream->ids) != 0)) {
        verdict_accuse(verdict, VERDICT_UNEQUAL_TOKENS,
                       "%s: the token records of attempt %u are not its result's", subject->id,
                       answer->attempt);
    } else if (!stream->cut &&
               !same_text((struct mr_text){stream->text, stream->text_length}, said->text)) {
        verdict_accuse(verdict, VERDICT_UNEQUAL_TEXT,
                       "%s: the texts of attempt %u joined are not its result's", subject->id,
                       answer->attempt);
    }
}

static uint32_t highest_attempt(const struct subject *subject)
{
    uint32_t highest = 0;
    for (const struct piece *piece = subject->pieces; piece; piece = piece->next)
        if (piece->attempt > highest) highest = piece->attempt;
    return highest;
}

static uint32_t choice_count(const struct subject *subject, const struct answer *best)
{
    uint32_t count = best ? best->choice_count : 0;
    for (const struct piece *piece = subject->pieces; piece; piece = piece->next)
        if (piece->choice >= count) count = piece->choice + 1;
    return count;
}

/* Checks that every attempt has no gaps and is consistent, and that the last one matches the
 * result. */
static void judge_streams(struct verdict *verdict, const struct subject *subject,
                          const struct answer *best)
{
    uint32_t attempts = highest_attempt(subject), widest = 0, published = 0;
    if (best && best->attempt > attempts) attempts = best->attempt;
    for (uint32_t choice = 0; choice < choice_count(subject, best); choice++) {
        widest = published = 0;
        for (uint32_t attempt = 1; attempt <= attempts; attempt++) {
            struct stream stream = {.closing_at = -1};
            bool answered = best && best->attempt == attempt && choice < best->choice_count;
            read_attempt(verdict, subject, attempt, choice, &stream);
            if (answered && best->whole && subject->streams)
                compare(verdict, subject, best, choice, &stream);
            if (stream.count > widest) widest = stream.count;
            end_stream(&stream);
        }
        for (const struct piece *piece = subject->pieces; piece; piece = piece->next)
            if (piece->choice == choice) published += piece->count;
        if (published > widest) verdict->figures.tokens_again += published - widest;
    }
}

static void count_late(struct verdict *verdict, const struct subject *subject)
{
    uint32_t highest = 0;
    for (const struct piece *piece = subject->pieces; piece; piece = piece->next) {
        if (piece->attempt < highest) verdict->figures.late_token_records++;
        if (piece->attempt > highest) highest = piece->attempt;
    }
}

static void judge_subject(struct verdict *verdict, const struct subject *subject)
{
    if (!subject->asked) {
        verdict_accuse(verdict, VERDICT_UNASKED, "%s: %s of a request nobody made", subject->id,
                       subject->answers ? "a result" : "tokens");
        return;
    }
    const struct answer *best = judge_answers(verdict, subject);
    count_answers(verdict, subject, best);
    if (!subject->streams && subject->pieces)
        verdict_accuse(verdict, VERDICT_UNWANTED_TOKENS, "%s: token records", subject->id);
    judge_streams(verdict, subject, best);
    count_late(verdict, subject);
}

/* ---- commits ---- */

/* The time at which the result or dead letter of the record was written; INT64_MAX: never. */
static int64_t end_of(const struct request *request)
{
    int64_t earliest = request->dead ? request->dead_ms : INT64_MAX;
    if (request->refused && request->refused_ms < earliest) earliest = request->refused_ms;
    for (const struct answer *answer = request->subject ? request->subject->answers : NULL; answer;
         answer = answer->next) {
        if (request->refused && !verdict_same_place(&answer->source, &request->place)) continue;
        if (answer->time_ms < earliest) earliest = answer->time_ms;
    }
    return earliest;
}

/* The requests of one partition, [from, to) of the sorted requests, and their state in the last
 * commit. Those from offset `end` on are not finished. */
struct partition {
    size_t from, to;
    int64_t offset, end, time_ms;
};

struct ledger {
    const struct request **requests; /* by topic, partition, offset */
    bool *finished;                  /* [i] request i was finished according to the last commit */
    struct partition *partitions;
    size_t request_count, partition_count;
};

static int compare_places(const struct verdict_place *a, const struct verdict_place *b)
{
    int order = strcmp(a->topic, b->topic);
    if (order == 0) order = (a->partition > b->partition) - (a->partition < b->partition);
    return order;
}

static int compare_requests(const void *a, const void *b)
{
    const struct verdict_place *one = &(*(const struct request *const *)a)->place;
    const struct verdict_place *two = &(*(const struct request *const *)b)->place;
    int order = compare_places(one, two);
    return order != 0 ? order : (one->offset > two->offset) - (one->offset < two->offset);
}

static void open_ledger(struct ledger *ledger, const struct verdict *verdict)
{
    size_t count = verdict->request_count;
    *ledger = (struct ledger){.request_count = count};
    ledger->requests = verdict_memory(NULL, (count + 1) * sizeof *ledger->requests);
    ledger->finished = verdict_memory(NULL, count + 1);
    ledger->partitions = verdict_memory(NULL, (count + 1) * sizeof *ledger->partitions);
    memset(ledger->finished, 0, count + 1);
    for (size_t i = 0; i < count; i++)
        ledger->requests[i] = &verdict->requests[i];
    qsort(ledger->requests, count, sizeof *ledger->requests, compare_requests);
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && compare_places(&ledger->requests[i - 1]->place,
                                            &ledger->requests[i]->place) == 0;
        if (!same)
            ledger->partitions[ledger->partition_count++] = (struct partition){
                .from = i, .offset = INT64_MIN, .end = INT64_MIN, .time_ms = INT64_MIN};
        ledger->partitions[ledger->partition_count - 1].to = i + 1;
    }
}

static void close_ledger(struct ledger *ledger)
{
    free(ledger->requests);
    free(ledger->finished);
    free(ledger->partitions);
}

static struct partition *partition_of(struct ledger *ledger, const struct verdict_place *place)
{
    for (size_t i = 0; i < ledger->partition_count; i++) {
        struct partition *partition = &ledger->partitions[i];
        if (compare_places(&ledger->requests[partition->from]->place, place) == 0) return partition;
    }
    return NULL;
}

/* Index of the partition's first request at or after this offset. */
static size_t find_offset(const struct ledger *ledger, const struct partition *partition,
                          int64_t offset)
{
    size_t low = partition->from, high = partition->to;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ledger->requests[middle]->place.offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool says_finished(const struct commit *commit, const unsigned char *bits, size_t bit_count,
                          int64_t offset)
{
    if (offset < commit->place.offset) return true;
    size_t bit = (size_t)(offset - commit->place.offset);
    return bit < bit_count && bits[bit / 8] >> (bit % 8) & 1;
}

/* Checks a commit. Only requests whose state may differ between this commit and the partition's
 * previous one matter: not those below both offsets, nor those past both bitmaps. */
static void judge_commit(struct verdict *verdict, const struct commit *commit,
                         struct ledger *ledger)
{
    unsigned char *bits = NULL;
    size_t bit_count = 0;
    bool forgetful = false, accused = false;
    verdict->figures.commits++;
    if (!verdict_metadata_bits(commit->metadata, &bits, &bit_count))
        verdict_accuse(verdict, VERDICT_UNREADABLE_COMMIT, "%s/%d at %lld: %.40s",
                       commit->place.topic, commit->place.partition,
                       (long long)commit->place.offset, commit->metadata.bytes);
    struct partition *partition = partition_of(ledger, &commit->place);
    int64_t offset = commit->place.offset, end = offset + (int64_t)bit_count;
    if (!partition) {
        free(bits);
        return;
    }
    int64_t from = offset < partition->offset ? offset : partition->offset;
    if (commit->time_ms < partition->time_ms) from = INT64_MIN; /* a clock that went back */
    size_t first = find_offset(ledger, partition, from);
    size_t last = find_offset(ledger, partition, end > partition->end ? end : partition->end);
    partition->offset = offset;
    partition->end = end;
    partition->time_ms = commit->time_ms;
    for (size_t i = first; i < last; i++) {
        const struct request *request = ledger->requests[i];
        if (!says_finished(commit, bits, bit_count, request->place.offset)) {
            forgetful |= ledger->finished[i];
            ledger->finished[i] = false;
            continue;
        }
        ledger->finished[i] = true;
        int64_t end_ms = end_of(request);
        bool early = verdict->options.timed ? end_ms > commit->time_ms : end_ms == INT64_MAX;
        if (early && !accused)
            verdict_accuse(verdict, VERDICT_EARLY_COMMIT,
                           "%s/%d: offset %lld said finished at %lld", request->place.topic,
                           request->place.partition, (long long)request->place.offset,
                           (long long)commit->time_ms);
        accused |= early;
    }
    if (forgetful) verdict->figures.forgetful_commits++;
    free(bits);
}

static void judge_commits(struct verdict *verdict)
{
    struct ledger ledger;
    open_ledger(&ledger, verdict);
    for (size_t i = 0; i < verdict->commit_count; i++)
        judge_commit(verdict, &verdict->commits[i], &ledger);
    close_ledger(&ledger);
}

/* ---- goodput ---- */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The longest time between two first results while at least one request was waiting. */
static void measure(struct verdict *verdict)
{
    size_t asked = verdict->request_count, came = 0, next = 0;
    int64_t *arrivals = verdict_memory(NULL, asked * sizeof *arrivals);
    int64_t *ends = verdict_memory(NULL, asked * sizeof *ends);
    struct verdict_figures *figures = &verdict->figures;
    for (size_t i = 0; i < asked; i++) {
        int64_t end_ms = end_of(&verdict->requests[i]);
        arrivals[i] = verdict->requests[i].time_ms;
        if (end_ms != INT64_MAX) ends[came++] = end_ms;
    }
    qsort(arrivals, asked, sizeof *arrivals, ascending);
    qsort(ends, came, sizeof *ends, ascending);
    int64_t since = 0;
    for (size_t i = 0; i < came; i++) {
        /* no request was waiting before the next arrival */
        if (next == i && next < asked) since = arrivals[next];
        while (next < asked && arrivals[next] <= ends[i])
            next++;
        if (i > 0 && since < ends[i - 1]) since = ends[i - 1];
        if (ends[i] - since > figures->stall_ms) figures->stall_ms = ends[i] - since;
        since = ends[i];
    }
    if (came > 0) figures->span_ms = ends[came - 1] - arrivals[0];
    free(arrivals);
    free(ends);
}

void verdict_judge(struct verdict *verdict, struct verdict_figures *figures)
{
    verdict->figures.requests = (uint32_t)verdict->request_count;
    join_dead_letters(verdict);
    join_refusals(verdict);
    for (size_t i = 0; i < verdict->request_count; i++)
        judge_request(verdict, &verdict->requests[i]);
    for (const struct subject *subject = verdict->first; subject; subject = subject->order_next)
        judge_subject(verdict, subject);
    judge_commits(verdict);
    measure(verdict);
    *figures = verdict->figures;
}
