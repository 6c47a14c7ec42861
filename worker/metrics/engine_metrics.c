#include "worker/metrics/engine_metrics.h"

#include "worker/metrics/metric_text.h"

#include <inttypes.h>
#include <stddef.h>

#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

enum field_type { FIELD_U32, FIELD_U64, FIELD_DOUBLE };

/* clang-format off */
/* The initializers for field_type and offset of one field of struct mr_engine_stats. */
#define FIELD(field)                                                                               \
    _Generic(((struct mr_engine_stats *)0)->field,                                                 \
             uint32_t: FIELD_U32, uint64_t: FIELD_U64, double: FIELD_DOUBLE),                      \
    offsetof(struct mr_engine_stats, field)

static const struct engine_metric {
    const char *name, *labels, *type;
    enum field_type field_type;
    size_t offset;
    double divisor; /* the field is divided by this to get seconds; 0: the field is a count */
    /* Prometheus HELP text; "": the previous row has the same name and the HELP text */
    const char *help;
} engine_table[] = {
    {"requests_running", "", "gauge", FIELD(running), 0,
     "Sequences in the running batch."},
    {"requests_waiting", "where=\"local\"", "gauge", FIELD(waiting), 0,
     "Requests in this worker that wait for the engine; further ones wait in Kafka."},
    {"requests_prefilling", "", "gauge", FIELD(prefilling), 0,
     "Requests whose prompt is being computed in chunks."},
    {"kv_blocks", "state=\"free\"", "gauge", FIELD(cache.free_count), 0,
     "KV blocks: free (empty), cached (reusable, evicted when needed) or held (in use by requests)."},
    {"kv_blocks", "state=\"cached\"", "gauge", FIELD(cache.cached_count), 0, ""},
    {"kv_blocks", "state=\"held\"", "gauge", FIELD(cache.held_count), 0, ""},
    {"kv_blocks_kept", "", "gauge", FIELD(cache.kept_count), 0,
     "Cached KV blocks of sessions, which are evicted after all other cached blocks."},
    {"kv_evictions_total", "", "counter", FIELD(cache.evictions), 0,
     "Cached KV blocks evicted to make room for other tokens."},
    {"kv_copies_total", "", "counter", FIELD(cache.copies), 0,
     "KV blocks of which a prompt shared only the first tokens, so those were copied."},
    {"prefix_cache_queries_tokens_total", "tier=\"local\"", "counter", FIELD(cache.queries_tokens), 0,
     "Prompt tokens looked up in the local prefix cache."},
    {"prefix_cache_hits_tokens_total", "tier=\"local\"", "counter", FIELD(cache.hit_tokens), 0,
     "Prompt tokens found in the local prefix cache."},
    {"prompt_cache_hits_total", "", "counter", FIELD(prompt_cache_hits), 0,
     "Prompts found in the complete-prompt cache, which needed no computing."},
    {"prompt_cache_misses_total", "", "counter", FIELD(prompts.misses), 0,
     "Prompts not found in the complete-prompt cache."},
    {"prompt_cache_entries", "", "gauge", FIELD(prompts.count), 0,
     "Entries in the complete-prompt cache."},
    {"prompt_cache_evictions_total", "", "counter", FIELD(prompts.evictions), 0,
     "Complete-prompt entries evicted to make room for others."},
    {"prompt_cache_expirations_total", "", "counter", FIELD(prompts.expirations), 0,
     "Complete-prompt entries removed because they were unused for --prompt-entry-ttl."},
    {"shared_cache_asks_total", "", "counter", FIELD(remote.lookups), 0,
     "Prompts looked up in the remote cache."},
    {"shared_cache_asks_refused_total", "", "counter", FIELD(remote.lookups_refused), 0,
     "Prompt lookups not sent to the remote cache because its queue was full or Redis unreachable."},
    {"shared_cache_hits_total", "", "counter", FIELD(remote.hits), 0,
     "Prompts of which the remote cache had at least one block."},
    {"shared_cache_asked_tokens_total", "", "counter", FIELD(remote.lookup_tokens), 0,
     "Prompt tokens looked up in the remote cache."},
    {"shared_cache_there_tokens_total", "", "counter", FIELD(remote.found_tokens), 0,
     "Prompt tokens that a lookup found in the remote cache."},
    {"shared_cache_loads_total", "", "counter", FIELD(remote.loads), 0,
     "Loads of KV blocks from the remote cache that were started, one per request."},
    {"shared_cache_loaded_tokens_total", "", "counter", FIELD(remote.loaded_tokens), 0,
     "Prompt tokens loaded from the remote cache instead of computed."},
    {"shared_cache_loaded_entries_total", "", "counter", FIELD(remote.loaded_entries), 0,
     "Complete prompts (KV and logits) loaded from the remote cache."},
    {"shared_cache_loaded_bytes_total", "", "counter", FIELD(remote.loaded_bytes), 0,
     "Bytes of KV blocks loaded from the remote cache."},
    {"shared_cache_missing_items_total", "", "counter", FIELD(remote.missing_values), 0,
     "Blocks that a lookup found in the remote cache but the load did not, for example because Redis evicted them."},
    {"shared_cache_unused_items_total", "", "counter", FIELD(remote.unused_values), 0,
     "Blocks that arrived from the remote cache after the worker had computed them or ended the request."},
    {"shared_cache_holds_given_up_total", "", "counter", FIELD(remote.waits_ended), 0,
     "Requests that stopped waiting for a load and computed the rest of the prompt."},
    {"shared_cache_stored_items_total", "", "counter", FIELD(remote.stored_values), 0,
     "Blocks stored in the remote cache."},
    {"shared_cache_stored_bytes_total", "", "counter", FIELD(remote.stored_bytes), 0,
     "Bytes of KV blocks stored in the remote cache."},
    {"shared_cache_stores_refused_total", "", "counter", FIELD(remote.stores_refused), 0,
     "Stores not sent to the remote cache because its queue was full or Redis unreachable."},
    {"shared_cache_stores_lost_total", "", "counter", FIELD(remote.stores_lost), 0,
     "Blocks queued for the remote cache that were not stored."},
    {"shared_cache_saved_seconds_total", "", "counter", FIELD(remote.saved_ms), 1e3,
     "Predicted computing time saved by loads from the remote cache."},
    {"shared_cache_import_seconds_total", "", "counter", FIELD(remote.import_ns), 1e9,
     "Engine time spent copying loaded blocks into the KV pool."},
    {"shared_cache_export_seconds_total", "", "counter", FIELD(remote.export_ns), 1e9,
     "Engine time spent copying blocks to be stored out of the KV pool."},
    {"shared_cache_buffers_free", "", "gauge", FIELD(remote.staging_free), 0,
     "Free staging buffers between the KV pool and the connections to Redis."},
    {"prompt_tokens_total", "", "counter", FIELD(prompt_tokens), 0,
     "Prompt tokens computed by the model, without cached tokens."},
    {"generation_tokens_total", "", "counter", FIELD(generated_tokens), 0,
     "Tokens generated."},
    {"cached_tokens_total", "", "counter", FIELD(cached_tokens), 0,
     "Prompt tokens served from the local or the remote cache instead of computed."},
    {"cached_tokens_redis_total", "", "counter", FIELD(cached_tokens_redis), 0,
     "Prompt tokens served from the remote cache instead of computed."},
    {"preemptions_total", "", "counter", FIELD(preemptions), 0,
     "Running sequences preempted because the KV pool was full."},
    {"recomputed_tokens_total", "", "counter", FIELD(recomputed_tokens), 0,
     "Tokens computed again after a preemption."},
    {"spec_decode_num_drafts_total", "", "counter", FIELD(drafts), 0,
     "Checks of the drafts of one sequence in one step."},
    {"spec_decode_num_draft_tokens_total", "", "counter", FIELD(draft_tokens), 0,
     "Draft tokens that steps checked."},
    {"spec_decode_num_accepted_tokens_total", "", "counter", FIELD(accepted_draft_tokens), 0,
     "Draft tokens accepted: generated tokens that needed no step of their own."},
    {"steps_total", "", "counter", FIELD(steps), 0,
     "Steps of the model: batches given to it. A wake-up that finds nothing to compute is none."},
    {"model_seconds_total", "", "counter", FIELD(model_ns), 1e9,
     "Time spent inside the model."},
    {"step_seconds_total", "", "counter", FIELD(step_ns_total), 1e9,
     "Time spent in engine steps, including the model."},
};
/* clang-format on */

