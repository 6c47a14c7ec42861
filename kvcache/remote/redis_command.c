#include "kvcache/remote/redis_command.h"

#include "codec/check.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- slots ---- */

static uint16_t crc16(const char *bytes, size_t length)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (uint32_t)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000u ? crc << 1 ^ 0x1021u : crc << 1;
    }
    return (uint16_t)crc;
}

uint32_t mr_redis_slot(const char *key, size_t length)
{
    const char *open = memchr(key, '{', length);
    if (open) {
        size_t rest = length - (size_t)(open + 1 - key);
        const char *close = memchr(open + 1, '}', rest);
        if (close && close > open + 1) return crc16(open + 1, (size_t)(close - open - 1)) & 0x3fffu;
    }
    return crc16(key, length) & 0x3fffu;
}

static bool parse_number(const char **text, const char *end, uint32_t max, uint32_t *out)
{
    uint32_t value = 0;
    const char *first = *text;
    while (*text < end && **text >= '0' && **text <= '9' && *text - first < 6)
        value = value * 10 + (uint32_t)(*(*text)++ - '0');
    *out = value;
    return *text > first && value <= max;
}

bool mr_redis_redirect_parse(const char *text, size_t length, struct mr_redis_redirect *out)
{
    const char *end = text + length, *colon = NULL;
    *out = (struct mr_redis_redirect){0};
    out->ask = length > 4 && memcmp(text, "ASK ", 4) == 0;
    if (!out->ask && (length <= 6 || memcmp(text, "MOVED ", 6) != 0)) return false;
    text += out->ask ? 4 : 6;
    uint32_t port;
    if (!parse_number(&text, end, MR_REDIS_SLOTS - 1, &out->slot) || text == end || *text++ != ' ')
        return false;
    for (const char *at = text; at < end; at++)
        /* use the last colon, because an IPv6 address contains colons */
        if (*at == ':') colon = at;
    if (!colon) return false;
    out->host = text;
    out->host_length = (size_t)(colon - text);
    text = colon + 1;
    if (!parse_number(&text, end, 65535, &port) || port == 0) return false;
    out->port = (uint16_t)port;
    return text == end;
}

/* ---- making commands ---- */

