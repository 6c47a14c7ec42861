#include "tests/sim/fleet/scenario.h"

#include "codec/check.h"
#include "tests/sim/fleet/worker_sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HUGE_BYTES ((size_t)40 << 10)

const char *plan_text(enum plan_kind kind)
{
    static const char *const texts[PLAN_KINDS] = {"request",    "again",  "reused",
                                                  "malformed",  "null",   "huge",
                                                  "bad header", "poison", "cancel"};
    return texts[kind];
}

const char *fault_text(enum fault_kind kind)
{
    static const char *const texts[FAULT_KINDS] = {"crash",
                                                   "crash inside a step",
                                                   "crash in a transaction",
                                                   "crash in recovery",
                                                   "producer breaks",
                                                   "SIGTERM",
                                                   "pause",
                                                   "pause in a transaction",
                                                   "clock jump",
                                                   "another worker",
                                                   "another worker with the id",
                                                   "a step of the model fails",
                                                   "broker stop",
                                                   "broker slow",
                                                   "produce",
                                                   "commit",
                                                   "transaction",
                                                   "retention",
                                                   "compaction",
                                                   "Redis stop",
                                                   "Redis slow",
                                                   "Redis lag",
                                                   "Redis flush",
                                                   "Redis evict"};
    return texts[kind];
}

/* ---- texts ---- */

__attribute__((format(printf, 2, 3))) static struct mr_text print(struct scenario *scenario,
                                                                  const char *format, ...)
{
    char *at = scenario->text + scenario->text_used;
    size_t left = sizeof scenario->text - scenario->text_used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(at, left, format, arguments);
    va_end(arguments);
    MR_ASSERT(length >= 0 && (size_t)length < left);
    scenario->text_used += (size_t)length + 1;
    return (struct mr_text){at, (size_t)length};
}

/* A prompt with a shared beginning: one of a few long texts, cut at a random length, and then a
 * text that no other prompt has. */
static struct mr_text make_prompt(struct scenario *scenario, struct sim_random *random)
{
    char text[SIM_CONTEXT];
    uint32_t shared = 0, own = 1 + sim_below(random, 30);
    if (sim_chance(random, 30)) shared = (uint32_t)sim_between(random, 1, 330);
    uint64_t state = 5 + sim_below(random, 2);
    for (uint32_t i = 0; i < shared; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        text[i] = (char)('a' + (state >> 40) % 17);
    }
    for (uint32_t i = 0; i < own; i++)
        text[shared + i] = (char)('a' + sim_below(random, 17));
    return print(scenario, "%.*s", (int)(shared + own), text);
}

static void header(struct scenario *scenario, struct plan *plan, const char *name,
                   const char *value)
{
    struct mr_text text = print(scenario, "%s", value);
    plan->headers[plan->header_count++] = (struct mr_kafka_header){name, text.bytes, text.length};
}

/* ---- requests ---- */

static void make_request(struct scenario *scenario, struct plan *plan, struct sim_random *random)
{
    char more[256] = "";
    size_t used = 0;
    bool drawn = sim_chance(random, 15), stops = sim_chance(random, 10);
    plan->prompt = make_prompt(scenario, random);
    plan->max_tokens = 1 + sim_below(random, sim_chance(random, 20) ? 60 : 14);
    plan->choices = sim_chance(random, 10) ? 2 + sim_below(random, 2) : 1;
    plan->drawn = drawn;
    plan->stops = stops;
    if (plan->choices > 1) used += (size_t)snprintf(more + used, 64, ",\"n\":%u", plan->choices);
    if (drawn) used += (size_t)snprintf(more + used, 64, ",\"temperature\":0.8");
    if (stops) used += (size_t)snprintf(more + used, 64, ",\"stop\":[\"a\",\"bc\"]");
    if (sim_chance(random, 15)) used += (size_t)snprintf(more + used, 64, ",\"stream\":false");
    if (sim_chance(random, 15))
        used +=
            (size_t)snprintf(more + used, 64, ",\"priority\":%d", (int)sim_below(random, 40) - 20);
    if (sim_chance(random, 10)) {
        plan->deadline_ms = 100 + sim_below(random, 20000);
        used += (size_t)snprintf(more + used, 64, ",\"timeout_ms\":%u", plan->deadline_ms);
    }
    if (sim_chance(random, 6)) header(scenario, plan, "kafka_replyTopic", "reply");
    if (sim_chance(random, 2)) header(scenario, plan, "kafka_replyTopic", "nowhere");
    plan->value =
        print(scenario, "{\"id\":\"%s\",\"prompt\":\"%.*s\",\"max_tokens\":%u%s}", plan->id,
              (int)plan->prompt.length, plan->prompt.bytes, plan->max_tokens, more);
}

