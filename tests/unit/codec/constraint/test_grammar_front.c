#include "constraints.h"

#define GBNF(source, yes, no) assert_language(MR_CONSTRAINT_EBNF, source, yes, no)

static void gbnf_has_texts_classes_groups_and_counts(void **state)
{
    (void)state;
    GBNF("root ::= \"a\\\"\\n\" [b-d_\\]]+ (\"x\" | \"yz\")? # comment\n",
         LIST("a\"\nb", "a\"\nbcd_]x", "a\"\ncyz"), LIST("a\"\n", "a\"\nx", "a\"\nbxx"));
    GBNF("root ::= [^a-z\\n]{2} \"\\u00e9\"{0,1} \"\\x41\"{1,}", LIST("\u00e90A", "01\u00e9AA"),
         LIST("a0A", "01", "01\u00e9\u00e9A"));
    GBNF("root ::= . item{,2}\nitem ::= \"-\" [0-9]", LIST("\n", "\u732b", "x-1-2"),
         LIST("", "x-", "x-1-2-3"));
}

static void gbnf_rules_may_go_on_on_the_next_line(void **state)
{
    (void)state;
    GBNF("other-rule ::=\n  \"b\"\n\n# comment\nroot ::= \"a\" (\n other-rule\n )\n  | \"c\"\n",
         LIST("ab", "c"), LIST("a", "b", "abc"));
}

static void rules_may_call_themselves(void **state)
{
    (void)state;
    GBNF("root ::= \"(\" root \")\" root | \"\"", LIST("", "()", "(())()"), LIST("(", ")(", "(()"));
    assert_refused(MR_CONSTRAINT_EBNF, "root ::= expr\nexpr ::= expr \"+\" \"1\" | \"1\"",
                   MR_UNSUPPORTED, "rule expr begins with itself");
    assert_refused(MR_CONSTRAINT_EBNF, "root ::= e root \"a\" | \"b\"\ne ::= \"x\"?",
                   MR_UNSUPPORTED, "rule root begins with itself");
    assert_refused(MR_CONSTRAINT_EBNF, "root ::= \"a\" root", MR_INVALID_REQUEST, "no text");
    assert_refused(MR_CONSTRAINT_EBNF, "root ::= root", MR_INVALID_REQUEST, "no text");
}

static void lark_has_rules_terminals_and_repetitions(void **state)
{
    (void)state;
    GBNF("?start: (pair \",\")~1..2 [NAME] -> alias\n!pair.2: \"K\"i \"0\"..\"3\"\nNAME.1: "
         "/[a-z]+/ \"\\n\"? // end\n",
         LIST("k0,", "K3,k1,ab", "k0,ab\n"), LIST("k4,", "k0", "k0,k1,k2,"));
    GBNF("start: a+\n\na: \"x\"\n | \"y\"~2\n", LIST("x", "yyx"), LIST("", "y"));
}

static void lark_imports_and_ignores(void **state)
{
    (void)state;
    static const char source[] =
        "start: value\n"
        "value: \"[\" [value (\",\" value)*] \"]\" | SIGNED_NUMBER | STRING\n"
        "%import common (SIGNED_NUMBER, WS)\n"
        "%import common.ESCAPED_STRING -> STRING\n"
        "%ignore WS\n%ignore /#[a-z]*;/\n";
    GBNF(source, LIST("[]", " [ 1 ,\n-2.5e3,\"a b\\\"\" ] ", "[#comment;[1]]", "7 #end;"),
         LIST("[1 2]", "[1,]", "- 1", "\"a", "#comment", ""));
}

static void errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *source, *why;
    } wrong[] = {
        {"", "no rule start"},
        {"item ::= \"a\"", "no rule root"},
        {"root ::= item", "rule item is used but not defined"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: a rule is defined twice"},
        {"root ::= \"a\n\"", "line 1: a text has no closing quote"},
        {"root ::=\n [a-", "line 2: "},
        {"root ::= [b-a]", "invalid range of characters"},
        {"root ::= \"a\"{3,2}", "invalid counts: write {m}, {m,} or {m,n}"},
        {"root ::= (\"a\"", "a group is not closed"},
        {"root ::= \"a\" )", "unexpected character"},
        {"root ::= \"\\q\"", "unknown escape"},
        {"start: \"a\"\n b \"c\"", "rule b is used but not defined"},
        {"start: a\n%import common.WS\nWS: \"x\"", "line 3: a rule is defined twice"},
        {"start: \"ab\"..\"c\"", "invalid range of characters"},
        {"start: /a", "no closing slash"},
        {"start: /(/", "a group is not closed"},
    };
    static const struct {
        const char *source, *why;
    } unsupported[] = {
        {"root ::= \"a\"\n | <think>", "line 2: tokens such as"},
        {"start: list{x}\n", "templates of rules are not supported"},
        {"start: \"a\"\n%declare X", "line 2: unsupported directive"},
        {"%import python.NAME\nstart: NAME", "only terminals of common"},
        {"%import common.SQL_COMMENT\nstart: SQL_COMMENT", "%import of an unsupported terminal"},
        {"start: /a/i", "flags of a regex"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_refused(MR_CONSTRAINT_EBNF, wrong[i].source, MR_INVALID_REQUEST, wrong[i].why);
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++)
        assert_refused(MR_CONSTRAINT_EBNF, unsupported[i].source, MR_UNSUPPORTED,
                       unsupported[i].why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gbnf_has_texts_classes_groups_and_counts),
        cmocka_unit_test(gbnf_rules_may_go_on_on_the_next_line),
        cmocka_unit_test(rules_may_call_themselves),
        cmocka_unit_test(lark_has_rules_terminals_and_repetitions),
        cmocka_unit_test(lark_imports_and_ignores),
        cmocka_unit_test(errors_name_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
