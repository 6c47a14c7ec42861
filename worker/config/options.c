#include "worker/config/options.h"

#include "codec/check.h"
#include "worker/config/config_file.h"
#include "worker/config/config_finish.h"
#include "worker/config/environment.h"
#include "worker/config/option_apply.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORE_BYTES_MAX ((size_t)1 << 20)
#define NAME_BYTES_MAX  ((size_t)64)
/* characters that separate the values of a list in one environment variable */
#define VALUE_SEPARATORS ";\n"
/* getopt_long codes of our options begin here, above all character codes */
#define FLAG_FIRST       0x100
#define FLAG_NEGATED     0x1000
#define LONG_OPTIONS_MAX (2 * MR_OPTION_COUNT_MAX + 1)
#define ANY_COMMAND      UINT32_MAX

static enum mr_status apply_defaults(struct mr_config *config, struct mr_error *err)
{
    for (size_t i = 0; i < mr_option_count; i++) {
        if (mr_options[i].kind == MR_OPTION_LIST) continue;
        enum mr_status status = mr_option_apply(config, &mr_options[i], mr_options[i].initial,
                                                (struct mr_option_source){0}, err);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

/* ---- file ---- */

static enum mr_status set_from_file(void *context, const char *name, const char *value,
                                    uint32_t line, struct mr_error *err)
{
    const struct mr_config *config = context;
    const struct mr_option *option = mr_option_find(name);
    const char *nearest = mr_option_nearest(name, ANY_COMMAND);
    if (!option && nearest)
        return mr_fail(err, MR_BAD_CONFIG,
                       "%.120s, line %u: unknown option %.64s: did you mean %s?", config->config,
                       line, name, nearest);
    if (!option)
        return mr_fail(err, MR_BAD_CONFIG,
                       "%.120s, line %u: unknown option %.64s; millrace serve --help lists them",
                       config->config, line, name);
    if (option->flag_only || strcmp(option->name, "config") == 0)
        return mr_fail(
            err, MR_BAD_CONFIG,
            "%.120s, line %u: %s cannot be set in a file; write --%s on the command line",
            config->config, line, option->name, option->name);
    return mr_option_apply(context, option, value, (struct mr_option_source){MR_ORIGIN_FILE, line},
                           err);
}

/* ---- environment ---- */

static const struct mr_option_source from_environment = {.origin = MR_ORIGIN_ENVIRONMENT};

static enum mr_status apply_list(struct mr_config *config, const struct mr_option *option,
                                 const char *text, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    while (status == MR_OK && *text) {
        size_t length = strcspn(text, VALUE_SEPARATORS);
        char *element = mr_option_copy(config, text, length);
        if (!element) return mr_fail(err, MR_BAD_CONFIG, "%s: the value is too long", option->name);
        if (length) status = mr_option_apply(config, option, element, from_environment, err);
        text += length + (text[length] != '\0');
    }
    return status;
}

static enum mr_status apply_environment(struct mr_config *config, char *const environment[],
                                        struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && environment[i]; i++) {
        struct mr_variable variable;
        mr_variable_read(&variable, environment[i]);
        if (variable.kind != MR_VARIABLE_OPTION) continue;
        const struct mr_option *option = mr_option_find(variable.option);
        if (!option || option->flag_only) continue;
        /* an empty value means "not set", as compose files write it */
        if (variable.value[0] == '\0') continue;
        status = option->kind == MR_OPTION_LIST
                     ? apply_list(config, option, variable.value, err)
                     : mr_option_apply(config, option, variable.value, from_environment, err);
    }
    return status;
}

/* True when a --kafka NAME=env:VARIABLE names this variable. */
static bool is_property_value(const struct mr_config *config, const char *name)
{
    for (size_t i = 0; i < config->kafka.count; i++) {
        const char *value = strchr(config->kafka.values[i], '=');
        if (value && strncmp(value, "=env:", 5) == 0 && strcmp(value + 5, name) == 0) return true;
    }
    return false;
}

static enum mr_status refuse_variable(const struct mr_variable *variable, struct mr_error *err)
{
    char nearest_name[MR_VARIABLE_NAME_BYTES_MAX];
    if (mr_option_find(variable->option))
        return mr_fail(err, MR_BAD_CONFIG,
                       "environment variable %s: --%s can be given on the command line only",
                       variable->name, variable->option);
    const char *nearest = mr_option_nearest(variable->option, ANY_COMMAND);
    if (!nearest)
        return mr_fail(err, MR_BAD_CONFIG,
                       "unknown environment variable %s: unset it, or see millrace serve --help",
                       variable->name);
    mr_variable_name_of(nearest, nearest_name);
    return mr_fail(err, MR_BAD_CONFIG, "unknown environment variable %s: did you mean %s?",
                   variable->name, nearest_name);
}

static void note_ignored(struct mr_config *config, const struct mr_variable *variable)
{
    struct mr_text_list *list = &config->ignored_variables;
    if (list->count == MR_LIST_MAX) return;
    const char *name = mr_option_copy(config, variable->name, strlen(variable->name));
    if (name) list->values[list->count++] = name;
}

/* Refuses variables with our prefix that name no option, so that a misspelled one is not silently
 * ignored. Call this when the values of --kafka are known. */
static enum mr_status check_environment(struct mr_config *config, char *const environment[],
                                        struct mr_error *err)
{
    for (size_t i = 0; environment[i]; i++) {
        struct mr_variable variable;
        mr_variable_read(&variable, environment[i]);
        if (variable.kind == MR_VARIABLE_SERVICE) note_ignored(config, &variable);
        if (variable.kind != MR_VARIABLE_OPTION || is_property_value(config, variable.name))
            continue;
        const struct mr_option *option = mr_option_find(variable.option);
        if (!option || option->flag_only) return refuse_variable(&variable, err);
    }
    return MR_OK;
}

/* ---- flags ---- */

/* Fills the array for getopt_long: one element for each option of the command, and --no-NAME for
 * every boolean option. */
static enum mr_status make_flags(struct mr_config *config, struct option flags[LONG_OPTIONS_MAX],
                                 struct mr_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        if (!mr_option_is_of(option, config->command)) continue;
        bool is_switch = option->kind == MR_OPTION_BOOL;
        flags[count++] =
            (struct option){option->name, is_switch ? optional_argument : required_argument, NULL,
                            FLAG_FIRST + (int)i};
        if (!is_switch) continue;
        char name[64];
        int length = snprintf(name, sizeof name, "no-%s", option->name);
        MR_ASSERT(length > 0 && (size_t)length < sizeof name);
        char *negated = mr_option_copy(config, name, (size_t)length);
        if (!negated) return mr_fail(err, MR_NOMEM, "no memory for the flags");
        flags[count++] =
            (struct option){negated, no_argument, NULL, (FLAG_FIRST + (int)i) | FLAG_NEGATED};
    }
    flags[count] = (struct option){0};
    return MR_OK;
}

