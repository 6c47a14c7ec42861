#include "worker/base/mailbox.h"

#include "codec/check.h"

#include <pthread.h>
#include <stdlib.h>

struct mr_mailbox {
    pthread_mutex_t mutex;
    size_t count_max, bytes_max;
    const struct mr_wake *wake;
    /* the messages in the mailbox; protected by the mutex */
    struct mr_mail_list mail;
    /* the wake of a poster that got MR_FULL and waits for space; NULL: none */
    const struct mr_wake *room;
    bool closed;
};

enum mr_status mr_mailbox_create(struct mr_mailbox **out, const struct mr_mailbox_options *options,
                                 struct mr_error *err)
{
    MR_ASSERT(options->count_max > 0 && options->bytes_max > 0 && options->wake);
    *out = NULL;
    struct mr_mailbox *box = calloc(1, sizeof *box);
    if (!box) return mr_fail(err, MR_NOMEM, "no memory for a mailbox");
    box->count_max = options->count_max;
    box->bytes_max = options->bytes_max;
    box->wake = options->wake;
    pthread_mutex_init(&box->mutex, NULL);
    *out = box;
    return MR_OK;
}

void mr_mailbox_destroy(struct mr_mailbox *box)
{
    if (!box) return;
    MR_ASSERT(!box->mail.first);
    pthread_mutex_destroy(&box->mutex);
    free(box);
}

void mr_mail_list_add(struct mr_mail_list *list, struct mr_mail *mail)
{
    mail->next = NULL;
    if (list->last)
        list->last->next = mail;
    else
        list->first = mail;
    list->last = mail;
    list->count++;
    list->bytes += mail->bytes;
}

/* Moves all messages of the list to the end of the mailbox. The caller holds the mutex. */
static void append(struct mr_mailbox *box, struct mr_mail_list *list)
{
    if (!list->first) return;
    if (box->mail.last)
        box->mail.last->next = list->first;
    else
        box->mail.first = list->first;
    box->mail.last = list->last;
    box->mail.count += list->count;
    box->mail.bytes += list->bytes;
    *list = (struct mr_mail_list){0};
}

static bool has_room(const struct mr_mailbox *box)
{
    return box->mail.count < box->count_max && box->mail.bytes < box->bytes_max;
}

enum mr_status mr_mailbox_post_list(struct mr_mailbox *box, struct mr_mail_list *list,
                                    const struct mr_wake *room)
{
    enum mr_status status = MR_OK;
    pthread_mutex_lock(&box->mutex);
    if (box->closed)
        status = MR_CLOSED;
    else if (!has_room(box))
        status = MR_FULL;
    if (status == MR_OK) append(box, list);
    if (status == MR_FULL && room) box->room = room;
    pthread_mutex_unlock(&box->mutex);
    if (status == MR_OK) mr_wake_ring(box->wake);
    return status;
}

void mr_mailbox_forget_room(struct mr_mailbox *box, const struct mr_wake *room)
{
    pthread_mutex_lock(&box->mutex);
    if (box->room == room) box->room = NULL;
    pthread_mutex_unlock(&box->mutex);
}

enum mr_status mr_mailbox_post(struct mr_mailbox *box, struct mr_mail *mail)
{
    struct mr_mail_list list = {0};
    mr_mail_list_add(&list, mail);
    return mr_mailbox_post_list(box, &list, NULL);
}

void mr_mailbox_post_control(struct mr_mailbox *box, struct mr_mail *mail)
{
    struct mr_mail_list list = {0};
    mr_mail_list_add(&list, mail);
    pthread_mutex_lock(&box->mutex);
    append(box, &list);
    pthread_mutex_unlock(&box->mutex);
    mr_wake_ring(box->wake);
}

struct mr_mail *mr_mailbox_take(struct mr_mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    struct mr_mail *first = box->mail.first;
    box->mail = (struct mr_mail_list){0};
    /* ring while holding the mutex: after mr_mailbox_forget_room the wake may be closed */
    if (box->room) mr_wake_ring(box->room);
    box->room = NULL;
    pthread_mutex_unlock(&box->mutex);
    return first;
}

void mr_mailbox_close(struct mr_mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    box->closed = true;
    pthread_mutex_unlock(&box->mutex);
}

size_t mr_mailbox_count(struct mr_mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    size_t count = box->mail.count;
    pthread_mutex_unlock(&box->mutex);
    return count;
}

bool mr_mailbox_has_room(struct mr_mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    bool room = has_room(box);
    pthread_mutex_unlock(&box->mutex);
    return room;
}

void mr_mailbox_check(struct mr_mailbox *box)
{
    pthread_mutex_lock(&box->mutex);
    size_t count = 0, bytes = 0;
    struct mr_mail *last = NULL;
    for (struct mr_mail *mail = box->mail.first; mail; mail = mail->next) {
        count++;
        bytes += mail->bytes;
        last = mail;
    }
    MR_ASSERT(count == box->mail.count && bytes == box->mail.bytes && last == box->mail.last);
    pthread_mutex_unlock(&box->mutex);
}
