/* A small Redis server in a thread of the test: strings only, with faults that the test switches
 * on. It is neither fast nor complete; it refuses unknown commands as Redis does. */
#ifndef MR_TESTS_FAKE_REDIS_H
#define MR_TESTS_FAKE_REDIS_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_PEERS 16
#define FAKE_KEYS  512
#define FAKE_WORDS 6

struct fake_text {
    char *bytes;
    size_t length;
};

struct fake_peer {
    int fd; /* -1: no connection */
    char *input;
    size_t length, room;
};

struct fake_redis {
    pthread_t thread;
    int door;
    unsigned port;
    struct fake_peer peers[FAKE_PEERS];
    struct {
        struct fake_text key, value;
    } keys[FAKE_KEYS];
    size_t key_count;
    atomic_bool stop, silent, full, forget, hang_up;
    atomic_int damage; /* enum fake_damage: done to every value that is read */
    atomic_size_t cut; /* replies are sent in two pieces, the first of so many bytes; 0: in one */
    atomic_bool bytewise; /* replies are sent byte by byte */
    atomic_uint gets, sets, dels, expires;
};

enum fake_damage {
    FAKE_WELL,
    FAKE_FLIPPED, /* one bit, a different one each time */
    FAKE_TRUNCATED,
    FAKE_SWAPPED,   /* the value of another key; a bit of the only value is flipped */
    FAKE_OVERSIZED, /* 64 bytes longer, also in the header */
    FAKE_OLDER,     /* version 0 */
    FAKE_DAMAGES
};

static inline void fake_send(int fd, const char *at, size_t length)
{
    while (length) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += sent;
        length -= (size_t)sent;
    }
}

/* Sends a reply. The pause lets the other side read the first piece alone. */
static inline void fake_say(struct fake_redis *redis, int fd, const char *bytes, size_t length)
{
    size_t cut = atomic_load(&redis->cut);
    if (atomic_load(&redis->bytewise)) {
        for (size_t i = 0; i < length; i++)
            fake_send(fd, bytes + i, 1);
        return;
    }
    if (cut > 0 && cut < length) {
        fake_send(fd, bytes, cut);
        usleep(50);
        bytes += cut;
        length -= cut;
    }
    fake_send(fd, bytes, length);
}

static inline void fake_line(struct fake_redis *redis, int fd, const char *text)
{
    fake_say(redis, fd, text, strlen(text));
}

static inline void fake_number(struct fake_redis *redis, int fd, long long value)
{
    char line[32];
    snprintf(line, sizeof line, ":%lld\r\n", value);
    fake_line(redis, fd, line);
}

static inline void fake_bulk(struct fake_redis *redis, int fd, const char *bytes, size_t length)
{
    char *reply = malloc(length + 32);
    size_t head = (size_t)snprintf(reply, length + 32, "$%zu\r\n", length);
    memcpy(reply + head, bytes, length);
    memcpy(reply + head + length, "\r\n", 2);
    fake_say(redis, fd, reply, head + length + 2);
    free(reply);
}

/* The key's value; NULL: none. make: adds a missing key with an empty value. */
static inline struct fake_text *fake_find(struct fake_redis *redis, struct fake_text key, bool make)
{
    for (size_t i = 0; i < redis->key_count; i++)
        if (redis->keys[i].key.length == key.length &&
            memcmp(redis->keys[i].key.bytes, key.bytes, key.length) == 0)
            return redis->keys[i].value.bytes || make ? &redis->keys[i].value : NULL;
    if (!make || redis->key_count == FAKE_KEYS) return NULL;
    struct fake_text *copy = &redis->keys[redis->key_count].key;
    copy->bytes = malloc(key.length + 1);
    memcpy(copy->bytes, key.bytes, key.length);
    copy->length = key.length;
    return &redis->keys[redis->key_count++].value;
}

static inline void fake_append(struct fake_text *value, const char *bytes, size_t length)
{
    value->bytes = realloc(value->bytes, value->length + length + 1);
    memcpy(value->bytes + value->length, bytes, length);
    value->length += length;
}

static inline void fake_clear(struct fake_text *value)
{
    free(value->bytes);
    *value = (struct fake_text){0};
}

static inline bool fake_is(struct fake_text word, const char *name)
{
    return word.length == strlen(name) && memcmp(word.bytes, name, word.length) == 0;
}

/* A copy of a value with the damage that the test has set. Offsets as in
 * kvcache/remote/block_frame.h. */
