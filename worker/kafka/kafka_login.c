#include "worker/kafka/kafka_login.h"

#include "worker/config/value_file.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct client {
    rd_kafka_t *rk;
    bool is_producer;
};

struct mr_kafka_login {
    const struct mr_config *config;
    pthread_mutex_t mutex;     /* protects all below */
    char *values[MR_LIST_MAX]; /* [config->kafka.count] content of a file; NULL: as configured */
    struct client clients[MR_KAFKA_LOGIN_CLIENTS];
    size_t client_count;
};

enum mr_status mr_kafka_login_create(struct mr_kafka_login **out, const struct mr_config *config,
                                     struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_login *login = calloc(1, sizeof *login);
    if (!login) return mr_fail(err, MR_NOMEM, "no memory for the logins to Kafka");
    login->config = config;
    pthread_mutex_init(&login->mutex, NULL);
    *out = login;
    return MR_OK;
}

static void free_secret(char *text)
{
    if (text) explicit_bzero(text, strlen(text));
    free(text);
}

void mr_kafka_login_destroy(struct mr_kafka_login *login)
{
    if (!login) return;
    for (size_t i = 0; i < MR_LIST_MAX; i++)
        free_secret(login->values[i]);
    pthread_mutex_destroy(&login->mutex);
    free(login);
}

/* ---- the properties ---- */

/* The property's name without its prefix; *consumers, *producers: the kinds of clients that it
 * applies to. */
static const char *name_of(const char *property, bool *consumers, bool *producers)
{
    bool for_consumers = strncmp(property, "consumer.", 9) == 0;
    bool for_producers = strncmp(property, "producer.", 9) == 0;
    *consumers = !for_producers;
    *producers = !for_consumers;
    return for_consumers || for_producers ? property + 9 : property;
}

static bool is_named(const char *property, const char *name)
{
    size_t length = strlen(name);
    return strncmp(property, name, length) == 0 && property[length] == '=';
}

/* The file of a user or a password; NULL: the property is something else, or not from a file. */
static const char *file_of(const char *given)
{
    bool consumers, producers;
    const char *property = name_of(given, &consumers, &producers);
    if (!is_named(property, "sasl.password") && !is_named(property, "sasl.username")) return NULL;
    const char *value = strchr(property, '=') + 1;
    return value[0] == '@' && value[1] != '@' ? value + 1 : NULL;
}

/* Returns the current value of a property for one kind of client: the last one given, as in
 * librdkafka. NULL: none is given. */
static const char *value_of(const struct mr_kafka_login *login, const char *name, bool is_producer)
{
    const struct mr_text_list *list = &login->config->kafka;
    for (size_t i = list->count; i > 0; i--) {
        bool consumers, producers;
        const char *property = name_of(list->values[i - 1], &consumers, &producers);
        if (!(is_producer ? producers : consumers) || !is_named(property, name)) continue;
        return login->values[i - 1] ? login->values[i - 1] : strchr(property, '=') + 1;
    }
    return NULL;
}

static enum mr_status set(rd_kafka_conf_t *conf, const char *name, const char *value,
                          struct mr_error *err)
{
    char reason[8]; /* not shown: it would quote the value */
    if (!value || rd_kafka_conf_set(conf, name, value, reason, sizeof reason) == RD_KAFKA_CONF_OK)
        return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG,
                   "Kafka property %s: the content of its file is not a valid value", name);
}

enum mr_status mr_kafka_login_apply(struct mr_kafka_login *login, rd_kafka_conf_t *conf,
                                    bool is_producer, struct mr_error *err)
{
    if (!login) return MR_OK;
    pthread_mutex_lock(&login->mutex);
    enum mr_status status =
        set(conf, "sasl.username", value_of(login, "sasl.username", is_producer), err);
    if (status == MR_OK)
        status = set(conf, "sasl.password", value_of(login, "sasl.password", is_producer), err);
    pthread_mutex_unlock(&login->mutex);
    return status;
}

/* ---- the clients ---- */

void mr_kafka_login_add(struct mr_kafka_login *login, rd_kafka_t *rk, bool is_producer)
{
    if (!login) return;
    pthread_mutex_lock(&login->mutex);
    if (login->client_count < MR_KAFKA_LOGIN_CLIENTS)
        login->clients[login->client_count++] = (struct client){rk, is_producer};
    pthread_mutex_unlock(&login->mutex);
}

void mr_kafka_login_remove(struct mr_kafka_login *login, const rd_kafka_t *rk)
{
    if (!login) return;
    pthread_mutex_lock(&login->mutex);
    for (size_t i = 0; i < login->client_count; i++)
        if (login->clients[i].rk == rk) login->clients[i--] = login->clients[--login->client_count];
    pthread_mutex_unlock(&login->mutex);
}

/* ---- changes ---- */

bool mr_kafka_login_has_files(const struct mr_kafka_login *login)
{
    for (size_t i = 0; i < login->config->kafka_given.count; i++)
        if (file_of(login->config->kafka_given.values[i])) return true;
    return false;
}

static enum mr_status read_files(const struct mr_kafka_login *login, char *values[MR_LIST_MAX],
                                 struct mr_error *err)
{
    const struct mr_text_list *given = &login->config->kafka_given;
    char *value = malloc(MR_VALUE_FILE_BYTES);
    enum mr_status status = value ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for a password");
    size_t length = 0;
    for (size_t i = 0; status == MR_OK && i < given->count; i++) {
        const char *path = file_of(given->values[i]);
        if (!path) continue;
        status = mr_value_file_read(path, value, &length, err);
        if (status == MR_OK && !(values[i] = strdup(value)))
            status = mr_fail(err, MR_NOMEM, "no memory for a password");
        explicit_bzero(value, MR_VALUE_FILE_BYTES);
    }
    free(value);
    return status;
}

/* librdkafka needs both user and password. */
static void log_in(const struct mr_kafka_login *login, const struct client *client)
{
    const char *user = value_of(login, "sasl.username", client->is_producer);
    const char *password = value_of(login, "sasl.password", client->is_producer);
    if (!user || !password) return;
    rd_kafka_error_t *error = rd_kafka_sasl_set_credentials(client->rk, user, password);
    if (error) rd_kafka_error_destroy(error);
}

enum mr_status mr_kafka_login_reread(struct mr_kafka_login *login, struct mr_error *err)
{
    char *values[MR_LIST_MAX] = {0};
    enum mr_status status = read_files(login, values, err);
    pthread_mutex_lock(&login->mutex);
    for (size_t i = 0; status == MR_OK && i < MR_LIST_MAX; i++) {
        char *before = login->values[i];
        login->values[i] = values[i];
        values[i] = before;
    }
    for (size_t i = 0; status == MR_OK && i < login->client_count; i++)
        log_in(login, &login->clients[i]);
    pthread_mutex_unlock(&login->mutex);
    for (size_t i = 0; i < MR_LIST_MAX; i++)
        free_secret(values[i]);
    return status;
}
