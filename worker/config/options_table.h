/* options_table - defines every option of every command in one table, which the parser, the
 * environment, the file, the help, the manual page and the completion read.
 *
 * Threads: any (constants). Memory: none. Errors: none. */
#ifndef MR_WORKER_CONFIG_OPTIONS_TABLE_H
#define MR_WORKER_CONFIG_OPTIONS_TABLE_H

#include "worker/config/config.h"

enum mr_option_kind {
    MR_OPTION_BOOL,     /* bool; --name, --no-name, --name=false */
    MR_OPTION_U32,      /* uint32_t */
    MR_OPTION_I32,      /* int32_t */
    MR_OPTION_U64,      /* uint64_t */
    MR_OPTION_DOUBLE,   /* double */
    MR_OPTION_BYTES,    /* uint64_t, "2GiB" */
    MR_OPTION_DURATION, /* uint64_t nanoseconds, "25s" */
    MR_OPTION_TEXT,     /* const char *; with choices: one of them */
    MR_OPTION_CHOICE,   /* an enum: the index in choices */
    MR_OPTION_LIST      /* struct mr_text_list, repeatable */
};

struct mr_option {
    const char *name; /* with dashes */
    enum mr_option_kind kind;
    size_t offset;       /* into struct mr_config */
    const char *initial; /* default in the notation of the command line; "": none */
    uint32_t commands;   /* mask: bit 1 << enum mr_command for each command that has it */
    double min, max;     /* range of a number */
    const char *choices; /* "a|b|c" or NULL */
    const char *value;   /* placeholder for the value in the help */
    const char *help;    /* one sentence without the full stop at its end */
    bool flag_only;      /* cannot be set by environment or file */
};

struct mr_command_entry {
    const char *name, *arguments, *help;
    size_t argument_min, argument_max;
};

extern const struct mr_option mr_options[];
extern const size_t mr_option_count;
extern const struct mr_command_entry mr_commands[MR_COMMAND_COUNT];

/* The option of that name, with '_' read as '-'; NULL: no such option. */
const struct mr_option *mr_option_find(const char *name);
/* The option of the commands in the mask whose name is most similar to `name`, for "did you mean";
 * NULL when none is within an edit distance of a third of its length. */
const char *mr_option_nearest(const char *name, uint32_t commands);
/* The same among the commands. */
const char *mr_command_nearest(const char *name);

#endif