static inline struct fake_text fake_changed(struct fake_redis *redis, const struct fake_text *value)
{
    unsigned count = atomic_load(&redis->gets);
    int kind = atomic_load(&redis->damage);
    const struct fake_text *from = value;
    for (size_t i = 0; kind == FAKE_SWAPPED && i < redis->key_count; i++)
        if (redis->keys[i].value.bytes && &redis->keys[i].value != value)
            from = &redis->keys[i].value;
    struct fake_text copy = {malloc(from->length + 65), from->length};
    memcpy(copy.bytes, from->bytes, from->length);
    size_t at = count * (size_t)7919 % copy.length;
    bool alone = kind == FAKE_SWAPPED && from == value;
    if (kind == FAKE_FLIPPED || alone) copy.bytes[at] ^= (char)(1 << count % 8);
    if (kind == FAKE_TRUNCATED) copy.length = at;
    if (kind == FAKE_OLDER) copy.bytes[4] = copy.bytes[5] = 0;
    if (kind == FAKE_OVERSIZED) {
        uint32_t length = (uint32_t)copy.length;
        memcpy(copy.bytes + 32, &length, sizeof length);
        memset(copy.bytes + copy.length, 'o', 64);
        copy.length += 64;
    }
    return copy;
}

static inline void fake_read(struct fake_redis *redis, int fd, struct fake_text key)
{
    struct fake_text *value = fake_find(redis, key, false);
    atomic_fetch_add(&redis->gets, 1);
    if (!value) {
        fake_line(redis, fd, "$-1\r\n");
        return;
    }
    struct fake_text copy = fake_changed(redis, value);
    fake_bulk(redis, fd, copy.bytes, copy.length);
    free(copy.bytes);
}

static inline void fake_count(struct fake_redis *redis, int fd, struct fake_text key)
{
    struct fake_text *value = fake_find(redis, key, true);
    char digits[24];
    if (value->bytes) value->bytes[value->length] = '\0';
    long long next = (value->bytes ? strtoll(value->bytes, NULL, 10) : 0) + 1;
    fake_clear(value);
    fake_append(value, digits, (size_t)snprintf(digits, sizeof digits, "%lld", next));
    fake_number(redis, fd, next);
}

