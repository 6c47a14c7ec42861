/* Directives, which only Lark's notation has, and the imported common terminals. */
#include "codec/constraint/grammar_reader.h"
#include "codec/constraint/regex_front.h"

#include <string.h>

/* The terminals of Lark's grammars/common.lark. */
static const struct {
    const char *name, *pattern;
} common[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"NUMBER", "[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER",
     "[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
};

/* Defines the terminal `alias` as the common terminal `name`. */
static void import_one(struct mr_grammar_reader *reader, struct mr_text name, struct mr_text alias)
{
    static const struct mr_regex_options options = {MR_REGEX_WHOLE, MR_SPELL_TEXT, "common"};
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) {
        if (!mr_text_is(name, common[i].name)) continue;
        struct mr_grammar_name *rule = mr_grammar_rule(reader, alias);
        if (!rule) return;
        if (rule->is_defined) {
            mr_grammar_fail(reader, MR_INVALID_REQUEST, "a rule is defined twice");
            return;
        }
        rule->is_defined = true;
        const struct mr_text pattern = {common[i].pattern, strlen(common[i].pattern)};
        mr_expr_rule_define(reader->builder, rule->rule,
                            mr_regex_expr(reader->builder, pattern, &options));
        return;
    }
    mr_grammar_fail(reader, MR_UNSUPPORTED, "%import of an unsupported terminal of common");
}

/* Reads `common.NAME`, `common.NAME -> ALIAS` or `common (NAME, NAME)`. */
static void read_import(struct mr_grammar_reader *reader)
{
    if (!mr_text_is(mr_grammar_name(reader), "common")) {
        mr_grammar_fail(reader, MR_UNSUPPORTED, "only terminals of common can be imported");
        return;
    }
    if (mr_grammar_take(reader, ".")) {
        struct mr_text name = mr_grammar_name(reader), alias = name;
        const size_t after = reader->at;
        mr_grammar_skip(reader);
        if (mr_grammar_take(reader, "->")) {
            mr_grammar_skip(reader);
            alias = mr_grammar_name(reader);
        } else {
            reader->at = after;
        }
        import_one(reader, name, alias);
        return;
    }
    mr_grammar_skip(reader);
    if (!mr_grammar_take(reader, "("))
        mr_grammar_fail(reader, MR_INVALID_REQUEST, "%import needs a name");
    do {
        mr_grammar_skip(reader);
        struct mr_text name = mr_grammar_name(reader);
        import_one(reader, name, name);
        mr_grammar_skip(reader);
    } while (mr_grammar_take(reader, ","));
    if (!mr_grammar_take(reader, ")"))
        mr_grammar_fail(reader, MR_INVALID_REQUEST, "%import has no closing parenthesis");
}

void mr_grammar_directive(struct mr_grammar_reader *reader)
{
    if (mr_grammar_take(reader, "%import")) {
        mr_grammar_skip(reader);
        read_import(reader);
    } else if (mr_grammar_take(reader, "%ignore")) {
        while (mr_grammar_peek(reader) >= 0 && mr_grammar_peek(reader) != '\n')
            reader->at++;
    } else {
        mr_grammar_fail(reader, MR_UNSUPPORTED, "unsupported directive");
    }
}
