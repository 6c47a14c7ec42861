#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_conn_state.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A TLS server of OpenSSL at the other end of a socket pair, with a self-signed certificate for
 * "redis.example". */
static char folder[] = "/tmp/mr-tls-XXXXXX", authority[64], other[64];
static SSL_CTX *server_context;

static void add_name(X509 *certificate)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, &context, NID_subject_alt_name, "DNS:redis.example");
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
}

static X509 *make_certificate(EVP_PKEY *key, const char *path)
{
    X509 *certificate = X509_new();
    X509_set_version(certificate, 2);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)path, -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    add_name(certificate);
    X509_sign(certificate, key, EVP_sha256());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    PEM_write_X509(file, certificate);
    fclose(file);
    return certificate;
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(authority, sizeof authority, "%s/ca.pem", folder);
    snprintf(other, sizeof other, "%s/other.pem", folder);
    EVP_PKEY *key = EVP_EC_gen("P-256"), *other_key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key, authority);
    X509_free(make_certificate(other_key, other));
    server_context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(server_context, certificate);
    SSL_CTX_use_PrivateKey(server_context, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other_key);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    SSL_CTX_free(server_context);
    unlink(authority);
    unlink(other);
    rmdir(folder);
    return 0;
}

struct pair {
    struct mr_redis_tls_context *context;
    struct mr_redis_tls *client;
    SSL *server;
    int fds[2];
};

static struct pair pair_open(const char *authorities, const char *host)
{
    struct pair pair = {0};
    struct mr_redis_tls_files files = {authorities, "", ""};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.fds), 0);
    assert_int_equal(mr_redis_tls_context_create(&pair.context, &files, NULL), MR_OK);
    assert_int_equal(mr_redis_tls_open(&pair.client, pair.context, pair.fds[0], host, NULL), MR_OK);
    pair.server = SSL_new(server_context);
    SSL_set_fd(pair.server, pair.fds[1]);
    SSL_set_accept_state(pair.server);
    return pair;
}

static enum mr_status shake_hands(struct pair *pair, struct mr_error *err)
{
    enum mr_status status = MR_AGAIN;
    for (int i = 0; i < 20 && status == MR_AGAIN; i++) {
        status = mr_redis_tls_handshake(pair->client, err);
        SSL_do_handshake(pair->server);
    }
    return status;
}

static void pair_close(struct pair *pair)
{
    mr_redis_tls_close(pair->client);
    mr_redis_tls_context_destroy(pair->context);
    SSL_free(pair->server);
    close(pair->fds[0]);
    close(pair->fds[1]);
}

static void bytes_go_both_ways(void **state)
{
    struct pair pair = pair_open(authority, "redis.example");
    char heard[8] = "";
    (void)state;
    assert_int_equal(shake_hands(&pair, NULL), MR_OK);
    assert_int_equal(mr_redis_tls_read(pair.client, heard, sizeof heard), 0);
    assert_int_equal(mr_redis_tls_write(pair.client, "hello", 5), 5);
    assert_int_equal(SSL_read(pair.server, heard, sizeof heard), 5);
    assert_string_equal(heard, "hello");
    assert_int_equal(SSL_write(pair.server, "world", 5), 5);
    assert_int_equal(mr_redis_tls_read(pair.client, heard, sizeof heard), 5);
    assert_string_equal(heard, "world");
    SSL_shutdown(pair.server);
    assert_int_equal(mr_redis_tls_read(pair.client, heard, sizeof heard), -1);
    pair_close(&pair);
}

static void another_name_or_authority_is_refused(void **state)
{
    struct mr_error err = {0};
    struct pair wrong_name = pair_open(authority, "other.example");
    struct pair wrong_address = pair_open(authority, "127.0.0.1");
    struct pair wrong_authority = pair_open(other, "redis.example");
    (void)state;
    assert_int_equal(shake_hands(&wrong_name, &err), MR_UNREACHABLE);
    assert_int_equal(shake_hands(&wrong_address, &err), MR_UNREACHABLE);
    assert_int_equal(shake_hands(&wrong_authority, &err), MR_UNREACHABLE);
    assert_non_null(strstr(err.detail, "certificate"));
    pair_close(&wrong_name);
    pair_close(&wrong_address);
    pair_close(&wrong_authority);
}

