#include "codec/constraint/grammar_front.h"

#include "codec/constraint/grammar_reader.h"
#include "codec/constraint/regex_front.h"
#include "codec/utf8.h"

#include <string.h>

/* True when the next characters begin a rule, a terminal or a directive. */
static bool is_start_of_rule(struct mr_grammar_reader *reader)
{
    const size_t begin = reader->at;
    bool found = false;
    if (reader->lark && mr_grammar_peek(reader) == '%') return true;
    if (reader->lark) {
        while (mr_grammar_take(reader, "?") || mr_grammar_take(reader, "!")) {
        }
    }
    if (mr_grammar_name(reader).length > 0) {
        uint32_t priority;
        if (reader->lark && mr_grammar_take(reader, ".")) mr_grammar_number(reader, &priority);
        while (mr_grammar_take(reader, " ") || mr_grammar_take(reader, "\t")) {
        }
        found = reader->lark ? mr_grammar_peek(reader) == ':' : mr_grammar_take(reader, "::=");
    }
    reader->at = begin;
    return found;
}

/* True at the end of a sequence. */
static bool is_over(struct mr_grammar_reader *reader)
{
    mr_grammar_skip(reader);
    int byte = mr_grammar_peek(reader);
    if (byte < 0 || byte == '|' || byte == ')' || (reader->lark && byte == ']')) return true;
    if (reader->lark && byte == '-' && reader->at + 1 < reader->text.length &&
        reader->text.bytes[reader->at + 1] == '>')
        return true;
    return reader->depth == 0 && is_start_of_rule(reader);
}

/* ---- atoms ---- */

static const struct mr_expr *read_alternatives(struct mr_grammar_reader *reader);

static const struct mr_expr *read_group(struct mr_grammar_reader *reader, const char *end)
{
    reader->at++;
    if (++reader->depth > MR_EXPR_DEPTH_MAX)
        return mr_grammar_fail(reader, MR_INVALID_REQUEST, "the groups are nested too deep");
    const struct mr_expr *inner = read_alternatives(reader);
    reader->depth--;
    if (!mr_grammar_take(reader, end))
        return mr_grammar_fail(reader, MR_INVALID_REQUEST, "a group is not closed");
    return inner;
}

static bool is_terminal(struct mr_text name)
{
    size_t at = 0;
    while (at + 1 < name.length && name.bytes[at] == '_')
        at++;
    return name.length > 0 && name.bytes[at] >= 'A' && name.bytes[at] <= 'Z';
}

/* The texts of %ignore, then the terminal. */
static const struct mr_expr *lead(struct mr_grammar_reader *reader, const struct mr_expr *terminal)
{
    if (reader->in_terminal || !reader->ignore) return terminal;
    return mr_expr_pair(reader->builder, reader->ignore, terminal);
}

static const struct mr_expr *read_name(struct mr_grammar_reader *reader)
{
    const struct mr_text text = mr_grammar_name(reader);
    if (text.length == 0)
        return mr_grammar_fail(reader, MR_INVALID_REQUEST, "unexpected character");
    if (reader->lark && mr_grammar_peek(reader) == '{')
        return mr_grammar_fail(reader, MR_UNSUPPORTED, "templates of rules are not supported");
    const struct mr_grammar_name *name = mr_grammar_rule(reader, text);
    if (!name) return mr_expr_never();
    const struct mr_expr *rule = mr_expr_ref(reader->builder, name->rule);
    return reader->lark && is_terminal(text) ? lead(reader, rule) : rule;
}

static const struct mr_expr *read_atom(struct mr_grammar_reader *reader)
{
    int byte = mr_grammar_peek(reader);
    if (byte == '"') return lead(reader, mr_grammar_quoted(reader));
    if (byte == '(') return read_group(reader, ")");
    if (reader->lark) {
        if (byte == '/') return lead(reader, mr_grammar_regex(reader));
        if (byte == '[') return mr_expr_repeat(reader->builder, read_group(reader, "]"), 0, 1);
        return read_name(reader);
    }
    if (byte == '[') return mr_grammar_class(reader);
    if (byte == '<' || byte == '!')
        return mr_grammar_fail(
            reader, MR_UNSUPPORTED,
            "tokens such as <name> are not supported; write their text in quotes");
    if (!mr_grammar_take(reader, ".")) return read_name(reader);
    return mr_regex_any_char(reader->builder, MR_SPELL_TEXT);
}

/* ---- repetitions ---- */

/* Reads the counts of {m}, {m,} and {m,n} (GBNF) or ~n and ~n..m (Lark). The first sign has been
 * read. */
static bool read_counts(struct mr_grammar_reader *reader, uint32_t *min, uint32_t *max)
{
    mr_grammar_skip(reader);
    if (!mr_grammar_number(reader, min)) {
        if (reader->lark || mr_grammar_peek(reader) != ',') return false;
        *min = 0;
    }
    *max = *min;
    if (reader->lark) return !mr_grammar_take(reader, "..") || mr_grammar_number(reader, max);
    mr_grammar_skip(reader);
    if (mr_grammar_take(reader, ",")) {
        mr_grammar_skip(reader);
        if (!mr_grammar_number(reader, max)) *max = MR_EXPR_UNBOUNDED;
        mr_grammar_skip(reader);
    }
    return mr_grammar_take(reader, "}");
}

