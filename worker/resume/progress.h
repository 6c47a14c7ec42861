/* progress - the format of a request's trail, a list in Redis with the request's starts and tokens
 * (worker/resume/resume.h). Each list entry is appended in one piece and verified by itself.
 *
 * Bytes of an entry, little endian; key id 0 means that the entry is not encrypted:
 *      0  magic u8   1  kind u8   2  key id u8   3  top count u8, or notes u8   4  attempt u32
 *      8  not encrypted: body, then the first 8 bytes of SHA-256 over request name, bytes 0-7, body
 *         encrypted: nonce [12], body, tag [16]; AES-256-GCM (codec/aes_gcm.h) over the same data
 * The body depends on the kind:
 *     START    index u32, shown u32, identity [32]: the attempt starts after `index` tokens of the
 *              attempt before
 *     TOKENS   index u32, shown u32, then for each token: id u32, logprob f32, probability f32, and
 *              top count times id u32, logprob f32
 *     RELEASE  empty: the worker stopped the attempt on purpose and did not crash
 *     RECLAIM  empty: an attempt that was stopped on purpose continues
 *     ACCOMPANIED  empty: another request has started in the same worker
 * Notes of a START: 1: byte 3 has notes; 2: other requests were running; 4: it was the only suspect
 * that ran (worker/intake/flight.h). Without notes, other requests may have been running.
 * `shown`: number of tokens that have certainly reached the tokens topic in Kafka.
 *
 * A request's name is the SHA-256 of the data that distinguishes it from other requests: group,
 * tenant, topic, partition, offset, timestamp, id and the record itself. Its identity is the
 * SHA-256 of the model and the rendered prompt. Tokens stored under another identity are not used.
 *
 * Entries are read in order. An entry that is damaged, belongs to another request or is encrypted
 * with an unknown key is skipped. Only the tokens of the newest attempt up to the first missing one
 * count, so a worker that still writes for an older attempt has no effect.
 *
 * Owner:  one thread at a time, except struct mr_progress_set. Memory: the tokens of a history, at
 *         most MR_PROGRESS_TOKENS_MAX. Errors: none; when memory is out, the history has fewer
 *         tokens. */
#ifndef MR_WORKER_RESUME_PROGRESS_H
#define MR_WORKER_RESUME_PROGRESS_H

#include "codec/sha256.h"
#include "codec/text.h"
#include "kvcache/remote/block_frame.h"
#include "ops/model/model.h"

#include <pthread.h>

#define MR_PROGRESS_KEY_BYTES     ((size_t)38) /* bytes of a Redis key with the NUL */
#define MR_PROGRESS_ATTEMPTS_MAX  255u
#define MR_PROGRESS_ATTEMPT_WORDS ((MR_PROGRESS_ATTEMPTS_MAX + 64) / 64)
#define MR_PROGRESS_TOKENS_MAX    32768u
/* Size of an entry with one token, the largest kind. */
#define MR_PROGRESS_BYTES_MAX ((size_t)8 + 8 + 12 + 8 * MR_LOGPROBS_MAX + 28)

/* The fields from which a request's name is computed; all texts are borrowed. */
struct mr_progress_origin {
    const char *group, *tenant, *topic;
    int32_t partition;
    int64_t offset, timestamp_ms;
    struct mr_text id, value;
};

struct mr_progress_name {
    unsigned char digest[MR_SHA256_BYTES];
    char key[MR_PROGRESS_KEY_BYTES]; /* name of the list in Redis; NUL-terminated */
};

void mr_progress_name_of(struct mr_sha256 *hash, const struct mr_progress_origin *origin,
                         struct mr_progress_name *name);
/* What the tokens of an answer depend on. */
struct mr_progress_model {
    const unsigned char *weights; /* [32] digest of the model's weights (ops/model/model.h) */
    const unsigned char *adapter; /* [32] digest of the request's adapter; NULL: none */
};
void mr_progress_identity_of(struct mr_sha256 *hash, const struct mr_progress_model *model,
                             const uint32_t *token_ids, size_t token_count,
                             unsigned char identity[MR_SHA256_BYTES]);