static void a_server_without_tls_is_refused(void **state)
{
    struct pair pair = pair_open(authority, "redis.example");
    (void)state;
    assert_int_equal(send(pair.fds[1], "-ERR unknown command\r\n", 22, 0), 22);
    enum mr_status status = MR_AGAIN;
    for (int i = 0; i < 20 && status == MR_AGAIN; i++)
        status = mr_redis_tls_handshake(pair.client, NULL);
    assert_int_equal(status, MR_UNREACHABLE);
    pair_close(&pair);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    struct mr_redis_tls_context *context;
    struct mr_redis_tls_files missing = {"/nowhere.pem", "", ""},
                              key = {authority, authority, "/no"};
    struct mr_error err = {0};
    (void)state;
    assert_int_equal(mr_redis_tls_context_create(&context, &missing, &err), MR_BAD_CONFIG);
    assert_null(context);
    assert_int_equal(mr_redis_tls_context_create(&context, &key, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "key"));
}

/* ---- a connection with TLS, over a unix socket ---- */

#define RECORD  16384u          /* most bytes of a TLS record */
#define FIRST   (RECORD - 100u) /* bytes of the first record of the reply */
#define RECORDS 64u             /* records after it */
#define REPLY   (FIRST + RECORDS * RECORD)
#define VALUE   (REPLY - 10u - 2u) /* the reply without "$1064848\r\n" and the last CR LF */
#define WORDS   3000u

struct rig {
    struct mr_redis_tls_context *context;
    struct mr_redis_conn *conn;
    SSL *server;
    int door, peer;
    char path[80];
    char reply[REPLY], value[VALUE];
    size_t sent; /* bytes of the reply */
    struct mr_redis_command get, words[WORDS];
};

static void accept_client(struct rig *rig)
{
    char ping[64];
    for (int i = 0; i < 100 && !mr_redis_conn_is_ready(rig->conn); i++) {
        mr_redis_conn_step(rig->conn, 1);
        if (rig->peer < 0) rig->peer = accept4(rig->door, NULL, NULL, SOCK_NONBLOCK);
        if (rig->peer >= 0 && !SSL_get_wbio(rig->server)) SSL_set_fd(rig->server, rig->peer);
        if (rig->peer >= 0 && SSL_read(rig->server, ping, sizeof ping) > 0)
            assert_int_equal(SSL_write(rig->server, "+PONG\r\n", 7), 7);
    }
    assert_true(mr_redis_conn_is_ready(rig->conn));
}

static struct rig *rig_open(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    struct mr_redis_tls_files files = {authority, "", ""};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct mr_redis_conn_options options = {.where = {.host = "redis.example", .tls = true},
                                            .connect_timeout_ns = 1000};
    snprintf(rig->path, sizeof rig->path, "%s/socket", folder);
    memcpy(address.sun_path, rig->path, strlen(rig->path));
    memcpy(options.where.path, rig->path, strlen(rig->path));
    rig->peer = -1;
    rig->door = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(rig->door, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(rig->door, 1), 0);
    assert_int_equal(mr_redis_tls_context_create(&rig->context, &files, NULL), MR_OK);
    options.tls = rig->context;
    rig->server = SSL_new(server_context);
    SSL_set_accept_state(rig->server);
    assert_int_equal(mr_redis_conn_create(&rig->conn, &options, NULL), MR_OK);
    assert_int_equal(mr_redis_conn_open(rig->conn, 0, NULL), MR_OK);
    accept_client(rig);
    return rig;
}

