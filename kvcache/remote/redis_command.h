/* redis_command - one command to Redis and its reply, and FIFO lists of commands. The only module
 * that uses hiredis.
 *
 * A command is a list of buffers that are sent one after the other without a copy. The values of KV
 * blocks bypass the library: SET is a short text, the frame header, the payload and a short text
 * again; the reply to GET is received straight into header and payload. hiredis formats the
 * commands of mr_redis_command_make and parses every reply that is not such a value.
 *
 * Owner: one thread at a time. Memory: the caller owns the struct and the memory that its buffers
 * point at, and changes neither from sending the command until it has ended. The reply and the
 * words of _make belong to the command until mr_redis_command_end. A parser holds the bytes of one
 * unfinished reply; its caller bounds them. Errors: the outcome of each command; false or NULL
 * without memory. */
#ifndef MR_KVCACHE_REMOTE_REDIS_COMMAND_H
#define MR_KVCACHE_REMOTE_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define MR_REDIS_SLOTS         16384u /* hash slots of a Redis Cluster */
#define MR_REDIS_COMMAND_PARTS 4
#define MR_REDIS_TEXT_BYTES    ((size_t)224)
#define MR_REDIS_ERROR_BYTES   ((size_t)160)
#define MR_REDIS_KEY_BYTES     ((size_t)128) /* longest key of _set, _get, _word and _expire */

enum mr_redis_outcome {
    MR_REDIS_IN_FLIGHT,
    MR_REDIS_DONE,
    MR_REDIS_MISS,       /* the key does not exist, or the command was cancelled */
    MR_REDIS_WRONG_SIZE, /* the value has another length than expected */
    MR_REDIS_MOVED,      /* the key is on another node of the cluster */
    MR_REDIS_BUSY,       /* the server is loading data, running a script, or has no master */
    MR_REDIS_FULL,       /* the server is out of memory */
    MR_REDIS_DENIED,     /* authentication failed, or permission is missing */
    MR_REDIS_READ_ONLY,  /* the server is a read-only replica */
    MR_REDIS_WRONG_TYPE, /* the key has a value of another type */
    MR_REDIS_REFUSED,    /* any other error reply */
    MR_REDIS_MALFORMED,  /* the reply is not valid */
    MR_REDIS_TIMEOUT,
    MR_REDIS_LOST, /* the connection closed, or could not take the command */
    MR_REDIS_OUTCOME_COUNT
};

struct mr_redis_reply;

struct mr_redis_command {
    struct mr_redis_command *next; /* private: the next command in its list */
    struct iovec out[MR_REDIS_COMMAND_PARTS];
    int out_count;
    char text[MR_REDIS_TEXT_BYTES]; /* text of a command made by _set, _get, _word or _expire */
    char *words;                    /* text of any other command; owned by the command */
    bool bulk;                      /* the reply is a value of exactly into[0] + into[1] bytes */
    struct iovec into[2];
    /* Called with the bytes of a value as they are received, in order; NULL: not called. */
    void (*on_bytes)(struct mr_redis_command *command, const void *bytes, size_t length);
    uint32_t slot;        /* hash slot of the key; MR_REDIS_SLOTS: no key, any node will do */
    uint64_t deadline_ns; /* without a reply by this time the connection is closed */
    void *owner;          /* for the caller's use */

    enum mr_redis_outcome outcome;
    struct mr_redis_reply *reply;     /* owned by the command; NULL if the reply is a value */
    char error[MR_REDIS_ERROR_BYTES]; /* the server's error text without '-', cut to fit */
    /* The fields below are private to kvcache/remote/. */
    size_t sent; /* bytes of the command sent */
    uint32_t redirects;
    bool asking; /* the ASKING command must be sent before this one */
    bool cancelled;
};

/* A slice of a value as Redis stores it: header, then payload (block_frame.h). */
struct mr_redis_value {
    const char *key; /* [key_length], at most MR_REDIS_KEY_BYTES */
    size_t key_length;
    void *header, *payload;
    size_t header_length, length;
};
/* _set makes "SET key value EX ttl_s" (ttl_s 0: without EX); _get makes "GET key", whose reply is
 * received into the value's header and payload. */
