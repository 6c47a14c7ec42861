/* local - checks of a worker's configuration that need no server: options, the files named by them,
 * and the model's files. `serve` makes them before it connects to anything, and `check` reports
 * them; both call the same functions.
 *
 * Owner: the main thread. Memory: see below. */
#ifndef MR_WORKER_SERVE_LOCAL_H
#define MR_WORKER_SERVE_LOCAL_H

#include "ops/files/model_source.h"
#include "worker/config/config.h"
#include "worker/remote_cache/redis_cache.h"
#include "worker/serve/parts.h"

/* Checks device, dtype, the URL of --trace-endpoint, the folder of --state-dir, and with --redis
 * the URL, the password and key files and the certificates. MR_BAD_CONFIG. */
enum mr_status mr_local_check(const struct mr_config *config, struct mr_error *err);
/* Reads the model's files into *out, which the caller closes. Checks everything in them that
 * `serve` needs except the weights' values: headers, configuration, tokenizer, tensors and their
 * shapes, chat template. MR_BAD_FILE. */
enum mr_status mr_local_open_model(struct mr_model_source *out, const struct mr_config *config,
                                   struct mr_error *err);

/* Replaces the model's template by the one of --chat-template, if given, and compiles it as intake
 * does. MR_BAD_FILE with the line and column of the mistake. A model may have no template. */
enum mr_status mr_local_read_template(struct mr_model_source *source,
                                      const struct mr_config *config, struct mr_error *err);

/* Called with one warning: a sentence. */
typedef void mr_local_report(void *context, const char *text);
/* Reports files with passwords or keys that every user of the machine can read. */
void mr_local_check_secrets(const struct mr_config *config, mr_local_report *report, void *context);

/* The options of the remote cache; the texts are borrowed from config. */
struct mr_redis_cache_options mr_local_redis(const struct mr_config *config, struct mr_log *log);

/* The exit code of a model that could not be opened: usage for options that do not fit it. */
enum mr_exit mr_local_model_exit(enum mr_status status);

#endif
