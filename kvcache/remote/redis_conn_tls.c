#include "kvcache/remote/redis_conn_state.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>

struct mr_redis_tls_context {
    SSL_CTX *library;
};

struct mr_redis_tls {
    SSL *session;
    short wants;
    bool writing; /* the last write would have blocked and must be repeated */
};

static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason given";
}

/* Why the TLS handshake failed: the error in the server's certificate, or the library's reason. */
static const char *refusal(const SSL *session)
{
    long verdict = SSL_get_verify_result(session);
    return verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : reason();
}

static enum mr_status use_files(SSL_CTX *library, const struct mr_redis_tls_files *files,
                                struct mr_error *err)
{
    int done = files->authorities[0]
                   ? SSL_CTX_load_verify_locations(library, files->authorities, NULL)
                   : SSL_CTX_set_default_verify_paths(library);
    if (done != 1)
        return mr_fail(err, MR_BAD_CONFIG, "Redis TLS authorities %.100s: %s", files->authorities,
                       reason());
    if (!files->certificate[0]) return MR_OK;
    if (SSL_CTX_use_certificate_chain_file(library, files->certificate) != 1)
        return mr_fail(err, MR_BAD_CONFIG, "Redis TLS certificate %.100s: %s", files->certificate,
                       reason());
    if (SSL_CTX_use_PrivateKey_file(library, files->key, SSL_FILETYPE_PEM) != 1)
        return mr_fail(err, MR_BAD_CONFIG, "Redis TLS key %.100s: %s", files->key, reason());
    return MR_OK;
}

enum mr_status mr_redis_tls_context_create(struct mr_redis_tls_context **out,
                                           const struct mr_redis_tls_files *files,
                                           struct mr_error *err)
{
    *out = NULL;
    struct mr_redis_tls_context *context = calloc(1, sizeof *context);
    if (!context) return mr_fail(err, MR_NOMEM, "no memory for TLS");
    context->library = SSL_CTX_new(TLS_client_method());
    if (!context->library) {
        free(context);
        return mr_fail(err, MR_NOMEM, "no memory for TLS");
    }
    SSL_CTX_set_min_proto_version(context->library, TLS1_2_VERSION);
    SSL_CTX_set_verify(context->library, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context->library,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    enum mr_status status = use_files(context->library, files, err);
    if (status != MR_OK) {
        mr_redis_tls_context_destroy(context);
        return status;
    }
    *out = context;
    return MR_OK;
}

void mr_redis_tls_context_destroy(struct mr_redis_tls_context *context)
{
    if (!context) return;
    SSL_CTX_free(context->library);
    free(context);
}

/* Sets the name that the certificate must have; OpenSSL compares a host name and an IP address with
 * different fields of a certificate. */
static int expect_host(SSL *session, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host);
    return SSL_set1_host(session, host) && SSL_set_tlsext_host_name(session, host);
}

enum mr_status mr_redis_tls_open(struct mr_redis_tls **out, struct mr_redis_tls_context *context,
                                 int fd, const char *host, struct mr_error *err)
{
    *out = NULL;
    struct mr_redis_tls *tls = calloc(1, sizeof *tls);
    if (!tls) return mr_fail(err, MR_NOMEM, "no memory for TLS");
    tls->session = SSL_new(context->library);
    if (!tls->session || !expect_host(tls->session, host) || SSL_set_fd(tls->session, fd) != 1) {
        mr_redis_tls_close(tls);
        return mr_fail(err, MR_NOMEM, "no TLS session for this host");
    }
    SSL_set_connect_state(tls->session);
    tls->wants = POLLOUT;
    *out = tls;
    return MR_OK;
}

void mr_redis_tls_close(struct mr_redis_tls *tls)
{
    if (!tls) return;
    SSL_free(tls->session);
    free(tls);
}

short mr_redis_tls_wants(const struct mr_redis_tls *tls)
{
    return tls->wants;
}

/* True when a TLS call must be repeated once the socket is readable or writable, as set in
 * `tls`. */
static bool would_block(struct mr_redis_tls *tls, int result)
{
    int why = SSL_get_error(tls->session, result);
    tls->wants = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

static ssize_t moved(struct mr_redis_tls *tls, int result)
{
    if (result <= 0) return would_block(tls, result) ? 0 : -1;
    tls->wants = POLLIN;
    return result;
}

enum mr_status mr_redis_tls_handshake(struct mr_redis_tls *tls, struct mr_error *err)
{
    ERR_clear_error();
    int result = SSL_do_handshake(tls->session);
    ssize_t done = moved(tls, result);
    if (done >= 0) return done > 0 ? MR_OK : MR_AGAIN;
    return mr_fail(err, MR_UNREACHABLE, "Redis TLS handshake: %s", refusal(tls->session));
}

ssize_t mr_redis_tls_read(struct mr_redis_tls *tls, void *bytes, size_t length)
{
    ERR_clear_error();
    int result = SSL_read(tls->session, bytes, length < INT_MAX ? (int)length : INT_MAX);
    return moved(tls, result);
}

ssize_t mr_redis_tls_write(struct mr_redis_tls *tls, const void *bytes, size_t length)
{
    ERR_clear_error();
    int result = SSL_write(tls->session, bytes, length < INT_MAX ? (int)length : INT_MAX);
    ssize_t done = moved(tls, result);
    tls->writing = done == 0;
    return done;
}

bool mr_redis_tls_has_bytes(const struct mr_redis_tls *tls)
{
    return SSL_pending(tls->session) > 0;
}

bool mr_redis_tls_is_writing(const struct mr_redis_tls *tls)
{
    return tls->writing;
}
