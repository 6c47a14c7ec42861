/* kafka_login - user and password of a worker's Kafka clients (SASL PLAIN and SCRAM), and how both
 * change while the clients run. Only values that --kafka reads from a file, as in
 * sasl.password=@FILE, can change.
 *
 * librdkafka uses a changed password at the next login of a client: when it connects, or when the
 * broker demands a new login (connections.max.reauth.ms). Connections are not closed.
 *
 * Threads: any, one mutex. Memory: the texts, and a list of at most MR_KAFKA_LOGIN_CLIENTS clients.
 * Errors: MR_BAD_CONFIG, MR_NOMEM; never the text of a password. */
#ifndef MR_WORKER_KAFKA_KAFKA_LOGIN_H
#define MR_WORKER_KAFKA_KAFKA_LOGIN_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdbool.h>

#define MR_KAFKA_LOGIN_CLIENTS ((size_t)64) /* a worker has about ten */

struct mr_kafka_login;
struct rd_kafka_s;
struct rd_kafka_conf_s;

/* The configuration is borrowed. */
enum mr_status mr_kafka_login_create(struct mr_kafka_login **out, const struct mr_config *config,
                                     struct mr_error *err);
/* login may be NULL. */
void mr_kafka_login_destroy(struct mr_kafka_login *login);

/* For a client that is being created: sets user and password in its configuration if a file has
 * changed since the start. login may be NULL. */
enum mr_status mr_kafka_login_apply(struct mr_kafka_login *login, struct rd_kafka_conf_s *conf,
                                    bool is_producer, struct mr_error *err);
/* _add: a client was created. _remove: call it before the client is destroyed. login may be NULL.
 */
void mr_kafka_login_add(struct mr_kafka_login *login, struct rd_kafka_s *rk, bool is_producer);
void mr_kafka_login_remove(struct mr_kafka_login *login, const struct rd_kafka_s *rk);

/* Whether --kafka takes a user or a password from a file. */
bool mr_kafka_login_has_files(const struct mr_kafka_login *login);
/* Reads the files again; all clients, also later ones, then log in with the new content.
 * MR_BAD_CONFIG: a file cannot be used; all clients keep the old content. */
enum mr_status mr_kafka_login_reread(struct mr_kafka_login *login, struct mr_error *err);

#endif
