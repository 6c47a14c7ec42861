#include "worker/gateway/keys.h"

#include "codec/check.h"
#include "worker/config/option_value.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 4096
#define MINUTE_S   60.0

/* One reading of the file. */
struct key_set {
    struct mr_key **keys; /* [count] */
    size_t count;
};

struct mr_keys {
    const char *path;
    pthread_mutex_t lock; /* protects the set, and references and buckets of all keys */
    struct key_set set;
};

/* ---- reading a line ---- */

static bool read_digest(const char *text, unsigned char digest[MR_SHA256_BYTES])
{
    static const char prefix[] = "sha256:";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) return false;
    text += sizeof prefix - 1;
    if (strlen(text) != (size_t)2 * MR_SHA256_BYTES) return false;
    for (size_t i = 0; i < MR_SHA256_BYTES; i++) {
        const int high = mr_text_hex_value(text[2 * i]), low = mr_text_hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        digest[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

static bool set_text(char **field, const char *value)
{
    free(*field);
    *field = strdup(value);
    return *field && value[0] != '\0';
}

static bool set_limit(uint32_t *field, const char *value)
{
    uint64_t number;
    if (!mr_parse_uint(value, &number) || number < 1 || number > UINT32_MAX) return false;
    *field = (uint32_t)number;
    return true;
}

static bool apply_setting(struct mr_key *key, const char *setting)
{
    const char *equals = strchr(setting, '=');
    const size_t length = equals ? (size_t)(equals - setting) : 0;
    const struct mr_text name = {setting, length};
    if (mr_text_is(name, "topic")) return set_text(&key->topic, equals + 1);
    if (mr_text_is(name, "tenant")) return set_text(&key->tenant, equals + 1);
    if (mr_text_is(name, "models")) return set_text(&key->models, equals + 1);
    if (mr_text_is(name, "requests")) return set_limit(&key->requests_max, equals + 1);
    if (mr_text_is(name, "tokens")) return set_limit(&key->tokens_max, equals + 1);
    return false;
}

static void destroy(struct mr_key *key)
{
    free(key->topic);
    free(key->tenant);
    free(key->models);
    free(key);
}

/* True for 1 to 63 letters, digits, '-', '_' and '.'. */
static bool is_name(const char *word)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t length = strlen(word);
    return length > 0 && length < MR_KEY_NAME_BYTES && strspn(word, allowed) == length;
}

/* Ends the next word of *rest with a NUL and moves *rest past the word. NULL: no word is left. */
static const char *take_word(char **rest)
{
    static const char spaces[] = " \t\r\n";
    char *word = *rest + strspn(*rest, spaces);
    const size_t length = strcspn(word, spaces);
    *rest = word + length + (word[length] != '\0');
    word[length] = '\0';
    return length > 0 ? word : NULL;
}

/* Reads a line, which is changed. *out: NULL for a line without a key. */
static enum mr_status read_line(struct mr_key **out, char *line, unsigned number, uint64_t now_ns,
                                struct mr_error *err)
{
    const char *word = take_word(&line);
    *out = NULL;
    if (!word || word[0] == '#') return MR_OK;
    struct mr_key *key = calloc(1, sizeof *key);
    if (!key) return mr_fail(err, MR_NOMEM, "no memory for the keys");
    if (!is_name(word)) {
        destroy(key);
        return mr_fail(err, MR_BAD_CONFIG,
                       "--key-file: line %u must begin with a name of letters, digits, - _ .",
                       number);
    }
    snprintf(key->name, sizeof key->name, "%s", word);
    word = take_word(&line);
    bool valid = word && read_digest(word, key->digest);
    const char *what = "sha256: and 64 hexadecimal digits after the name";
    key->topic = strdup("");
    key->tenant = strdup("");
    key->models = strdup("");
    valid = valid && key->topic && key->tenant && key->models;
    while (valid && (word = take_word(&line))) {
        what = "topic=, tenant=, models=, requests= and tokens= with a value after the hash";
        valid = apply_setting(key, word);
    }
    if (!valid) {
        destroy(key);
        return mr_fail(err, MR_BAD_CONFIG, "--key-file: line %u must have %s", number, what);
    }
    key->requests_left = key->requests_max;
    key->tokens_left = key->tokens_max;
    key->at_ns = now_ns;
    key->references = 1;
    *out = key;
    return MR_OK;
}

/* ---- sets ---- */

static const struct mr_key *find_name(const struct key_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->keys[i]->name, name) == 0) return set->keys[i];
    return NULL;
}

static enum mr_status add(struct key_set *set, struct mr_key *key, unsigned number,
                          struct mr_error *err)
{
    struct mr_key **grown = NULL;
    if (find_name(set, key->name)) {
        destroy(key);
        return mr_fail(err, MR_BAD_CONFIG, "--key-file: line %u has a name for the second time",
                       number);
    }
    if (set->count < MR_KEYS_MAX) grown = realloc(set->keys, (set->count + 1) * sizeof *grown);
    if (!grown) {
        destroy(key);
        return mr_fail(err, MR_NOMEM, "--key-file: no memory for more than %zu keys", set->count);
    }
    set->keys = grown;
    set->keys[set->count++] = key;
    return MR_OK;
}

/* Drops one reference. Needs the lock, or no other thread. */
static void release(struct mr_key *key)
{
    if (--key->references == 0) destroy(key);
}

static void drop_set(struct key_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        release(set->keys[i]);
    free(set->keys);
    *set = (struct key_set){0};
}

