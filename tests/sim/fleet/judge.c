#include "codec/records/reply.h"
#include "codec/wire/encoding.h"
#include "tests/integration/verdict/verdict.h"
#include "tests/sim/fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)1 << 24)
/* without faults a record reaches every worker within this time */
#define SETTLED_NS SECOND

/* ---- the report of the checker of tests/integration ---- */

/* The first request with this id. */
static const struct plan *find_plan(const struct fleet *fleet, const char *id)
{
    for (uint32_t i = 0; i < fleet->scenario->plan_count; i++) {
        const struct plan *plan = &fleet->scenario->plans[i];
        bool asks = plan->kind != PLAN_CANCEL && plan->kind != PLAN_AGAIN;
        if (asks && !plan->left_out && strcmp(plan->id, id) == 0) return plan;
    }
    return NULL;
}

/* Whether another record of this kind names the request. */
static bool has_other(const struct fleet *fleet, const char *id, enum plan_kind kind)
{
    for (uint32_t i = 0; i < fleet->scenario->plan_count; i++) {
        const struct plan *plan = &fleet->scenario->plans[i];
        if (plan->kind == kind && !plan->left_out && strcmp(plan->id, id) == 0) return true;
    }
    return false;
}

static bool has_kind(const struct fleet *fleet, enum plan_kind kind)
{
    for (uint32_t i = 0; i < fleet->scenario->plan_count; i++)
        if (fleet->scenario->plans[i].kind == kind && !fleet->scenario->plans[i].left_out)
            return true;
    return false;
}

/* Whether a consumer of this run gets the record. */
static bool is_visible(const struct broker_record *record)
{
    if (record->marker) return false;
    return !record->transaction || record->transaction->state == BROKER_COMMITTED;
}

static bool is_dead_letter(const struct fleet *fleet, const struct plan *plan)
{
    size_t t = broker_find_topic(fleet->broker, fleet->config.dlq_topic);
    const struct broker_log *log = &fleet->broker->topics[t].logs[0];
    for (int64_t i = 0; i < log->end; i++) {
        struct mr_text value = log->records[i]->record.value;
        if (is_visible(log->records[i]) && value.length == plan->value.length &&
            memcmp(value.bytes, plan->value.bytes, value.length) == 0)
            return true;
    }
    return false;
}

/* Whether the request may run twice with the same attempt number and end in two ways. With
 * at-least-once delivery this has two conditions. First, a cancel or a deadline ended only one of
 * the two runs. Second, the request has a second record, or a worker lost its commit and its
 * successor did not find the result, because the workers' clocks differ by more than is assumed or
 * because the broker was down. A request that is rejected when it is read again also keeps its
 * attempt number. */
static bool may_differ(const struct fleet *fleet, const char *id)
{
    const struct plan *plan = find_plan(fleet, id);
    bool timed = plan && (plan->deadline_ms > 0 || has_other(fleet, id, PLAN_CANCEL));
    if (has_other(fleet, id, PLAN_AGAIN) || has_other(fleet, id, PLAN_REUSED)) return true;
    if (fleet->clock_jumps > 0 && fleet->crashes > 0) return true; /* attempt numbers start again */
    return timed && fleet->crashes + fleet->scenario->fault_count > 0;
}

/* Whether a worker that the group had removed has written tokens of the request. */
static bool has_tokens_of_zombie(const struct fleet *fleet, const char *id)
{
    size_t t = broker_find_topic(fleet->broker, fleet->config.tokens_topic);
    const struct broker_topic *topic = &fleet->broker->topics[t];
    for (uint32_t p = 0; p < topic->partition_count; p++)
        for (int64_t i = 0; i < topic->logs[p].end; i++) {
            const struct broker_record *record = topic->logs[p].records[i];
            if (record->of_zombie && mr_text_is(record->record.key, id)) return true;
        }
    return false;
}

/* Whether the request was rejected as poison after a worker that the group had removed ran it. No
 * commit lists the start of that attempt, so the rejection has the same attempt number. */
static bool refused_beside_zombie(const struct fleet *fleet, const char *id)
{
    const struct plan *plan = find_plan(fleet, id);
    return plan && is_dead_letter(fleet, plan) && has_tokens_of_zombie(fleet, id);
}

