/* ticket_trace - records the times of a sampled request in its ticket and passes them to the tracer
 * (worker/trace/tracer.h) twice: at the start and at the end of the request.
 *
 * The functions do nothing for a ticket without a trace. They do not block; the tracer's thread
 * builds and sends the spans.
 *
 * Threads: named at each function. Memory: ticket->trace, until _end or mr_ticket_destroy().
 * Errors:  none; when memory is out a request has no spans. */
#ifndef MR_WORKER_TICKET_TICKET_TRACE_H
#define MR_WORKER_TICKET_TICKET_TRACE_H

#include "worker/base/clock.h"
#include "worker/ticket/ticket.h"
#include "worker/trace/tracer.h"

/* Intake: copies the producer's trace id to ticket->trace_id and creates ticket->trace if the trace
 * is sampled. The ticket's id and times must be set. tracer NULL: nothing is traced. */
void mr_ticket_trace_open(struct mr_ticket *ticket, const struct mr_tracer *tracer,
                          int64_t timestamp_ms, const struct mr_time *now);
/* Intake, before the submission: records the time, read from the clock because intake's step may
 * have taken long. */
void mr_ticket_trace_submit(struct mr_ticket *ticket);
/* Intake, when the engine requests the first step and before intake permits it: sends the times so
 * far. */
void mr_ticket_trace_start(struct mr_ticket *ticket, struct mr_tracer *tracer, uint64_t now_ns);
/* Engine thread: a step has computed a chunk of the prompt. */
void mr_ticket_trace_chunk(struct mr_ticket *ticket, const struct mr_chunk *chunk);
/* Publish: copies the fields for the spans from the terminal message (result or refusal). */
void mr_ticket_trace_answer(struct mr_ticket *ticket, const struct mr_mail *terminal,
                            uint64_t now_ns);
/* Intake: the result is on the broker. */
void mr_ticket_trace_answered(struct mr_ticket *ticket);
/* Intake: the ticket ends. Sends all times. */
void mr_ticket_trace_end(struct mr_ticket *ticket, struct mr_tracer *tracer, uint64_t now_ns);

#endif
