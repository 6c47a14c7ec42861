/* Formats of texts. They are narrower than their RFCs where programs expect less: no leap seconds,
 * no quoted local parts in mail addresses, only URIs with a host. */
#include "codec/constraint/regex_front.h"
#include "codec/constraint/schema_state.h"

#include <string.h>

#define HEX       "[0-9a-fA-F]"
#define LEAP_YEAR "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|0[48]|[13579][26])00)"
#define YEAR      "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define DATE                                                                                       \
    "(" YEAR "-((01|03|05|07|08|10|12)-(0[1-9]|[12][0-9]|3[01])|(04|06|09|11)-(0[1-9]|[12][0-9]|"  \
    "30)|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+]([01][0-9]|2[0-3]):[0-5][0-9]|" \
    "-(0[1-9]|1[0-9]|2[0-3]):[0-5][0-9]|-00:(0[1-9]|[1-5][0-9])"                                   \
    ")"
#define LABEL    "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET    "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define GROUP    HEX "{1,4}"
#define URI_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%" HEX HEX ")"

#define HOSTNAME LABEL "(\\." LABEL "){0,2}"
#define EMAIL                                                                                      \
    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,32}(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,15}){0,2}@"          \
    "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z"         \
    "0-9])?){1,3}"
#define URI                                                                                        \
    "[a-z][a-z0-9+.-]{0,15}://" LABEL "(\\." LABEL "){0,3}(:[1-9][0-9]{0,3})?(/" URI_CHAR          \
    "*)*(\\?(" URI_CHAR "|[/?])*)?(#(" URI_CHAR "|[/?])*)?"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration",
     "P([0-9]{1,6}W|([0-9]{1,6}Y)([0-9]{1,6}M)?([0-9]{1,6}D)?|([0-9]{1,6}M)([0-9]{1,6}D)?|[0-9]{1,"
     "6}D|([0-9]{1,6}D)?T([0-9]{1,6}H([0-9]{1,6}M([0-9]{1,6}S)?)?|[0-9]{1,6}M([0-9]{1,6}S)?|[0-9]{"
     "1,6}S))"},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"email", EMAIL},
    {"hostname", HOSTNAME},
    {"ipv4", OCTET "(\\." OCTET "){3}"},
    {"ipv6", GROUP "(:" GROUP "){7}|" GROUP "(:" GROUP "){0,2}::(" GROUP "(:" GROUP
                   "){0,2})?|::(" GROUP "(:" GROUP "){0,4})?"},
    {"uri", URI},
    {"iri", URI},
    {"uri-reference", URI},
    {"iri-reference", URI},
    {"uri-template", URI},
    {"idn-email", EMAIL},
    {"idn-hostname", HOSTNAME},
    {"json-pointer", "(/([A-Za-z0-9_.-]|~[01])*)*"},
    {"relative-json-pointer", "(0|[1-9][0-9]{0,8})((/([A-Za-z0-9_.-]|~[01])*)*|#)"},
};

const struct mr_expr *mr_schema_format(struct mr_schema *schema, struct mr_text name)
{
    static const struct mr_regex_options whole = {MR_REGEX_WHOLE, MR_SPELL_JSON, "format"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (mr_text_is(name, formats[i].name))
            return mr_regex_expr(schema->builder,
                                 (struct mr_text){formats[i].pattern, strlen(formats[i].pattern)},
                                 &whole);
    return NULL;
}