static void add_part(struct mr_redis_command *command, const void *bytes, size_t length)
{
    MR_ASSERT(command->out_count < MR_REDIS_COMMAND_PARTS);
    command->out[command->out_count++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
}

static void begin(struct mr_redis_command *command, const char *key, size_t key_length)
{
    MR_ASSERT(key_length <= MR_REDIS_KEY_BYTES);
    *command = (struct mr_redis_command){.slot = mr_redis_slot(key, key_length)};
}

/* Starts the command in command->text: "*COUNT", then word and key as bulk strings; returns the
 * text's length. */
static size_t put_words(struct mr_redis_command *command, int count, const char *word,
                        const char *key, size_t key_length)
{
    int head = snprintf(command->text, sizeof command->text, "*%d\r\n$%zu\r\n%s\r\n$%zu\r\n", count,
                        strlen(word), word, key_length);
    size_t used = (size_t)head;
    MR_ASSERT(head > 0 && used + key_length + 2 < sizeof command->text);
    memcpy(command->text + used, key, key_length);
    memcpy(command->text + used + key_length, "\r\n", 2);
    return used + key_length + 2;
}

/* Appends the text `lead`, then ttl_s as a bulk string, to command->text; returns the text's new
 * length. */
static size_t put_expiry(struct mr_redis_command *command, size_t used, const char *lead,
                         uint64_t ttl_s)
{
    char number[24];
    int digits = snprintf(number, sizeof number, "%" PRIu64, ttl_s);
    int wrote = snprintf(command->text + used, sizeof command->text - used, "%s$%d\r\n%s\r\n", lead,
                         digits, number);
    MR_ASSERT(wrote > 0 && (size_t)wrote < sizeof command->text - used);
    return used + (size_t)wrote;
}

void mr_redis_command_set(struct mr_redis_command *command, const struct mr_redis_value *value,
                          uint64_t ttl_s)
{
    begin(command, value->key, value->key_length);
    size_t used = put_words(command, ttl_s ? 5 : 3, "SET", value->key, value->key_length);
    int wrote = snprintf(command->text + used, sizeof command->text - used, "$%zu\r\n",
                         value->header_length + value->length);
    size_t front = used + (size_t)wrote;
    MR_ASSERT(wrote > 0 && front + 2 < sizeof command->text);
    add_part(command, command->text, front);
    add_part(command, value->header, value->header_length);
    add_part(command, value->payload, value->length);
    memcpy(command->text + front, "\r\n", 2);
    size_t end = ttl_s ? put_expiry(command, front + 2, "$2\r\nEX\r\n", ttl_s) : front + 2;
    add_part(command, command->text + front, end - front);
}

void mr_redis_command_get(struct mr_redis_command *command, const struct mr_redis_value *value)
{
    begin(command, value->key, value->key_length);
    add_part(command, command->text, put_words(command, 2, "GET", value->key, value->key_length));
    command->bulk = true;
    command->into[0] = (struct iovec){.iov_base = value->header, .iov_len = value->header_length};
    command->into[1] = (struct iovec){.iov_base = value->payload, .iov_len = value->length};
}

void mr_redis_command_word(struct mr_redis_command *command, const char *word, const char *key,
                           size_t key_length)
{
    begin(command, key, key_length);
    add_part(command, command->text, put_words(command, 2, word, key, key_length));
}

void mr_redis_command_expire(struct mr_redis_command *command, const char *key, size_t key_length,
                             uint64_t ttl_s)
{
    begin(command, key, key_length);
    size_t used = put_words(command, 3, "EXPIRE", key, key_length);
    add_part(command, command->text, put_expiry(command, used, "", ttl_s));
}

bool mr_redis_command_make(struct mr_redis_command *command, int count, const char *const *words,
                           const size_t *lengths, bool keyed)
{
    *command = (struct mr_redis_command){.slot = MR_REDIS_SLOTS};
    long long length = /* the function returns int before hiredis 1.0 */
        redisFormatCommandArgv(&command->words, count, (const char **)(uintptr_t)words, lengths);
    if (length < 0) return false;
    command->out[0] = (struct iovec){.iov_base = command->words, .iov_len = (size_t)length};
    command->out_count = 1;
    if (keyed) command->slot = mr_redis_slot(words[1], lengths[1]);
    return true;
}

void mr_redis_command_end(struct mr_redis_command *command)
{
    if (command->words) redisFreeCommand(command->words);
    if (command->reply) freeReplyObject(command->reply);
    command->words = NULL;
    command->reply = NULL;
}

enum mr_redis_outcome mr_redis_outcome_of(const char *error, size_t length)
{
    static const struct {
        const char *word;
        enum mr_redis_outcome outcome;
    } words[] = {
        {"MOVED", MR_REDIS_MOVED},        {"ASK", MR_REDIS_MOVED},
        {"LOADING", MR_REDIS_BUSY},       {"BUSY", MR_REDIS_BUSY},
        {"TRYAGAIN", MR_REDIS_BUSY},      {"CLUSTERDOWN", MR_REDIS_BUSY},
        {"MASTERDOWN", MR_REDIS_BUSY},    {"MISCONF", MR_REDIS_FULL},
        {"OOM", MR_REDIS_FULL},           {"NOAUTH", MR_REDIS_DENIED},
        {"WRONGPASS", MR_REDIS_DENIED},   {"NOPERM", MR_REDIS_DENIED},
        {"READONLY", MR_REDIS_READ_ONLY}, {"WRONGTYPE", MR_REDIS_WRONG_TYPE},
    };
    const char *space = memchr(error, ' ', length);
    size_t first = space ? (size_t)(space - error) : length;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == first && memcmp(words[i].word, error, first) == 0)
            return words[i].outcome;
    return MR_REDIS_REFUSED;
}

size_t mr_redis_command_length(const struct mr_redis_command *command)
{
    size_t sum = 0;
    for (int i = 0; i < command->out_count; i++)
        sum += command->out[i].iov_len;
    return sum;
}

size_t mr_redis_command_value_length(const struct mr_redis_command *command)
{
    return command->into[0].iov_len + command->into[1].iov_len;
}

