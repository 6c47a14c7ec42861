#include "worker/ticket/ticket_trace.h"

#include "worker/ticket/messages.h"

#include <string.h>

#define MILLISECOND_NS INT64_C(1000000)

static struct mr_text header_of(const struct mr_ticket *ticket, const char *name)
{
    for (size_t i = 0; i < ticket->echo_count; i++)
        if (strcmp(ticket->echo[i].name, name) == 0)
            return (struct mr_text){ticket->echo[i].value, ticket->echo[i].length};
    return (struct mr_text){"", 0};
}

static struct mr_request_trace *create(const struct mr_ticket *ticket,
                                       const struct mr_trace_context *context,
                                       const struct mr_trace_place *place)
{
    const char *tenant = ticket->tenant ? ticket->tenant : MR_TENANT_DEFAULT;
    struct mr_trace_texts texts = {.id = mr_ticket_id(ticket),
                                   .tenant = {tenant, strlen(tenant)},
                                   .state = header_of(ticket, "tracestate")};
    return mr_request_trace_create(context, place, &texts);
}

void mr_ticket_trace_open(struct mr_ticket *ticket, const struct mr_tracer *tracer,
                          int64_t timestamp_ms, const struct mr_time *now)
{
    struct mr_trace_context context;
    struct mr_trace_place place = {ticket->topic, ticket->partition, ticket->offset, timestamp_ms};
    if (!mr_trace_context_parse(&context, header_of(ticket, "traceparent"))) {
        if (!tracer) return;
        mr_trace_context_make(&context, &place, mr_tracer_ratio(tracer));
        if (!context.sampled) return;
    }
    mr_trace_context_hex(&context, ticket->trace_id);
    if (!tracer || !context.sampled) return;
    ticket->trace = create(ticket, &context, &place);
    if (!ticket->trace) return;
    ticket->trace->waited_ms = ticket->waited_ms;
    ticket->trace->received_ns = ticket->arrival_ns;
    ticket->trace->unix_ns = now->unix_ms * MILLISECOND_NS - (int64_t)now->ns;
}

void mr_ticket_trace_submit(struct mr_ticket *ticket)
{
    if (ticket->trace) ticket->trace->submitted_ns = mr_clock_ns();
}

static void copy_attempt(struct mr_ticket *ticket)
{
    ticket->trace->attempt = ticket->attempt;
    ticket->trace->resumed_tokens = ticket->kept_count;
}

void mr_ticket_trace_start(struct mr_ticket *ticket, struct mr_tracer *tracer, uint64_t now_ns)
{
    if (!ticket->trace) return;
    copy_attempt(ticket);
    ticket->trace->asked_ns = now_ns;
    struct mr_request_trace *begin = mr_request_trace_begin(ticket->trace);
    ticket->trace->begun = begin != NULL;
    mr_tracer_send(tracer, begin);
}

void mr_ticket_trace_chunk(struct mr_ticket *ticket, const struct mr_chunk *chunk)
{
    if (ticket->trace) mr_request_trace_chunk(ticket->trace, chunk);
}

static void read_request(struct mr_trace_answer *answer, const struct mr_request *request)
{
    size_t length = request->model.length < sizeof answer->model - 1 ? request->model.length
                                                                     : sizeof answer->model - 1;
    if (length > 0) memcpy(answer->model, request->model.bytes, length);
    answer->operation = request->chat.message_count > 0 ? "chat" : "text_completion";
    answer->max_tokens = request->max_tokens;
    answer->choices = request->choice_count;
    answer->temperature = (double)request->sampling.temperature;
}

static void read_result(struct mr_trace_answer *answer, const struct mr_result *result)
{
    answer->finish = mr_finish_text(result->choices[0].finish);
    for (size_t i = 0; i < result->choice_count; i++)
        answer->output_tokens += result->choices[i].completion_tokens;
    answer->input_tokens = result->prompt_tokens;
    answer->cached_tokens = result->cached_tokens;
    answer->cached_tokens_redis = result->cached_tokens_redis;
    answer->prefill_chunks = result->prefill_chunks;
    answer->preemptions = result->preemptions;
    answer->gap_mean_ms = result->itl_mean_ms;
    answer->gap_max_ms = result->itl_max_ms;
    if (result->error != MR_OK) answer->error = mr_status_code(result->error);
}

static uint64_t nanoseconds(double ms)
{
    return ms > 0 ? (uint64_t)(ms * 1e6) : 0;
}

static void read_times(struct mr_request_trace *trace, const struct mr_result_mail *mail)
{
    const struct mr_result *result = &mail->result;
    trace->made_ns = mail->made_ns;
    if (trace->asked_ns == 0) return; /* the request never started */
    trace->started_ns = trace->received_ns + nanoseconds(result->queue_ms);
    if (result->first_token_ms > 0)
        trace->token_ns = trace->received_ns + nanoseconds(result->first_token_ms);
}

void mr_ticket_trace_answer(struct mr_ticket *ticket, const struct mr_mail *terminal,
                            uint64_t now_ns)
{
    struct mr_request_trace *trace = ticket->trace;
    if (!trace) return;
    if (terminal->kind == MR_MAIL_REFUSAL) {
        const struct mr_refusal_mail *refusal = (const struct mr_refusal_mail *)terminal;
        /* publish may have read its clock before intake took the record */
        trace->made_ns = now_ns > trace->received_ns ? now_ns : trace->received_ns;
        trace->answer.finish = mr_finish_text(refusal->finish);
        trace->answer.error = mr_status_code(refusal->error.status);
        return;
    }
    const struct mr_result_mail *mail = (const struct mr_result_mail *)terminal;
    read_request(&trace->answer, mail->request);
    read_result(&trace->answer, &mail->result);
    read_times(trace, mail);
}

void mr_ticket_trace_answered(struct mr_ticket *ticket)
{
    if (ticket->trace) ticket->trace->answered = true;
}

void mr_ticket_trace_end(struct mr_ticket *ticket, struct mr_tracer *tracer, uint64_t now_ns)
{
    if (!ticket->trace) return;
    copy_attempt(ticket);
    ticket->trace->ended_ns = now_ns;
    mr_tracer_send(tracer, ticket->trace);
    ticket->trace = NULL;
}