/* Violations that a fault of this run permits. */
static bool is_permitted(const struct fleet *fleet, enum verdict_kind kind, const char *what)
{
    char id[32];
    size_t length = strcspn(what, ":");
    snprintf(id, sizeof id, "%.*s", (int)(length < sizeof id ? length : 0), what);
    switch (kind) {
    case VERDICT_LATE_RESULT:
        /* a zombie writes its records in flight, and without transactions no broker refuses them */
        return fleet->long_pauses > 0 || fleet->clock_jumps > 0 || may_differ(fleet, id);
    case VERDICT_EARLY_COMMIT:
        /* a zombie and its successor reject different records of one id, so the first one's result
         * is late */
        return fleet->long_pauses > 0 && has_kind(fleet, PLAN_REUSED);
    case VERDICT_UNEQUAL_RESULTS:
        return may_differ(fleet, id);
    case VERDICT_UNEQUAL_TOKENS:
        if (refused_beside_zombie(fleet, id)) return true;
        /* fallthrough */
    case VERDICT_GAP:
    case VERDICT_UNEQUAL_TEXT:
        return sim_lost_tokens(fleet->broker, id) || may_differ(fleet, id);
    default:
        return false;
    }
}

static void report(void *context, enum verdict_kind kind, const char *what)
{
    struct fleet *fleet = context;
    if (!is_permitted(fleet, kind, what)) fleet_accuse(fleet, "%s: %s", verdict_text(kind), what);
}

static void add_records(struct fleet *fleet, struct verdict *verdict)
{
    const struct mr_config *config = &fleet->config;
    const struct verdict_topics topics = {config->tokens_topic, config->results_topic,
                                          config->dlq_topic};
    for (uint32_t t = 0; t < fleet->broker->topic_count; t++) {
        const struct broker_topic *topic = &fleet->broker->topics[t];
        if (t == fleet->cancel_topic || strcmp(topic->name, "reply") == 0) continue;
        for (uint32_t p = 0; p < topic->partition_count; p++)
            for (int64_t i = 0; i < topic->logs[p].end; i++) {
                const struct broker_record *found = topic->logs[p].records[i];
                if (!is_visible(found)) continue;
                /* the broker's times, because the clocks of workers may be wrong in this run */
                struct mr_kafka_record record = found->record;
                record.timestamp_ms = found->appended_ms;
                if (record.value.bytes &&
                    memmem(record.value.bytes, record.value.length, "\"resumed_at\":", 13))
                    fleet->coverage->counts[COVER_RESUMED_AT]++;
                verdict_record(verdict, &topics, &record);
            }
    }
}

static void add_commits(struct fleet *fleet, struct verdict *verdict)
{
    for (const struct broker_offset *commit = fleet->broker->group.commits; commit;
         commit = commit->next) {
        struct verdict_place place = {fleet->broker->topics[commit->topic].name, commit->partition,
                                      commit->offset};
        struct mr_text metadata = {commit->metadata, strlen(commit->metadata)};
        verdict_commit(verdict, &place, metadata, commit->time_ms);
    }
}

static void judge_records(struct fleet *fleet)
{
    bool exactly_once = fleet->scenario->exactly_once;
    struct verdict_options options = {
        .single = exactly_once, .timed = !exactly_once, .report = report, .context = fleet};
    struct verdict_figures figures;
    struct verdict *verdict = verdict_create(&options);
    add_commits(fleet, verdict);
    add_records(fleet, verdict);
    verdict_judge(verdict, &figures);
    fleet->coverage->counts[COVER_LATER_ATTEMPT] += figures.later_attempt;
    verdict_destroy(verdict);
}

/* ---- checks that need the state of the simulation ---- */

/* The plan whose record the result answers. */
static const struct plan *find_source(const struct fleet *fleet, const struct mr_result *result)
{
    for (uint32_t i = 0; i < fleet->scenario->plan_count; i++) {
        const struct plan *plan = &fleet->scenario->plans[i];
        const char *topic = fleet->broker->topics[plan->topic].name;
        if (plan->kind != PLAN_CANCEL && fleet->plan_offsets[i] == result->source_offset &&
            plan->partition == result->source_partition && mr_text_is(result->source_topic, topic))
            return plan;
    }
    return NULL;
}

/* The number of crashes that other workers may have assumed. A worker that lost its partitions
 * looks like a crash, and so does a worker whose commit failed when it released a partition. */
static uint32_t count_crashes(const struct fleet *fleet)
{
    return fleet->crashes + fleet->long_pauses + fleet->broker->lost_assignments +
           2 * fleet->failed_commits;
}

/* Whether an event of this run explains that a valid request was not answered. */
static bool may_fail(const struct fleet *fleet, const struct plan *plan,
                     const struct mr_result *result)
{
    if (result->error == MR_DUPLICATE_ID)
        return plan->kind == PLAN_REUSED || has_other(fleet, plan->id, PLAN_REUSED);
    switch (result->choices[0].finish) {
    case MR_FINISH_CANCELLED:
        return has_other(fleet, plan->id, PLAN_CANCEL);
    case MR_FINISH_DEADLINE:
        return plan->deadline_ms > 0;
    case MR_FINISH_POOL_EXHAUSTED:
        return true;
    case MR_FINISH_REJECTED:
    case MR_FINISH_ERROR:
        return count_crashes(fleet) >= fleet->config.attempts_max && result->error == MR_POISON;
    default:
        return false;
    }
}