static void make_huge(struct scenario *scenario, struct plan *plan)
{
    static char filler[HUGE_BYTES];
    memset(filler, 'x', sizeof filler - 1);
    plan->value = print(scenario, "{\"id\":\"%s\",\"prompt\":\"%s\"}", plan->id, filler);
}

/* A record that repeats or cancels an earlier request. False: there is none. */
static bool refer(struct scenario *scenario, struct plan *plan, struct sim_random *random)
{
    uint32_t count = scenario->plan_count;
    for (uint32_t tries = 0; count > 0 && tries < 4; tries++) {
        uint32_t other = sim_below(random, count);
        const struct plan *before = &scenario->plans[other];
        if (before->kind != PLAN_REQUEST) continue;
        plan->other = other;
        memcpy(plan->id, before->id, sizeof plan->id);
        uint64_t after_ns = sim_chance(random, 50) ? 300 * MS : 8 * SECOND;
        plan->at_ns = before->at_ns + sim_between(random, 0, after_ns);
        if (plan->kind == PLAN_CANCEL && sim_chance(random, 20)) plan->at_ns = before->at_ns / 2;
        plan->topic = before->topic;
        /* a producer without a key may repeat a record in another partition */
        bool elsewhere = plan->kind == PLAN_REUSED || sim_chance(random, 40);
        plan->partition = elsewhere ? plan->partition : before->partition;
        return true;
    }
    return false;
}

static enum plan_kind draw_kind(const struct scenario *scenario, struct sim_random *random)
{
    uint32_t at = sim_below(random, 100);
    /* With exactly-once delivery a record that is read after the first one ended is answered again.
     * The judge could not distinguish that from an error. */
    if (at < 5) return scenario->exactly_once ? PLAN_REQUEST : PLAN_AGAIN;
    if (at < 7) return scenario->exactly_once ? PLAN_REQUEST : PLAN_REUSED;
    if (at < 9) return PLAN_MALFORMED;
    if (at < 10) return PLAN_NULL;
    if (at < 11) return PLAN_HUGE;
    if (at < 12) return PLAN_BAD_HEADER;
    if (at < 13) return PLAN_POISON;
    if (at < 22) return PLAN_CANCEL;
    return PLAN_REQUEST;
}

static void make_plan(struct scenario *scenario, struct sim_random *random, uint64_t span_ns)
{
    static const char *const broken[] = {"{\"id\":\"%s\",\"prompt\":", "{\"id\":\"%s\"}",
                                         "%s is no request", "\x81\xa2id"};
    struct plan *plan = &scenario->plans[scenario->plan_count];
    *plan = (struct plan){.kind = draw_kind(scenario, random),
                          .at_ns = sim_between(random, 0, span_ns),
                          .topic = sim_below(random, scenario->topics),
                          .partition = (int32_t)sim_below(random, scenario->partitions)};
    snprintf(plan->id, sizeof plan->id, "r%u", scenario->plan_count);
    bool refers =
        plan->kind == PLAN_AGAIN || plan->kind == PLAN_REUSED || plan->kind == PLAN_CANCEL;
    if (refers && !refer(scenario, plan, random)) plan->kind = PLAN_REQUEST;
    plan->key = print(scenario, "%s", plan->id);
    switch (plan->kind) {
    case PLAN_REQUEST:
    case PLAN_REUSED:
        make_request(scenario, plan, random);
        break;
    case PLAN_AGAIN: {
        struct plan *other = &scenario->plans[plan->other];
        plan->value = other->value;
        memcpy(plan->headers, other->headers, sizeof plan->headers);
        plan->header_count = other->header_count;
        break;
    }
    case PLAN_MALFORMED: {
        const char *format = broken[sim_below(random, 4)];
        plan->value = strstr(format, "%s") ? print(scenario, format, plan->id)
                                           : print(scenario, "%s", format);
        break;
    }
    case PLAN_HUGE:
        make_huge(scenario, plan);
        break;
    case PLAN_BAD_HEADER:
        make_request(scenario, plan, random);
        plan->header_count = 0;
        if (sim_chance(random, 50))
            header(scenario, plan, "content-type", "application/nonsense");
        else
            header(scenario, plan, "millrace-deadline", "not a number");
        break;
    case PLAN_POISON:
        plan->value = print(scenario, "{\"id\":\"%s\",\"prompt\":\"%ca\",\"max_tokens\":4}",
                            plan->id, POISON_BYTE);
        break;
    case PLAN_CANCEL:
        plan->value = print(scenario, "{}");
        break;
    default:
        plan->value = (struct mr_text){0};
    }
    scenario->plan_count++;
}

