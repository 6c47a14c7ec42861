#include "worker/publish/finisher.h"

#include "codec/check.h"
#include "worker/ticket/ticket_trace.h"
#include "worker/ticket/write_gate.h"

/* ---- the list of tickets with a terminal message ---- */

static void announce_oldest(struct mr_finisher *finisher)
{
    if (finisher->oldest_ms)
        atomic_store(finisher->oldest_ms,
                     finisher->oldest ? finisher->oldest->publish.terminal_ms : 0);
}

static void add_to_list(struct mr_finisher *finisher, struct mr_ticket *ticket)
{
    ticket->publish.newer = NULL;
    ticket->publish.older = finisher->newest;
    if (finisher->newest)
        finisher->newest->publish.newer = ticket;
    else
        finisher->oldest = ticket;
    finisher->newest = ticket;
    if (!ticket->publish.older) announce_oldest(finisher);
}

static void remove_from_list(struct mr_finisher *finisher, struct mr_ticket *ticket)
{
    if (ticket->publish.older)
        ticket->publish.older->publish.newer = ticket->publish.newer;
    else
        finisher->oldest = ticket->publish.newer;
    if (ticket->publish.newer)
        ticket->publish.newer->publish.older = ticket->publish.older;
    else
        finisher->newest = ticket->publish.older;
    ticket->publish.older = ticket->publish.newer = NULL;
}

/* Posts the ticket to intake and only then announces the time of the next oldest ticket, so that
 * the time in intake's commit is a lower bound for every result not listed in that commit. */
static void return_ticket(struct mr_finisher *finisher, struct mr_ticket *ticket,
                          enum mr_mail_kind kind)
{
    bool first = !ticket->publish.older;
    remove_from_list(finisher, ticket);
    ticket->done.kind = kind;
    mr_mailbox_post_control(finisher->intake, &ticket->done);
    if (first) announce_oldest(finisher);
}

static void end_ticket(struct mr_finisher *finisher, struct mr_ticket *ticket)
{
    mr_mail_free(ticket->publish.terminal);
    ticket->publish.terminal = NULL;
    return_ticket(finisher, ticket, MR_MAIL_DONE);
}

/* ---- from phase to phase ---- */

static enum mr_write_permit admit(struct mr_ticket *ticket)
{
    if (atomic_load(&ticket->dropped)) return MR_WRITE_CLOSED;
    return ticket->gate ? mr_write_gate_admit(ticket->gate, ticket->epoch) : MR_WRITE_OPEN;
}

static void hold(struct mr_finisher *finisher, struct mr_ticket *ticket)
{
    ticket->publish.advancing = true;
    ticket->publish.advance_next = finisher->held;
    finisher->held = ticket;
}

static void drop(struct mr_finisher *finisher, struct mr_ticket *ticket)
{
    atomic_store(&ticket->dropped, true);
    finisher->writer->stats.dropped++;
    end_ticket(finisher, ticket);
}

/* Moves the ticket through its phases until one of its records is pending or the write gate is not
 * open. */
static void advance(struct mr_finisher *finisher, struct mr_ticket *ticket)
{
    if (finisher->exactly_once) {
        return_ticket(finisher, ticket, MR_MAIL_READY);
        return;
    }
    if (ticket->publish.phase == MR_TERMINAL_WAITING) {
        enum mr_write_permit permit = admit(ticket);
        if (permit == MR_WRITE_CLOSED) drop(finisher, ticket);
        if (permit == MR_WRITE_HELD) hold(finisher, ticket);
        if (permit != MR_WRITE_OPEN) return;
        ticket->publish.phase = MR_TERMINAL_REPLY;
        mr_writer_write(finisher->writer, ticket, MR_PART_DEAD_LETTER);
        mr_writer_write(finisher->writer, ticket, MR_PART_REPLY);
    }
    if (ticket->publish.phase == MR_TERMINAL_REPLY && mr_writer_is_idle(ticket)) {
        ticket->publish.phase = MR_TERMINAL_RESULT;
        mr_writer_write(finisher->writer, ticket, MR_PART_RESULT);
    }
    if (!mr_writer_is_idle(ticket)) return;
    /* Post the ticket before the gate stops counting the request: intake commits when the count is
     * 0 and must have the message by then. Read `gate` first, because after the post the ticket is
     * intake's. */
    struct mr_write_gate *gate = ticket->gate;
    end_ticket(finisher, ticket);
    if (gate) mr_write_gate_acknowledge(gate);
}

static void advance_list(struct mr_finisher *finisher, struct mr_ticket *ticket)
{
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->publish.advance_next;
        ticket->publish.advancing = false;
        advance(finisher, ticket);
    }
}

void mr_finisher_advance(struct mr_finisher *finisher)
{
    struct mr_ticket *held = finisher->held;
    finisher->held = NULL;
    advance_list(finisher, held);
    for (struct mr_ticket *written; (written = mr_writer_take_written(finisher->writer));)
        advance_list(finisher, written);
}

static struct mr_request_end end_of(const struct mr_mail *terminal)
{
    if (terminal->kind == MR_MAIL_REFUSAL) {
        const struct mr_refusal_mail *refusal = (const struct mr_refusal_mail *)terminal;
        return (struct mr_request_end){.finish = refusal->finish, .error = refusal->error.status};
    }
    const struct mr_result *result = &((const struct mr_result_mail *)terminal)->result;
    struct mr_request_end end = {.finish = result->choices[0].finish, .error = result->error};
    end.tokens = result->prompt_tokens - result->cached_tokens;
    for (size_t i = 0; i < result->choice_count; i++)
        end.tokens += result->choices[i].completion_tokens;
    return end;
}

void mr_finisher_begin(struct mr_finisher *finisher, struct mr_ticket *ticket,
                       struct mr_mail *terminal, int64_t unix_ms)
{
    MR_ASSERT(!ticket->publish.terminal);
    ticket->publish.terminal = terminal;
    ticket->publish.terminal_ms = unix_ms;
    ticket->end = end_of(terminal);
    mr_ticket_trace_answer(ticket, terminal, finisher->writer->now_ns);
    ticket->publish.phase = MR_TERMINAL_WAITING;
    add_to_list(finisher, ticket);
    mr_writer_queue_if_written(finisher->writer, ticket);
}

void mr_finisher_return_refused(struct mr_finisher *finisher)
{
    for (struct mr_ticket *ticket = finisher->oldest, *newer; ticket; ticket = newer) {
        newer = ticket->publish.newer;
        if (ticket->publish.terminal->kind != MR_MAIL_REFUSAL) continue;
        mr_mail_free(ticket->publish.terminal);
        ticket->publish.terminal = NULL;
        return_ticket(finisher, ticket, MR_MAIL_RETURNED);
    }
}