void mr_redis_command_set(struct mr_redis_command *command, const struct mr_redis_value *value,
                          uint64_t ttl_s);
void mr_redis_command_get(struct mr_redis_command *command, const struct mr_redis_value *value);
/* Makes a command whose only argument is a key: "STRLEN key", "DEL key". */
void mr_redis_command_word(struct mr_redis_command *command, const char *word, const char *key,
                           size_t key_length);
void mr_redis_command_expire(struct mr_redis_command *command, const char *key, size_t key_length,
                             uint64_t ttl_s);
/* Makes a command of any words; keyed: the second word is the key. False: no memory. */
bool mr_redis_command_make(struct mr_redis_command *command, int count, const char *const *words,
                           const size_t *lengths, bool keyed);
/* Frees the words and the reply of the command. */
void mr_redis_command_end(struct mr_redis_command *command);

size_t mr_redis_command_length(const struct mr_redis_command *command); /* bytes to send */
/* Bytes of the value that the command expects as its reply. */
size_t mr_redis_command_value_length(const struct mr_redis_command *command);
/* The outcome for an error reply; error: the reply's text without '-'. */
enum mr_redis_outcome mr_redis_outcome_of(const char *error, size_t length);
/* Copies the buffers parts[0..count) without their first `skip` bytes to `out`, leaving out empty
 * buffers. Returns how many buffers it wrote. */
int mr_redis_parts_from(const struct iovec *parts, int count, size_t skip, struct iovec *out);

/* FIFO list of commands; zeroed memory is an empty list. A command is in one list at most. */
struct mr_redis_command_list {
    struct mr_redis_command *first, *last;
    uint32_t count;
};
void mr_redis_command_list_push(struct mr_redis_command_list *list,
                                struct mr_redis_command *command);
/* Removes and returns the first command; NULL when the list is empty. */
struct mr_redis_command *mr_redis_command_list_pop(struct mr_redis_command_list *list);
/* Removes a command from the list. False: the command is not in the list. */
bool mr_redis_command_list_remove(struct mr_redis_command_list *list,
                                  struct mr_redis_command *command);

/* Replies. _integer, _text and _count return 0, "" and 0 for replies of other types. */
enum mr_redis_type { MR_REDIS_NIL, MR_REDIS_INTEGER, MR_REDIS_TEXT, MR_REDIS_LIST };
enum mr_redis_type mr_redis_reply_type(const struct mr_redis_reply *reply);
int64_t mr_redis_reply_integer(const struct mr_redis_reply *reply);
const char *mr_redis_reply_text(const struct mr_redis_reply *reply, size_t *length);
size_t mr_redis_reply_count(const struct mr_redis_reply *reply); /* elements of an array */
const struct mr_redis_reply *mr_redis_reply_at(const struct mr_redis_reply *reply, size_t index);
void mr_redis_reply_free(struct mr_redis_reply *reply);

struct mr_redis_parser;
struct mr_redis_parser *mr_redis_parser_create(void);
void mr_redis_parser_destroy(struct mr_redis_parser *parser); /* parser may be NULL */
/* Feeds the next bytes of one reply. *reply: the reply when these bytes complete it, owned by the
 * caller; else NULL. *is_error: whether it is an error reply. False: the bytes are invalid. */
bool mr_redis_parser_feed(struct mr_redis_parser *parser, const char *bytes, size_t length,
                          struct mr_redis_reply **reply, bool *is_error);

/* Hash slot of a key: CRC16 (XMODEM) of the key, or of the text between its first braces (Redis
 * cluster specification, "Keys distribution model"). */
uint32_t mr_redis_slot(const char *key, size_t length);
/* The fields of the error replies "MOVED 3999 127.0.0.1:6381" and "ASK ...". */
struct mr_redis_redirect {
    uint32_t slot;
    const char *host;   /* [host_length] in the parsed text */
    size_t host_length; /* 0: the redirection is to the node that answered */
    uint16_t port;
    bool ask; /* ASK redirects this command only; MOVED all of the slot */
};
/* Parses the text of an error reply. False: the text is neither MOVED nor ASK. */
bool mr_redis_redirect_parse(const char *text, size_t length, struct mr_redis_redirect *out);

#endif
