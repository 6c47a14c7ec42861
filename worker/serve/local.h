/* local - what of a worker's configuration can be checked without a server: options, the files that
 * they name, and the model's files. `serve` checks all of it before it connects to anything, and
 * `check` reports it; both call the same functions.
 *
 * Owner: the main thread. Memory: see below. */
#ifndef MR_WORKER_SERVE_LOCAL_H
#define MR_WORKER_SERVE_LOCAL_H

#include "ops/files/model_source.h"
#include "worker/config/config.h"
#include "worker/remote_cache/redis_cache.h"
#include "worker/serve/parts.h"

/* Checks device, dtype, the URL of --trace-endpoint, and with --redis the URL, the password and key
 * files and the certificates. MR_BAD_CONFIG. */
enum mr_status mr_local_check(const struct mr_config *config, struct mr_error *err);
/* Reads the model's files into *out, which the caller closes, and checks all that `serve` needs of
 * them except the numbers: headers, configuration, tokenizer, tensors and their shapes, chat
 * template. MR_BAD_FILE. */
enum mr_status mr_local_open_model(struct mr_model_source *out, const struct mr_config *config,
                                   struct mr_error *err);

/* Puts the template of --chat-template, if given, in place of the model's, and compiles it as
 * intake does. MR_BAD_FILE with the line and column of the mistake. A model without template is
 * fine. */
enum mr_status mr_local_read_template(struct mr_model_source *source,
                                      const struct mr_config *config, struct mr_error *err);

/* The options of the Redis cache; the texts are borrowed from config. */
struct mr_redis_cache_options mr_local_redis(const struct mr_config *config, struct mr_log *log);

/* The exit code of a model that could not be opened: usage for options that do not fit it. */
enum mr_exit mr_local_model_exit(enum mr_status status);

#endif