static inline void fake_answer(struct fake_redis *redis, int fd, const struct fake_text *words)
{
    struct fake_text *value;
    if (atomic_exchange(&redis->forget, false))
        for (size_t i = 0; i < redis->key_count; i++)
            fake_clear(&redis->keys[i].value);
    if (fake_is(words[0], "PING")) {
        fake_line(redis, fd, "+PONG\r\n");
    } else if (fake_is(words[0], "ECHO")) {
        fake_bulk(redis, fd, words[1].bytes, words[1].length);
    } else if (fake_is(words[0], "AUTH")) {
        fake_line(redis, fd, fake_is(words[1], "right") ? "+OK\r\n" : "-WRONGPASS wrong\r\n");
    } else if (fake_is(words[0], "GET")) {
        fake_read(redis, fd, words[1]);
    } else if (fake_is(words[0], "INCR")) {
        fake_count(redis, fd, words[1]);
    } else if (fake_is(words[0], "STRLEN")) {
        value = fake_find(redis, words[1], false);
        fake_number(redis, fd, value ? (long long)value->length : 0);
    } else if (fake_is(words[0], "EXPIRE")) {
        atomic_fetch_add(&redis->expires, 1);
        fake_number(redis, fd, fake_find(redis, words[1], false) != NULL);
    } else if (fake_is(words[0], "DEL")) {
        value = fake_find(redis, words[1], false);
        if (value) fake_clear(value);
        atomic_fetch_add(&redis->dels, 1);
        fake_number(redis, fd, value != NULL);
    } else if (fake_is(words[0], "SET") && atomic_load(&redis->full)) {
        fake_line(redis, fd, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    } else if (fake_is(words[0], "SET") || fake_is(words[0], "APPEND")) {
        value = fake_find(redis, words[1], true);
        if (words[0].length == 3) fake_clear(value);
        fake_append(value, words[2].bytes, words[2].length);
        atomic_fetch_add(&redis->sets, 1);
        fake_line(redis, fd, words[0].length == 3 ? "+OK\r\n" : ":1\r\n");
    } else {
        fake_line(redis, fd, "-ERR unknown command\r\n");
    }
}

/* Parses "$LENGTH\r\nBYTES\r\n" or "*COUNT\r\n"; false: not complete yet. */
static inline bool fake_take(const struct fake_peer *peer, size_t *at, struct fake_text *word)
{
    char *line = peer->input + *at, *end = memmem(line, peer->length - *at, "\r\n", 2);
    if (!end) return false;
    size_t number = strtoul(line + 1, NULL, 10), head = (size_t)(end + 2 - line);
    *word = (struct fake_text){.length = number};
    *at += head;
    if (*line == '*') return true;
    if (peer->length - *at < number + 2) return false;
    word->bytes = peer->input + *at;
    *at += number + 2;
    return true;
}

static inline bool fake_serve_one(struct fake_redis *redis, struct fake_peer *peer)
{
    struct fake_text words[FAKE_WORDS], count;
    size_t at = 0;
    if (!fake_take(peer, &at, &count) || count.length > FAKE_WORDS) return false;
    for (size_t i = 0; i < count.length; i++)
        if (!fake_take(peer, &at, &words[i])) return false;
    fake_answer(redis, peer->fd, words);
    memmove(peer->input, peer->input + at, peer->length - at);
    peer->length -= at;
    return peer->length > 0;
}

static inline void fake_hang_up(struct fake_peer *peer)
{
    close(peer->fd);
    free(peer->input);
    *peer = (struct fake_peer){.fd = -1};
}

static inline void fake_hear(struct fake_redis *redis, struct fake_peer *peer)
{
    if (peer->room - peer->length < 65536) {
        peer->room = 2 * peer->room + 65537;
        peer->input = realloc(peer->input, peer->room);
    }
    ssize_t got = recv(peer->fd, peer->input + peer->length, peer->room - peer->length - 1, 0);
    if (got <= 0) {
        fake_hang_up(peer);
        return;
    }
    peer->length += (size_t)got;
    peer->input[peer->length] = '\0';
    while (fake_serve_one(redis, peer)) {
    }
}

static inline void *fake_run(void *argument)
{
    struct fake_redis *redis = argument;
    while (!atomic_load(&redis->stop)) {
        struct pollfd doors[FAKE_PEERS + 1] = {{.fd = redis->door, .events = POLLIN}};
        bool silent = atomic_load(&redis->silent); /* then poll only waits */
        for (int i = 0; i < FAKE_PEERS; i++)
            doors[i + 1] =
                (struct pollfd){.fd = silent ? -1 : redis->peers[i].fd, .events = POLLIN};
        if (silent) doors[0].fd = -1;
        poll(doors, FAKE_PEERS + 1, 2);
        if (atomic_exchange(&redis->hang_up, false))
            for (int i = 0; i < FAKE_PEERS; i++)
                if (redis->peers[i].fd >= 0) fake_hang_up(&redis->peers[i]);
        if (atomic_load(&redis->silent)) continue; /* since before the current bytes were sent */
        for (int i = 0; i < FAKE_PEERS; i++)
            if (doors[i + 1].revents && redis->peers[i].fd >= 0) fake_hear(redis, &redis->peers[i]);
        if (!(doors[0].revents & POLLIN)) continue;
        int fd = accept(redis->door, NULL, NULL), on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        for (int i = 0; i < FAKE_PEERS && fd >= 0; i++)
            if (redis->peers[i].fd < 0) {
                redis->peers[i].fd = fd;
                fd = -1;
            }
        if (fd >= 0) close(fd);
    }
    return NULL;
}

/* port 0: any free port. */
static inline struct fake_redis *fake_redis_start(unsigned port)
{
    struct fake_redis *redis = calloc(1, sizeof *redis);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    redis->door = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(redis->door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(redis->door, (struct sockaddr *)&address, sizeof address) != 0) abort();
    listen(redis->door, 16);
    getsockname(redis->door, (struct sockaddr *)&address, &length);
    redis->port = ntohs(address.sin_port);
    for (int i = 0; i < FAKE_PEERS; i++)
        redis->peers[i].fd = -1;
    pthread_create(&redis->thread, NULL, fake_run, redis);
    return redis;
}

static inline void fake_redis_stop(struct fake_redis *redis)
{
    atomic_store(&redis->stop, true);
    pthread_join(redis->thread, NULL);
    for (int i = 0; i < FAKE_PEERS; i++)
        if (redis->peers[i].fd >= 0) fake_hang_up(&redis->peers[i]);
    for (size_t i = 0; i < redis->key_count; i++) {
        free(redis->keys[i].key.bytes);
        free(redis->keys[i].value.bytes);
    }
    close(redis->door);
    free(redis);
}

#endif