/* Returns the option that a flag without its dashes names; *negated: the flag was "no-NAME". */
static const struct mr_option *find_flag(const char *name, bool *negated)
{
    const struct mr_option *option = mr_option_find(name);
    *negated = !option && strncmp(name, "no-", 3) == 0;
    if (!*negated) return option;
    option = mr_option_find(name + 3);
    return option && option->kind == MR_OPTION_BOOL ? option : NULL;
}

static enum mr_status unknown_flag(const struct mr_config *config, const char *name,
                                   struct mr_error *err)
{
    bool negated;
    const struct mr_option *option = find_flag(name, &negated);
    const char *command = mr_command_name(config->command);
    if (option && mr_option_is_of(option, config->command))
        return mr_fail(err, MR_BAD_CONFIG, "--%.64s takes no value: leave out \"=...\"", name);
    if (option)
        return mr_fail(err, MR_BAD_CONFIG,
                       "%s takes no option --%.64s; millrace %s --help lists its options", command,
                       name, command);
    const char *nearest = mr_option_nearest(negated ? name + 3 : name, 1u << config->command);
    if (!nearest)
        return mr_fail(err, MR_BAD_CONFIG,
                       "unknown option --%.64s; millrace %s --help lists its options", name,
                       command);
    return mr_fail(err, MR_BAD_CONFIG, "unknown option --%.64s: did you mean --%s%s?", name,
                   negated ? "no-" : "", nearest);
}