/* ---- faults ---- */

static void make_fault(struct scenario *scenario, struct sim_random *random, uint64_t span_ns)
{
    struct fault *fault = &scenario->faults[scenario->fault_count];
    *fault = (struct fault){.at_ns = sim_between(random, 0, span_ns),
                            .for_ns = sim_between(random, 20 * MS, 4 * SECOND),
                            .worker = sim_below(random, SCENARIO_WORKERS_MAX),
                            .amount = 1 + sim_below(random, 40)};
    /* half of the faults hit workers */
    fault->kind = (enum fault_kind)(sim_chance(random, 50) ? sim_below(random, FAULT_BROKER_STOP)
                                                           : sim_below(random, FAULT_KINDS));
    /* a failed commit has an effect only if the next one is late */
    if (sim_chance(random, 10)) fault->kind = FAULT_COMMIT;
    if (fault->kind == FAULT_TRANSACTION && !scenario->exactly_once) fault->kind = FAULT_COMMIT;
    if (fault->kind == FAULT_COMMIT && scenario->exactly_once) fault->kind = FAULT_TRANSACTION;
    if (fault->kind >= FAULT_REDIS_STOP && !scenario->redis) fault->kind = FAULT_CRASH;
    if (fault->kind == FAULT_PAUSE && sim_chance(random, 50))
        fault->for_ns = scenario->session_ns + sim_between(random, 0, 12 * SECOND);
    if (fault->kind == FAULT_CRASH_TRANSACTION && !scenario->exactly_once)
        fault->kind = FAULT_CRASH;
    if (fault->kind == FAULT_PAUSE_TRANSACTION && !scenario->exactly_once)
        fault->kind = FAULT_PAUSE;
    if (fault->kind == FAULT_TWIN && !scenario->exactly_once) fault->kind = FAULT_ADD_WORKER;
    if (fault->kind == FAULT_PAUSE_TRANSACTION)
        fault->for_ns = scenario->session_ns + sim_between(random, 10, 14) * SECOND;
    if (fault->kind == FAULT_REDIS_LAG) fault->for_ns += 10 * SECOND;
    if (fault->kind == FAULT_BROKER_STOP && sim_chance(random, 20))
        fault->for_ns = sim_between(random, 4 * SECOND, 30 * SECOND);
    if (fault->kind == FAULT_CLOCK) {
        int64_t most = sim_chance(random, 50) ? 2000 : 7200000;
        fault->skew_ms = (int64_t)sim_between(random, 0, (uint64_t)(2 * most)) - most;
    }
    scenario->fault_count++;
}

void scenario_settle(struct scenario *scenario)
{
    scenario->quiet_ns = 0;
    for (uint32_t i = 0; i < scenario->plan_count; i++)
        if (!scenario->plans[i].left_out && scenario->plans[i].at_ns > scenario->quiet_ns)
            scenario->quiet_ns = scenario->plans[i].at_ns;
    for (uint32_t i = 0; i < scenario->fault_count; i++) {
        const struct fault *fault = &scenario->faults[i];
        uint64_t end_ns = fault->at_ns + fault->for_ns;
        if (!fault->left_out && end_ns > scenario->quiet_ns) scenario->quiet_ns = end_ns;
    }
}

