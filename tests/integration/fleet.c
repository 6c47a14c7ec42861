/* fleet - sends requests to a fleet of workers and checks the fleet's records.
 *
 *     fleet BROKERS requests COUNT MAX_TOKENS     publishes COUNT requests, waits for every answer
 *     fleet BROKERS poison FOLDER ROUNDS          publishes every record of FOLDER/manifest.tsv
 *                                                 ROUNDS times, each followed by a valid request
 *
 * Prints "answered N" while it runs, so that a script can act in the middle, and a line of figures
 * at the end. Exits 1 if no record has arrived for QUIET_S seconds, or if an invariant does not
 * hold:
 *   - Every id has a result; after de-duplication by id (highest attempt) exactly one.
 *   - Token indexes have no gaps and match that result; repeated records are identical.
 *   - Every poisoned record is rejected with its error code, and dead-lettered if it cannot be
 *     decoded. */
#include "codec/records/draft.h"
#include "worker/base/clock.h"
#include "worker/client/client.h"
#include "worker/kafka/kafka_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_S      60u
#define GRACE_NS     ((uint64_t)3000000000)
#define ATTEMPTS_MAX 6u
#define TOKENS_MAX   600u
#define ID_BYTES     40u
#define POISON_MAX   512u
#define POISON_TEXT  64u
#define RECORD_MAX   ((size_t)8 << 20)
#define OPEN_MS      20000u

/* The token records of one attempt. */
struct attempt {
    uint32_t tokens[TOKENS_MAX];
    bool seen[TOKENS_MAX];
    uint32_t count; /* one above the highest index */
};

struct ask {
    char id[ID_BYTES];
    struct attempt *attempts[ATTEMPTS_MAX];
    uint32_t results, attempt; /* of the best result */
    uint32_t answer[TOKENS_MAX], answer_count;
    enum mr_finish finish;
};

struct fleet {
    struct mr_config config;
    struct mr_request_topic topic;
    struct mr_client *client;
    struct ask *asks;
    uint32_t count, answered, duplicates, second_attempts, errors;
    uint64_t last_ns;
};

static void die(const char *what)
{
    fprintf(stderr, "fleet: %s\n", what);
    exit(1);
}

static void complain(struct fleet *fleet, const struct ask *ask, const char *what)
{
    fprintf(stderr, "fleet: %s: %s\n", ask->id, what);
    fleet->errors++;
}

static void open_fleet(struct fleet *fleet, const char *brokers)
{
    struct mr_error err = {0};
    fleet->topic = (struct mr_request_topic){.name = "millrace.requests"};
    fleet->config = (struct mr_config){.brokers = brokers,
                                       .tokens_topic = "millrace.tokens",
                                       .results_topic = "millrace.results",
                                       .cancel_topic = "millrace.cancel",
                                       .dlq_topic = "millrace.dlq",
                                       .request_topic_count = 1};
    fleet->config.request_topics[0] = fleet->topic;
    struct mr_client_options options = {
        .config = &fleet->config, .reads = true, .creates = true, .timeout_ms = OPEN_MS};
    if (mr_client_open(&fleet->client, &options, &err) != MR_OK) die(err.detail);
}

/* ---- requests ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void make_prompt(char *text, size_t size, uint32_t seed)
{
    static const char *const words[] = {"river", "mill",  "grain", "stone", "wheel", "water",
                                        "north", "seven", "why",   "tell",  "story", "about"};
    size_t at = 0;
    uint32_t count = 8 + next_random(&seed) % 60;
    for (uint32_t i = 0; i < count && at + 16 < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s ",
                               words[next_random(&seed) % (sizeof words / sizeof *words)]);
    snprintf(text + at, size - at, "%u", seed % 1000);
}

static void ask(struct fleet *fleet, struct ask *ask, uint32_t number, uint32_t max_tokens)
{
    char prompt[1024], limit[32];
    unsigned char *bytes = NULL;
    size_t length = 0;
    struct mr_error err = {0};
    enum mr_encoding encoding = number % 2 ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON;
    make_prompt(prompt, sizeof prompt, number * 7919u + 1);
    snprintf(limit, sizeof limit, "max_tokens=%u", max_tokens);
    const char *fields[] = {limit, "temperature=0", "ignore_eos=true"};
    struct mr_draft draft = {.id = {ask->id, strlen(ask->id)},
                             .prompt = {prompt, strlen(prompt)},
                             .fields = fields,
                             .field_count = 3};
    if (mr_draft_encode(&draft, encoding, &bytes, &length, &err) != MR_OK ||
        mr_client_request_async(fleet->client, fleet->topic.name, draft.id,
                                (struct mr_text){(const char *)bytes, length}, encoding,
                                &err) != MR_OK)
        die(err.detail);
    free(bytes);
}

/* ---- answers ---- */

