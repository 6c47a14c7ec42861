#include "worker/config/options_print.h"

#include "worker/base/version.h"
#include "worker/config/option_apply.h"

#include <string.h>

#define VALUE_BYTES_MAX 512
#define COLUMNS_MIN     40u
/* the column at which help texts begin; in a narrow window they begin further left */
#define TEXT_COLUMN        30u
#define TEXT_COLUMN_NARROW 8u
#define COLUMNS_NARROW     70u

void mr_config_print(const struct mr_config *config, FILE *out)
{
    char value[VALUE_BYTES_MAX];
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        if (!mr_option_is_of(option, config->command) || option->flag_only) continue;
        const char *origin = mr_option_origin_name(mr_option_origin(config, option));
        size_t count = mr_option_value_count(config, option);
        for (size_t k = 0; k < count; k++) {
            mr_option_value_text(config, option, k, value, sizeof value);
            fprintf(out, "%-20s %-30s # %s\n", option->name, value, origin);
        }
        if (count == 0) fprintf(out, "%-20s %-30s # %s\n", option->name, "", origin);
    }
}

/* ---- lines ---- */

/* A paragraph that is wrapped at `columns`; lines after the first are indented. */
struct paragraph {
    FILE *out;
    unsigned columns, indent;
    unsigned column; /* of the next character */
};

static void next_line(struct paragraph *paragraph)
{
    fprintf(paragraph->out, "\n%*s", (int)paragraph->indent, "");
    paragraph->column = paragraph->indent;
}

/* Adds the words of a text; a word longer than a line gets its own line. */
static void add_words(struct paragraph *paragraph, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, " ");
        bool begins = paragraph->column <= paragraph->indent;
        if (!begins && paragraph->column + 1 + length > paragraph->columns) {
            next_line(paragraph);
            begins = true;
        }
        fprintf(paragraph->out, "%s%.*s", begins ? "" : " ", (int)length, text);
        paragraph->column += (unsigned)length + (begins ? 0 : 1);
        text += length;
        text += strspn(text, " ");
    }
}

/* Prints a name, and from text_column on its description. */
static struct paragraph begin_entry(const char *name, unsigned text_column, unsigned columns,
                                    FILE *out)
{
    struct paragraph paragraph = {.out = out, .columns = columns, .indent = text_column};
    paragraph.column = 2 + (unsigned)strlen(name);
    fprintf(out, "  %s", name);
    if (paragraph.column + 1 > text_column)
        next_line(&paragraph);
    else
        fprintf(out, "%*s", (int)(text_column - paragraph.column), "");
    paragraph.column = text_column;
    return paragraph;
}

/* ---- help ---- */

static void print_commands(unsigned columns, FILE *out)
{
    fprintf(out, "millrace %s\nLLM inference over Kafka\n\n", mr_version);
    fprintf(out, "usage: millrace COMMAND [options] [arguments]\n\n");
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++) {
        struct paragraph paragraph = begin_entry(mr_commands[i].name, 15, columns, out);
        add_words(&paragraph, mr_commands[i].help);
        fputc('\n', out);
    }
    fputc('\n', out);
    struct paragraph paragraph = {.out = out, .columns = columns};
    add_words(&paragraph,
              "`millrace COMMAND --help` lists the options of a command. Every option is also an "
              "environment variable MILLRACE_<NAME> and a key of the YAML file that --config "
              "names. Precedence: flag, environment, file, default. In a variable a semicolon or a "
              "line end separates the values of a repeatable option; in the file they are a list.");
    fputc('\n', out);
}

void mr_option_flag_text(const struct mr_option *option, char *out, size_t out_bytes)
{
    if (option->kind == MR_OPTION_BOOL)
        snprintf(out, out_bytes, "--%s%s", option->flag_only ? "" : "[no-]", option->name);
    else
        snprintf(out, out_bytes, "--%s %s", option->name, option->value);
}

static void print_option(const struct mr_option *option, unsigned columns, FILE *out)
{
    char flag[128], text[160];
    const unsigned text_column = columns < COLUMNS_NARROW ? TEXT_COLUMN_NARROW : TEXT_COLUMN;
    mr_option_flag_text(option, flag, sizeof flag);
    struct paragraph paragraph = begin_entry(flag, text_column, columns, out);
    add_words(&paragraph, option->help);
    if (option->choices) {
        snprintf(text, sizeof text, "(%s)", option->choices);
        add_words(&paragraph, text);
    }
    if (option->initial[0] && !option->flag_only) {
        snprintf(text, sizeof text, "[%s]", option->initial);
        add_words(&paragraph, text);
    }
    fputc('\n', out);
}

static void print_group(enum mr_command command, enum mr_option_group group, unsigned columns,
                        FILE *out)
{
    bool has_heading = false;
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        if (option->group != group || !mr_option_is_of(option, command)) continue;
        if (!has_heading) fprintf(out, "\n%s:\n", mr_option_groups[group]);
        has_heading = true;
        print_option(option, columns, out);
    }
}

void mr_options_print_help(enum mr_command command, unsigned columns, FILE *out)
{
    if (columns < COLUMNS_MIN) columns = COLUMNS_MIN;
    if (command == MR_COMMAND_HELP) {
        print_commands(columns, out);
        return;
    }
    const struct mr_command_entry *entry = &mr_commands[command];
    char sentence[128];
    struct paragraph paragraph = {.out = out, .columns = columns};
    snprintf(sentence, sizeof sentence, "%s.", entry->help);
    add_words(&paragraph, sentence);
    fprintf(out, "\n\nusage: millrace %s [options] %s\n", entry->name, entry->arguments);
    for (unsigned group = 0; group < MR_GROUP_COUNT; group++)
        print_group(command, (enum mr_option_group)group, columns, out);
    fputs("\nThe word in [brackets] is the default.\n", out);
}
