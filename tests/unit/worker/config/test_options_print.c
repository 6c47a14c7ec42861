#include "worker/config/options_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The text with every run of white space as one space; the caller frees it. */
static char *squeezed(const char *text)
{
    char *out = calloc(1, strlen(text) + 1), *at = out;
    assert_non_null(out);
    for (; *text; text++) {
        if (*text != ' ' && *text != '\n')
            *at++ = *text;
        else if (at > out && at[-1] != ' ')
            *at++ = ' ';
    }
    return out;
}

/* *text: the help; the caller frees it. */
static void help_of(enum mr_command command, unsigned columns, char **text)
{
    size_t length = 0;
    FILE *out = open_memstream(text, &length);
    mr_options_print_help(command, columns, out);
    fclose(out);
}

static void every_option_is_in_the_help_of_its_commands(void **state)
{
    (void)state;
    for (unsigned command = 0; command < MR_COMMAND_COUNT; command++) {
        if (command == MR_COMMAND_HELP) continue;
        char *wrapped, *text;
        help_of((enum mr_command)command, 80, &wrapped);
        text = squeezed(wrapped);
        for (size_t i = 0; i < mr_option_count; i++) {
            bool is_there = strstr(text, mr_options[i].help) != NULL;
            if (is_there != mr_option_is_of(&mr_options[i], command))
                fail_msg("%s --%s", mr_command_name((enum mr_command)command), mr_options[i].name);
        }
        free(text);
        free(wrapped);
    }
}

static void help_is_wrapped_at_the_given_width(void **state)
{
    (void)state;
    static const unsigned widths[] = {40, 60, 72, 80, 100, 160};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        for (unsigned command = 0; command < MR_COMMAND_COUNT; command++) {
            size_t longest = 0;
            char *text;
            help_of((enum mr_command)command, widths[i], &text);
            for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
                size_t length = strcspn(line, "\n"), indent = strspn(line, " ");
                bool is_one_word = !memchr(line + indent, ' ', length - indent);
                bool is_usage = strncmp(line, "usage:", 6) == 0;
                if (length > longest && !is_one_word && !is_usage) longest = length;
            }
            if (longest > widths[i]) fail_msg("%zu of %u: %s", longest, widths[i], text);
            free(text);
        }
    }
    char *narrow, *least;
    help_of(MR_COMMAND_SERVE, 1, &narrow);
    help_of(MR_COMMAND_SERVE, 40, &least);
    assert_string_equal(narrow, least);
    free(narrow);
    free(least);
}

/* The options that everyone sets first are at the top, at most ten. The groups follow in their
 * order. */
static void help_of_serve_has_groups(void **state)
{
    (void)state;
    char *text;
    help_of(MR_COMMAND_SERVE, 80, &text);
    size_t before = 0;
    unsigned first = 0;
    for (unsigned group = 0; group < MR_GROUP_COUNT; group++) {
        char heading[64];
        snprintf(heading, sizeof heading, "\n\n%s:\n", mr_option_groups[group]);
        const char *at = strstr(text, heading);
        if (group == MR_GROUP_COMMAND) {
            assert_null(at);
            continue;
        }
        if (!at || (size_t)(at - text) < before) fail_msg("%s", mr_option_groups[group]);
        before = (size_t)(at - text);
    }
    for (size_t i = 0; i < mr_option_count; i++)
        if (mr_options[i].group == MR_GROUP_FIRST &&
            mr_option_is_of(&mr_options[i], MR_COMMAND_SERVE))
            first++;
    assert_int_equal(first, 10);
    assert_non_null(strstr(text, "[2GiB]"));
    free(text);
}

static void help_texts_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < mr_option_count; i++) {
        const char *help = mr_options[i].help;
        if (help[strlen(help) - 1] != '.' || strstr(help, "..") || strstr(help, "  "))
            fail_msg("%s: %s", mr_options[i].name, help);
    }
}

static void every_option_is_in_the_manual_page(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    mr_options_print_man(out);
    fclose(out);
    assert_int_equal(strncmp(text, ".TH MILLRACE 1", 14), 0);
    for (size_t i = 0; i < mr_option_count; i++) {
        char flag[128], line[256] = ".B ", *at = line + 3;
        mr_option_flag_text(&mr_options[i], flag, sizeof flag);
        for (const char *c = flag; *c; *at++ = *c++)
            if (*c == '-') *at++ = '\\';
        *at++ = '\n';
        *at = '\0';
        if (!strstr(text, line)) fail_msg("%s", line);
    }
    assert_non_null(strstr(text, "MILLRACE_KV_MEMORY"));
    static const char *const sections[] = {"COMMANDS", "OPTIONS",     "EXAMPLES", "FILES",
                                           "SIGNALS",  "EXIT STATUS", "SEE ALSO"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char line[32];
        snprintf(line, sizeof line, "\n.SH %s\n", sections[i]);
        if (!strstr(text, line)) fail_msg("%s", sections[i]);
    }
    free(text);
}

static void every_option_is_in_each_completion(void **state)
{
    (void)state;
    static const struct {
        const char *shell, *before, *after;
    } shells[] = {{"bash", "--", " "}, {"zsh", "--", "="}, {"fish", " -l ", " "}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        assert_true(mr_options_print_completion(shells[i].shell, out));
        fclose(out);
        for (size_t k = 0; k < mr_option_count; k++) {
            char word[96];
            bool is_switch = mr_options[k].kind == MR_OPTION_BOOL;
            const char *after = is_switch && i == 1 ? "[" : shells[i].after;
            snprintf(word, sizeof word, "%s%s%s", shells[i].before, mr_options[k].name, after);
            if (!strstr(text, word)) fail_msg("%s lacks %s", shells[i].shell, word);
        }
        assert_non_null(strstr(text, "at-least-once exactly-once"));
        free(text);
    }
    assert_false(mr_options_print_completion("csh", stdout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_in_the_help_of_its_commands),
        cmocka_unit_test(help_is_wrapped_at_the_given_width),
        cmocka_unit_test(help_of_serve_has_groups),
        cmocka_unit_test(help_texts_are_sentences),
        cmocka_unit_test(every_option_is_in_the_manual_page),
        cmocka_unit_test(every_option_is_in_each_completion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