static struct ask *find(struct fleet *fleet, struct mr_text id)
{
    for (uint32_t i = 0; i < fleet->count; i++)
        if (strlen(fleet->asks[i].id) == id.length &&
            memcmp(fleet->asks[i].id, id.bytes, id.length) == 0)
            return &fleet->asks[i];
    return NULL;
}

static void take_tokens(struct fleet *fleet, struct ask *ask, const struct mr_token_record *record)
{
    if (record->attempt == 0 || record->attempt > ATTEMPTS_MAX) {
        complain(fleet, ask, "attempt out of range");
        return;
    }
    struct attempt **slot = &ask->attempts[record->attempt - 1];
    if (!*slot) *slot = calloc(1, sizeof **slot);
    struct attempt *attempt = *slot;
    if (!attempt || record->index + record->token_count > TOKENS_MAX) die("too many tokens");
    for (size_t i = 0; i < record->token_count; i++) {
        uint32_t index = record->index + (uint32_t)i;
        if (attempt->seen[index] && attempt->tokens[index] != record->token_ids[i])
            complain(fleet, ask, "two token records of one attempt differ");
        attempt->seen[index] = true;
        attempt->tokens[index] = record->token_ids[i];
        if (index + 1 > attempt->count) attempt->count = index + 1;
    }
}

static void take_result(struct fleet *fleet, struct ask *ask, const struct mr_result *result)
{
    if (ask->results++ == 0)
        fleet->answered++;
    else
        fleet->duplicates++;
    if (ask->results > 1 && result->attempt < ask->attempt) return;
    const struct mr_choice *choice = &result->choices[0];
    if (choice->token_count > TOKENS_MAX) die("too many tokens");
    ask->attempt = result->attempt;
    ask->finish = choice->finish;
    ask->answer_count = (uint32_t)choice->token_count;
    if (choice->token_count > 0)
        memcpy(ask->answer, choice->token_ids, choice->token_count * sizeof *ask->answer);
}

static void take_event(struct fleet *fleet, const struct mr_client_event *event)
{
    struct ask *ask = find(fleet, event->id);
    fleet->last_ns = mr_clock_ns();
    if (event->kind == MR_CLIENT_OTHER) {
        fprintf(stderr, "fleet: a record that is no answer\n");
        fleet->errors++;
    }
    if (!ask) return;
    if (event->kind == MR_CLIENT_TOKENS) take_tokens(fleet, ask, &event->tokens);
    if (event->kind == MR_CLIENT_RESULT) take_result(fleet, ask, &event->result);
}

/* Reads until every request is answered and no record has arrived for the grace time. */
static void collect(struct fleet *fleet)
{
    struct mr_client_event event;
    uint32_t said = UINT32_MAX;
    fleet->last_ns = mr_clock_ns();
    for (;;) {
        if (mr_client_take(fleet->client, 100, &event)) take_event(fleet, &event);
        uint64_t quiet_ns = mr_clock_ns() - fleet->last_ns;
        if (fleet->answered != said) {
            said = fleet->answered;
            printf("answered %u\n", said);
            fflush(stdout);
        }
        if (fleet->answered == fleet->count && quiet_ns > GRACE_NS) return;
        if (quiet_ns > QUIET_S * (uint64_t)1000000000) {
            fprintf(stderr, "fleet: %u of %u answered, and then nothing\n", fleet->answered,
                    fleet->count);
            for (uint32_t i = 0; i < fleet->count; i++)
                if (fleet->asks[i].results == 0) complain(fleet, &fleet->asks[i], "never answered");
            return;
        }
    }
}

