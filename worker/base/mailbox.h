/* mailbox - messages from many threads to one, in order of posting.
 *
 * Intrusive: a message begins with a struct mr_mail, so posting allocates nothing. Bounded by count
 * and by bytes: a full mailbox refuses. Control mail (acknowledgements, cancels, stop) is never
 * refused: its number is bounded by the requests in flight. The owner takes all mail at once. The
 * wake given to _create is rung when mail arrives.
 *
 * Threads: _post* and _close any; _take the owner. No call blocks.
 * Memory:  the mailbox; mail belongs to the poster until posted, to the mailbox until taken, then
 *          to the owner.
 * Errors:  MR_FULL, MR_CLOSED; refused mail stays the poster's. */
#ifndef MR_WORKER_BASE_MAILBOX_H
#define MR_WORKER_BASE_MAILBOX_H

#include "codec/status.h"
#include "worker/base/wake.h"

#include <stddef.h>
#include <stdint.h>

struct mr_mailbox;

struct mr_mail {
    struct mr_mail *next; /* private while posted; the list after _take */
    size_t bytes;         /* memory of this message, for the bound */
    uint32_t kind;        /* the owner's to define */
};

/* Mail collected by one poster, to be posted together: one lock, one ring. */
struct mr_mail_list {
    struct mr_mail *first, *last;
    size_t count, bytes;
};

struct mr_mailbox_options {
    size_t count_max, bytes_max;
    const struct mr_wake *wake; /* rung when mail arrives; borrowed, outlives the mailbox */
};

enum mr_status mr_mailbox_create(struct mr_mailbox **out, const struct mr_mailbox_options *options,
                                 struct mr_error *err);
/* The mailbox must be empty. box may be NULL. */
void mr_mailbox_destroy(struct mr_mailbox *box);

void mr_mail_list_add(struct mr_mail_list *list, struct mr_mail *mail);

enum mr_status mr_mailbox_post(struct mr_mailbox *box, struct mr_mail *mail);
/* Posts all of the list and empties it, if there is room for one message: the mailbox may exceed
 * its maximum by one list. MR_FULL: nothing was posted; `room`, if not NULL, is rung once when
 * there is room. One poster may wait so at a time. */
enum mr_status mr_mailbox_post_list(struct mr_mailbox *box, struct mr_mail_list *list,
                                    const struct mr_wake *room);
/* `room` is not rung any more: its owner is about to close it. */
void mr_mailbox_forget_room(struct mr_mailbox *box, const struct mr_wake *room);
/* Never refused, open or closed. */
void mr_mailbox_post_control(struct mr_mailbox *box, struct mr_mail *mail);

/* Everything posted so far, oldest first, linked by next; NULL when empty. */
struct mr_mail *mr_mailbox_take(struct mr_mailbox *box);
/* From now on _post and _post_list return MR_CLOSED. Mail inside stays. */
void mr_mailbox_close(struct mr_mailbox *box);
/* Messages inside now; whether _post would find room now. Threads: any. */
size_t mr_mailbox_count(struct mr_mailbox *box);
bool mr_mailbox_has_room(struct mr_mailbox *box);
/* Asserts the sums; O(count). */
void mr_mailbox_check(struct mr_mailbox *box);

#endif
