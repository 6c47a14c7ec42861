/* options_table - every option of every command in one table. The parsers of flags, environment and
 * YAML file use the table, as do the help, the manual page and the shell completions.
 *
 * Threads: any (constants). Memory: none. Errors: none. */
#ifndef MR_WORKER_CONFIG_OPTIONS_TABLE_H
#define MR_WORKER_CONFIG_OPTIONS_TABLE_H

#include "worker/config/config.h"

enum mr_option_kind {
    MR_OPTION_BOOL,     /* field: bool; written --name, --no-name or --name=false */
    MR_OPTION_U32,      /* field: uint32_t; the option's one choice, if any, is MR_OPTION_AUTO */
    MR_OPTION_I32,      /* field: int32_t */
    MR_OPTION_U64,      /* field: uint64_t */
    MR_OPTION_DOUBLE,   /* field: double */
    MR_OPTION_BYTES,    /* field: uint64_t; written as "2GiB" */
    MR_OPTION_DURATION, /* field: uint64_t, nanoseconds; written as "25s" */
    MR_OPTION_TEXT,     /* field: const char *; if the option has choices, one of them */
    MR_OPTION_CHOICE,   /* field: an enum, whose value is the index of the choice */
    MR_OPTION_LIST      /* field: struct mr_text_list; the option may be given several times */
};

/* Sections of the help and of the manual page, in their order; mr_option_groups has the headings.
 */
enum mr_option_group {
    MR_GROUP_FIRST, /* options that nearly every user of a command sets */
    MR_GROUP_MODEL,
    MR_GROUP_LIMITS,
    MR_GROUP_KAFKA,
    MR_GROUP_DELIVERY,
    MR_GROUP_REDIS,
    MR_GROUP_OBSERVING,
    MR_GROUP_COMMAND, /* options of one command or a few */
    MR_GROUP_GENERAL,
    MR_GROUP_COUNT
};
extern const char *const mr_option_groups[MR_GROUP_COUNT];

struct mr_option {
    const char *name; /* name without the leading "--", words joined by '-' */
    enum mr_option_kind kind;
    size_t offset;       /* of the option's field in struct mr_config */
    const char *initial; /* default value as written on the command line; "": none */
    uint32_t commands;   /* set of commands that have the option: bits 1 << enum mr_command */
    double min, max;     /* smallest and largest value of a number */
    const char *choices; /* allowed values as "a|b|c"; NULL: any */
    const char *value;   /* placeholder for the value in the help, such as "MS" */
    const char *help;    /* one to four short sentences */
    enum mr_option_group group;
    bool flag_only; /* can be set on the command line only */
};

struct mr_command_entry {
    const char *name, *arguments, *help;
    size_t argument_min, argument_max;
};

extern const struct mr_option mr_options[];
extern const size_t mr_option_count;
extern const struct mr_command_entry mr_commands[MR_COMMAND_COUNT];

/* True when the command has the option. */
bool mr_option_is_of(const struct mr_option *option, unsigned command);
/* Returns the command's name, such as "serve" or "demo"; a string literal. */
const char *mr_command_name(enum mr_command command);
/* Returns the option of that name, reading '_' in name as '-'; NULL: there is no such option. */
const struct mr_option *mr_option_find(const char *name);
/* Among the options of the given commands (bit mask), returns the name most similar to `name`, for
 * "did you mean"; NULL when no name is within an edit distance of a third of the length of
 * `name`. */
const char *mr_option_nearest(const char *name, uint32_t commands);
/* Among these words, returns the one most similar to `written`, as mr_option_nearest does. */
const char *mr_word_nearest(const char *written, const char *const *words, size_t count);
/* Like mr_option_nearest, but among the names of the commands. */
const char *mr_command_nearest(const char *name);

#endif