static void check(struct fleet *fleet, struct ask *ask, uint32_t max_tokens)
{
    if (ask->results == 0) return; /* already reported */
    if (ask->attempt > 1) fleet->second_attempts++;
    if (ask->finish != MR_FINISH_LENGTH) complain(fleet, ask, mr_finish_text(ask->finish));
    if (ask->answer_count != max_tokens) complain(fleet, ask, "an answer of another length");
    const struct attempt *attempt =
        ask->attempt <= ATTEMPTS_MAX ? ask->attempts[ask->attempt - 1] : NULL;
    if (!attempt) {
        complain(fleet, ask, "no token records of the attempt that was answered");
        return;
    }
    for (uint32_t i = 0; i < ask->answer_count; i++)
        if (!attempt->seen[i] || attempt->tokens[i] != ask->answer[i]) {
            complain(fleet, ask,
                     attempt->seen[i] ? "tokens and result differ" : "a gap in the token records");
            return;
        }
}

static void free_asks(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->count; i++)
        for (size_t k = 0; k < ATTEMPTS_MAX; k++)
            free(fleet->asks[i].attempts[k]);
    free(fleet->asks);
}

static void make_asks(struct fleet *fleet, uint32_t count)
{
    fleet->count = count;
    fleet->asks = calloc(count, sizeof *fleet->asks);
    if (!fleet->asks) die("no memory");
    for (uint32_t i = 0; i < count; i++)
        snprintf(fleet->asks[i].id, ID_BYTES, "r-%llx-%u",
                 (unsigned long long)(mr_clock_unix_ms() & 0xFFFFFF), i);
}

static int run_requests(struct fleet *fleet, uint32_t count, uint32_t max_tokens)
{
    struct mr_error err = {0};
    make_asks(fleet, count);
    uint64_t begin_ns = mr_clock_ns();
    for (uint32_t i = 0; i < count; i++)
        ask(fleet, &fleet->asks[i], i, max_tokens);
    if (mr_client_flush(fleet->client, 60000, &err) != MR_OK) die(err.detail);
    collect(fleet);
    double seconds = (double)(fleet->last_ns - begin_ns) / 1e9;
    for (uint32_t i = 0; i < count; i++)
        check(fleet, &fleet->asks[i], max_tokens);
    printf("requests %u, answered %u, duplicate results %u, later attempts %u, broken %u, "
           "%.1f output tok/s\n",
           count, fleet->answered, fleet->duplicates, fleet->second_attempts, fleet->errors,
           (double)count * max_tokens / seconds);
    free_asks(fleet);
    return fleet->errors > 0;
}

/* ---- poison ---- */

struct poison {
    char file[POISON_TEXT], type[POISON_TEXT], code[POISON_TEXT];
    unsigned char *bytes;
    size_t length;
    uint32_t published, refused, dead;
};

struct poison_run {
    struct fleet *fleet;
    struct poison *poison;
    size_t count;
    uint32_t results;
    uint32_t unknown;
    struct mr_kafka_reader *dead_letters;
};

static void read_file(struct poison *poison, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, poison->file);
    FILE *file = fopen(path, "rb");
    poison->bytes = malloc(RECORD_MAX);
    if (!file || !poison->bytes) die(path);
    poison->length = fread(poison->bytes, 1, RECORD_MAX, file);
    fclose(file);
}

/* Copies the text up to the next tab or line end, truncated to the buffer; returns the text after
 * it. */
static const char *take_column(const char *line, char *out, size_t out_bytes)
{
    size_t length = strcspn(line, "\t\n");
    size_t kept = length < out_bytes ? length : out_bytes - 1;
    memcpy(out, line, kept);
    out[kept] = '\0';
    return line[length] == '\t' ? line + length + 1 : line + length;
}

