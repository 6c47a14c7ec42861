#include "worker/resume/progress.h"

#include "codec/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC       0xB5u
#define HEAD_BYTES  ((size_t)8)
#define CHECK_BYTES ((size_t)8)
#define TOKEN_BYTES ((size_t)12)
#define TOP_BYTES   ((size_t)8)
#define BODY_MAX    (MR_PROGRESS_BYTES_MAX - HEAD_BYTES - MR_AES_NONCE_BYTES - MR_AES_TAG_BYTES)
#define AAD_BYTES   (MR_SHA256_BYTES + HEAD_BYTES)

#define NOTES_GIVEN       1u
#define NOTES_ACCOMPANIED 2u
#define NOTES_APART       4u

/* ---- numbers ---- */

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_float(unsigned char *at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u32(at, bits);
}

static float get_float(const unsigned char *at)
{
    float value;
    uint32_t bits = get_u32(at);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- names ---- */

void mr_progress_name_of(struct mr_sha256 *hash, const struct mr_progress_origin *origin,
                         struct mr_progress_name *name)
{
    uint64_t numbers[] = {(uint64_t)origin->partition, (uint64_t)origin->offset,
                          (uint64_t)origin->timestamp_ms};
    unsigned char place[sizeof numbers];
    for (size_t i = 0; i < sizeof place; i++)
        place[i] = (unsigned char)(numbers[i / 8] >> (8 * (i % 8)));
    mr_sha256_begin(hash);
    mr_sha256_add_field(hash, "millrace progress 1", origin->group, strlen(origin->group));
    mr_sha256_add_field(hash, "tenant", origin->tenant, strlen(origin->tenant));
    mr_sha256_add_field(hash, "topic", origin->topic, strlen(origin->topic));
    mr_sha256_add_field(hash, "place", place, sizeof place);
    mr_sha256_add_field(hash, "id", origin->id.bytes, origin->id.length);
    mr_sha256_add_field(hash, "value", origin->value.bytes, origin->value.length);
    mr_sha256_end(hash, name->digest);
    memcpy(name->key, "mr:p:", 5);
    mr_sha256_hex(name->digest, 16, name->key + 5);
    name->key[37] = '\0';
}

void mr_progress_identity_of(struct mr_sha256 *hash, const struct mr_progress_model *model,
                             const uint32_t *token_ids, size_t token_count,
                             unsigned char identity[MR_SHA256_BYTES])
{
    mr_sha256_begin(hash);
    mr_sha256_add_field(hash, "weights", model->weights, 32);
    if (model->adapter) mr_sha256_add_field(hash, "adapter", model->adapter, 32);
    mr_sha256_add_field(hash, "prompt", token_ids, token_count * sizeof *token_ids);
    mr_sha256_end(hash, identity);
}

enum mr_status mr_progress_set_open(struct mr_progress_set *set,
                                    const struct mr_frame_secret *secrets, size_t count,
                                    struct mr_error *err)
{
    pthread_mutex_init(&set->mutex, NULL);
    set->hash = mr_sha256_create();
    if (!set->hash) return mr_fail(err, MR_NOMEM, "no memory for a hash");
    return mr_frame_keys_add_all(&set->keys, secrets, count, err);
}

void mr_progress_set_close(struct mr_progress_set *set)
{
    mr_frame_keys_clear(&set->keys);
    mr_sha256_destroy(set->hash);
    pthread_mutex_destroy(&set->mutex);
}

/* ---- writing ---- */

static size_t put_sample(const struct mr_sample *sample, unsigned char *out)
{
    put_u32(out, sample->token_id);
    put_float(out + 4, sample->logprob);
    put_float(out + 8, sample->probability);
    unsigned char *at = out + TOKEN_BYTES;
    for (uint32_t i = 0; i < sample->top_count; i++, at += TOP_BYTES) {
        put_u32(at, sample->top_ids[i]);
        put_float(at + 4, sample->top_logprobs[i]);
    }
    return (size_t)(at - out);
}

static size_t put_body(const struct mr_progress_entry *entry, unsigned char body[BODY_MAX])
{
    if (entry->kind != MR_PROGRESS_START && entry->kind != MR_PROGRESS_TOKENS) return 0;
    put_u32(body, entry->index);
    put_u32(body + 4, entry->shown);
    if (entry->kind == MR_PROGRESS_TOKENS) return 8 + put_sample(entry->sample, body + 8);
    memcpy(body + 8, entry->identity, MR_SHA256_BYTES);
    return 8 + MR_SHA256_BYTES;
}

static void check_of(struct mr_sha256 *hash, const unsigned char aad[AAD_BYTES],
                     const unsigned char *body, size_t length, unsigned char out[CHECK_BYTES])
{
    unsigned char digest[MR_SHA256_BYTES];
    mr_sha256_begin(hash);
    mr_sha256_add(hash, aad, AAD_BYTES);
    mr_sha256_add(hash, body, length);
    mr_sha256_end(hash, digest);
    memcpy(out, digest, CHECK_BYTES);
}

/* Writes the additional data that AES-GCM authenticates together with the body: the request's name
 * and the head of the list entry. */
static void put_aad(const struct mr_progress_name *name, const unsigned char *head,
                    unsigned char aad[AAD_BYTES])
{
    memcpy(aad, name->digest, MR_SHA256_BYTES);
    memcpy(aad + MR_SHA256_BYTES, head, HEAD_BYTES);
}

static unsigned char third_byte(const struct mr_progress_entry *entry)
{
    if (entry->kind == MR_PROGRESS_TOKENS) return (unsigned char)entry->sample->top_count;
    if (entry->kind != MR_PROGRESS_START) return 0;
    return (unsigned char)(NOTES_GIVEN | (entry->accompanied ? NOTES_ACCOMPANIED : 0) |
                           (entry->apart ? NOTES_APART : 0));
}

size_t mr_progress_write(const struct mr_progress_tools *tools, const struct mr_progress_name *name,
                         const struct mr_progress_entry *entry,
                         const unsigned char nonce[MR_AES_NONCE_BYTES], unsigned char *out)
{
    unsigned char body[BODY_MAX], aad[AAD_BYTES];
    bool sealed = tools->keys->count > 0;
    MR_ASSERT(!entry->sample || entry->sample->top_count <= MR_LOGPROBS_MAX);
    size_t length = put_body(entry, body);
    out[0] = MAGIC;
    out[1] = (unsigned char)entry->kind;
    out[2] = sealed ? tools->keys->ids[0] : 0;
    out[3] = third_byte(entry);
    put_u32(out + 4, entry->attempt);
    put_aad(name, out, aad);
    unsigned char *at = out + HEAD_BYTES;
    if (!sealed) {
        memcpy(at, body, length);
        check_of(tools->hash, aad, body, length, at + length);
        return HEAD_BYTES + length + CHECK_BYTES;
    }
    struct mr_aes_message message = {
        .nonce = nonce, .data = aad, .data_length = AAD_BYTES, .length = length};
    memcpy(at, nonce, MR_AES_NONCE_BYTES);
    at += MR_AES_NONCE_BYTES;
    mr_aes_gcm_seal(tools->keys->states[0], &message, body, at, at + length);
    return HEAD_BYTES + MR_AES_NONCE_BYTES + length + MR_AES_TAG_BYTES;
}

/* ---- reading one ---- */

/* Verifies, and decrypts if it is encrypted, the body of one list entry. Returns the length of the
 * body; SIZE_MAX: the entry is damaged. */
static size_t open_body(const struct mr_progress_tools *tools, const struct mr_progress_name *name,
                        struct mr_text entry, unsigned char body[BODY_MAX])
{
    const unsigned char *bytes = (const unsigned char *)entry.bytes, *at = bytes + HEAD_BYTES;
    unsigned char aad[AAD_BYTES], check[CHECK_BYTES];
    bool sealed = tools->keys->count > 0;
    size_t around = sealed ? MR_AES_NONCE_BYTES + MR_AES_TAG_BYTES : CHECK_BYTES;
    if (entry.length < HEAD_BYTES + around || bytes[0] != MAGIC) return SIZE_MAX;
    size_t length = entry.length - HEAD_BYTES - around;
    if (length > BODY_MAX || (bytes[2] != 0) != sealed) return SIZE_MAX;
    put_aad(name, bytes, aad);
    if (!sealed) {
        check_of(tools->hash, aad, at, length, check);
        if (memcmp(check, at + length, CHECK_BYTES) != 0) return SIZE_MAX;
        memcpy(body, at, length);
        return length;
    }
    struct mr_aes_gcm *key = mr_frame_keys_find(tools->keys, bytes[2]);
    struct mr_aes_message message = {
        .nonce = at, .data = aad, .data_length = AAD_BYTES, .length = length};
    at += MR_AES_NONCE_BYTES;
    return key && mr_aes_gcm_open(key, &message, at, body, at + length) ? length : SIZE_MAX;
}

static bool get_sample(const unsigned char *body, uint32_t top_count, struct mr_sample *sample)
{
    *sample = (struct mr_sample){.token_id = get_u32(body),
                                 .logprob = get_float(body + 4),
                                 .probability = get_float(body + 8),
                                 .top_count = top_count};
    bool finite = isfinite(sample->logprob) && isfinite(sample->probability);
    body += TOKEN_BYTES;
    for (uint32_t i = 0; i < top_count; i++, body += TOP_BYTES) {
        sample->top_ids[i] = get_u32(body);
        sample->top_logprobs[i] = get_float(body + 4);
        finite = finite && isfinite(sample->top_logprobs[i]);
    }
    return finite;
}

/* ---- history ---- */

static void set_bit(uint64_t *words, uint32_t attempt)
{
    words[attempt / 64] |= (uint64_t)1 << (attempt % 64);
}

static bool has_bit(const uint64_t *words, uint32_t attempt)
{
    return attempt <= MR_PROGRESS_ATTEMPTS_MAX && words[attempt / 64] >> (attempt % 64) & 1;
}

bool mr_progress_was_released(const struct mr_progress_history *history, uint32_t attempt)
{
    return has_bit(history->known, attempt) && !has_bit(history->running, attempt);
}

uint32_t mr_progress_last_crash(const struct mr_progress_history *history)
{
    uint32_t attempt = history->attempts;
    while (attempt > 0 && !has_bit(history->running, attempt))
        attempt--;
    return attempt;
}

bool mr_progress_was_alone(const struct mr_progress_history *history, uint32_t attempt)
{
    return has_bit(history->apart, attempt) || !has_bit(history->accompanied, attempt);
}

static void set_running(struct mr_progress_history *history, uint32_t attempt, bool runs)
{
    uint64_t *word = &history->running[attempt / 64], bit = (uint64_t)1 << (attempt % 64);
    if (runs && !(*word & bit)) history->crashes++;
    if (!runs && *word & bit) history->crashes--;
    *word = runs ? *word | bit : *word & ~bit;
    if (runs && attempt > history->attempts) history->attempts = attempt;
}

void mr_progress_note_release(struct mr_progress_history *history, uint32_t attempt)
{
    if (has_bit(history->running, attempt) && !has_bit(history->released, attempt))
        set_running(history, attempt, false);
}

static void take_notes(struct mr_progress_history *history, uint32_t attempt, unsigned char notes)
{
    set_bit(history->known, attempt);
    if (!(notes & NOTES_GIVEN) || notes & NOTES_ACCOMPANIED) set_bit(history->accompanied, attempt);
    if (notes & NOTES_APART) set_bit(history->apart, attempt);
}

static void begin(struct mr_progress_history *history, uint32_t attempt, uint32_t index,
                  uint32_t shown, bool same)
{
    set_running(history, attempt, true);
    /* an older attempt, written late by a worker that has lost the request to another one */
    if (attempt < history->attempt) return;
    history->attempt = attempt;
    history->whole = same && index <= history->count;
    history->count = history->whole ? index : 0;
    history->shown = shown < history->count ? shown : history->count;
}

static bool make_room(struct mr_progress_history *history)
{
    if (history->count < history->room) return true;
    uint32_t room = history->room ? 2 * history->room : 64;
    if (room > MR_PROGRESS_TOKENS_MAX) return false;
    struct mr_sample *samples = realloc(history->samples, room * sizeof *samples);
    if (!samples) return false;
    history->samples = samples;
    history->room = room;
    return true;
}

static void append(struct mr_progress_history *history, uint32_t attempt, uint32_t index,
                   uint32_t shown, const struct mr_sample *sample)
{
    if (!history->whole || attempt != history->attempt) return;
    if (index < history->count)
        /* the attempt replaces tokens that the list already has: discard them */
        history->count = index;
    history->whole = index == history->count && make_room(history);
    if (!history->whole) return;
    history->samples[history->count++] = *sample;
    if (shown > history->shown) history->shown = shown;
    if (history->shown > history->count) history->shown = history->count;
}

void mr_progress_read(struct mr_progress_history *history, const struct mr_progress_tools *tools,
                      const struct mr_progress_name *name,
                      const unsigned char identity[MR_SHA256_BYTES], struct mr_text entry)
{
    unsigned char body[BODY_MAX];
    struct mr_sample sample;
    size_t length = open_body(tools, name, entry, body);
    const unsigned char *head = (const unsigned char *)entry.bytes;
    uint32_t attempt = length != SIZE_MAX ? get_u32(head + 4) : 0;
    if (attempt == 0 || attempt > MR_PROGRESS_ATTEMPTS_MAX) {
        history->refused++;
        return;
    }
    uint32_t kind = head[1], tops = head[3];
    if (kind == MR_PROGRESS_START && length == 8 + MR_SHA256_BYTES) {
        take_notes(history, attempt, head[3]);
        begin(history, attempt, get_u32(body), get_u32(body + 4),
              memcmp(body + 8, identity, MR_SHA256_BYTES) == 0);
    } else if (kind == MR_PROGRESS_TOKENS && tops <= MR_LOGPROBS_MAX &&
               length == 8 + TOKEN_BYTES + tops * TOP_BYTES && get_sample(body + 8, tops, &sample))
        append(history, attempt, get_u32(body), get_u32(body + 4), &sample);
    else if (kind == MR_PROGRESS_ACCOMPANIED && length == 0)
        set_bit(history->accompanied, attempt);
    else if ((kind == MR_PROGRESS_RELEASE || kind == MR_PROGRESS_RECLAIM) && length == 0) {
        set_running(history, attempt, kind == MR_PROGRESS_RECLAIM);
        set_bit(history->released, attempt);
    } else
        history->refused++;
}

void mr_progress_clear(struct mr_progress_history *history)
{
    free(history->samples);
    *history = (struct mr_progress_history){0};
}
