/* keys - the API keys of a gateway: whom each belongs to, where its requests go, and what it may
 * use.
 *
 * A line of the file is one key: a name, the SHA-256 of the key, and settings:
 *     alice sha256:HEX topic=millrace.requests tenant=default requests=600 tokens=100000 models=a,b
 * All settings are optional. requests and tokens are limits for one minute: a bucket of that size,
 * refilled evenly. A request is admitted while its key has a request and any token left, and its
 * tokens are charged when its result is there, so that one large answer delays the next requests of
 * its key. Empty lines and lines that begin with # are skipped.
 *
 * Threads: any; one lock inside. A key that was found is held by its user until _release, also when
 *          a reload has removed it.
 * Memory:  the keys; a reload makes a new set and keeps the buckets of equal names.
 * Errors:  MR_BAD_CONFIG with the number of the line. A reload that fails changes nothing. */
#ifndef MR_WORKER_GATEWAY_KEYS_H
#define MR_WORKER_GATEWAY_KEYS_H

#include "codec/sha256.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdint.h>

#define MR_KEY_NAME_BYTES ((size_t)64)
#define MR_KEYS_MAX       ((size_t)100000)

struct mr_key {
    char name[MR_KEY_NAME_BYTES];
    unsigned char digest[MR_SHA256_BYTES];
    char *topic, *tenant, *models;     /* "" if not set; models: names separated by commas */
    uint32_t requests_max, tokens_max; /* in a minute; 0: no limit */
    struct mr_keys *keys;
    unsigned references; /* the set's and its users' */
    /* buckets: what is left, at the time at_ns; tokens_left can be negative */
    double requests_left, tokens_left;
    uint64_t at_ns;
};

struct mr_keys;

/* path: of the file, borrowed. */
enum mr_status mr_keys_open(struct mr_keys **out, const char *path, uint64_t now_ns,
                            struct mr_error *err);
/* No key is held any more. keys may be NULL. */
void mr_keys_close(struct mr_keys *keys);
/* Reads the file again. *count: number of keys. */
enum mr_status mr_keys_reload(struct mr_keys *keys, uint64_t now_ns, size_t *count,
                              struct mr_error *err);
/* The key with this text, held; NULL: there is none. The time does not depend on the text. */
struct mr_key *mr_keys_find(struct mr_keys *keys, struct mr_text text);
/* key may be NULL. */
void mr_key_release(struct mr_key *key);
/* Whether the key may use the model. */
bool mr_key_allows(const struct mr_key *key, struct mr_text model);
/* Takes a request from the key's bucket. 0: taken; else the seconds after which to try again. */
uint32_t mr_key_admit(struct mr_key *key, uint64_t now_ns);
void mr_key_charge(struct mr_key *key, uint64_t tokens);

#endif