static enum mr_status read_set(struct mr_keys *keys, struct key_set *set, uint64_t now_ns,
                               struct mr_error *err)
{
    char line[LINE_BYTES];
    enum mr_status status = MR_OK;
    FILE *file = fopen(keys->path, "re");
    if (!file)
        return mr_fail(err, MR_BAD_CONFIG, "--key-file: cannot read it: %s", strerror(errno));
    for (unsigned number = 1; status == MR_OK && fgets(line, sizeof line, file); number++) {
        struct mr_key *key;
        if (strlen(line) + 1 == sizeof line)
            status = mr_fail(err, MR_BAD_CONFIG, "--key-file: line %u is too long", number);
        if (status == MR_OK) status = read_line(&key, line, number, now_ns, err);
        if (status == MR_OK && key) {
            key->keys = keys;
            status = add(set, key, number, err);
        }
    }
    fclose(file);
    if (status == MR_OK && set->count == 0)
        status = mr_fail(err, MR_BAD_CONFIG, "--key-file: it has no key");
    if (status != MR_OK) drop_set(set);
    return status;
}

enum mr_status mr_keys_open(struct mr_keys **out, const char *path, uint64_t now_ns,
                            struct mr_error *err)
{
    *out = NULL;
    struct mr_keys *keys = calloc(1, sizeof *keys);
    if (!keys) return mr_fail(err, MR_NOMEM, "no memory for the keys");
    keys->path = path;
    enum mr_status status = read_set(keys, &keys->set, now_ns, err);
    if (status != MR_OK) {
        free(keys);
        return status;
    }
    pthread_mutex_init(&keys->lock, NULL);
    *out = keys;
    return MR_OK;
}

void mr_keys_close(struct mr_keys *keys)
{
    if (!keys) return;
    for (size_t i = 0; i < keys->set.count; i++)
        MR_ASSERT(keys->set.keys[i]->references == 1);
    drop_set(&keys->set);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

enum mr_status mr_keys_reload(struct mr_keys *keys, uint64_t now_ns, size_t *count,
                              struct mr_error *err)
{
    struct key_set set = {0}, old;
    enum mr_status status = read_set(keys, &set, now_ns, err);
    if (status != MR_OK) return status;
    *count = set.count;
    pthread_mutex_lock(&keys->lock);
    for (size_t i = 0; i < set.count; i++) {
        struct mr_key *key = set.keys[i];
        const struct mr_key *before = find_name(&keys->set, key->name);
        if (!before) continue;
        if (before->requests_max > 0)
            key->requests_left = least(before->requests_left, key->requests_max);
        if (before->tokens_max > 0) key->tokens_left = least(before->tokens_left, key->tokens_max);
        key->at_ns = before->at_ns;
    }
    old = keys->set;
    keys->set = set;
    drop_set(&old);
    pthread_mutex_unlock(&keys->lock);
    return MR_OK;
}

/* ---- use ---- */

/* Compares in a time that does not depend on the bytes. */
static bool is_equal(const unsigned char *a, const unsigned char *b)
{
    unsigned char difference = 0;
    for (size_t i = 0; i < MR_SHA256_BYTES; i++)
        difference = (unsigned char)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

struct mr_key *mr_keys_find(struct mr_keys *keys, struct mr_text text)
{
    struct mr_sha256 state;
    unsigned char digest[MR_SHA256_BYTES];
    struct mr_key *found = NULL;
    mr_sha256_begin(&state);
    mr_sha256_add(&state, text.bytes, text.length);
    mr_sha256_end(&state, digest);
    pthread_mutex_lock(&keys->lock);
    for (size_t i = 0; i < keys->set.count; i++)
        if (is_equal(keys->set.keys[i]->digest, digest)) found = keys->set.keys[i];
    if (found) found->references++;
    pthread_mutex_unlock(&keys->lock);
    return found;
}

void mr_key_release(struct mr_key *key)
{
    if (!key) return;
    struct mr_keys *keys = key->keys;
    pthread_mutex_lock(&keys->lock);
    release(key);
    pthread_mutex_unlock(&keys->lock);
}

bool mr_key_allows(const struct mr_key *key, struct mr_text model)
{
    if (key->models[0] == '\0') return true;
    for (const char *at = key->models; *at;) {
        const size_t length = strcspn(at, ",");
        if (mr_text_equal((struct mr_text){at, length}, model)) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static void refill(struct mr_key *key, uint64_t now_ns)
{
    const double minutes =
        now_ns > key->at_ns ? (double)(now_ns - key->at_ns) / (1e9 * MINUTE_S) : 0;
    key->at_ns = now_ns > key->at_ns ? now_ns : key->at_ns;
    key->requests_left = least(key->requests_left + minutes * key->requests_max, key->requests_max);
    key->tokens_left = least(key->tokens_left + minutes * key->tokens_max, key->tokens_max);
}

uint32_t mr_key_admit(struct mr_key *key, uint64_t now_ns)
{
    double seconds = 0;
    pthread_mutex_lock(&key->keys->lock);
    refill(key, now_ns);
    if (key->requests_max > 0 && key->requests_left < 1)
        seconds = (1 - key->requests_left) * MINUTE_S / key->requests_max;
    if (key->tokens_max > 0 && key->tokens_left <= 0) {
        const double wait = (1 - key->tokens_left) * MINUTE_S / key->tokens_max;
        seconds = wait > seconds ? wait : seconds;
    }
    if (seconds == 0 && key->requests_max > 0) key->requests_left -= 1;
    pthread_mutex_unlock(&key->keys->lock);
    return seconds > 0 ? (uint32_t)ceil(least(seconds, 86400)) : 0;
}

void mr_key_charge(struct mr_key *key, uint64_t tokens)
{
    if (key->tokens_max == 0) return;
    pthread_mutex_lock(&key->keys->lock);
    key->tokens_left -= (double)tokens;
    pthread_mutex_unlock(&key->keys->lock);
}
