/* options_table - every option of every command, once. The parser, the environment, the file, the
 * help, the manual page and the completion all read this table.
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
    const char *initial; /* default, written as a person would; "" none */
    uint32_t commands;   /* bit of each enum mr_command that takes it */
    double min, max;     /* of a number */
    const char *choices; /* "a|b|c" or NULL */
    const char *value;   /* what stands for the value in the help */
    const char *help;    /* one sentence without its full stop */
    bool flag_only;      /* neither environment nor file */
};

struct mr_command_entry {
    const char *name, *arguments, *help;
    size_t argument_min, argument_max;
};

extern const struct mr_option mr_options[];
extern const size_t mr_option_count;
extern const struct mr_command_entry mr_commands[MR_COMMAND_COUNT];

/* By name, '_' read as '-'; NULL when there is none. */
const struct mr_option *mr_option_find(const char *name);
/* The name nearest to what was written (among the options of the commands in the mask), or NULL
 * when nothing is near: edit distance of at most a third of its length. */
const char *mr_option_nearest(const char *name, uint32_t commands);
const char *mr_command_nearest(const char *name);

#endif
