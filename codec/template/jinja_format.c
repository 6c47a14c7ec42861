#include "codec/template/jinja_format.h"

#include "codec/jinja/jinja_print.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WIDTH_MAX 10000 /* most bytes of a field, and of the digits of a number */

/* How one value is printed. */
struct field {
    struct mr_jinja_value fill; /* one character, or undefined for a space */
    char align;                 /* '<' '>' '^' '=' or 0 */
    char sign;                  /* '+', ' ' or 0 */
    char separator;             /* between thousands: ',' '_' or 0 */
    bool alternate;             /* "#" */
    int width, precision;       /* precision -1: not given */
    char type;                  /* 0: not given */
};

struct format {
    struct mr_jinja_run *run;
    struct mr_jinja_value format;
    size_t at;
    struct mr_jinja_buffer out;
    size_t next; /* index of the next positional value */
};

static void bad_format(struct format *f)
{
    mr_jinja_fail(f->run, MR_INVALID_REQUEST,
                  "chat template: a format string does not fit its values or is not supported");
}

static char peek(const struct format *f)
{
    return f->at < f->format.text.length ? f->format.text.bytes[f->at] : '\0';
}

static int read_number(struct format *f, int otherwise)
{
    int number = 0;
    if (!isdigit((unsigned char)peek(f))) return otherwise;
    for (; isdigit((unsigned char)peek(f)); f->at++)
        number = number > WIDTH_MAX ? number : number * 10 + (peek(f) - '0');
    if (number > WIDTH_MAX) bad_format(f);
    return number;
}

/* Writes `text`, the digits of a number after its sign, with separators between thousands. */
static struct mr_jinja_value group_digits(struct format *f, const char *text, char separator)
{
    struct mr_jinja_buffer buffer = {0};
    size_t whole = strspn(text, "0123456789");
    for (size_t i = 0; text[i]; i++) {
        if (separator && i > 0 && i < whole && (whole - i) % 3 == 0)
            mr_jinja_append_bytes(f->run, &buffer, &separator, 1, false);
        mr_jinja_append_bytes(f->run, &buffer, text + i, 1, false);
    }
    return mr_jinja_buffer_text(&buffer);
}

/* Appends sign and digits, padded: with zeros between the two for alignment '='. */
static void append_padded(struct format *f, const struct field *field, const char *sign,
                          struct mr_jinja_value body, char align)
{
    struct mr_jinja_value prefix = mr_jinja_literal(sign);
    if (align == '=') {
        mr_jinja_append(f->run, &f->out, prefix);
        int64_t room = field->width - (int64_t)strlen(sign);
        body = mr_jinja_pad(f->run, body, room, MR_JINJA_LEFT, field->fill);
        mr_jinja_append(f->run, &f->out, body);
        return;
    }
    struct mr_jinja_buffer all = {0};
    mr_jinja_append(f->run, &all, prefix);
    mr_jinja_append(f->run, &all, body);
    enum mr_jinja_sides sides = align == '<'   ? MR_JINJA_RIGHT
                                : align == '>' ? MR_JINJA_LEFT
                                               : MR_JINJA_BOTH;
    struct mr_jinja_value text = mr_jinja_buffer_text(&all);
    int64_t length = (int64_t)mr_jinja_length(f->run, text);
    if (align == '^' && field->width > length) { /* the longer side is the right one */
        int64_t left = (field->width - length) / 2;
        text = mr_jinja_pad(f->run, text, length + left, MR_JINJA_LEFT, field->fill);
        sides = MR_JINJA_RIGHT;
    }
    mr_jinja_append(f->run, &f->out, mr_jinja_pad(f->run, text, field->width, sides, field->fill));
}

static void append_integer(struct format *f, const struct field *field, int64_t integer)
{
    char digits[32], sign[4] = "";
    uint64_t size = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    char type = field->type;
    snprintf(digits, sizeof digits,
             type == 'x'   ? "%llx"
             : type == 'X' ? "%llX"
             : type == 'o' ? "%llo"
                           : "%llu",
             (unsigned long long)size);
    snprintf(sign, sizeof sign, "%s", integer < 0 ? "-" : (char[]){field->sign, '\0'});
    if (field->alternate && (type == 'x' || type == 'X' || type == 'o')) bad_format(f);
    struct mr_jinja_value body = group_digits(f, digits, field->separator);
    append_padded(f, field, sign, body, field->align ? field->align : '>');
}

