#include "worker/base/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

struct box {
    struct mr_wake wake;
    struct mr_mailbox *mailbox;
};

static void open_box(struct box *box, size_t count_max, size_t bytes_max)
{
    assert_int_equal(mr_wake_open(&box->wake, NULL), MR_OK);
    struct mr_mailbox_options options = {count_max, bytes_max, &box->wake};
    assert_int_equal(mr_mailbox_create(&box->mailbox, &options, NULL), MR_OK);
}

static void close_box(struct box *box)
{
    mr_mailbox_check(box->mailbox);
    mr_mailbox_destroy(box->mailbox);
    mr_wake_close(&box->wake);
}

static void mail_is_taken_in_order_of_posting(void **state)
{
    (void)state;
    struct box box;
    open_box(&box, 8, 100);
    struct mr_mail mail[3] = {{.kind = 1, .bytes = 1}, {.kind = 2}, {.kind = 3}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(mr_mailbox_post(box.mailbox, &mail[i]), MR_OK);
    assert_int_equal(mr_mailbox_count(box.mailbox), 3);
    assert_true(mr_wake_wait(&box.wake, 0));
    struct mr_mail *first = mr_mailbox_take(box.mailbox);
    assert_ptr_equal(first, &mail[0]);
    assert_ptr_equal(first->next, &mail[1]);
    assert_ptr_equal(first->next->next, &mail[2]);
    assert_null(first->next->next->next);
    assert_null(mr_mailbox_take(box.mailbox));
    close_box(&box);
}

static void a_full_box_refuses_by_count_and_by_bytes_but_takes_control_mail(void **state)
{
    (void)state;
    struct box box;
    open_box(&box, 2, 100);
    struct mr_mail mail[4] = {{.bytes = 10}, {.bytes = 10}, {.bytes = 10}, {.bytes = 10}};
    assert_int_equal(mr_mailbox_post(box.mailbox, &mail[0]), MR_OK);
    assert_int_equal(mr_mailbox_post(box.mailbox, &mail[1]), MR_OK);
    assert_int_equal(mr_mailbox_post(box.mailbox, &mail[2]), MR_FULL);
    mr_mailbox_post_control(box.mailbox, &mail[3]);
    mr_mailbox_check(box.mailbox);
    assert_int_equal(mr_mailbox_count(box.mailbox), 3);
    mr_mailbox_take(box.mailbox);

    struct mr_mail big = {.bytes = 100}, small = {.bytes = 1};
    assert_int_equal(mr_mailbox_post(box.mailbox, &big), MR_OK);
    assert_int_equal(mr_mailbox_post(box.mailbox, &small), MR_FULL);
    mr_mailbox_take(box.mailbox);
    close_box(&box);
}

static void a_list_is_posted_whole_once_there_is_any_room(void **state)
{
    (void)state;
    struct box box;
    open_box(&box, 1, 100);
    struct mr_mail mail[2] = {{.bytes = 1}, {.bytes = 2}}, more = {.bytes = 1};
    struct mr_mail_list list = {0};
    mr_mail_list_add(&list, &mail[0]);
    mr_mail_list_add(&list, &mail[1]);
    assert_int_equal(mr_mailbox_post_list(box.mailbox, &list, NULL), MR_OK);
    assert_null(list.first);
    mr_mail_list_add(&list, &more);
    assert_int_equal(mr_mailbox_post_list(box.mailbox, &list, NULL), MR_FULL);
    assert_ptr_equal(list.first, &more);
    mr_mailbox_take(box.mailbox);
    close_box(&box);
}

static void a_poster_that_was_refused_is_rung_once_when_there_is_room(void **state)
{
    (void)state;
    struct box box;
    struct mr_wake room;
    open_box(&box, 1, 100);
    assert_int_equal(mr_wake_open(&room, NULL), MR_OK);
    struct mr_mail mail = {.bytes = 1}, more = {.bytes = 1};
    struct mr_mail_list list = {0};
    assert_int_equal(mr_mailbox_post(box.mailbox, &mail), MR_OK);
    mr_mail_list_add(&list, &more);
    assert_int_equal(mr_mailbox_post_list(box.mailbox, &list, &room), MR_FULL);
    assert_false(mr_wake_wait(&room, 0));
    mr_mailbox_take(box.mailbox);
    assert_true(mr_wake_wait(&room, 0));
    assert_int_equal(mr_mailbox_post_list(box.mailbox, &list, &room), MR_OK);
    mr_mail_list_add(&list, &mail);
    assert_int_equal(mr_mailbox_post_list(box.mailbox, &list, &room), MR_FULL);
    mr_mailbox_forget_room(box.mailbox, &room);
    mr_mailbox_take(box.mailbox);
    assert_false(mr_wake_wait(&room, 0));
    mr_wake_close(&room);
    close_box(&box);
}

static void a_closed_box_refuses_and_keeps_what_it_has(void **state)
{
    (void)state;
    struct box box;
    open_box(&box, 4, 100);
    struct mr_mail mail[3] = {{.kind = 1}, {.kind = 2}, {.kind = 3}};
    assert_int_equal(mr_mailbox_post(box.mailbox, &mail[0]), MR_OK);
    mr_mailbox_close(box.mailbox);
    assert_int_equal(mr_mailbox_post(box.mailbox, &mail[1]), MR_CLOSED);
    mr_mailbox_post_control(box.mailbox, &mail[2]);
    struct mr_mail *first = mr_mailbox_take(box.mailbox);
    assert_int_equal(first->kind, 1);
    assert_int_equal(first->next->kind, 3);
    close_box(&box);
}

#define POSTERS  4
#define MESSAGES 2000

static void *post_many(void *argument)
{
    struct box *box = argument;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct mr_mail *mail = calloc(1, sizeof *mail);
        struct mr_mail_list list = {0};
        *mail = (struct mr_mail){.kind = i, .bytes = 7};
        mr_mail_list_add(&list, mail);
        if (i % 5 == 0)
            mr_mailbox_post_control(box->mailbox, mail);
        else
            while (mr_mailbox_post_list(box->mailbox, &list, NULL) != MR_OK)
                sched_yield();
    }
    return NULL;
}

