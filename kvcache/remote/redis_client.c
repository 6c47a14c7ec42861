#include "kvcache/remote/redis_client_state.h"

#include "codec/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_NONE UINT8_MAX

struct node {
    struct mr_redis_conn *conn;
    struct mr_redis_url where;
    struct mr_redis_breaker breaker;
    /* commands redirected to this node before its connection was ready */
    struct mr_redis_command_list waiting;
    bool open; /* the node's connection is being made or exists */
};

struct mr_redis_client {
    struct mr_redis_conn_options options;
    uint64_t seed;
    struct node nodes[MR_REDIS_NODES_MAX];
    uint32_t node_count;
    /* [hash slot] index of the node that owns the slot; NODE_NONE: not known */
    uint8_t slots[MR_REDIS_SLOTS];
    bool map_pending;
    struct mr_redis_command map; /* the CLUSTER SLOTS command, which requests the slot map */
    struct mr_redis_command_list done;
    char reason[MR_ERROR_DETAIL_BYTES];
    uint64_t connects, failures, moved, asked;
    /* sums over the nodes that were forgotten */
    uint64_t forgotten_openings;
    struct mr_redis_conn_stats forgotten_bytes;
};

/* ---- nodes ---- */

/* Finds or creates the node with this address; NULL: too many nodes, or no memory. An empty host
 * means the host of the node `from`, which named the address: a node that does not know its own
 * address leaves it out. */
static struct node *node_of(struct mr_redis_client *client, const struct node *from,
                            const char *host, size_t length, uint16_t port)
{
    struct mr_redis_url where = client->options.where;
    if (length == 0) {
        host = from->where.host;
        length = strlen(host);
    }
    if (length >= sizeof where.host) return NULL;
    memcpy(where.host, host, length);
    where.host[length] = '\0';
    where.port = port;
    where.path[0] = '\0';
    for (uint32_t i = 0; i < client->node_count; i++)
        if (client->nodes[i].where.port == port &&
            strcmp(client->nodes[i].where.host, where.host) == 0)
            return &client->nodes[i];
    if (client->node_count == MR_REDIS_NODES_MAX) return NULL;
    struct node *node = &client->nodes[client->node_count];
    struct mr_redis_conn_options options = client->options;
    options.where = where;
    if (mr_redis_conn_create(&node->conn, &options, NULL) != MR_OK) return NULL;
    node->where = where;
    mr_redis_breaker_init(&node->breaker, client->seed + client->node_count);
    client->node_count++;
    return node;
}

static void set_password(void *context, const char *password)
{
    struct mr_redis_client *client = context;
    mr_redis_url_set_password(&client->options.where, password);
    for (uint32_t i = 0; i < client->node_count; i++)
        mr_redis_conn_set_password(client->nodes[i].conn, password);
}

static bool is_map_request(const struct mr_redis_client *client,
                           const struct mr_redis_command *command)
{
    return command == &client->map;
}

/* Frees a command of the client's own (CLUSTER SLOTS, ASKING); queues any other for the caller's
 * _take. */
static void end_command(struct mr_redis_client *client, struct mr_redis_command *command)
{
    if (is_map_request(client, command)) {
        mr_redis_command_end(command);
        client->map_pending = false;
    } else if (command->owner == client) {
        mr_redis_command_end(command);
        free(command);
    } else {
        mr_redis_command_list_push(&client->done, command);
    }
}

static void end_waiting(struct mr_redis_client *client, struct node *node)
{
    for (struct mr_redis_command *command = mr_redis_command_list_pop(&node->waiting); command;
         command = mr_redis_command_list_pop(&node->waiting)) {
        command->outcome = MR_REDIS_LOST;
        end_command(client, command);
    }
}

static void collect(struct mr_redis_client *client, struct node *node);

static void close_all(void *context)
{
    struct mr_redis_client *client = context;
    for (uint32_t i = 0; i < client->node_count; i++) {
        mr_redis_conn_close(client->nodes[i].conn);
        collect(client, &client->nodes[i]);
        end_waiting(client, &client->nodes[i]);
    }
}

static void destroy(void *context)
{
    struct mr_redis_client *client = context;
    if (!client) return;
    MR_ASSERT(!client->done.first);
    for (uint32_t i = 0; i < client->node_count; i++)
        mr_redis_conn_destroy(client->nodes[i].conn);
    free(client);
}

static bool is_up(const struct node *node)
{
    return mr_redis_conn_is_ready(node->conn);
}

static bool is_ready(const void *context)
{
    const struct mr_redis_client *client = context;
    for (uint32_t i = 0; i < client->node_count; i++)
        if (is_up(&client->nodes[i])) return true;
    return false;
}

/* ---- sending ---- */

/* Sends ASKING, which makes a node accept the next command, and only that one, for a slot that the
 * node is taking over. */
