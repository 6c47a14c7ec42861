/* mailbox - messages (mail) from many threads to one thread, in the order of posting.
 *
 * Intrusive: a message begins with a struct mr_mail, so posting allocates no memory. Bounded by
 * count and by bytes: a full mailbox refuses messages. Control messages (acknowledgements, cancels,
 * stop) are never refused: their number is bounded by the requests in flight. The owner takes all
 * messages at once. The wake given to _create is rung when a message is posted.
 *
 * Threads: any thread may call _post* and _close; the owner calls _take. No call blocks.
 * Memory: the mailbox; a message belongs to the poster until it is posted, to the mailbox until it
 * is taken, then to the owner.
 * Errors: MR_FULL, MR_CLOSED; a refused message still belongs to the poster. */
#ifndef MR_WORKER_BASE_MAILBOX_H
#define MR_WORKER_BASE_MAILBOX_H

#include "codec/status.h"
#include "worker/base/wake.h"

#include <stddef.h>
#include <stdint.h>

struct mr_mailbox;

struct mr_mail {
    /* the next message of the list that _take returned; before that used by the mailbox only */
    struct mr_mail *next;
    size_t bytes;  /* memory of this message, counted towards the mailbox's bytes_max */
    uint32_t kind; /* meaning defined by the mailbox's owner */
};

/* Messages that one thread has collected to post them together, with one lock and one ring of the
 * wake. */
struct mr_mail_list {
    struct mr_mail *first, *last;
    size_t count, bytes;
};

struct mr_mailbox_options {
    size_t count_max, bytes_max;
    /* rung when a message is posted; borrowed, must outlive the mailbox */
    const struct mr_wake *wake;
};

enum mr_status mr_mailbox_create(struct mr_mailbox **out, const struct mr_mailbox_options *options,
                                 struct mr_error *err);
/* Call it only when the mailbox is empty. box may be NULL. */
void mr_mailbox_destroy(struct mr_mailbox *box);

void mr_mail_list_add(struct mr_mail_list *list, struct mr_mail *mail);

enum mr_status mr_mailbox_post(struct mr_mailbox *box, struct mr_mail *mail);
/* Posts all messages of the list and empties the list, if the mailbox has space for at least one
 * message; so the mailbox may exceed its maximum by one list. MR_FULL: nothing was posted, and the
 * wake `room`, if not NULL, is rung once when the mailbox has space again. Only one poster at a
 * time may wait in this way. */
enum mr_status mr_mailbox_post_list(struct mr_mailbox *box, struct mr_mail_list *list,
                                    const struct mr_wake *room);
/* After this call the wake `room` given to mr_mailbox_post_list is no longer rung, so its owner may
 * close it. */
void mr_mailbox_forget_room(struct mr_mailbox *box, const struct mr_wake *room);
/* Posts a control message. It is never refused, even if the mailbox is full or closed. */
void mr_mailbox_post_control(struct mr_mailbox *box, struct mr_mail *mail);

/* Returns all messages posted so far, oldest first, linked by `next`; NULL: the mailbox is
 * empty. */
struct mr_mail *mr_mailbox_take(struct mr_mailbox *box);
/* From now on _post and _post_list return MR_CLOSED. Messages in the mailbox stay until they are
 * taken. */
void mr_mailbox_close(struct mr_mailbox *box);
/* _count: number of messages in the mailbox; _has_room: whether _post would accept a message now.
 * Threads: any. */
size_t mr_mailbox_count(struct mr_mailbox *box);
bool mr_mailbox_has_room(struct mr_mailbox *box);
/* Asserts that the mailbox's count and bytes match its messages; takes time linear in their
 * number. */
void mr_mailbox_check(struct mr_mailbox *box);

#endif
