/* redis_reply - formats Redis commands and parses replies that are not values. The only module that
 * knows hiredis.
 *
 * Owner: one thread. Memory: a parser holds the bytes of one unfinished reply; the caller bounds
 * them. A reply belongs to its op until mr_redis_op_end. Errors: false or NULL when memory is out.
 */
#ifndef MR_KVCACHE_REMOTE_REDIS_REPLY_H
#define MR_KVCACHE_REMOTE_REDIS_REPLY_H

#include "kvcache/remote/redis_op.h"

/* Makes op a command of these words; keyed: the second word is the command's key. False: no
 * memory. */
bool mr_redis_op_command(struct mr_redis_op *op, int count, const char *const *words,
                         const size_t *lengths, bool keyed);
/* Frees what op owns: its command and its reply. */
void mr_redis_op_end(struct mr_redis_op *op);

enum mr_redis_type { MR_REDIS_NIL, MR_REDIS_INTEGER, MR_REDIS_TEXT, MR_REDIS_LIST };
enum mr_redis_type mr_redis_reply_type(const struct mr_redis_reply *reply);
/* 0 for replies of other types */
int64_t mr_redis_reply_integer(const struct mr_redis_reply *reply);
/* "" for replies of other types */
const char *mr_redis_reply_text(const struct mr_redis_reply *reply, size_t *length);
/* number of elements of an array reply; 0 for replies of other types */
size_t mr_redis_reply_count(const struct mr_redis_reply *reply);
const struct mr_redis_reply *mr_redis_reply_at(const struct mr_redis_reply *reply, size_t index);
void mr_redis_reply_free(struct mr_redis_reply *reply);

struct mr_redis_parser;

struct mr_redis_parser *mr_redis_parser_create(void);
/* parser may be NULL. */
void mr_redis_parser_destroy(struct mr_redis_parser *parser);
/* Feeds the next bytes of one reply. *reply: the reply when these bytes complete it, owned by the
 * caller; else NULL. *is_error: whether it is an error reply. False: the bytes are not a valid
 * reply. */
bool mr_redis_parser_feed(struct mr_redis_parser *parser, const char *bytes, size_t length,
                          struct mr_redis_reply **reply, bool *is_error);

#endif
