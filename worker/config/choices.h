/* choices - the commands, and enums of the options whose value is one of several words. An
 * enumerator is the position of its word in the option's list (worker/config/options_table.c).
 *
 * Threads: any. Memory: none. Errors: none. */
#ifndef MR_WORKER_CONFIG_CHOICES_H
#define MR_WORKER_CONFIG_CHOICES_H

enum mr_command {
    MR_COMMAND_HELP, /* --help, or no command was given */
    MR_COMMAND_VERSION,
    MR_COMMAND_SERVE,
    MR_COMMAND_DEMO,
    MR_COMMAND_BROKER,
    MR_COMMAND_GATEWAY,
    MR_COMMAND_SEND,
    MR_COMMAND_BATCH,
    MR_COMMAND_TAIL,
    MR_COMMAND_CANCEL,
    MR_COMMAND_TOP,
    MR_COMMAND_LAG,
    MR_COMMAND_BENCH,
    MR_COMMAND_CHECK,
    MR_COMMAND_TOKENIZE,
    MR_COMMAND_REPLAY,
    MR_COMMAND_TOPICS,     /* creates topics with suitable settings, or checks them */
    MR_COMMAND_MAN,        /* prints the manual page */
    MR_COMMAND_COMPLETION, /* prints the completion script for a shell */
    MR_COMMAND_COUNT
};

enum mr_delivery { MR_DELIVERY_AT_LEAST_ONCE, MR_DELIVERY_EXACTLY_ONCE };
enum mr_foreign_commits { MR_FOREIGN_COMMITS_REFUSE, MR_FOREIGN_COMMITS_IGNORE };
/* a different request under an id that its tenant uses: reject it, or run it after the first */
enum mr_duplicate_id { MR_DUPLICATE_ID_REJECT, MR_DUPLICATE_ID_RUN };
/* a partition whose log begins again at a lower offset: run its records, or skip them up to the
 * committed offset */
enum mr_log_replaced { MR_LOG_REPLACED_RUN, MR_LOG_REPLACED_SKIP };
/* running requests of revoked partitions: drop or finish them */
enum mr_on_revoke { MR_ON_REVOKE_DROP, MR_ON_REVOKE_DRAIN };
/* several tokens of an answer in one step: where that does not change the answer, or never */
enum mr_speculation { MR_SPECULATION_AUTO, MR_SPECULATION_OFF };
/* number type of K and V in the KV pool: the one that attention computes with, or int8 */
enum mr_kv_dtype { MR_KV_DTYPE_AUTO, MR_KV_DTYPE_INT8 };
/* how KV blocks are encoded in Redis */
enum mr_redis_kv { MR_REDIS_KV_EXACT, MR_REDIS_KV_INT8 };

#endif