static void append_real(struct format *f, const struct field *field, double number)
{
    char digits[512], pattern[16], sign[2] = {field->sign, '\0'};
    char type = field->type == '%' || !field->type ? 'f' : field->type;
    int precision = field->precision < 0 ? 6 : field->precision;
    if (field->type == '%') number *= 100;
    if (precision > 100 || field->alternate) {
        bad_format(f);
        return;
    }
    if (number < 0) sign[0] = '-';
    snprintf(pattern, sizeof pattern, "%%.%d%c%s", precision, type, field->type == '%' ? "%%" : "");
    /* the format comes from the two lines above: a precision and one of efgEFG */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(digits, sizeof digits, pattern, number < 0 ? -number : number);
#pragma GCC diagnostic pop
    append_padded(f, field, sign, group_digits(f, digits, field->separator),
                  field->align ? field->align : '>');
}

static void append_text(struct format *f, const struct field *field, struct mr_jinja_value value,
                        char align)
{
    struct mr_jinja_value text = mr_jinja_text_of(f->run, value);
    if (field->precision >= 0)
        text = mr_jinja_slice_bytes(text, 0, mr_jinja_offset(text, (size_t)field->precision));
    append_padded(f, field, "", text, field->align ? field->align : align);
}

static bool is_integral(struct mr_jinja_value value)
{
    return value.kind == MR_JINJA_INT || value.kind == MR_JINJA_BOOL;
}

static struct mr_jinja_value repr_of(struct format *f, struct mr_jinja_value value)
{
    struct mr_jinja_buffer buffer = {0};
    mr_jinja_print_repr(f->run, &buffer, value);
    return mr_jinja_buffer_text(&buffer);
}

/* ---- % ---- */

static void append_percent_field(struct format *f, struct field *field, struct mr_jinja_value value)
{
    char type = field->type;
    bool number = mr_jinja_is_number(value);
    if (type == 's' || type == 'r' || type == 'a')
        append_text(f, field, type == 's' ? value : repr_of(f, value), '>');
    else if (type == 'c' && value.kind == MR_JINJA_TEXT && mr_jinja_length(f->run, value) == 1)
        append_text(f, field, value, '>');
    else if (strchr("dixXou", type) && (is_integral(value) || (number && strchr("diu", type))))
        append_integer(f, field, is_integral(value) ? value.integer : (int64_t)value.number);
    else if (strchr("eEfFgG", type) && number)
        append_real(f, field, mr_jinja_as_number(value));
    else
        bad_format(f);
}

/* Reads "%(name)": the value of the key `name`. */
static struct mr_jinja_value percent_key(struct format *f, struct mr_jinja_value values)
{
    size_t begin = ++f->at;
    while (peek(f) && peek(f) != ')')
        f->at++;
    struct mr_jinja_value key = mr_jinja_slice_bytes(f->format, begin, f->at++);
    struct mr_jinja_value *found =
        values.kind == MR_JINJA_DICT ? mr_jinja_dict_get(values.dict, key) : NULL;
    if (!found) bad_format(f);
    return found ? *found : mr_jinja_undefined();
}

static struct mr_jinja_value next_value(struct format *f, struct mr_jinja_value values)
{
    bool tuple = values.kind == MR_JINJA_LIST && values.list->kind == MR_JINJA_LIST_TUPLE;
    size_t index = f->next++;
    if (index < (tuple ? values.list->count : 1)) return tuple ? values.list->items[index] : values;
    bad_format(f);
    return mr_jinja_undefined();
}

