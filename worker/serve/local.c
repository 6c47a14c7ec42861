#include "worker/serve/local.h"

#include "codec/template/chat_template.h"
#include "ops/files/mapped_file.h"
#include "ops/files/model_files.h"
#include "worker/config/option_apply.h"
#include "worker/engine/engine_setup.h"
#include "worker/trace/collector.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Timeout of the transfer of one block: the largest value (8 MiB) at 4 MB/s. A Redis that is slower
 * than that is treated as failed. */
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

static enum mr_status check_trace(const struct mr_config *config, struct mr_error *err)
{
    struct mr_collector collector;
    struct mr_error inner = {0};
    if (mr_collector_parse(&collector, config->trace_endpoint, &inner) == MR_OK) return MR_OK;
    return mr_option_refuse(config, "trace-endpoint", 0, err, "%s", inner.detail);
}

/* The folder may be missing if its parent exists: a mistyped path must not create a tree of
 * folders. */
static enum mr_status check_state_dir(const struct mr_config *config, struct mr_error *err)
{
    char path[PATH_MAX];
    struct stat found;
    struct statvfs space;
    snprintf(path, sizeof path, "%s", config->state_dir);
    const char *folder = stat(path, &found) == 0 ? path : dirname(path);
    if (stat(folder, &found) != 0 || !S_ISDIR(found.st_mode))
        return mr_option_refuse(config, "state-dir", 0, err,
                                "the folder %.120s does not exist; create it", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return mr_option_refuse(config, "state-dir", 0, err, "%.120s: %s", folder, strerror(errno));
    if (statvfs(folder, &space) == 0 && space.f_blocks > 0 &&
        (space.f_bavail == 0 || (space.f_files > 0 && space.f_favail == 0)))
        return mr_option_refuse(config, "state-dir", 0, err, "the file system is full");
    return MR_OK;
}

enum mr_status mr_local_check(const struct mr_config *config, struct mr_error *err)
{
    struct mr_redis_cache_options redis = mr_local_redis(config, NULL);
    enum mr_status status = mr_engine_setup_check(config, err);
    if (status == MR_OK && config->trace_endpoint[0]) status = check_trace(config, err);
    if (status == MR_OK && config->state_dir[0]) status = check_state_dir(config, err);
    if (status != MR_OK || !config->redis[0]) return status;
    return mr_redis_cache_check(&redis, err);
}

/* ---- secrets ---- */

static void check_secret(const char *what, const char *path, mr_local_report *report, void *context)
{
    char text[512];
    struct stat found;
    if (!path[0] || stat(path, &found) != 0 || !(found.st_mode & S_IROTH)) return;
    snprintf(text, sizeof text,
             "%s: every user of this machine can read %.200s (mode %04o); run "
             "chmod o-r on it",
             what, path, (unsigned)(found.st_mode & 07777));
    report(context, text);
}

/* The file of a property such as sasl.password=@FILE, or the key file that ssl.key.location names.
 */
static const char *file_of(const char *property)
{
    const char *value = strchr(property, '=');
    if (!value) return "";
    if (value[1] == '@' && value[2] != '@') return value + 2;
    return strncmp(property, "ssl.key.location=", 17) == 0 ? value + 1 : "";
}

/* True when the file of --config has a password: a value that is masked when it is printed. */
static bool config_has_secret(const struct mr_config *config)
{
    char text[512];
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        if (mr_option_origin(config, option) != MR_ORIGIN_FILE) continue;
        for (size_t k = 0; k < mr_option_value_count(config, option); k++) {
            mr_option_value_text(config, option, k, text, sizeof text);
            if (strstr(text, "***")) return true;
        }
    }
    return false;
}

void mr_local_check_secrets(const struct mr_config *config, mr_local_report *report, void *context)
{
    check_secret("--redis-password-file", config->redis_password_file, report, context);
    check_secret("--redis-key-file", config->redis_key_file, report, context);
    check_secret("--redis-cert-key", config->redis_cert_key, report, context);
    for (size_t i = 0; i < config->kafka_given.count; i++)
        check_secret("--kafka", file_of(config->kafka_given.values[i]), report, context);
    if (config_has_secret(config)) check_secret("--config", config->config, report, context);
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