static const struct mr_expr *read_repeated(struct mr_grammar_reader *reader)
{
    const struct mr_expr *expr = read_atom(reader);
    for (;;) {
        uint32_t min = 0, max = MR_EXPR_UNBOUNDED;
        const size_t after = reader->at;
        mr_grammar_skip(reader);
        if (reader->lark && reader->depth == 0 && is_start_of_rule(reader)) {
            reader->at = after;
            return expr;
        }
        if (mr_grammar_take(reader, "+")) {
            min = 1;
        } else if (mr_grammar_take(reader, "?")) {
            max = 1;
        } else if (mr_grammar_take(reader, reader->lark ? "~" : "{")) {
            if (!read_counts(reader, &min, &max) || min > max)
                return mr_grammar_fail(reader, MR_INVALID_REQUEST,
                                       "invalid counts: write {m}, {m,} or {m,n}");
        } else if (!mr_grammar_take(reader, "*")) {
            return expr;
        }
        expr = mr_expr_repeat(reader->builder, expr, min, max);
    }
}

static const struct mr_expr *read_sequence(struct mr_grammar_reader *reader)
{
    struct mr_expr_items list = {0};
    while (!is_over(reader))
        mr_grammar_append(reader, &list, read_repeated(reader));
    if (reader->lark && mr_grammar_take(reader, "->")) {
        mr_grammar_skip(reader);
        mr_grammar_name(reader);
        mr_grammar_skip(reader);
    }
    return mr_expr_seq(reader->builder, list.items, list.count);
}

static const struct mr_expr *read_alternatives(struct mr_grammar_reader *reader)
{
    struct mr_expr_items list = {0};
    do
        mr_grammar_append(reader, &list, read_sequence(reader));
    while (mr_grammar_take(reader, "|"));
    return mr_expr_alt(reader->builder, list.items, list.count);
}

/* ---- rules ---- */

/* Reads the name and the sign of a rule, in Lark with `?`, `!` and a priority. */
static struct mr_grammar_name *read_head(struct mr_grammar_reader *reader)
{
    uint32_t priority;
    while (reader->lark && (mr_grammar_take(reader, "?") || mr_grammar_take(reader, "!"))) {
    }
    const struct mr_text text = mr_grammar_name(reader);
    if (reader->lark && mr_grammar_take(reader, ".")) mr_grammar_number(reader, &priority);
    mr_grammar_skip(reader);
    if (reader->lark && mr_grammar_peek(reader) == '{')
        mr_grammar_fail(reader, MR_UNSUPPORTED, "templates of rules are not supported");
    if (text.length == 0 || !mr_grammar_take(reader, reader->lark ? ":" : "::="))
        mr_grammar_fail(reader, MR_INVALID_REQUEST,
                        reader->lark ? "a rule must begin with its name and a colon"
                                     : "a rule must begin with its name and ::=");
    struct mr_grammar_name *name =
        reader->builder->status == MR_OK ? mr_grammar_rule(reader, text) : NULL;
    if (name && name->is_defined)
        mr_grammar_fail(reader, MR_INVALID_REQUEST, "a rule is defined twice");
    reader->in_terminal = is_terminal(text);
    return name;
}

static void read_rule(struct mr_grammar_reader *reader)
{
    struct mr_grammar_name *name = read_head(reader);
    if (reader->builder->status != MR_OK || !name) return;
    reader->builder->rule = name->rule;
    name->is_defined = true;
    const struct mr_expr *body = read_alternatives(reader);
    if (name->rule == 0 && reader->ignore)
        body = mr_expr_pair(reader->builder, body, reader->ignore);
    mr_expr_rule_define(reader->builder, name->rule, body);
    if (mr_grammar_peek(reader) >= 0 && !is_start_of_rule(reader))
        mr_grammar_fail(reader, MR_INVALID_REQUEST, "unexpected character");
}

/* Sets reader->ignore from the %ignore directives of the whole text. */
static void find_ignored(struct mr_grammar_reader *reader)
{
    static const char word[] = "%ignore";
    const size_t length = sizeof word - 1;
    struct mr_expr_items list = {0};
    reader->in_terminal = true;
    for (size_t line = 0; line < reader->text.length; line++) {
        if (line > 0 && reader->text.bytes[line - 1] != '\n') continue;
        reader->at = line;
        while (mr_grammar_take(reader, " ") || mr_grammar_take(reader, "\t")) {
        }
        if (reader->text.length - reader->at < length || !mr_grammar_take(reader, word)) continue;
        mr_grammar_append(reader, &list, read_alternatives(reader));
    }
    reader->at = 0;
    if (list.count == 0 || reader->builder->status != MR_OK) return;
    uint32_t rule = mr_expr_rule_add(reader->builder, "%ignore");
    if (reader->builder->status != MR_OK) return;
    mr_expr_rule_define(reader->builder, rule,
                        mr_expr_alt(reader->builder, list.items, list.count));
    reader->ignore =
        mr_expr_repeat(reader->builder, mr_expr_ref(reader->builder, rule), 0, MR_EXPR_UNBOUNDED);
}

static bool contains(struct mr_text text, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i + length <= text.length; i++)
        if (memcmp(text.bytes + i, word, length) == 0) return true;
    return false;
}

void mr_grammar_front_define(struct mr_expr_builder *builder, struct mr_text text)
{
    struct mr_grammar_reader reader = {
        .builder = builder, .text = text, .lark = !contains(text, "::=")};
    if (!mr_utf8_is_valid(text)) {
        mr_expr_fail(builder, MR_INVALID_REQUEST, "grammar: the text is not valid UTF-8");
        return;
    }
    if (reader.lark) find_ignored(&reader);
    for (;;) {
        mr_grammar_skip(&reader);
        if (mr_grammar_peek(&reader) < 0) break;
        if (reader.lark && mr_grammar_peek(&reader) == '%')
            mr_grammar_directive(&reader);
        else
            read_rule(&reader);
    }
    if (builder->status == MR_OK && !builder->rules[0].body)
        mr_expr_fail(builder, MR_INVALID_REQUEST, "grammar: there is no rule %s",
                     reader.lark ? "start" : "root");
}