/* Called when "%" has been read. */
static void percent_field(struct format *f, struct mr_jinja_value values)
{
    struct field field = {.precision = -1};
    struct mr_jinja_value value = mr_jinja_undefined();
    bool keyed = peek(f) == '(';
    if (keyed) value = percent_key(f, values);
    for (; peek(f) && strchr("-+ 0#", peek(f)); f->at++) {
        char flag = peek(f);
        if (flag == '-') field.align = '<';
        if (flag == '+' || (flag == ' ' && !field.sign)) field.sign = flag;
        if (flag == '0' && !field.align) field.align = '=';
        field.alternate |= flag == '#';
    }
    field.width = read_number(f, 0);
    if (peek(f) == '.') {
        f->at++;
        field.precision = read_number(f, 0);
    }
    field.type = peek(f);
    if (!field.type) {
        bad_format(f);
        return;
    }
    f->at++;
    if (field.type == '%') {
        mr_jinja_append_bytes(f->run, &f->out, "%", 1, false);
        return;
    }
    if (!keyed) value = next_value(f, values);
    if (field.align == '=' && strchr("srac", field.type))
        field.align = '>';
    else if (field.align == '=')
        field.fill = mr_jinja_literal("0");
    append_percent_field(f, &field, value);
}

struct mr_jinja_value mr_jinja_format_percent(struct mr_jinja_run *run,
                                              struct mr_jinja_value format,
                                              struct mr_jinja_value values)
{
    struct format f = {.run = run, .format = format};
    while (f.at < format.text.length && mr_jinja_step(run)) {
        const char *rest = format.text.bytes + f.at;
        const char *sign = memchr(rest, '%', format.text.length - f.at);
        size_t end = sign ? f.at + (size_t)(sign - rest) : format.text.length;
        mr_jinja_append(run, &f.out, mr_jinja_slice_bytes(format, f.at, end));
        f.at = end + 1;
        if (sign) percent_field(&f, values);
    }
    bool tuple = values.kind == MR_JINJA_LIST && values.list->kind == MR_JINJA_LIST_TUPLE;
    bool container = values.kind == MR_JINJA_DICT || values.kind == MR_JINJA_LIST;
    if (tuple ? f.next < values.list->count : f.next == 0 && !container) bad_format(&f);
    return mr_jinja_buffer_text(&f.out);
}

/* ---- {} ---- */

/* Reads the format of a field up to "}". */
static void read_spec(struct format *f, struct field *field)
{
    size_t length = f->format.text.length;
    size_t first =
        f->at < length ? mr_jinja_offset(mr_jinja_slice_bytes(f->format, f->at, length), 1) : 0;
    char second = f->at + first < length ? f->format.text.bytes[f->at + first] : '\0';
    if (second && strchr("<>^=", second) && peek(f) != '}') {
        field->fill = mr_jinja_slice_bytes(f->format, f->at, f->at + first);
        field->align = second;
        f->at += first + 1;
    } else if (peek(f) && strchr("<>^=", peek(f))) {
        field->align = f->format.text.bytes[f->at++];
    }
    if (peek(f) && strchr("+- ", peek(f))) {
        field->sign = peek(f) == '-' ? '\0' : peek(f);
        f->at++;
    }
    if (peek(f) == '#') field->alternate = f->at++ > 0;
    if (peek(f) == '0') {
        if (!field->align) field->align = '=';
        if (field->fill.kind != MR_JINJA_TEXT) field->fill = mr_jinja_literal("0");
    }
    field->width = read_number(f, 0);
    if (peek(f) == ',' || peek(f) == '_') field->separator = f->format.text.bytes[f->at++];
    if (peek(f) == '.') {
        f->at++;
        field->precision = read_number(f, -1);
    }
    if (isalpha((unsigned char)peek(f)) || peek(f) == '%')
        field->type = f->format.text.bytes[f->at++];
}

static void append_brace_field(struct format *f, struct field *field, struct mr_jinja_value value)
{
    char type = field->type;
    bool plain = !field->width && field->precision < 0 && !type && !field->sign;
    if (plain && !field->separator)
        mr_jinja_print(f->run, &f->out, value);
    else if (value.kind == MR_JINJA_TEXT && (!type || type == 's'))
        append_text(f, field, value, '<');
    else if (is_integral(value) && (!type || strchr("dxXon", type)))
        append_integer(f, field, value.integer);
    else if (mr_jinja_is_number(value) && type && strchr("eEfFgG%", type))
        append_real(f, field, mr_jinja_as_number(value));
    else
        bad_format(f);
}

