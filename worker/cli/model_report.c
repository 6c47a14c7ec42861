#include "worker/cli/model_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MEBIBYTE (1024.0 * 1024.0)

/* One line, put together from parts and cut at its size. */
struct line {
    char text[400];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(line->text + line->length, sizeof line->text - line->length, format, arguments);
    va_end(arguments);
    if (length > 0) line->length += (size_t)length;
    if (line->length >= sizeof line->text) line->length = sizeof line->text - 1;
}

/* Adds the number formats of the tensors with their shares of the file, largest first; those below
 * 1 % are left out. */
static void add_formats(struct line *line, const struct mr_tensor_table *tensors)
{
    uint64_t bytes[MR_STORAGE_COUNT] = {0}, all = 0;
    for (uint32_t i = 0; i < tensors->count; i++) {
        bytes[tensors->entries[i].storage] += tensors->entries[i].size_bytes;
        all += tensors->entries[i].size_bytes;
    }
    for (const char *before = ""; all > 0; before = ", ") {
        int largest = 0;
        for (int i = 1; i < MR_STORAGE_COUNT; i++)
            if (bytes[i] > bytes[largest]) largest = i;
        double share = 100.0 * (double)bytes[largest] / (double)all;
        if (share < 1.0) return;
        add(line, "%s%s", before, mr_storage_name((enum mr_storage)largest));
        if (share < 99.0) add(line, " %.0f %%", share);
        bytes[largest] = 0;
    }
}

static void describe_model(struct line *line, const struct mr_model_source *source)
{
    uint32_t files = mr_model_source_file_count(source);
    add(line, "%s: family %s, %s of %" PRIu32 " file%s, ", source->name,
        source->config.family->name, source->gguf ? "GGUF" : "Hugging Face folder", files,
        files == 1 ? "" : "s");
    if (source->file_type) add(line, "%s: ", source->file_type);
    add_formats(line, source->tensors);
    if (source->config.wraps_text) add(line, "; only its text part is used");
}

static void describe_weights(struct line *line, const struct mr_model_plan *plan)
{
    double count = (double)plan->parameter_count;
    if (count >= 1e9)
        add(line, "%.2f billion", count / 1e9);
    else if (count >= 1e6)
        add(line, "%.1f million", count / 1e6);
    else
        add(line, "%.0f", count);
    add(line, " parameters, %.1f MiB in files; computed in %s: %.1f MiB of memory",
        (double)plan->stored_bytes / MEBIBYTE, plan->dtype, (double)plan->weight_bytes / MEBIBYTE);
}

static void describe_layers(struct line *line, const struct mr_model_config *c)
{
    uint32_t windowed = 0, routed = 0, mixing = 0;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        mixing += c->mixes[i];
        windowed += c->window > 0 && c->windowed[i];
        routed += c->routed[i];
    }
    add(line,
        "%" PRIu32 ", hidden size %" PRIu32 ", %" PRIu32 " heads and %" PRIu32
        " key/value heads of %" PRIu32,
        c->layer_count, c->hidden_size, c->head_count, c->kv_head_count, c->head_dim);
    if (routed < c->layer_count) add(line, ", feed-forward size %" PRIu32, c->ffn_size);
    if (routed > 0)
        add(line, ", in %" PRIu32 " layers %" PRIu32 " experts of %" PRIu32 ", %" PRIu32 " a token",
            routed, c->experts.count, c->experts.ffn_size, c->experts.top_k);
    if (mixing > 0) add(line, ", %" PRIu32 " of the layers recurrent", mixing);
    if (windowed > 0)
        add(line, ", a window of %" PRIu32 " tokens in %" PRIu32 " layers", c->window, windowed);
}

static void describe_context(struct line *line, const struct mr_model_config *c,
                             const struct mr_model_plan *plan)
{
    add(line, "%" PRIu32 " tokens", c->context_tokens);
    if (plan->context_asked > c->context_tokens)
        add(line, ", the model's limit: --context-tokens %" PRIu32 " has no effect",
            plan->context_asked);
    else if (plan->context_asked > 0)
        add(line, "; --context-tokens allows %" PRIu32, plan->context_asked);
    if (plan->context_tokens == plan->pool_tokens && plan->pool_tokens < c->context_tokens)
        add(line,
            "; the longest sequence that fits into the memory for KV has %" PRIu32 " (--kv-memory)",
            plan->context_tokens);
}