int mr_redis_parts_from(const struct iovec *parts, int count, size_t skip, struct iovec *out)
{
    int used = 0;
    for (int i = 0; i < count; i++) {
        struct iovec part = parts[i];
        size_t passed = skip < part.iov_len ? skip : part.iov_len;
        skip -= passed;
        part.iov_base = (char *)part.iov_base + passed;
        part.iov_len -= passed;
        if (part.iov_len) out[used++] = part;
    }
    return used;
}

/* ---- lists ---- */

void mr_redis_command_list_push(struct mr_redis_command_list *list,
                                struct mr_redis_command *command)
{
    command->next = NULL;
    if (list->last)
        list->last->next = command;
    else
        list->first = command;
    list->last = command;
    list->count++;
}

struct mr_redis_command *mr_redis_command_list_pop(struct mr_redis_command_list *list)
{
    struct mr_redis_command *command = list->first;
    if (command) mr_redis_command_list_remove(list, command);
    return command;
}

bool mr_redis_command_list_remove(struct mr_redis_command_list *list,
                                  struct mr_redis_command *command)
{
    struct mr_redis_command *before = NULL, *at = list->first;
    for (; at && at != command; at = at->next)
        before = at;
    if (!at) return false;
    if (before)
        before->next = command->next;
    else
        list->first = command->next;
    if (list->last == command) list->last = before;
    list->count--;
    command->next = NULL;
    return true;
}

/* ---- replies ---- */

static const redisReply *hiredis_of(const struct mr_redis_reply *reply)
{
    return (const redisReply *)reply;
}

enum mr_redis_type mr_redis_reply_type(const struct mr_redis_reply *reply)
{
    switch (hiredis_of(reply)->type) {
    case REDIS_REPLY_INTEGER:
        return MR_REDIS_INTEGER;
    case REDIS_REPLY_ARRAY:
        return MR_REDIS_LIST;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_ERROR:
    case REDIS_REPLY_STATUS:
        return MR_REDIS_TEXT;
    default:
        return MR_REDIS_NIL;
    }
}

int64_t mr_redis_reply_integer(const struct mr_redis_reply *reply)
{
    return mr_redis_reply_type(reply) == MR_REDIS_INTEGER ? hiredis_of(reply)->integer : 0;
}

const char *mr_redis_reply_text(const struct mr_redis_reply *reply, size_t *length)
{
    bool text = mr_redis_reply_type(reply) == MR_REDIS_TEXT;
    *length = text ? (size_t)hiredis_of(reply)->len : 0;
    return text ? hiredis_of(reply)->str : "";
}

size_t mr_redis_reply_count(const struct mr_redis_reply *reply)
{
    return mr_redis_reply_type(reply) == MR_REDIS_LIST ? (size_t)hiredis_of(reply)->elements : 0;
}

const struct mr_redis_reply *mr_redis_reply_at(const struct mr_redis_reply *reply, size_t index)
{
    MR_ASSERT(index < mr_redis_reply_count(reply));
    return (const struct mr_redis_reply *)hiredis_of(reply)->element[index];
}

void mr_redis_reply_free(struct mr_redis_reply *reply)
{
    freeReplyObject(reply);
}

/* ---- parsing ---- */

struct mr_redis_parser *mr_redis_parser_create(void)
{
    return (struct mr_redis_parser *)redisReaderCreate();
}

void mr_redis_parser_destroy(struct mr_redis_parser *parser)
{
    if (parser) redisReaderFree((redisReader *)parser);
}

bool mr_redis_parser_feed(struct mr_redis_parser *parser, const char *bytes, size_t length,
                          struct mr_redis_reply **reply, bool *is_error)
{
    redisReader *reader = (redisReader *)parser;
    void *parsed = NULL;
    *reply = NULL;
    *is_error = false;
    if (redisReaderFeed(reader, bytes, length) != REDIS_OK ||
        redisReaderGetReply(reader, &parsed) != REDIS_OK)
        return false;
    *reply = parsed;
    *is_error = parsed && ((redisReply *)parsed)->type == REDIS_REPLY_ERROR;
    return true;
}
