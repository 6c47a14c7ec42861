/* The message of a result with the text "the answer". */
#ifndef MR_TESTS_WORKER_RESULT_MAIL_H
#define MR_TESTS_WORKER_RESULT_MAIL_H

#include "worker/ticket/messages.h"

#include <string.h>

static inline struct mr_mail *result_mail(struct mr_ticket *ticket, uint64_t now_ns)
{
    struct mr_arena *arena = mr_arena_create(4096);
    struct mr_request *request = mr_arena_take(arena, sizeof *request);
    *request = (struct mr_request){.arena = arena, .encoding = MR_ENCODING_JSON};
    const struct mr_choice choice = {
        .finish = MR_FINISH_LENGTH, .stop_token = MR_TOKEN_NONE, .text = {"the answer", 10}};
    const struct mr_result result = {
        .id = {ticket->id, strlen(ticket->id)}, .choices = &choice, .choice_count = 1};
    return &mr_result_mail_create(ticket, request, &result, now_ns)->mail;
}

#endif