static bool send_asking(struct mr_redis_client *client, struct node *node, uint64_t deadline_ns)
{
    static const char *const words[] = {"ASKING"};
    const size_t lengths[] = {6};
    struct mr_redis_command *asking = malloc(sizeof *asking);
    if (!asking) return false;
    if (!mr_redis_command_make(asking, 1, words, lengths, false)) {
        free(asking);
        return false;
    }
    asking->owner = client;
    asking->deadline_ns = deadline_ns;
    mr_redis_conn_send(node->conn, asking);
    return true;
}

static bool send_to(struct mr_redis_client *client, struct node *node,
                    struct mr_redis_command *command)
{
    if (mr_redis_conn_in_flight(node->conn) + 2 > MR_REDIS_IN_FLIGHT_MAX) return false;
    if (command->asking && !send_asking(client, node, command->deadline_ns)) return false;
    command->asking = false;
    mr_redis_conn_send(node->conn, command);
    return true;
}

/* The node that owns the slot of the command's key; else any node that is ready, which answers
 * MOVED. */
static struct node *route(struct mr_redis_client *client, const struct mr_redis_command *command)
{
    if (command->slot < MR_REDIS_SLOTS && client->slots[command->slot] != NODE_NONE) {
        struct node *node = &client->nodes[client->slots[command->slot]];
        if (is_up(node)) return node;
    }
    for (uint32_t i = 0; i < client->node_count; i++)
        if (is_up(&client->nodes[i])) return &client->nodes[i];
    return NULL;
}

static bool send_command(void *context, struct mr_redis_command *command)
{
    struct mr_redis_client *client = context;
    struct node *node = route(client, command);
    return node && send_to(client, node, command);
}

static void cancel(void *context, struct mr_redis_command *command, uint64_t now_ns)
{
    struct mr_redis_client *client = context;
    command->cancelled = true;
    for (uint32_t i = 0; i < client->node_count; i++)
        mr_redis_conn_cancel(client->nodes[i].conn, command, now_ns);
}

/* Sends the command now, or once the node's connection is ready; a command for a node that failed
 * ends at once. */
static void send_or_wait(struct mr_redis_client *client, struct node *node,
                         struct mr_redis_command *command)
{
    bool sent = !command->cancelled && is_up(node) && send_to(client, node, command);
    if (sent) return;
    bool waits = !command->cancelled && !is_up(node) && node->breaker.failures == 0;
    if (waits && node->waiting.count < MR_REDIS_IN_FLIGHT_MAX / 2) {
        mr_redis_command_list_push(&node->waiting, command);
        return;
    }
    command->outcome = MR_REDIS_LOST;
    end_command(client, command);
}

/* ---- the slot map of a cluster ---- */

/* Takes over one element of the reply to CLUSTER SLOTS: first slot, last slot, [host, port, ...] of
 * the master, then its replicas. */
static void set_range(struct mr_redis_client *client, const struct node *from,
                      const struct mr_redis_reply *range)
{
    if (mr_redis_reply_count(range) < 3) return;
    const struct mr_redis_reply *master = mr_redis_reply_at(range, 2);
    int64_t first = mr_redis_reply_integer(mr_redis_reply_at(range, 0));
    int64_t last = mr_redis_reply_integer(mr_redis_reply_at(range, 1));
    if (mr_redis_reply_count(master) < 2 || first < 0 || last < first || last >= MR_REDIS_SLOTS)
        return;
    size_t length = 0;
    const char *host = mr_redis_reply_text(mr_redis_reply_at(master, 0), &length);
    int64_t port = mr_redis_reply_integer(mr_redis_reply_at(master, 1));
    if (port < 1 || port > 65535) return;
    struct node *node = node_of(client, from, host, length, (uint16_t)port);
    if (!node) return;
    for (int64_t slot = first; slot <= last; slot++)
        client->slots[slot] = (uint8_t)(node - client->nodes);
}

static void update_map(struct mr_redis_client *client, const struct node *from,
                       const struct mr_redis_command *command)
{
    if (command->outcome != MR_REDIS_DONE) return;
    size_t count = mr_redis_reply_count(command->reply);
    for (size_t i = 0; i < count; i++)
        set_range(client, from, mr_redis_reply_at(command->reply, i));
}

static void request_map(struct mr_redis_client *client, struct node *node, uint64_t deadline_ns)
{
    static const char *const words[] = {"CLUSTER", "SLOTS"};
    const size_t lengths[] = {7, 5};
    if (client->map_pending || !is_up(node)) return;
    if (!mr_redis_command_make(&client->map, 2, words, lengths, false)) return;
    client->map.deadline_ns = deadline_ns;
    client->map_pending = true;
    mr_redis_conn_send(node->conn, &client->map);
}

/* If the error reply of a command is MOVED or ASK, sends the command to the node named in the
 * error. False: not redirected; the command is finished. */
