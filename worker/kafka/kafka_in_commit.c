#include "worker/kafka/kafka_client.h"
#include "worker/kafka/kafka_errors.h"
#include "worker/kafka/kafka_in_state.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

/* A commit of the owner, from its sending until next_event has returned its outcome.
 *
 * librdkafka reports the error of one partition for all partitions of a request. So each topic has
 * a separate request, and a deleted topic does not block the commits of the others. After the
 * metadata of one partition of a topic was too large for the broker, each partition of that topic
 * has a separate request until the worker ends. If the metadata of a request was too large as a
 * whole, the topic's requests have fewer partitions (mr_kafka_client_request_max). */
struct mr_kafka_in_commit {
    struct mr_kafka_in_commit *next;
    struct mr_kafka_in *in;
    uint64_t number;
    size_t left; /* requests without an answer */
    enum mr_status status;
    char reason[160];
    /* [claim_count] the partitions; topic NULL: the offset is committed */
    size_t claim_count;
    struct mr_kafka_claim claims[];
};

static struct mr_kafka_in_commit *create_commit(struct mr_kafka_in *in,
                                                const struct mr_kafka_commit *offsets, size_t count)
{
    struct mr_kafka_in_commit *commit =
        calloc(1, sizeof *commit + count * sizeof commit->claims[0]);
    if (!commit) return NULL;
    commit->in = in;
    for (size_t i = 0; i < count; i++)
        commit->claims[i] =
            (struct mr_kafka_claim){.topic = in->options.topics[offsets[i].topic_index].name,
                                    .topic_index = offsets[i].topic_index,
                                    .partition = offsets[i].partition};
    commit->claim_count = count;
    return commit;
}

/* Handles the answer to one request. The list has partitions of one topic and refers to the claims.
 */
static void end_request(struct mr_kafka_in_commit *commit, rd_kafka_resp_err_t code,
                        const rd_kafka_topic_partition_list_t *list)
{
    if (!code) code = (rd_kafka_resp_err_t)mr_kafka_client_list_error(list);
    for (int i = 0; list && i < list->cnt; i++) {
        struct mr_kafka_claim *claim = list->elems[i].opaque;
        uint32_t *most = &commit->in->topics[claim->topic_index].request_max;
        *most = mr_kafka_client_request_max(*most, code, list->cnt);
        if (!code) claim->topic = NULL;
    }
    if (code && commit->status == MR_OK) {
        commit->status = mr_kafka_status(code);
        snprintf(commit->reason, sizeof commit->reason, "%s: %s",
                 list && list->cnt > 0 ? list->elems[0].topic : "", rd_kafka_err2str(code));
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

/* Sends the list and frees it. */
static void send_request(struct mr_kafka_in_commit *commit, rd_kafka_topic_partition_list_t *list)
{
    struct mr_kafka_in *in = commit->in;
    commit->left++;
    rd_kafka_resp_err_t code =
        rd_kafka_commit_queue(in->rk, list, in->consumer_queue, on_commit, commit);
    if (code) {
        end_request(commit, code, list);
        mr_wake_ring(in->options.wake);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

/* Sends the offsets of one topic; offsets: [claim_count], one for each claim. */
static void send_topic(struct mr_kafka_in_commit *commit, const struct mr_kafka_commit *offsets,
                       size_t topic)
{
    struct mr_kafka_in *in = commit->in;
    const uint32_t most = in->topics[topic].request_max;
    rd_kafka_topic_partition_list_t *list = NULL;
    for (size_t i = 0; i < commit->claim_count; i++) {
        if (offsets[i].topic_index != topic) continue;
        if (!list) list = rd_kafka_topic_partition_list_new(1);
        mr_kafka_client_add_offset(list, in->options.topics[topic].name, &offsets[i]);
        list->elems[list->cnt - 1].opaque = &commit->claims[i];
        if (most == 0 || (uint32_t)list->cnt < most) continue;
        send_request(commit, list);
        list = NULL;
    }
    if (list) send_request(commit, list);
}

enum mr_status mr_kafka_in_commit(void *self, const struct mr_kafka_commit *commits, size_t count,
                                  uint64_t number, struct mr_error *err)
{
    struct mr_kafka_in *in = self;
    if (count == 0) return MR_OK;
    struct mr_kafka_in_commit *commit = create_commit(in, commits, count), **end = &in->commits;
    if (!commit) return mr_fail(err, MR_NOMEM, "no memory for a commit");
    commit->number = number;
    while (*end)
        end = &(*end)->next;
    *end = commit;
    for (size_t topic = 0; topic < in->options.topic_count; topic++)
        send_topic(commit, commits, topic);
    return MR_OK;
}

/* Removes the partitions whose offset is committed. */
static void keep_refused(struct mr_kafka_in_commit *commit)
{
    size_t kept = 0;
    for (size_t i = 0; i < commit->claim_count; i++)
        if (commit->claims[i].topic) commit->claims[kept++] = commit->claims[i];
    commit->claim_count = kept;
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
    keep_refused(commit);
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