/* Whether the start notes in Redis may have been lost. */
static bool lost_starts(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->scenario->fault_count; i++)
        if (fleet->scenario->faults[i].kind >= FAULT_REDIS_STOP &&
            !fleet->scenario->faults[i].left_out)
            return true;
    return false;
}

/* Whether nothing delayed or repeated a request in this run: no fault happened and no poison ended
 * a worker. With crashes set, workers may have ended. */
static bool is_calm(const struct fleet *fleet, bool crashes)
{
    if (!crashes && fleet->poison_crashes > 0) return false;
    for (uint32_t i = 0; i < fleet->scenario->fault_count; i++) {
        const struct fault *fault = &fleet->scenario->faults[i];
        bool ends = fault->kind <= FAULT_CRASH_INSIDE || fault->kind == FAULT_SIGTERM;
        if (!fault->left_out && !(crashes && ends)) return false;
    }
    return true;
}

/* A request that ended by itself must not have a cancel from well before it was written. */
static void judge_cancel(struct fleet *fleet, const struct plan *plan)
{
    const struct scenario *scenario = fleet->scenario;
    if (!is_calm(fleet, true) || has_other(fleet, plan->id, PLAN_AGAIN) ||
        has_other(fleet, plan->id, PLAN_REUSED))
        return;
    for (uint32_t i = 0; i < scenario->plan_count; i++) {
        const struct plan *cancel = &scenario->plans[i];
        if (cancel->kind == PLAN_CANCEL && !cancel->left_out && strcmp(cancel->id, plan->id) == 0 &&
            cancel->at_ns + SETTLED_NS < plan->at_ns)
            fleet_accuse(fleet, "cancel: %s was cancelled before it was written, and has run",
                         plan->id);
    }
}

/* It must not end long after its deadline either. With exactly-once delivery a result waits for the
 * next commit and for the one before it, each of which takes five round trips. source: its record,
 * which may be a repeated one. */
static void judge_deadline(struct fleet *fleet, const struct plan *plan, const struct plan *source,
                           const struct broker_record *record)
{
    uint64_t due_ns = PLATFORM_START_NS + source->at_ns + plan->deadline_ms * MS;
    bool prompt = fleet->scenario->producer_room == SCENARIO_ROOM && is_calm(fleet, false);
    uint64_t room_ns = 3 * SETTLED_NS;
    if (fleet->scenario->exactly_once)
        room_ns += 2 * (fleet->scenario->commit_interval_ns + 10 * fleet->scenario->latency_ns);
    if (plan->deadline_ms > 0 && prompt && record->appended_ns > due_ns + room_ns)
        fleet_accuse(fleet, "deadline: %s has ended by itself %.3f s after its deadline", plan->id,
                     (double)(record->appended_ns - due_ns) / 1e9);
}

/* The number of tokens at the start of a's prompt that b may have computed. */
static uint32_t common(const struct plan *a, const struct plan *b)
{
    uint32_t i = 0;
    while (i < a->prompt.length && i < b->prompt.length && a->prompt.bytes[i] == b->prompt.bytes[i])
        i++;
    return i < b->prompt.length ? i : i + b->max_tokens;
}

/* KV comes from requests of the same tenant, or from an earlier run of the request itself. */
static void judge_cache(struct fleet *fleet, const struct plan *plan,
                        const struct mr_result *result)
{
    uint32_t known = 0;
    bool first = result->attempt == 1 && result->preemptions == 0 && !lost_starts(fleet);
    if (!first || plan->choices > 1) return;
    for (uint32_t i = 0; i < fleet->scenario->plan_count; i++) {
        const struct plan *other = &fleet->scenario->plans[i];
        if (other == plan || other->left_out || other->topic != plan->topic) continue;
        uint32_t tokens = common(plan, other);
        if (other->kind == PLAN_AGAIN) tokens = common(plan, &fleet->scenario->plans[other->other]);
        if (tokens > known) known = tokens;
    }
    if (result->cached_tokens > known)
        fleet_accuse(fleet, "tenant: %s got the KV of %u tokens, its tenant has computed %u",
                     plan->id, result->cached_tokens, known);
}

/* The new owner of a partition must find the results of earlier owners. It may miss a result of a
 * worker that the group has removed: the result can be written after the next owner has read the
 * results and before that owner's commit, which covers all of them. A removed worker may also learn
 * late of an assignment that is over. */