static void describe_kv(struct line *line, const struct mr_model_plan *plan)
{
    add(line, "%" PRIu64 " bytes a token in %s; %.0f MiB hold %" PRIu64 " tokens",
        plan->kv_bytes_per_token, plan->kv_dtype, (double)plan->kv_pool_bytes / MEBIBYTE,
        plan->pool_tokens);
    if (plan->state_slots > 0)
        add(line,
            "; and %" PRIu32 " states of recurrent layers of %.2f MiB: %" PRIu32
            " for requests that run, the others for snapshots",
            plan->state_slots, (double)plan->state_bytes / MEBIBYTE,
            plan->state_slots > 1 ? plan->state_slots / 2 : 1);
}

static void describe_tokenizer(struct line *line, const struct mr_model_source *source)
{
    const struct mr_model_config *c = &source->config;
    add(line, "%" PRIu32 " tokens", mr_tokenizer_vocab_size(source->tokenizer));
    struct mr_text bos = source->special.of[MR_BOS_TEXT];
    if (bos.length > 0) add(line, "; first %.*s", (int)bos.length, bos.bytes);
    add(line, c->eos_count > 0 ? "; an answer ends with" : "; no token ends an answer");
    for (uint32_t i = 0; i < c->eos_count; i++) {
        struct mr_text text = mr_tokenizer_bytes(source->tokenizer, c->eos_ids[i], false);
        add(line, "%s %.*s (%" PRIu32 ")", i > 0 ? "," : "", (int)text.length, text.bytes,
            c->eos_ids[i]);
    }
}

static void describe_template(struct line *line, const struct mr_model_source *source)
{
    if (source->chat_template.length == 0)
        add(line, "none: requests with messages are refused");
    else
        add(line, "yes, %zu bytes", source->chat_template.length);
    if (source->tool_template.length > 0)
        add(line, "; another for requests with tools, %zu bytes", source->tool_template.length);
}

/* Sampling defaults of a request without a temperature. */
static void describe_sampling(struct line *line, const struct mr_sampling_defaults *d)
{
    const struct {
        const char *name;
        double value; /* 0: not given */
    } others[] = {{"top_p", (double)d->top_p},
                  {"top_k", d->top_k},
                  {"min_p", (double)d->min_p},
                  {"typical_p", (double)d->typical_p},
                  {"repetition_penalty", (double)d->repetition_penalty},
                  {"presence_penalty", (double)d->presence_penalty},
                  {"frequency_penalty", (double)d->frequency_penalty}};
    bool given = !isnan(d->temperature);
    add(line, "without a temperature in the request: temperature %g",
        given ? (double)d->temperature : 1.0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (others[i].value == 0.0) continue;
        add(line, ", %s %g", others[i].name, others[i].value);
        given = true;
    }
    if (!given) add(line, "; the model's files name no defaults");
}

void mr_model_report(const struct mr_model_source *source, const struct mr_model_plan *plan,
                     mr_model_report_line line, void *context)
{
    struct line model = {0}, weights = {0}, layers = {0}, length = {0}, kv = {0}, tokenizer = {0},
                chat = {0}, sampling = {0};
    describe_model(&model, source);
    line(context, "model", model.text);
    describe_weights(&weights, plan);
    line(context, "weights", weights.text);
    describe_layers(&layers, &source->config);
    line(context, "layers", layers.text);
    describe_context(&length, &source->config, plan);
    line(context, "context", length.text);
    describe_kv(&kv, plan);
    line(context, "kv", kv.text);
    describe_tokenizer(&tokenizer, source);
    line(context, "tokens", tokenizer.text);
    describe_template(&chat, source);
    line(context, "template", chat.text);
    describe_sampling(&sampling, &source->defaults);
    line(context, "sampling", sampling.text);
}