/* Copies the name in "--name" or "--name=value". */
static void name_in(const char *word, char name[NAME_BYTES_MAX])
{
    size_t length = strcspn(word + 2, "=");
    if (length >= NAME_BYTES_MAX) length = NAME_BYTES_MAX - 1;
    memcpy(name, word + 2, length);
    name[length] = '\0';
}

static enum mr_status bad_flag(const struct mr_config *config, int code, const char *word,
                               struct mr_error *err)
{
    char name[NAME_BYTES_MAX];
    if (word[0] == '-' && word[1] != '-')
        return mr_fail(err, MR_BAD_CONFIG, "unknown flag %.64s: options begin with --; see --help",
                       word);
    name_in(word, name);
    const struct mr_option *option = mr_option_find(name);
    if (code == ':')
        return mr_fail(err, MR_BAD_CONFIG, "%.64s needs a value: %.64s %s", word, word,
                       option && option->value ? option->value : "VALUE");
    return unknown_flag(config, name, err);
}

/* Refuses the next word as an option's value if that word is an option itself, because then the
 * value is missing. */
static enum mr_status check_value(const struct mr_option *option, const char *next,
                                  struct mr_error *err)
{
    bool is_option = strncmp(next, "--", 2) == 0 || strcmp(next, "-h") == 0;
    if (!is_option) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG,
                   "--%s needs a value: %.64s is an option; if it is the value, write --%s=%.64s",
                   option->name, next, option->name, next);
}

/* words: the flag, and its value if that is a separate word. getopt_long also accepts the beginning
 * of a name. That is an error here, because it could name another option in a later version. */
static enum mr_status apply_flag(struct mr_config *config, int code, char *const *words,
                                 struct mr_error *err)
{
    const struct mr_option *option = &mr_options[(code & ~FLAG_NEGATED) - FLAG_FIRST];
    const char *value = code & FLAG_NEGATED ? "false" : optarg ? optarg : "true";
    char name[NAME_BYTES_MAX];
    enum mr_status status = MR_OK;
    name_in(words[0], name);
    if (strcmp(code & FLAG_NEGATED ? name + 3 : name, option->name) != 0)
        return unknown_flag(config, name, err);
    if (optarg && optarg == words[1]) status = check_value(option, optarg, err);
    return status == MR_OK
               ? mr_option_apply(config, option, value,
                                 (struct mr_option_source){.origin = MR_ORIGIN_FLAG}, err)
               : status;
}

/* Number of words after the first word `--`, which ends the options. `--` is never the value of an
 * option (check_value). */
static size_t count_plain(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0) return (size_t)(argc - i - 1);
    return 0;
}

static enum mr_status apply_flags(struct mr_config *config, int argc, char **argv,
                                  struct mr_error *err)
{
    struct option flags[LONG_OPTIONS_MAX];
    enum mr_status status = make_flags(config, flags, err);
    config->plain_count = count_plain(argc, argv);
    optind = 0; /* with glibc, 0 makes getopt_long start a new scan */
    opterr = 0;
    while (status == MR_OK) {
        int before = optind > 0 ? optind : 1;
        int code = getopt_long(argc, argv, ":h", flags, NULL);
        if (code == -1) break;
        if (code == 'h') {
            config->help = true;
            continue;
        }
        if (code == '?' || code == ':')
            return bad_flag(config, code, argv[optind > before ? optind - 1 : before], err);
        bool apart = optarg && optarg == argv[optind - 1];
        status = apply_flag(config, code, argv + optind - (apart ? 2 : 1), err);
    }
    config->arguments = (const char *const *)argv + optind;
    config->argument_count = (size_t)(argc - optind);
    return status;
}