void scenario_make(struct scenario *scenario, uint64_t seed)
{
    struct sim_random random = {seed * 0x2545f4914f6cdd1du + 99};
    struct sim_random states = {seed * 0x9e3779b97f4a7c15u + 7};
    scenario->text_used = 0;
    scenario->plan_count = scenario->fault_count = 0;
    scenario->seed = seed;
    scenario->exactly_once = sim_chance(&random, 35);
    scenario->redis = sim_chance(&random, 50);
    scenario->cooperative = sim_chance(&random, 50);
    scenario->workers = 1 + sim_below(&random, 3);
    scenario->topics = 1 + sim_below(&random, 2);
    scenario->partitions = 1 + sim_below(&random, 3);
    /* the same number of tokens for every block size */
    scenario->blocks = (4 + sim_below(&random, 8)) * (256 / MR_BLOCK_TOKENS);
    scenario->producer_room = sim_chance(&random, 20) ? 2 + sim_below(&random, 6) : SCENARIO_ROOM;
    scenario->force_preempt_every = sim_chance(&random, 10) ? 3 + sim_below(&random, 10) : 0;
    scenario->max_sequences = 1 + sim_below(&random, 5);
    scenario->queue_requests = sim_chance(&random, 30) ? 2 + sim_below(&random, 4) : 64;
    scenario->session_ns = sim_between(&random, 6, 10) * SECOND;
    scenario->rebalance_ns = sim_between(&random, 10, 30) * SECOND;
    scenario->drain_ns = sim_between(&random, 1, 25) * SECOND;
    scenario->latency_ns = sim_chance(&random, 30) ? sim_between(&random, 10 * MS, 80 * MS)
                                                   : sim_between(&random, MS / 5, 4 * MS);
    scenario->commit_interval_ns = sim_between(&random, 50, 2000) * MS;
    scenario->step_ms = (double)sim_between(&random, 1, 40);
    scenario->keeps_ids = sim_chance(&random, 60);
    scenario->steps_ahead = sim_below(&random, MR_STEPS_AHEAD_MAX + 1);
    scenario->fails_late = sim_chance(&random, 50);
    scenario->state_slots = sim_chance(&states, 40) ? 1 + sim_below(&states, 12) : 0;
    uint64_t span_ns = sim_between(&random, 1, 20) * SECOND;
    uint32_t requests = 3 + sim_below(&random, 22);
    uint32_t faults = sim_below(&random, 5) == 0 ? 0 : sim_below(&random, 9);
    for (uint32_t i = 0; i < requests; i++)
        make_plan(scenario, &random, span_ns);
    for (uint32_t i = 0; i < faults; i++)
        make_fault(scenario, &random, span_ns + 5 * SECOND);
    scenario_settle(scenario);
}

void scenario_print(const struct scenario *scenario)
{
    printf("seed %llu: %u workers, %u topics of %u partitions, %s, %s, %s\n"
           "  %u blocks, %u sequences, queue %u, room %u, step %.0f ms, session %.0f s, drain %.0f "
           "s, commit %.0f ms, latency %.1f ms, ids %s, %u steps ahead, %u states\n",
           (unsigned long long)scenario->seed, scenario->workers, scenario->topics,
           scenario->partitions, scenario->exactly_once ? "exactly once" : "at least once",
           scenario->redis ? "Redis" : "no Redis", scenario->cooperative ? "cooperative" : "eager",
           scenario->blocks, scenario->max_sequences, scenario->queue_requests,
           scenario->producer_room, scenario->step_ms, (double)scenario->session_ns / 1e9,
           (double)scenario->drain_ns / 1e9, (double)scenario->commit_interval_ns / 1e6,
           (double)scenario->latency_ns / 1e6, scenario->keeps_ids ? "kept" : "new",
           scenario->steps_ahead, scenario->state_slots);
    for (uint32_t i = 0; i < scenario->plan_count; i++) {
        const struct plan *plan = &scenario->plans[i];
        if (plan->left_out) continue;
        printf("  %8.3f s  %s %s to topic %u, partition %d: %.*s\n", (double)plan->at_ns / 1e9,
               plan_text(plan->kind), plan->id, plan->topic, plan->partition,
               (int)(plan->value.length < 120 ? plan->value.length : 120),
               plan->value.bytes ? plan->value.bytes : "(null)");
    }
    for (uint32_t i = 0; i < scenario->fault_count; i++) {
        const struct fault *fault = &scenario->faults[i];
        if (fault->left_out) continue;
        printf("  %8.3f s  %s of worker %u for %.3f s, amount %u, skew %lld ms\n",
               (double)fault->at_ns / 1e9, fault_text(fault->kind), fault->worker,
               (double)fault->for_ns / 1e9, fault->amount, (long long)fault->skew_ms);
    }
}