static void nothing_is_lost_between_many_posters_and_a_sleeping_owner(void **state)
{
    (void)state;
    struct box box;
    open_box(&box, 3, 1000);
    pthread_t posters[POSTERS];
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&posters[i], NULL, post_many, &box), 0);
    uint64_t count = 0, sum = 0;
    while (count < POSTERS * MESSAGES) {
        mr_wake_wait(&box.wake, UINT64_MAX);
        for (struct mr_mail *mail = mr_mailbox_take(box.mailbox), *next; mail; mail = next) {
            next = mail->next;
            count++;
            sum += mail->kind;
            free(mail);
        }
    }
    for (int i = 0; i < POSTERS; i++)
        pthread_join(posters[i], NULL);
    assert_int_equal(sum, (uint64_t)POSTERS * MESSAGES * (MESSAGES - 1) / 2);
    close_box(&box);
}

static void destroying_a_box_with_mail_is_caught(void **state)
{
    (void)state;
    struct box box;
    open_box(&box, 1, 1);
    struct mr_mail mail = {0};
    mr_mailbox_post_control(box.mailbox, &mail);
    expect_assert_failure(mr_mailbox_destroy(box.mailbox));
    mr_mailbox_take(box.mailbox);
    close_box(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mail_is_taken_in_order_of_posting),
        cmocka_unit_test(a_full_box_refuses_by_count_and_by_bytes_but_takes_control_mail),
        cmocka_unit_test(a_list_is_posted_whole_once_there_is_any_room),
        cmocka_unit_test(a_poster_that_was_refused_is_rung_once_when_there_is_room),
        cmocka_unit_test(a_closed_box_refuses_and_keeps_what_it_has),
        cmocka_unit_test(nothing_is_lost_between_many_posters_and_a_sleeping_owner),
        cmocka_unit_test(destroying_a_box_with_mail_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