static void read_manifest(struct poison_run *run, const char *folder)
{
    char path[4096], line[512];
    snprintf(path, sizeof path, "%s/manifest.tsv", folder);
    FILE *file = fopen(path, "r");
    if (!file) die(path);
    run->poison = calloc(POISON_MAX, sizeof *run->poison);
    if (!run->poison) die("no memory");
    while (run->count < POISON_MAX && fgets(line, sizeof line, file)) {
        struct poison *poison = &run->poison[run->count];
        const char *rest = take_column(line, poison->file, sizeof poison->file);
        rest = take_column(rest, poison->type, sizeof poison->type);
        take_column(rest, poison->code, sizeof poison->code);
        if (poison->code[0] == '\0') continue;
        read_file(poison, folder);
        run->count++;
    }
    fclose(file);
}

/* A record above the limit of 1 MiB. */
static void add_oversize(struct poison_run *run)
{
    if (run->count == POISON_MAX) die("too many poisoned records");
    struct poison *poison = &run->poison[run->count++];
    *poison = (struct poison){.file = "oversize", .type = "-", .code = "record_too_large"};
    poison->bytes = malloc(RECORD_MAX);
    if (!poison->bytes) die("no memory");
    poison->length = (size_t)snprintf((char *)poison->bytes, RECORD_MAX,
                                      "{\"id\":\"p\",\"prompt\":\"%0*d\"}", 1 << 20, 0);
}

/* Several poisoned records share an id, so their results are counted by error code. */
static void take_poison_result(struct poison_run *run, const struct mr_client_event *event)
{
    const char *code = mr_status_code(event->result.error);
    run->results++;
    for (size_t i = 0; i < run->count; i++) {
        struct poison *poison = &run->poison[i];
        if (strcmp(poison->code, code) != 0 || poison->refused == poison->published) continue;
        poison->refused++;
        return;
    }
    fprintf(stderr, "fleet: a refusal nobody expected: %s\n", code);
    run->unknown++;
}

static void take_dead_letter(struct poison_run *run, const struct mr_kafka_record *record)
{
    const struct mr_kafka_header *code =
        mr_kafka_record_header(record, "__connect.errors.exception.class.name");
    const struct mr_kafka_header *spring =
        mr_kafka_record_header(record, "kafka_dlt-original-offset");
    size_t number = record->key.bytes ? strtoul(record->key.bytes, NULL, 10) : SIZE_MAX;
    if (!code || !spring || number >= run->count) {
        run->unknown++;
        return;
    }
    struct poison *poison = &run->poison[number];
    bool whole =
        record->value.length == poison->length &&
        (poison->length == 0 || memcmp(record->value.bytes, poison->bytes, poison->length) == 0);
    bool right = strlen(poison->code) == code->length &&
                 memcmp(poison->code, code->value, code->length) == 0;
    if (!whole || !right) {
        fprintf(stderr, "fleet: dead letter of %s: %s\n", poison->file,
                whole ? "another code" : "not the value that was sent");
        run->unknown++;
    }
    poison->dead++;
}

static void publish_poison(struct poison_run *run, size_t number)
{
    char key[32];
    struct poison *poison = &run->poison[number];
    struct mr_error err = {0};
    snprintf(key, sizeof key, "%zu-poison", number);
    struct mr_kafka_header header = {"content-type", poison->type, strlen(poison->type)};
    struct mr_kafka_record record = {.topic = run->fleet->topic.name,
                                     .partition = -1,
                                     .key = {key, strlen(key)},
                                     .value = {(const char *)poison->bytes, poison->length},
                                     .headers = &header,
                                     .header_count = strcmp(poison->type, "-") != 0};
    if (mr_client_publish(run->fleet->client, &record, &err) != MR_OK) die(err.detail);
    poison->published++;
}

