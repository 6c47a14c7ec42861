/* ticket_trace - writes the times of a sampled request into its ticket, and hands them to the
 * tracer (worker/trace/tracer.h) when the request has started and when it has ended.
 *
 * Each function does nothing for a ticket without a trace. None blocks or makes spans: the tracer's
 * thread does that.
 *
 * Owner: the thread named at each function. Memory: ticket->trace, until _end or
 * mr_ticket_destroy(). Errors: none; without memory a request has no spans. */
#ifndef MR_WORKER_TICKET_TICKET_TRACE_H
#define MR_WORKER_TICKET_TICKET_TRACE_H

#include "worker/base/clock.h"
#include "worker/ticket/ticket.h"
#include "worker/trace/tracer.h"

/* Reads the trace that the producer names into ticket->trace_id, and notes the record if the trace
 * is sampled. tracer NULL: nothing is traced. The ticket has its id and times already. Intake. */
void mr_ticket_trace_open(struct mr_ticket *ticket, const struct mr_tracer *tracer,
                          int64_t timestamp_ms, const struct mr_time *now);
/* The engine is about to get the request. Reads the clock, since intake's step may have taken long.
 * Intake. */
void mr_ticket_trace_submit(struct mr_ticket *ticket);
/* The engine wants to run the first step: sends what is known so far. Intake, before
 * ticket->may_start. */
void mr_ticket_trace_start(struct mr_ticket *ticket, struct mr_tracer *tracer, uint64_t now_ns);
/* A step has computed tokens of the prompt. Engine thread. */
void mr_ticket_trace_chunk(struct mr_ticket *ticket, const struct mr_chunk *chunk);
/* Reads the terminal message (result or refusal). Publish. */
void mr_ticket_trace_answer(struct mr_ticket *ticket, const struct mr_mail *terminal,
                            uint64_t now_ns);
/* The result is on the broker. Intake. */
void mr_ticket_trace_answered(struct mr_ticket *ticket);
/* The ticket ends: sends the rest. Intake. */
void mr_ticket_trace_end(struct mr_ticket *ticket, struct mr_tracer *tracer, uint64_t now_ns);

#endif