static bool redirect(struct mr_redis_client *client, struct node *from,
                     struct mr_redis_command *command)
{
    struct mr_redis_redirect to;
    if (command->redirects >= MR_REDIS_REDIRECTS_MAX) return false;
    if (!mr_redis_redirect_parse(command->error, strlen(command->error), &to)) return false;
    struct node *node = node_of(client, from, to.host, to.host_length, to.port);
    if (!node) return false;
    command->redirects++;
    command->asking = to.ask;
    *(to.ask ? &client->asked : &client->moved) += 1;
    if (!to.ask) {
        client->slots[to.slot] = (uint8_t)(node - client->nodes);
        request_map(client, from, command->deadline_ns);
    }
    send_or_wait(client, node, command);
    return true;
}

/* ---- step ---- */

static bool was_answered(enum mr_redis_outcome outcome)
{
    return outcome != MR_REDIS_LOST && outcome != MR_REDIS_TIMEOUT && outcome != MR_REDIS_MALFORMED;
}

static void collect(struct mr_redis_client *client, struct node *node)
{
    struct mr_redis_command *command;
    while ((command = mr_redis_conn_take(node->conn)) != NULL) {
        if (was_answered(command->outcome)) mr_redis_breaker_succeeded(&node->breaker);
        if (is_map_request(client, command)) update_map(client, node, command);
        if (command->outcome != MR_REDIS_MOVED || !redirect(client, node, command))
            end_command(client, command);
    }
}

static void send_waiting(struct mr_redis_client *client, struct node *node)
{
    while (node->waiting.first && is_up(node)) {
        struct mr_redis_command *command = mr_redis_command_list_pop(&node->waiting);
        if (!command->cancelled && send_to(client, node, command)) continue;
        command->outcome = MR_REDIS_LOST;
        end_command(client, command);
    }
}

/* Ends commands that timed out while waiting for this node's connection to be ready. */
static void expire_waiting(struct mr_redis_client *client, struct node *node, uint64_t now_ns)
{
    for (uint32_t left = node->waiting.count; left > 0; left--) {
        struct mr_redis_command *command = mr_redis_command_list_pop(&node->waiting);
        if (command->deadline_ns > now_ns) {
            mr_redis_command_list_push(&node->waiting, command);
            continue;
        }
        command->outcome = MR_REDIS_TIMEOUT;
        end_command(client, command);
    }
}

static void count_failure(struct mr_redis_client *client, struct node *node, const char *reason,
                          uint64_t now_ns)
{
    node->open = false;
    client->failures++;
    snprintf(client->reason, sizeof client->reason, "%s", reason);
    mr_redis_breaker_failed(&node->breaker, now_ns);
    end_waiting(client, node);
}

static void reopen(struct mr_redis_client *client, struct node *node, uint64_t now_ns)
{
    struct mr_error err = {0};
    if (!mr_redis_conn_is_closed(node->conn) || !mr_redis_breaker_allows(&node->breaker, now_ns))
        return;
    node->open = true;
    client->connects++;
    if (mr_redis_conn_open(node->conn, now_ns, &err) != MR_OK)
        count_failure(client, node, err.detail, now_ns);
}

static void step_node(struct mr_redis_client *client, struct node *node, uint64_t now_ns)
{
    reopen(client, node, now_ns);
    mr_redis_conn_step(node->conn, now_ns);
    collect(client, node);
    if (node->open && mr_redis_conn_is_closed(node->conn))
        count_failure(client, node, mr_redis_conn_reason(node->conn), now_ns);
    send_waiting(client, node);
    expire_waiting(client, node, now_ns);
}

/* Whether a node's breaker is open and no slot leads to it: in a cluster whose nodes get new
 * addresses, the client would try the old ones for ever, and they would fill the table. The node of
 * the URL is never dead. */
static bool is_dead(const struct mr_redis_client *client, uint32_t index, uint64_t now_ns)
{
    const struct node *node = &client->nodes[index];
    return index > 0 && node->breaker.state == MR_BREAKER_OPEN &&
           now_ns >= node->breaker.retry_ns && mr_redis_conn_is_closed(node->conn) &&
           !node->waiting.first && !memchr(client->slots, (int)index, sizeof client->slots);
}

/* Removes a dead node; the last node takes its place in the table. */
static void forget(struct mr_redis_client *client, uint32_t index)
{
    struct node *node = &client->nodes[index];
    struct mr_redis_conn_stats bytes = mr_redis_conn_stats(node->conn);
    mr_redis_conn_stats_add(&client->forgotten_bytes, &bytes);
    client->forgotten_openings += node->breaker.openings;
    mr_redis_conn_destroy(node->conn);
    const uint32_t last = --client->node_count;
    for (uint32_t slot = 0; slot < MR_REDIS_SLOTS; slot++)
        if (client->slots[slot] == last) client->slots[slot] = (uint8_t)index;
    *node = client->nodes[last];
    client->nodes[last] = (struct node){0};
}