static void judge_repeated(struct fleet *fleet, const struct plan *plan,
                           const struct broker_record *record)
{
    const struct broker_record **first = &fleet->answers[plan - fleet->scenario->plans];
    if (!*first) *first = record;
    if (fleet->scenario->exactly_once || fleet->clock_jumps > 0) return;
    if ((*first)->removed || (*first)->of_zombie || record->of_zombie) return;
    if ((*first)->appended_ns < record->owned_since_ns)
        fleet_accuse(fleet, "repeated: %s was answered before its partition was assigned",
                     plan->id);
}

static void judge_result(struct fleet *fleet, const struct mr_result *result,
                         const struct broker_record *record)
{
    const struct plan *plan = find_source(fleet, result), *source = plan;
    if (!plan || result->choice_count == 0) return;
    judge_repeated(fleet, plan, record);
    if (plan->kind == PLAN_AGAIN) plan = &fleet->scenario->plans[plan->other];
    if (plan->kind != PLAN_REQUEST && plan->kind != PLAN_REUSED) return;
    enum mr_finish finish = result->choices[0].finish;
    if (finish == MR_FINISH_CANCELLED) fleet->coverage->counts[COVER_CANCELLED]++;
    if (finish == MR_FINISH_DEADLINE) fleet->coverage->counts[COVER_DEADLINE]++;
    if (finish > MR_FINISH_CONTEXT_FULL || finish == MR_FINISH_NONE) {
        if (!may_fail(fleet, plan, result))
            fleet_accuse(fleet, "%s ended with %s (%s: %s)", plan->id, mr_finish_text(finish),
                         mr_status_name(result->error),
                         result->error_message ? result->error_message : "");
        return;
    }
    judge_answer(fleet, plan, result);
    judge_cancel(fleet, plan);
    judge_deadline(fleet, plan, source, record);
    if (fleet->answers[source - fleet->scenario->plans] == record)
        judge_cache(fleet, plan, result); /* a later answer may use the KV of the first answer */
}

static void judge_results(struct fleet *fleet)
{
    size_t t = broker_find_topic(fleet->broker, fleet->config.results_topic);
    for (uint32_t p = 0; p < fleet->broker->topics[t].partition_count; p++) {
        const struct broker_log *log = &fleet->broker->topics[t].logs[p];
        for (int64_t i = 0; i < log->end; i++) {
            struct mr_result result;
            struct mr_error err;
            struct mr_arena *arena = mr_arena_create(ARENA_BYTES);
            if (is_visible(log->records[i]) &&
                mr_result_decode(&result, log->records[i]->record.value, MR_ENCODING_JSON, arena,
                                 &err) == MR_OK)
                judge_result(fleet, &result, log->records[i]);
            mr_arena_destroy(arena);
        }
    }
}

/* A poisonous request must be rejected after attempts_max crashes, plus the crashes that isolate it
 * from the requests that ran with it. */
static void judge_poison(struct fleet *fleet)
{
    uint32_t count = 0, most = fleet->config.attempts_max + 2;
    for (uint32_t k = 0; k < fleet->scenario->plan_count; k++) {
        const struct plan *plan = &fleet->scenario->plans[k];
        if (plan->kind != PLAN_POISON || plan->left_out) continue;
        count++;
        fleet->coverage->counts[COVER_POISON_DEAD_LETTER] += is_dead_letter(fleet, plan);
    }
    if (fleet->poison_crashes > count * most && !lost_starts(fleet))
        fleet_accuse(fleet, "poison: %u requests crashed %u workers", count, fleet->poison_crashes);
}

void fleet_judge(struct fleet *fleet)
{
    size_t reply = broker_find_topic(fleet->broker, "reply");
    fleet->coverage->counts[COVER_REPLY] += (uint64_t)fleet->broker->topics[reply].logs[0].end;
    if (fleet->broker->wrong[0]) fleet_accuse(fleet, "%s", fleet->broker->wrong);
    judge_records(fleet);
    judge_results(fleet);
    judge_poison(fleet);
}

bool fleet_is_done(const struct fleet *fleet, char *text, size_t size)
{
    const struct broker *broker = fleet->broker;
    for (uint32_t i = 0; i < broker->group.partition_count; i++) {
        uint32_t topic;
        int32_t partition;
        broker_group_place(broker, i, &topic, &partition);
        int64_t end = broker->topics[topic].logs[partition].end;
        const struct broker_offset *committed = broker->group.committed[i];
        int64_t offset = committed ? committed->offset : 0;
        if (offset == end) continue;
        snprintf(text, size, "%s/%d is committed at %lld of %lld", broker->topics[topic].name,
                 partition, (long long)offset, (long long)end);
        return false;
    }
    return true;
}
