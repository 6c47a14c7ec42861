/* Several workers in turn over a Kafka in memory, each with its intake alone. A worker that crashes
 * runs no further step. */
#ifndef MR_TESTS_WORKER_TURNS_H
#define MR_TESTS_WORKER_TURNS_H

#include "tests/unit/worker/intake_rig.h"
#include "tests/unit/worker/list_redis.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define NAMED(id) "{\"id\":\"" id "\",\"prompt\":\"hello\"}"
#define MS        ((uint64_t)1000000)

struct fleet {
    struct intake_rig rig; /* the current worker */
    struct memory_partition log[MEMORY_PARTITIONS];
    bool with_redis;
    struct list_redis redis;
    struct mr_resume *resume;
    char folder[64]; /* of the handover files; "": none */
    struct mr_handover handover;
};

static inline int make_fleet(void **state)
{
    struct fleet *fleet = *state = calloc(1, sizeof *fleet);
    assert_non_null(fleet);
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        fleet->log[i].committed = -1;
    return 0;
}

static inline int make_fleet_with_redis(void **state)
{
    make_fleet(state);
    ((struct fleet *)*state)->with_redis = true;
    return 0;
}

static inline void step(struct fleet *fleet)
{
    step_intake(&fleet->rig);
}

/* A worker takes over partitions 0 and 1 and their records. */
static inline void start_worker(struct fleet *fleet)
{
    struct intake_rig *rig = &fleet->rig;
    create_intake_rig(rig);
    if (fleet->folder[0]) {
        mr_handover_open(&fleet->handover, fleet->folder, NULL);
        rig->intake->options.handover = &fleet->handover;
        mr_partitions_set_handover(rig->intake->partitions, &fleet->handover);
    }
    memcpy(rig->kafka.partitions, fleet->log, sizeof fleet->log);
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        rig->kafka.partitions[i].position = 0;
    struct mr_resume_options options = {.call = list_redis_call,
                                        .context = &fleet->redis,
                                        .ttl_ns = 60000000000u,
                                        .intake = mr_intake_mailbox(rig->intake),
                                        .metrics = rig->metrics};
    if (fleet->with_redis)
        assert_int_equal(mr_resume_create(&fleet->resume, &options, NULL), MR_OK);
    open_intake_with(rig, fleet->resume, NULL);
    memory_kafka_assign(&rig->kafka, 0, 2);
    for (int i = 0; i < 4; i++)
        step(fleet);
}

/* No step follows, and nothing further is written. */
static inline void crash(struct fleet *fleet)
{
    struct intake_rig *rig = &fleet->rig;
    memcpy(fleet->log, rig->kafka.partitions, sizeof fleet->log);
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        fleet->log[i].assigned = false;
    rig_end(&rig->engine);
    mr_intake_forget_engine(rig->intake);
    mr_admission_drop_all(&rig->intake->admission);
    mr_lookups_close(&rig->intake->lookups, mr_intake_mailbox(rig->intake));
    list_redis_answer_held(&fleet->redis);
    rig->intake->lookups.resume = NULL;
    close_intake_rig(rig);
    mr_resume_destroy(fleet->resume);
    fleet->resume = NULL;
}

/* SIGTERM: the worker releases its running requests, commits if it can, and leaves the group. */
static inline void stop(struct fleet *fleet)
{
    struct intake_rig *rig = &fleet->rig;
    atomic_store(&rig->intake->draining, true);
    step(fleet);
    mr_intake_forget_engine(rig->intake);
    atomic_store(&rig->intake->leave_requested, true);
    for (int i = 0; rig->intake->leaving != MR_INTAKE_HAS_LEFT; i++) {
        assert_true(i < 100);
        pass_ms(rig, 100);
        step(fleet);
    }
    crash(fleet);
}

static inline int end_fleet(void **state)
{
    free(*state);
    return 0;
}

static inline int make_fleet_with_folder(void **state)
{
    make_fleet(state);
    struct fleet *fleet = *state;
    snprintf(fleet->folder, sizeof fleet->folder, "/tmp/millrace-starts-XXXXXX");
    assert_non_null(mkdtemp(fleet->folder));
    return 0;
}

/* The number of files in the folder; removes them. */
static inline unsigned empty_folder(struct fleet *fleet)
{
    unsigned count = 0;
    DIR *folder = opendir(fleet->folder);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        assert_int_equal(unlinkat(dirfd(folder), entry->d_name, 0), 0);
        count++;
    }
    closedir(folder);
    return count;
}

static inline int end_fleet_with_folder(void **state)
{
    struct fleet *fleet = *state;
    empty_folder(fleet);
    assert_int_equal(rmdir(fleet->folder), 0);
    return end_fleet(state);
}

static inline void produce_to(struct fleet *fleet, int32_t partition, const char *value)
{
    struct memory_partition *log = &fleet->log[partition];
    log->records[log->end++] = (struct memory_record){value, RIG_START_MS};
}

static inline void ask(struct fleet *fleet, const char *id)
{
    struct mr_ticket *ticket = ticket_named(&fleet->rig, id);
    assert_non_null(ticket);
    post(&fleet->rig, &ticket->starting, MR_MAIL_STARTING);
    step(fleet);
}

static inline bool may_start(struct fleet *fleet, const char *id)
{
    return atomic_load(&ticket_named(&fleet->rig, id)->may_start);
}

/* Steps until the request may start; the time advances as the steps say. */
static inline void run(struct fleet *fleet, const char *id)
{
    ask(fleet, id);
    for (int i = 0; !may_start(fleet, id); i++) {
        assert_true(i < 100);
        pass_ms(&fleet->rig, 1);
        step(fleet);
    }
}

static inline enum mr_status refusal(struct fleet *fleet, bool *dead_letter)
{
    struct mr_ticket *ticket = NULL;
    enum mr_status status = take_refusal(&fleet->rig, &ticket, dead_letter);
    mr_admission_done(&fleet->rig.intake->admission, answered(ticket));
    return status;
}

static inline void assert_poison(struct fleet *fleet, const char *id)
{
    bool dead_letter = false;
    assert_null(ticket_named(&fleet->rig, id));
    assert_int_equal(refusal(fleet, &dead_letter), MR_POISON);
    assert_true(dead_letter);
}

static inline void finish(struct fleet *fleet, const char *id)
{
    post(&fleet->rig, &ticket_named(&fleet->rig, id)->done, MR_MAIL_DONE);
    step(fleet);
}

static inline bool is_submitted(struct fleet *fleet, const char *id)
{
    return ticket_named(&fleet->rig, id) != NULL;
}

static inline void run_all(struct fleet *fleet, const char *const *ids)
{
    for (; *ids; ids++)
        run(fleet, *ids);
}

static inline unsigned crashes_of(struct fleet *fleet, const char *id)
{
    return ticket_named(&fleet->rig, id)->intake.start.crashes;
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, make_fleet, end_fleet)
#define FOLDER(name)                                                                               \
    cmocka_unit_test_setup_teardown(name, make_fleet_with_folder, end_fleet_with_folder)
#define REDIS(name) cmocka_unit_test_setup_teardown(name, make_fleet_with_redis, end_fleet)

#endif