static void step(void *context, uint64_t now_ns)
{
    struct mr_redis_client *client = context;
    for (uint32_t i = 0; i < client->node_count; i++) {
        while (i < client->node_count && is_dead(client, i, now_ns))
            forget(client, i);
        if (i < client->node_count) step_node(client, &client->nodes[i], now_ns);
    }
}

static struct mr_redis_command *take(void *context)
{
    struct mr_redis_client *client = context;
    return mr_redis_command_list_pop(&client->done);
}

static size_t sockets(const void *context, struct pollfd *fds, size_t max)
{
    const struct mr_redis_client *client = context;
    size_t count = 0;
    for (uint32_t i = 0; i < client->node_count && count < max; i++) {
        const struct mr_redis_conn *conn = client->nodes[i].conn;
        if (mr_redis_conn_fd(conn) < 0) continue;
        fds[count++] =
            (struct pollfd){.fd = mr_redis_conn_fd(conn), .events = mr_redis_conn_events(conn)};
    }
    return count;
}

static uint64_t deadline_ns(const void *context)
{
    const struct mr_redis_client *client = context;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < client->node_count; i++) {
        const struct node *node = &client->nodes[i];
        uint64_t due = mr_redis_conn_deadline_ns(node->conn);
        if (mr_redis_conn_is_closed(node->conn)) due = node->breaker.retry_ns;
        for (const struct mr_redis_command *command = node->waiting.first; command;
             command = command->next)
            if (command->deadline_ns < due) due = command->deadline_ns;
        if (due < least) least = due;
    }
    return client->done.first ? 0 : least;
}

static struct mr_redis_client_stats stats_of(const void *context)
{
    const struct mr_redis_client *client = context;
    struct mr_redis_client_stats stats = {.connects = client->connects,
                                          .failures = client->failures,
                                          .moved = client->moved,
                                          .asked = client->asked,
                                          .nodes = client->node_count,
                                          .addresses =
                                              mr_redis_conn_addresses(client->nodes[0].conn),
                                          .breaker = client->nodes[0].breaker.state,
                                          .breaker_openings = client->forgotten_openings,
                                          .bytes = client->forgotten_bytes};
    for (uint32_t i = 0; i < client->node_count; i++) {
        struct mr_redis_conn_stats bytes = mr_redis_conn_stats(client->nodes[i].conn);
        stats.breaker_openings += client->nodes[i].breaker.openings;
        mr_redis_conn_stats_add(&stats.bytes, &bytes);
    }
    return stats;
}

static const char *reason(const void *context)
{
    const struct mr_redis_client *client = context;
    return client->reason;
}

/* ---- the port ---- */

static const struct mr_redis_port client_port = {.step = step,
                                                 .is_ready = is_ready,
                                                 .send = send_command,
                                                 .cancel = cancel,
                                                 .take = take,
                                                 .deadline_ns = deadline_ns,
                                                 .sockets = sockets,
                                                 .set_password = set_password,
                                                 .stats = stats_of,
                                                 .reason = reason,
                                                 .close = close_all,
                                                 .destroy = destroy};

enum mr_status mr_redis_port_open(struct mr_redis_port *out,
                                  const struct mr_redis_conn_options *options, uint64_t seed,
                                  struct mr_error *err)
{
    *out = client_port;
    struct mr_redis_client *client = calloc(1, sizeof *client);
    if (!client) return mr_fail(err, MR_NOMEM, "no memory for a Redis client");
    client->options = *options;
    client->seed = seed;
    memset(client->slots, NODE_NONE, sizeof client->slots);
    struct node *node = &client->nodes[0];
    enum mr_status status = mr_redis_conn_create(&node->conn, options, err);
    if (status != MR_OK) {
        free(client);
        return status;
    }
    node->where = options->where;
    mr_redis_breaker_init(&node->breaker, seed);
    client->node_count = 1;
    out->context = client;
    return MR_OK;
}

void mr_redis_client_check(const struct mr_redis_port *port)
{
    const struct mr_redis_client *client = port->context;
    MR_ASSERT(client->node_count >= 1 && client->node_count <= MR_REDIS_NODES_MAX);
    for (uint32_t slot = 0; slot < MR_REDIS_SLOTS; slot++)
        MR_ASSERT(client->slots[slot] == NODE_NONE || client->slots[slot] < client->node_count);
    for (uint32_t i = 0; i < client->node_count; i++) {
        uint32_t count = 0;
        for (const struct mr_redis_command *command = client->nodes[i].waiting.first; command;
             command = command->next)
            count++;
        MR_ASSERT(count == client->nodes[i].waiting.count);
    }
}