enum mr_progress_kind {
    MR_PROGRESS_START = 1,
    MR_PROGRESS_TOKENS,
    MR_PROGRESS_RELEASE,
    MR_PROGRESS_RECLAIM,
    MR_PROGRESS_ACCOMPANIED
};

struct mr_progress_entry {
    enum mr_progress_kind kind;
    uint32_t attempt, index, shown;
    bool accompanied, apart;        /* START only: the notes */
    const unsigned char *identity;  /* START only; otherwise NULL */
    const struct mr_sample *sample; /* TOKENS only: the token at position index */
};

/* A hash and the encryption keys, for encoding and decoding entries; both borrowed. */
struct mr_progress_tools {
    struct mr_sha256 *hash;
    /* without keys (count 0), entries are written unencrypted and encrypted ones are skipped */
    struct mr_frame_keys *keys;
};

/* Tools that several threads use, each under the mutex. */
struct mr_progress_set {
    pthread_mutex_t mutex;
    struct mr_sha256 *hash;
    struct mr_frame_keys keys;
};

/* secrets: [count] keys, copied; the first one encrypts. Call _close even after an error. */
enum mr_status mr_progress_set_open(struct mr_progress_set *set,
                                    const struct mr_frame_secret *secrets, size_t count,
                                    struct mr_error *err);
void mr_progress_set_close(struct mr_progress_set *set);

/* Encodes one list entry into `out` (MR_PROGRESS_BYTES_MAX bytes) and returns its length. nonce:
 * never used before with this key; ignored without keys. */
size_t mr_progress_write(const struct mr_progress_tools *tools, const struct mr_progress_name *name,
                         const struct mr_progress_entry *entry,
                         const unsigned char nonce[MR_AES_NONCE_BYTES], unsigned char *out);

/* The decoded Redis list of one request. A zeroed struct is an empty list. */
struct mr_progress_history {
    uint32_t attempts;         /* the highest number of an attempt that started */
    uint32_t crashes;          /* attempts that started and were not released on purpose */
    struct mr_sample *samples; /* [count] tokens from the request's first one; malloc'ed */
    uint32_t count, shown;     /* shown: how many of them are certainly in the tokens topic */
    uint32_t refused; /* list entries that were skipped because they are damaged or belong to
                         another request */
    /* the fields below are private to progress.c */
    /* room: capacity of samples; attempt: the newest attempt, whose tokens count */
    uint32_t room, attempt;
    bool whole; /* no token is missing between the first and the last one read */
    /* bit sets of attempts: started; started and not released; released once; as in the notes */
    uint64_t known[MR_PROGRESS_ATTEMPT_WORDS], running[MR_PROGRESS_ATTEMPT_WORDS];
    uint64_t released[MR_PROGRESS_ATTEMPT_WORDS];
    uint64_t accompanied[MR_PROGRESS_ATTEMPT_WORDS], apart[MR_PROGRESS_ATTEMPT_WORDS];
};

/* Whether the worker stopped this attempt on purpose. */
bool mr_progress_was_released(const struct mr_progress_history *history, uint32_t attempt);
/* Call when a commit lists this attempt as released. If the list has no RELEASE of it, Redis has
 * lost that entry (a failover loses the last writes), and the attempt is marked released. If the
 * list has one, a later RECLAIM may follow it, so nothing changes. */
void mr_progress_note_release(struct mr_progress_history *history, uint32_t attempt);
/* The highest attempt that started and was not released; 0: none. */
uint32_t mr_progress_last_crash(const struct mr_progress_history *history);
/* Whether only this request can have crashed the worker in this attempt. */
bool mr_progress_was_alone(const struct mr_progress_history *history, uint32_t attempt);

/* Adds the next entry of the Redis list to the history. Tokens of another identity are left out. */
void mr_progress_read(struct mr_progress_history *history, const struct mr_progress_tools *tools,
                      const struct mr_progress_name *name,
                      const unsigned char identity[MR_SHA256_BYTES], struct mr_text entry);
/* Frees the history's tokens; afterwards the history is empty. */
void mr_progress_clear(struct mr_progress_history *history);

#endif