static void collect_poison(struct poison_run *run, uint32_t expected)
{
    struct mr_client_event event;
    struct mr_kafka_record record;
    struct fleet *fleet = run->fleet;
    uint64_t last_ns = mr_clock_ns();
    while (run->results < expected || fleet->answered < fleet->count ||
           mr_clock_ns() - last_ns < GRACE_NS) {
        if (mr_clock_ns() - last_ns > QUIET_S * (uint64_t)1000000000) break;
        while (mr_kafka_reader_take(run->dead_letters, 0, &record)) {
            take_dead_letter(run, &record);
            last_ns = mr_clock_ns();
        }
        if (!mr_client_take(fleet->client, 50, &event)) continue;
        last_ns = mr_clock_ns();
        if (find(fleet, event.id))
            take_event(fleet, &event);
        else if (event.kind == MR_CLIENT_RESULT)
            take_poison_result(run, &event);
        else
            run->unknown++;
    }
}

/* Error codes of records that are dead-lettered; other rejected requests only have a result. */
static bool must_be_dead(const char *code)
{
    static const char *const codes[] = {"malformed", "unsupported_encoding", "record_too_large",
                                        "invalid_request"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(codes[i], code) == 0) return true;
    return false;
}

static void judge_poison(struct poison_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct poison *poison = &run->poison[i];
        uint32_t dead = must_be_dead(poison->code) ? poison->published : 0;
        if (poison->refused == poison->published && poison->dead == dead) continue;
        fprintf(stderr, "fleet: %s (%s): published %u, refused %u, dead letters %u\n", poison->file,
                poison->code, poison->published, poison->refused, poison->dead);
        run->fleet->errors++;
    }
    run->fleet->errors += run->unknown;
}

static int run_poison(struct fleet *fleet, const char *folder, uint32_t rounds)
{
    struct poison_run run = {.fleet = fleet};
    struct mr_error err = {0};
    const char *topic = fleet->config.dlq_topic;
    struct mr_kafka_options kafka = {
        .brokers = fleet->config.brokers, .client_id = "fleet", .embedded = true};
    struct mr_kafka_reader_options reader = {.kafka = &kafka,
                                             .topics = &topic,
                                             .topic_count = 1,
                                             .from = MR_KAFKA_FROM_END,
                                             .timeout_ms = OPEN_MS};
    if (mr_kafka_reader_create(&run.dead_letters, &reader, &err) != MR_OK) die(err.detail);
    read_manifest(&run, folder);
    add_oversize(&run);
    make_asks(fleet, rounds * 8);
    for (uint32_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < run.count; i++) {
            publish_poison(&run, i);
            if (i % (run.count / 8) == 0 && i / (run.count / 8) < 8) {
                uint32_t number = round * 8 + (uint32_t)(i / (run.count / 8));
                ask(fleet, &fleet->asks[number], number, 4);
            }
        }
        if (mr_client_flush(fleet->client, 60000, &err) != MR_OK) die(err.detail);
    }
    collect_poison(&run, rounds * (uint32_t)run.count);
    for (uint32_t i = 0; i < fleet->count; i++) {
        if (fleet->asks[i].results == 0) complain(fleet, &fleet->asks[i], "never answered");
        check(fleet, &fleet->asks[i], 4);
    }
    judge_poison(&run);
    printf("poisoned records %u, refused %u, good requests %u, answered %u, broken %u\n",
           rounds * (uint32_t)run.count, run.results, fleet->count, fleet->answered, fleet->errors);
    for (size_t i = 0; i < run.count; i++)
        free(run.poison[i].bytes);
    free(run.poison);
    mr_kafka_reader_destroy(run.dead_letters);
    free_asks(fleet);
    return fleet->errors > 0;
}

int main(int argc, char *argv[])
{
    struct fleet fleet = {0};
    if (argc != 5) die("fleet BROKERS requests COUNT MAX_TOKENS | poison FOLDER ROUNDS");
    open_fleet(&fleet, argv[1]);
    int code = strcmp(argv[2], "poison") == 0
                   ? run_poison(&fleet, argv[3], (uint32_t)strtoul(argv[4], NULL, 10))
                   : run_requests(&fleet, (uint32_t)strtoul(argv[3], NULL, 10),
                                  (uint32_t)strtoul(argv[4], NULL, 10));
    mr_client_close(fleet.client);
    return code;
}
