#include "worker/remote_cache/redis_call.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define CALL_BYTES_MAX ((size_t)32 << 20)
#define IN_FLIGHT_MAX  2048u /* so that a cluster can redirect all of them at once */

struct call {
    struct mr_mail mail;
    struct mr_redis_command command; /* command.owner points to the struct mr_redis_calls */
    struct mr_redis_call options;
    bool again; /* the command was sent again after its key was deleted */
    uint32_t key_length;
    char key[MR_REDIS_KEY_BYTES]; /* the first bytes of a longer key */
};

struct mr_redis_calls {
    struct mr_mailbox *posted;
    struct mr_mail
        *waiting; /* taken from `posted`, and not sent while IN_FLIGHT_MAX are in flight */
    uint32_t in_flight;
};

enum mr_status mr_redis_calls_create(struct mr_redis_calls **out, const struct mr_wake *wake,
                                     struct mr_error *err)
{
    struct mr_mailbox_options box = {
        .count_max = MR_REDIS_CALLS_MAX, .bytes_max = CALL_BYTES_MAX, .wake = wake};
    *out = NULL;
    struct mr_redis_calls *calls = calloc(1, sizeof *calls);
    if (!calls) return mr_fail(err, MR_NOMEM, "no memory for commands to Redis");
    enum mr_status status = mr_mailbox_create(&calls->posted, &box, err);
    if (status != MR_OK) {
        free(calls);
        return status;
    }
    *out = calls;
    return MR_OK;
}

void mr_redis_calls_destroy(struct mr_redis_calls *calls)
{
    if (!calls) return;
    MR_ASSERT(calls->in_flight == 0 && !calls->waiting);
    mr_mailbox_destroy(calls->posted);
    free(calls);
}

static struct call *create_call(struct mr_redis_calls *calls, const struct mr_redis_call *options)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call) return NULL;
    call->mail.bytes = sizeof *call;
    for (int i = 0; i < options->count; i++)
        call->mail.bytes += options->lengths[i];
    call->options = *options;
    call->key_length = (uint32_t)options->lengths[1];
    if (call->key_length <= sizeof call->key)
        memcpy(call->key, options->words[1], call->key_length);
    if (mr_redis_command_make(&call->command, options->count, options->words, options->lengths,
                              true)) {
        call->command.owner = calls;
        return call;
    }
    free(call);
    return NULL;
}

static void free_call(struct call *call)
{
    mr_redis_command_end(&call->command);
    free(call);
}

bool mr_redis_calls_post(struct mr_redis_calls *calls, const struct mr_redis_call *list,
                         size_t count)
{
    struct mr_mail_list mails = {0};
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        struct call *call = create_call(calls, &list[i]);
        if (call) mr_mail_list_add(&mails, &call->mail);
        good = call != NULL;
    }
    if (good && mr_mailbox_post_list(calls->posted, &mails, 0) == MR_OK) return true;
    for (struct mr_mail *mail = mails.first, *next; mail; mail = next) {
        next = mail->next;
        free_call((struct call *)mail);
    }
    return false;
}

static void end_call(struct mr_redis_calls *calls, struct call *call)
{
    calls->in_flight--;
    if (call->options.done)
        call->options.done(call->options.context, call->command.outcome, call->command.reply);
    free_call(call);
}

/* Takes the posted commands; their timeouts start now. */
static void take_posted(struct mr_redis_calls *calls, uint64_t now_ns)
{
    calls->waiting = mr_mailbox_take(calls->posted);
    for (struct mr_mail *mail = calls->waiting; mail; mail = mail->next) {
        struct call *call = (struct call *)mail;
        call->command.deadline_ns = now_ns + call->options.timeout_ns;
    }
}

void mr_redis_calls_send(struct mr_redis_calls *calls, const struct mr_redis_port *port,
                         uint64_t now_ns)
{
    for (;;) {
        if (!calls->waiting) take_posted(calls, now_ns);
        struct call *call = (struct call *)calls->waiting;
        if (!call) return;
        const bool late = call->command.deadline_ns <= now_ns;
        if (!late && calls->in_flight >= IN_FLIGHT_MAX) return;
        calls->waiting = call->mail.next;
        calls->in_flight++;
        if (!late && port->send(port->context, &call->command)) continue;
        call->command.outcome = late ? MR_REDIS_TIMEOUT : MR_REDIS_LOST;
        end_call(calls, call);
    }
}

/* Sends DEL and the command again, in this order, after a key was found to have another type: such
 * a key is not a worker's, and while it exists no trail could be stored under its name. False: not
 * sent. */
static bool replace_key(struct mr_redis_calls *calls, const struct mr_redis_port *port,
                        struct call *call)
{
    if (call->again || call->key_length > sizeof call->key) return false;
    struct call *deletion = calloc(1, sizeof *deletion);
    if (!deletion) return false;
    mr_redis_command_word(&deletion->command, "DEL", call->key, call->key_length);
    deletion->command.owner = calls;
    deletion->command.deadline_ns = call->command.deadline_ns;
    if (!port->send(port->context, &deletion->command)) {
        free_call(deletion);
        return false;
    }
    calls->in_flight++;
    call->again = true;
    call->command.redirects = 0;
    return port->send(port->context, &call->command);
}

bool mr_redis_calls_finish(struct mr_redis_calls *calls, const struct mr_redis_port *port,
                           struct mr_redis_command *command)
{
    if (command->owner != calls) return false;
    struct call *call = (struct call *)(void *)((char *)command - offsetof(struct call, command));
    if (command->outcome == MR_REDIS_WRONG_TYPE && replace_key(calls, port, call)) return true;
    end_call(calls, call);
    return true;
}

void mr_redis_calls_close(struct mr_redis_calls *calls)
{
    mr_mailbox_close(calls->posted);
}

uint32_t mr_redis_calls_in_flight(const struct mr_redis_calls *calls)
{
    return calls->in_flight;
}
