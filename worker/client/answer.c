#include "worker/client/answer.h"

#include "worker/client/print_record.h"

#include <inttypes.h>

void mr_answer_init(struct mr_answer *answer, FILE *out, bool several)
{
    *answer = (struct mr_answer){.out = out, .several = several};
    mr_follow_init(&answer->follow, out);
}

void mr_answer_free(struct mr_answer *answer)
{
    mr_follow_free(&answer->follow);
}

static void print_heading(const struct mr_answer *answer, size_t choice)
{
    fprintf(answer->out, "--- choice %zu ---\n", choice);
}

static void begin_first(struct mr_answer *answer)
{
    if (!answer->headed) print_heading(answer, 0);
    answer->headed = true;
}

void mr_answer_tokens(struct mr_answer *answer, const struct mr_token_record *record)
{
    if (answer->several && record->choice == 0) begin_first(answer);
    mr_follow_tokens(&answer->follow, record);
}

static void print_choices(struct mr_answer *answer, const struct mr_result *result)
{
    if (result->choice_count > 1) begin_first(answer);
    mr_follow_result(&answer->follow, result);
    fputc('\n', answer->out);
    for (size_t i = 1; i < result->choice_count; i++) {
        const struct mr_text text = result->choices[i].text;
        print_heading(answer, i);
        mr_follow_print(&answer->follow, text);
        fputc('\n', answer->out);
    }
}

void mr_answer_result(struct mr_answer *answer, const struct mr_client_event *event)
{
    const struct mr_result *result = &event->result;
    const char *member = result->embedding_size > 0 ? "embedding"
                         : result->score_count > 0  ? "scores"
                                                    : NULL;
    if (member)
        mr_print_member(event->record.value, event->encoding, member, answer->out, NULL);
    else
        print_choices(answer, result);
    fflush(answer->out);
}
