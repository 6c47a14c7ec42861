/* Generates the help, the manual page, the shell completion and the output of --print-config from
 * the table of options. */
#include "codec/check.h"
#include "worker/base/version.h"
#include "worker/config/option_apply.h"
#include "worker/config/options.h"

#include <ctype.h>
#include <string.h>

#define VALUE_BYTES_MAX 512

const char *mr_command_name(enum mr_command command)
{
    MR_ASSERT((unsigned)command < MR_COMMAND_COUNT);
    return mr_commands[command].name;
}

static bool takes(const struct mr_option *option, unsigned command)
{
    return option->commands >> command & 1u;
}

void mr_config_print(const struct mr_config *config, FILE *out)
{
    char value[VALUE_BYTES_MAX];
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        if (!takes(option, config->command) || option->flag_only) continue;
        const char *origin = mr_option_origin_name(mr_option_origin(config, option));
        size_t count = mr_option_value_count(config, option);
        for (size_t k = 0; k < count; k++) {
            mr_option_value_text(config, option, k, value, sizeof value);
            fprintf(out, "%-20s %-30s # %s\n", option->name, value, origin);
        }
        if (count == 0) fprintf(out, "%-20s %-30s # %s\n", option->name, "", origin);
    }
}

/* ---- help ---- */

static void print_commands(FILE *out)
{
    fprintf(out, "millrace %s: LLM inference over Kafka\n\n", mr_version);
    fprintf(out, "usage: millrace COMMAND [options] [arguments]\n\n");
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++)
        fprintf(out, "  %-12s %s\n", mr_commands[i].name, mr_commands[i].help);
    fprintf(
        out,
        "\n`millrace COMMAND --help` lists the options of a command. Every option is also an\n"
        "environment variable MILLRACE_<NAME> and a key of the YAML file that --config\n"
        "names. Precedence: flag, environment, file, default. In a variable a semicolon or\n"
        "a line end separates the values of a repeatable option; in the file they are a list.\n");
}

/* Writes "--name VALUE", or for a boolean option "--[no-]name". */
static void flag_text(const struct mr_option *option, char *out, size_t out_bytes)
{
    if (option->kind == MR_OPTION_BOOL)
        snprintf(out, out_bytes, "--%s%s", option->flag_only ? "" : "[no-]", option->name);
    else
        snprintf(out, out_bytes, "--%s %s", option->name, option->value);
}

static void print_option(const struct mr_option *option, FILE *out)
{
    char flag[128];
    flag_text(option, flag, sizeof flag);
    fprintf(out, "  %-26s ", flag);
    if (strlen(flag) > 26) fprintf(out, "\n%29s", "");
    fprintf(out, "%s", option->help);
    if (option->choices) fprintf(out, " (%s)", option->choices);
    if (option->initial[0] && !option->flag_only) fprintf(out, " [%s]", option->initial);
    fputc('\n', out);
}

void mr_options_print_help(enum mr_command command, FILE *out)
{
    if (command == MR_COMMAND_HELP) {
        print_commands(out);
        return;
    }
    const struct mr_command_entry *entry = &mr_commands[command];
    fprintf(out, "%s\n\nusage: millrace %s [options] %s\n\n", entry->help, entry->name,
            entry->arguments);
    for (size_t i = 0; i < mr_option_count; i++)
        if (takes(&mr_options[i], (unsigned)command)) print_option(&mr_options[i], out);
}

/* ---- manual page ---- */

/* Prints text with '-' and backslash escaped: in roff a plain '-' may become a hyphen, and a
 * backslash begins an escape sequence. */
static void print_roff(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_environment_name(const char *name, FILE *out)
{
    fputs("MILLRACE_", out);
    for (; *name; name++)
        fputc(*name == '-' ? '_' : toupper((unsigned char)*name), out);
}

static void print_man_option(const struct mr_option *option, FILE *out)
{
    char flag[128];
    flag_text(option, flag, sizeof flag);
    fputs(".TP\n.B ", out);
    print_roff(flag, out);
    fputc('\n', out);
    print_roff(option->help, out);
    fputs(".\n", out);
    if (option->flag_only) return;
    fputs("Environment: ", out);
    print_environment_name(option->name, out);
    fputs(".\n", out);
    if (option->initial[0]) {
        fputs("Default: ", out);
        print_roff(option->initial, out);
        fputs(".\n", out);
    }
    fputs("Commands:", out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++)
        if (takes(option, i)) fprintf(out, " %s", mr_commands[i].name);
    fputs(".\n", out);
}

void mr_options_print_man(FILE *out)
{
    fprintf(out, ".TH MILLRACE 1 \"\" \"millrace %s\" \"User Commands\"\n", mr_version);
    fputs(".SH NAME\nmillrace \\- LLM inference over Kafka\n", out);
    fputs(".SH SYNOPSIS\n.B millrace\n.I COMMAND\n[options] [arguments]\n.SH COMMANDS\n", out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++) {
        fprintf(out, ".TP\n.B %s ", mr_commands[i].name);
        print_roff(mr_commands[i].arguments, out);
        fprintf(out, "\n%s.\n", mr_commands[i].help);
    }
    fputs(".SH OPTIONS\nA flag overrides the environment, which overrides the file that\n"
          ".B \\-\\-config\nnames. In a variable a semicolon or a line end separates the values of "
          "a\n"
          "repeatable option; in the file they are a list.\n",
          out);
    for (size_t i = 0; i < mr_option_count; i++)
        print_man_option(&mr_options[i], out);
    fputs(
        ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage or configuration, 3 a server could not\n"
        "be reached, 4 the model could not be loaded.\n",
        out);
}

/* ---- completion ---- */

static void print_flag_words(unsigned command, FILE *out)
{
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        if (!takes(option, command)) continue;
        fprintf(out, " --%s", option->name);
        if (option->kind == MR_OPTION_BOOL && !option->flag_only)
            fprintf(out, " --no-%s", option->name);
    }
}

void mr_options_print_completion(FILE *out)
{
    fputs("# bash completion for millrace; load it with: source <(millrace completion)\n"
          "_millrace() {\n"
          "    local word=\"${COMP_WORDS[COMP_CWORD]}\" flags=\"\"\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++)
        fprintf(out, "%s%s", i ? " " : "", mr_commands[i].name);
    fputs("\" -- \"$word\"))\n        return\n    fi\n    case \"${COMP_WORDS[1]}\" in\n", out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++) {
        fprintf(out, "    %s) flags=\"", mr_commands[i].name);
        print_flag_words(i, out);
        fputs("\" ;;\n", out);
    }
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
          "}\n"
          "complete -o default -F _millrace millrace\n",
          out);
}
