#include "worker/base/version.h"
#include "worker/config/environment.h"
#include "worker/config/options_print.h"

static const char examples[] =
    ".SH EXAMPLES\n"
    "An answer without a server or a model of your own:\n"
    ".PP\n.RS\n.nf\nmillrace demo \"Why is the sky blue?\"\n.fi\n.RE\n"
    ".PP\n"
    "A worker, and a request to it:\n"
    ".PP\n.RS\n.nf\n"
    "millrace topics create \\-\\-brokers kafka:9092\n"
    "millrace serve \\-\\-model model.gguf \\-\\-brokers kafka:9092\n"
    "millrace send \\-\\-brokers kafka:9092 max_tokens=64 \"Why is the sky blue?\"\n"
    ".fi\n.RE\n"
    ".PP\n"
    "Check whether a worker with this configuration could start:\n"
    ".PP\n.RS\n.nf\nmillrace check \\-\\-config /etc/millrace/config.yaml\n.fi\n.RE\n"
    ".PP\n"
    "Dead letters of the last hour, sent again:\n"
    ".PP\n.RS\n.nf\n"
    "millrace replay millrace.dlq \\-\\-since 1h \\-\\-brokers kafka:9092 \\-\\-dry\\-run\n"
    "millrace replay millrace.dlq \\-\\-since 1h \\-\\-brokers kafka:9092\n"
    ".fi\n.RE\n";

static const char files[] =
    ".SH FILES\n"
    ".TP\n.I /etc/millrace/config.yaml\n"
    "Options of the worker that the systemd unit starts, as NAME: VALUE lines. Only\n"
    ".B \\-\\-config\nmakes a worker read a file. A sample is in share/doc/millrace/config.yaml.\n"
    ".TP\n.I $STATE_DIRECTORY, $XDG_STATE_HOME/millrace, $HOME/.local/state/millrace\n"
    "State folder: the first that can be written, unless\n.B \\-\\-state\\-dir\nnames another.\n"
    ".TP\n.I $XDG_CACHE_HOME/millrace, $HOME/.cache/millrace\n"
    "Digests of model files, so that a restart does not compute them again.\n";

static const char ending[] =
    ".SH EXIT STATUS\n"
    "0 done, 1 failed, 2 wrong usage or configuration, 3 a server could not be reached,\n"
    "4 the model could not be loaded.\n"
    ".SH SIGNALS\n"
    "SIGTERM or SIGINT makes a worker drain; a second one ends it at once. After SIGHUP it opens\n"
    "its log file again and rereads the passwords that come from files.\n"
    ".SH SEE ALSO\n"
    ".BR kcat (1),\n.BR redis\\-server (1),\n.BR systemctl (1)\n";

/* Prints text with '-' and backslash escaped: in roff a plain '-' may become a hyphen, and a
 * backslash begins an escape sequence. */
static void print_roff(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_commands(FILE *out)
{
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++) {
        fprintf(out, ".TP\n.B %s ", mr_commands[i].name);
        print_roff(mr_commands[i].arguments, out);
        fprintf(out, "\n%s.\n", mr_commands[i].help);
    }
}

static void print_option(const struct mr_option *option, FILE *out)
{
    char flag[128], variable[MR_VARIABLE_NAME_BYTES_MAX];
    mr_option_flag_text(option, flag, sizeof flag);
    fputs(".TP\n.B ", out);
    print_roff(flag, out);
    fputc('\n', out);
    print_roff(option->help, out);
    fputc('\n', out);
    if (option->flag_only) return;
    mr_variable_name_of(option->name, variable);
    fprintf(out, "Environment: %s.\n", variable);
    if (option->initial[0]) {
        fputs("Default: ", out);
        print_roff(option->initial, out);
        fputs(".\n", out);
    }
    fputs("Commands:", out);
    for (unsigned i = 0; i < MR_COMMAND_COUNT; i++)
        if (mr_option_is_of(option, i)) fprintf(out, " %s", mr_commands[i].name);
    fputs(".\n", out);
}

static void print_options(FILE *out)
{
    for (unsigned group = 0; group < MR_GROUP_COUNT; group++) {
        bool of_commands = group == MR_GROUP_COMMAND;
        fprintf(out, ".SS %s\n",
                of_commands ? "Options of single commands" : mr_option_groups[group]);
        for (size_t i = 0; i < mr_option_count; i++)
            if (mr_options[i].group == (enum mr_option_group)group)
                print_option(&mr_options[i], out);
    }
}

void mr_options_print_man(FILE *out)
{
    fprintf(out, ".TH MILLRACE 1 \"\" \"millrace %s\" \"User Commands\"\n", mr_version);
    fputs(".SH NAME\nmillrace \\- LLM inference over Kafka\n", out);
    fputs(".SH SYNOPSIS\n.B millrace\n.I COMMAND\n[options] [arguments]\n", out);
    fputs(
        ".SH DESCRIPTION\n"
        "A millrace worker reads requests from Kafka topics, answers them with a language model,\n"
        "and writes tokens and results to other topics. Workers of one consumer group share the\n"
        "requests; a Redis, if there is one, lets them share computed prompts.\n",
        out);
    fputs(".SH COMMANDS\n", out);
    print_commands(out);
    fputs(".SH OPTIONS\nA flag overrides the environment, which overrides the file that\n"
          ".B \\-\\-config\nnames. In a variable a semicolon or a line end separates the values of "
          "a\n"
          "repeatable option; in the file they are a list.\n",
          out);
    print_options(out);
    fputs(examples, out);
    fputs(files, out);
    fputs(ending, out);
}