static void put_engine_metric(FILE *out, const struct engine_metric *metric,
                              const struct mr_engine_stats *engine)
{
    const char *field = (const char *)engine + metric->offset;
    char name[80];
    snprintf(name, sizeof name, "millrace_%s", metric->name);
    if (metric->help[0]) mr_metric_put_head(out, name, metric->type, metric->help);
    fprintf(out, metric->labels[0] ? "%s{%s} " : "%s%s ", name, metric->labels);
    if (metric->field_type == FIELD_DOUBLE)
        fprintf(out, "%.17g\n", *(const double *)field / metric->divisor);
    else {
        uint64_t count =
            metric->field_type == FIELD_U32 ? *(const uint32_t *)field : *(const uint64_t *)field;
        if (metric->divisor > 0)
            fprintf(out, "%.17g\n", (double)count / metric->divisor);
        else
            fprintf(out, "%" PRIu64 "\n", count);
    }
}

static void put_shared_decisions(FILE *out, const struct mr_remote_prefix_stats *shared)
{
    static const char *const name = "millrace_shared_cache_decisions_total";
    mr_metric_put_head(
        out, name, "counter",
        "Prompts with blocks in the remote cache, by the decision to load or to compute them.");
    for (unsigned i = 0; i < MR_LOAD_VERDICT_COUNT; i++)
        fprintf(out, "%s{decision=\"%s\"} %" PRIu64 "\n", name,
                mr_load_verdict_name((enum mr_load_verdict)i), shared->decisions[i]);
}

void mr_engine_metrics_print(const struct mr_engine_stats *engine, FILE *out)
{
    for (size_t i = 0; i < COUNT_OF(engine_table); i++)
        put_engine_metric(out, &engine_table[i], engine);
    double used = engine->cache.block_count
                      ? (double)engine->cache.held_count / engine->cache.block_count
                      : 0;
    mr_metric_put_value(out, "millrace_kv_usage_ratio", "gauge",
                        "Share of the KV blocks that running requests hold, 0 to 1.", used);
    put_shared_decisions(out, &engine->remote);
}
