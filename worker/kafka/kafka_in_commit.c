#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_errors.h"
#include "worker/kafka/kafka_in_state.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A commit of the owner: a request for each topic, so that a topic that was deleted does not hold
 * back the commits of the others (librdkafka 2.0.2 gives the error of one partition to the whole
 * request). It lasts from when it is sent until next_event has returned its outcome. */
struct mr_kafka_in_commit {
    struct mr_kafka_in_commit *next;
    uint64_t number;
    size_t left; /* requests without an answer */
    enum mr_status status;
    char reason[160];
    /* [claim_count] partitions that are not known to be committed */
    size_t claim_count;
    struct mr_kafka_claim claims[];
};

static struct mr_kafka_in_commit *create_commit(struct mr_kafka_in *in,
                                                const struct mr_kafka_commit *offsets, size_t count)
{
    struct mr_kafka_in_commit *commit =
        calloc(1, sizeof *commit + count * sizeof commit->claims[0]);
    if (!commit) return NULL;
    for (size_t i = 0; i < count; i++)
        commit->claims[i] =
            (struct mr_kafka_claim){.topic = in->options.topics[offsets[i].topic_index].name,
                                    .topic_index = offsets[i].topic_index,
                                    .partition = offsets[i].partition};
    commit->claim_count = count;
    return commit;
}

static void remove_topic(struct mr_kafka_in_commit *commit, const char *topic)
{
    size_t kept = 0;
    for (size_t i = 0; i < commit->claim_count; i++)
        if (strcmp(commit->claims[i].topic, topic) != 0) commit->claims[kept++] = commit->claims[i];
    commit->claim_count = kept;
}

/* Takes the answer to the request for one topic. */
static void end_request(struct mr_kafka_in_commit *commit, rd_kafka_resp_err_t code,
                        const rd_kafka_topic_partition_list_t *list)
{
    const char *topic = list && list->cnt > 0 ? list->elems[0].topic : "";
    if (!code) code = (rd_kafka_resp_err_t)mr_kafka_client_list_error(list);
    if (!code) {
        remove_topic(commit, topic);
    } else if (commit->status == MR_OK) {
        commit->status = mr_kafka_status(code);
        snprintf(commit->reason, sizeof commit->reason, "%s: %s", topic, rd_kafka_err2str(code));
    }
    commit->left--;
}

/* A librdkafka callback; librdkafka calls it from rd_kafka_consumer_poll, on the owner's thread. */
static void on_commit(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                      rd_kafka_topic_partition_list_t *list, void *commit)
{
    (void)rk;
    end_request(commit, code, list);
}

static void send_request(struct mr_kafka_in *in, struct mr_kafka_in_commit *commit,
                         rd_kafka_topic_partition_list_t *list)
{
    commit->left++;
    rd_kafka_resp_err_t code =
        rd_kafka_commit_queue(in->rk, list, in->consumer_queue, on_commit, commit);
    if (!code) return;
    end_request(commit, code, list);
    mr_wake_ring(in->options.wake);
}

enum mr_status mr_kafka_in_commit(struct mr_kafka_in *in, const struct mr_kafka_commit *commits,
                                  size_t count, uint64_t number, struct mr_error *err)
{
    if (count == 0) return MR_OK;
    struct mr_kafka_in_commit *commit = create_commit(in, commits, count), **end = &in->commits;
    if (!commit) return mr_fail(err, MR_NOMEM, "no memory for a commit");
    commit->number = number;
    while (*end)
        end = &(*end)->next;
    *end = commit;
    for (size_t topic = 0; topic < in->options.topic_count; topic++) {
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
        for (size_t i = 0; i < count; i++)
            if (commits[i].topic_index == topic)
                mr_kafka_client_add_offset(list, in->options.topics[topic].name, &commits[i]);
        if (list->cnt > 0) send_request(in, commit, list);
        rd_kafka_topic_partition_list_destroy(list);
    }
    return MR_OK;
}

bool mr_kafka_in_next_outcome(struct mr_kafka_in *in, struct mr_kafka_event *event)
{
    struct mr_kafka_in_commit **link = &in->commits, *commit;
    free(in->reported);
    in->reported = NULL;
    while (*link && (*link)->left > 0)
        link = &(*link)->next;
    if (!(commit = *link)) return false;
    *link = commit->next;
    in->reported = commit;
    *event = (struct mr_kafka_event){.kind = MR_KAFKA_EVENT_COMMITTED,
                                     .claims = commit->claims,
                                     .claim_count = commit->claim_count,
                                     .number = commit->number,
                                     .status = commit->status,
                                     .reason = commit->reason};
    return true;
}

void mr_kafka_in_free_commits(struct mr_kafka_in *in)
{
    for (struct mr_kafka_in_commit *next; in->commits; in->commits = next) {
        next = in->commits->next;
        free(in->commits);
    }
    free(in->reported);
    in->reported = NULL;
}