/* The number that the name spells; -1 when it is not a number. */
static int64_t digits_of(struct mr_text name)
{
    int64_t number = 0;
    if (!name.length || name.length > 9) return -1;
    for (size_t i = 0; i < name.length; i++) {
        if (!isdigit((unsigned char)name.bytes[i])) return -1;
        number = number * 10 + (name.bytes[i] - '0');
    }
    return number;
}

/* Reads "[key]" or "[index]" and returns the item of value there. */
static struct mr_jinja_value item_of(struct format *f, struct mr_jinja_value value)
{
    size_t begin = ++f->at;
    while (peek(f) && peek(f) != ']')
        f->at++;
    struct mr_text key = mr_text_part(mr_jinja_as_text(f->format), begin, f->at++);
    int64_t index = digits_of(key);
    if (value.kind == MR_JINJA_LIST && index >= 0 && (size_t)index < value.list->count)
        return value.list->items[index];
    struct mr_jinja_value *found = NULL;
    if (value.kind == MR_JINJA_DICT)
        found = mr_jinja_dict_get(value.dict, index < 0 ? mr_jinja_name(key) : mr_jinja_int(index));
    if (!found) bad_format(f);
    return found ? *found : mr_jinja_undefined();
}

/* Reads the name of a field with its indexes: "0", "name", "a[b][0]". */
static struct mr_jinja_value brace_value(struct format *f,
                                         const struct mr_jinja_arguments *arguments)
{
    size_t begin = f->at;
    while (peek(f) && !strchr("[:!}", peek(f)))
        f->at++;
    struct mr_text name = mr_text_part(mr_jinja_as_text(f->format), begin, f->at);
    struct mr_jinja_value value = mr_jinja_undefined();
    const struct mr_jinja_value *named = mr_jinja_keyword(arguments, name);
    int64_t index = name.length ? digits_of(name) : (int64_t)f->next++;
    if (index >= 0 && index < arguments->count)
        value = arguments->values[index];
    else if (named)
        value = *named;
    else
        bad_format(f);
    while (f->run->status == MR_OK && peek(f) == '[')
        value = item_of(f, value);
    return value;
}

/* Called when "{" has been read. */
static void brace_field(struct format *f, const struct mr_jinja_arguments *arguments)
{
    struct field field = {.precision = -1};
    struct mr_jinja_value value = brace_value(f, arguments);
    if (peek(f) == '!') {
        char conversion = ++f->at < f->format.text.length ? f->format.text.bytes[f->at++] : '\0';
        if (conversion == 'r')
            value = repr_of(f, value);
        else if (conversion == 's')
            value = mr_jinja_text_of(f->run, value);
        else
            bad_format(f);
    }
    if (peek(f) == ':') {
        f->at++;
        read_spec(f, &field);
    }
    if (peek(f) != '}') bad_format(f);
    f->at++;
    if (f->run->status == MR_OK) append_brace_field(f, &field, value);
}

struct mr_jinja_value mr_jinja_format_braces(struct mr_jinja_run *run, struct mr_jinja_value format,
                                             const struct mr_jinja_arguments *arguments)
{
    struct format f = {.run = run, .format = format};
    while (f.at < format.text.length && mr_jinja_step(run)) {
        size_t begin = f.at;
        while (peek(&f) != '{' && peek(&f) != '}' && f.at < format.text.length)
            f.at++;
        mr_jinja_append(run, &f.out, mr_jinja_slice_bytes(format, begin, f.at));
        if (f.at == format.text.length) break;
        char brace = format.text.bytes[f.at++];
        if (peek(&f) == brace) {
            mr_jinja_append(run, &f.out, mr_jinja_slice_bytes(format, f.at, f.at + 1));
            f.at++;
        } else if (brace == '{') {
            brace_field(&f, arguments);
        } else {
            bad_format(&f);
        }
    }
    return mr_jinja_buffer_text(&f.out);
}
