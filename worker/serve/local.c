#include "worker/serve/local.h"

#include "codec/template/chat_template.h"
#include "ops/files/mapped_file.h"
#include "ops/files/model_files.h"
#include "worker/engine/engine_setup.h"
#include "worker/trace/collector.h"

/* Timeout of the transfer of one block: the largest value (8 MiB) at 4 MB/s. A Redis that is slower
 * than that counts as failed. */
#define TRANSFER_TIMEOUT_NS ((uint64_t)2000000000)
/* Most bytes of blocks that wait to be stored: 32 of the largest values, which a Redis that takes
 * 100 MB/s stores in 3 s. Further blocks are dropped, and other workers compute them. */
#define STORE_BYTES_MAX ((uint64_t)256 << 20)

struct mr_redis_cache_options mr_local_redis(const struct mr_config *config, struct mr_log *log)
{
    return (struct mr_redis_cache_options){
        .url = config->redis,
        .password_file = config->redis_password_file,
        .key_file = config->redis_key_file,
        .tls = {config->redis_ca, config->redis_cert, config->redis_cert_key},
        .connections = config->redis_connections,
        .lookup_timeout_ns = config->redis_timeout_ns,
        .transfer_timeout_ns = TRANSFER_TIMEOUT_NS,
        .ttl_ns = config->redis_ttl_ns,
        .store_bytes_max = STORE_BYTES_MAX,
        .write_budget = config->redis_write_budget,
        .codec = config->redis_kv == MR_REDIS_KV_INT8 ? MR_FRAME_INT8 : MR_FRAME_EXACT,
        .second_touch = config->redis_second_touch,
        .log = log};
}

static enum mr_status check_trace(const char *url, struct mr_error *err)
{
    struct mr_collector collector;
    struct mr_error inner = {0};
    if (mr_collector_parse(&collector, url, &inner) == MR_OK) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "--trace-endpoint: %.200s", inner.detail);
}

enum mr_status mr_local_check(const struct mr_config *config, struct mr_error *err)
{
    struct mr_redis_cache_options redis = mr_local_redis(config, NULL);
    enum mr_status status = mr_engine_setup_check(config, err);
    if (status == MR_OK && config->trace_endpoint[0])
        status = check_trace(config->trace_endpoint, err);
    if (status != MR_OK || !config->redis[0]) return status;
    return mr_redis_cache_check(&redis, err);
}

static enum mr_status replace_template(struct mr_model_source *source, const char *path,
                                       struct mr_error *err)
{
    struct mr_mapped_file file;
    enum mr_status status = mr_mapped_file_open(&file, path, err);
    if (status != MR_OK) return status;
    status = mr_model_source_replace_text(&source->chat_template, mr_mapped_file_text(&file), err);
    if (status == MR_OK)
        status = mr_model_source_replace_text(&source->tool_template, (struct mr_text){"", 0}, err);
    mr_mapped_file_close(&file);
    return status;
}

/* An empty text means that there is no template. */
static enum mr_status try_template(struct mr_text text, const struct mr_special_texts *special,
                                   struct mr_error *err)
{
    struct mr_chat_template *chat = NULL;
    if (text.length == 0) return MR_OK;
    enum mr_status status = mr_chat_template_compile(&chat, text, special, err);
    mr_chat_template_destroy(chat);
    return status;
}

enum mr_status mr_local_read_template(struct mr_model_source *source,
                                      const struct mr_config *config, struct mr_error *err)
{
    struct mr_error inner = {0};
    enum mr_status status = MR_OK;
    bool replaced = config->chat_template[0] != '\0';
    if (replaced) status = replace_template(source, config->chat_template, err);
    if (status != MR_OK) return status;
    status = try_template(source->chat_template, &source->special, &inner);
    if (status == MR_OK) status = try_template(source->tool_template, &source->special, &inner);
    if (status == MR_OK) return MR_OK;
    if (replaced) return mr_fail(err, status, "%.80s: %.150s", config->chat_template, inner.detail);
    return mr_fail(err, status, "%.150s; --chat-template FILE replaces it", inner.detail);
}

enum mr_status mr_local_open_model(struct mr_model_source *out, const struct mr_config *config,
                                   struct mr_error *err)
{
    enum mr_status status = mr_model_files_read(out, config->model, err);
    if (status == MR_OK) status = mr_model_check_files(out, err);
    if (status == MR_OK) status = mr_local_read_template(out, config, err);
    if (status != MR_OK) mr_model_source_close(out);
    return status;
}

enum mr_exit mr_local_model_exit(enum mr_status status)
{
    return status == MR_BAD_CONFIG ? MR_EXIT_USAGE : MR_EXIT_MODEL;
}