/* ---- all sources ---- */

static enum mr_status find_command(struct mr_config *config, const char *word, struct mr_error *err)
{
    static const struct {
        const char *word;
        enum mr_command command;
    } words[] = {{"--help", MR_COMMAND_HELP},
                 {"-h", MR_COMMAND_HELP},
                 {"--version", MR_COMMAND_VERSION},
                 {"-V", MR_COMMAND_VERSION}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0) {
            config->command = words[i].command;
            return MR_OK;
        }
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++)
        if (strcmp(word, mr_commands[i].name) == 0) {
            config->command = (enum mr_command)i;
            return MR_OK;
        }
    const char *nearest = mr_command_nearest(word);
    if (!nearest)
        return mr_fail(err, MR_BAD_CONFIG, "unknown command %.64s; millrace --help lists them",
                       word);
    return mr_fail(err, MR_BAD_CONFIG, "unknown command %.64s: did you mean %s?", word, nearest);
}

static struct mr_config *create_config(void)
{
    struct mr_config *config = calloc(1, sizeof *config);
    struct mr_config_store *store = calloc(1, sizeof *store);
    struct mr_arena *arena = mr_arena_create(STORE_BYTES_MAX);
    if (!config || !store || !arena) {
        mr_arena_destroy(arena);
        free(store);
        free(config);
        return NULL;
    }
    store->arena = arena;
    config->store = store;
    return config;
}

/* True for the commands that print something about millrace itself and use no option. */
static bool only_prints(enum mr_command command)
{
    return command == MR_COMMAND_HELP || command == MR_COMMAND_VERSION ||
           command == MR_COMMAND_MAN || command == MR_COMMAND_COMPLETION;
}

/* The flags are read first, because --config names the YAML file. Precedence depends on where a
 * value comes from, not on the order of reading. */
static enum mr_status read_sources(struct mr_config *config, int argc, char **argv,
                                   char *const environment[], struct mr_error *err)
{
    enum mr_status status = apply_defaults(config, err);
    if (status == MR_OK) status = apply_flags(config, argc, argv, err);
    if (status != MR_OK || config->help) return status;
    if (only_prints(config->command)) return mr_config_check_arguments(config, err);
    status = apply_environment(config, environment, err);
    if (status == MR_OK && config->config[0])
        status = mr_config_file_read(config->config, set_from_file, config, err);
    if (status == MR_OK) status = check_environment(config, environment, err);
    return status == MR_OK ? mr_config_finish(config, err) : status;
}

enum mr_status mr_config_create(struct mr_config **out, int argc, char *const argv[],
                                char *const environment[], struct mr_error *err)
{
    *out = NULL;
    struct mr_config *config = create_config();
    if (!config) return mr_fail(err, MR_NOMEM, "no memory for the configuration");
    enum mr_status status = MR_OK;
    if (argc >= 2) status = find_command(config, argv[1], err);
    int count = argc >= 2 ? argc - 1 : 0;
    char **words = mr_arena_take_array(config->store->arena, (size_t)count + 1, sizeof *words);
    if (status == MR_OK && !words) status = mr_fail(err, MR_BAD_CONFIG, "too many arguments");
    if (status == MR_OK) {
        for (int i = 0; i < count; i++) /* pass getopt_long a copy, because it reorders the array */
            words[i] = argv[i + 1];
        status = read_sources(config, count, words, environment, err);
    }
    if (status == MR_OK)
        *out = config;
    else
        mr_config_destroy(config);
    return status;
}

void mr_config_destroy(struct mr_config *config)
{
    if (!config) return;
    mr_arena_destroy(config->store->arena);
    free(config->store);
    free(config);
}