static void rig_close(struct rig *rig)
{
    mr_redis_conn_close(rig->conn);
    for (struct mr_redis_command *command; (command = mr_redis_conn_take(rig->conn)) != NULL;)
        mr_redis_command_end(command);
    mr_redis_conn_destroy(rig->conn);
    mr_redis_tls_context_destroy(rig->context);
    SSL_free(rig->server);
    close(rig->peer);
    close(rig->door);
    unlink(rig->path);
    free(rig);
}

/* The server sends as much of the reply as its socket accepts, in whole records. */
static void send_reply(struct mr_redis_command *command, const void *bytes, size_t length)
{
    struct rig *rig = command->owner;
    (void)bytes, (void)length;
    while (rig->sent < REPLY) {
        const size_t part = rig->sent == 0 ? FIRST : RECORD;
        if (SSL_write(rig->server, rig->reply + rig->sent, (int)part) <= 0) return;
        rig->sent += part;
    }
}

/* A step ends after 1 MiB. Here the rest of the reply, CR LF, was decrypted with the value's last
 * record: the socket is empty and never wakes the thread again. */
static void bytes_that_were_decrypted_wake_the_connection(void **state)
{
    struct rig *rig = rig_open();
    struct mr_redis_value value = {.key = "k", .key_length = 1, .payload = rig->value};
    char request[64];
    (void)state;
    assert_int_equal(snprintf(rig->reply, sizeof rig->reply, "$%u\r\n", VALUE), 10);
    memcpy(rig->reply + REPLY - 2, "\r\n", 2);
    value.length = VALUE;
    mr_redis_command_get(&rig->get, &value);
    rig->get.deadline_ns = 100;
    rig->get.owner = rig;
    rig->get.on_bytes = send_reply;
    mr_redis_conn_send(rig->conn, &rig->get);
    mr_redis_conn_step(rig->conn, 1);
    assert_true(SSL_read(rig->server, request, sizeof request) > 0);
    send_reply(&rig->get, NULL, 0);
    mr_redis_conn_step(rig->conn, 1);
    assert_int_equal(rig->sent, REPLY);
    assert_null(mr_redis_conn_take(rig->conn));
    assert_int_equal(mr_redis_conn_deadline_ns(rig->conn), 0);
    mr_redis_conn_step(rig->conn, 1);
    assert_ptr_equal(mr_redis_conn_take(rig->conn), &rig->get);
    assert_int_equal(rig->get.outcome, MR_REDIS_DONE);
    assert_int_equal(mr_redis_conn_deadline_ns(rig->conn), UINT64_MAX);
    rig_close(rig);
}

/* No byte of the command was sent, but TLS has encrypted its bytes into a record and sends that
 * record before any other command. */
static void a_cancelled_command_that_tls_holds_closes_the_connection(void **state)
{
    struct rig *rig = rig_open();
    uint32_t at = 0;
    (void)state;
    for (uint32_t i = 0; i < WORDS; i++) {
        mr_redis_command_word(&rig->words[i], "STRLEN", "k", 1);
        rig->words[i].deadline_ns = 100;
        mr_redis_conn_send(rig->conn, &rig->words[i]);
    }
    mr_redis_conn_step(rig->conn, 1); /* until the socket is full */
    while (at < WORDS && rig->words[at].sent > 0)
        at++;
    assert_in_range(at, 1, WORDS - 2);
    mr_redis_conn_cancel(rig->conn, &rig->words[at + 1], 1); /* TLS has no bytes of this one */
    assert_true(mr_redis_conn_is_ready(rig->conn));
    mr_redis_conn_cancel(rig->conn, &rig->words[at], 1);
    assert_true(mr_redis_conn_is_closed(rig->conn));
    rig_close(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(another_name_or_authority_is_refused),
        cmocka_unit_test(a_server_without_tls_is_refused),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
        cmocka_unit_test(bytes_that_were_decrypted_wake_the_connection),
        cmocka_unit_test(a_cancelled_command_that_tls_holds_closes_the_connection),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
