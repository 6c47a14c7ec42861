#include "worker/config/options_print.h"

#include <string.h>

/* True for an option whose value is the path of a file or folder. */
static bool takes_path(const struct mr_option *option)
{
    static const char *const values[] = {"FILE", "PATH", "FOLDER"};
    for (size_t i = 0; option->value && i < sizeof values / sizeof *values; i++)
        if (strcmp(option->value, values[i]) == 0) return true;
    return false;
}

static bool has_negation(const struct mr_option *option)
{
    return option->kind == MR_OPTION_BOOL && !option->flag_only;
}

/* Prints the first sentence of a help text without its full stop, with a backslash before each of
 * `special`, for a word in single quotes. quote: how the shell writes a single quote in it. */
static void print_summary(const char *help, const char *special, const char *quote, FILE *out)
{
    const char *end = strstr(help, ". ");
    size_t length = end ? (size_t)(end - help) : strlen(help);
    if (length > 0 && help[length - 1] == '.') length--;
    for (size_t i = 0; i < length; i++) {
        if (help[i] == '\'') {
            fputs(quote, out);
            continue;
        }
        if (strchr(special, help[i])) fputc('\\', out);
        fputc(help[i], out);
    }
}

/* Prints the choices "a|b|c" with spaces between them. */
static void print_choices(const char *choices, FILE *out)
{
    for (; *choices; choices++)
        fputc(*choices == '|' ? ' ' : *choices, out);
}

/* ---- bash ---- */

static void print_flag_words(unsigned command, FILE *out)
{
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        if (!mr_option_is_of(option, command)) continue;
        fprintf(out, "--%s ", option->name);
        if (has_negation(option)) fprintf(out, "--no-%s ", option->name);
    }
}

static void print_bash(FILE *out)
{
    fputs("# bash completion for millrace; load it with: source <(millrace completion bash)\n"
          "_millrace() {\n"
          "    local word=\"${COMP_WORDS[COMP_CWORD]}\" flags=\"\"\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++)
        fprintf(out, "%s%s", i ? " " : "", mr_commands[i].name);
    fputs("\" -- \"$word\"))\n        return\n    fi\n    case \"${COMP_WORDS[COMP_CWORD - 1]}\" "
          "in\n",
          out);
    for (size_t i = 0; i < mr_option_count; i++) {
        if (!mr_options[i].choices) continue;
        fprintf(out, "    --%s) COMPREPLY=($(compgen -W \"", mr_options[i].name);
        print_choices(mr_options[i].choices, out);
        fputs("\" -- \"$word\")); return ;;\n", out);
    }
    fputs("    esac\n    case \"${COMP_WORDS[1]}\" in\n", out);
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

/* ---- zsh ---- */

#define ZSH_SPECIAL "[]:\\"
#define ZSH_QUOTE   "'\\''"

/* One argument of _arguments: '--name=[summary]:VALUE:action'. */
static void print_zsh_option(const struct mr_option *option, FILE *out)
{
    bool has_value = option->kind != MR_OPTION_BOOL;
    fprintf(out, " \\\n            '%s--%s%s[", option->kind == MR_OPTION_LIST ? "*" : "",
            option->name, has_value ? "=" : "");
    print_summary(option->help, ZSH_SPECIAL, ZSH_QUOTE, out);
    fputc(']', out);
    if (has_value) {
        fputc(':', out);
        print_summary(option->value, ZSH_SPECIAL, ZSH_QUOTE, out);
        fputc(':', out);
        if (option->choices) {
            fputc('(', out);
            print_choices(option->choices, out);
            fputc(')', out);
        } else if (takes_path(option)) {
            fputs("_files", out);
        }
    }
    fputc('\'', out);
    if (has_negation(option)) fprintf(out, " \\\n            '--no-%s'", option->name);
}

static void print_zsh(FILE *out)
{
    fputs("#compdef millrace\n"
          "# zsh completion for millrace; save it as _millrace in a folder of $fpath, or load it\n"
          "# with: source <(millrace completion zsh)\n"
          "_millrace() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++) {
        fprintf(out, "        '%s:", mr_commands[i].name);
        print_summary(mr_commands[i].help, ZSH_SPECIAL, ZSH_QUOTE, out);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++) {
        fprintf(out, "    %s)\n        _arguments", mr_commands[i].name);
        for (size_t k = 0; k < mr_option_count; k++)
            if (mr_option_is_of(&mr_options[k], i)) print_zsh_option(&mr_options[k], out);
        fputs(" \\\n            '*:argument:_files'\n        ;;\n", out);
    }
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _millrace ]]; then\n"
          "    _millrace \"$@\"\n"
          "else\n"
          "    compdef _millrace millrace\n"
          "fi\n",
          out);
}

/* ---- fish ---- */

#define FISH_SPECIAL "\\"
#define FISH_QUOTE   "\\'"

static void print_fish_option(const struct mr_option *option, FILE *out)
{
    fputs("complete -c millrace -n '__fish_seen_subcommand_from", out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++)
        if (mr_option_is_of(option, i)) fprintf(out, " %s", mr_commands[i].name);
    fprintf(out, "' -l %s -d '", option->name);
    print_summary(option->help, FISH_SPECIAL, FISH_QUOTE, out);
    fputc('\'', out);
    if (option->kind != MR_OPTION_BOOL) fputs(takes_path(option) ? " -r -F" : " -x", out);
    if (option->choices) {
        fputs(" -a '", out);
        print_choices(option->choices, out);
        fputc('\'', out);
    }
    fputc('\n', out);
}

static void print_fish(FILE *out)
{
    fputs("# fish completion for millrace; load it with: millrace completion fish | source\n", out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++) {
        fprintf(out, "complete -c millrace -f -n __fish_use_subcommand -a %s -d '",
                mr_commands[i].name);
        print_summary(mr_commands[i].help, FISH_SPECIAL, FISH_QUOTE, out);
        fputs("'\n", out);
    }
    for (size_t i = 0; i < mr_option_count; i++) {
        struct mr_option negation = mr_options[i];
        char name[64];
        print_fish_option(&mr_options[i], out);
        if (!has_negation(&mr_options[i])) continue;
        snprintf(name, sizeof name, "no-%s", mr_options[i].name);
        negation.name = name;
        negation.help = "The opposite";
        print_fish_option(&negation, out);
    }
}

bool mr_options_print_completion(const char *shell, FILE *out)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shells[i].name, shell) != 0) continue;
        shells[i].print(out);
        return true;
    }
    return false;
}
