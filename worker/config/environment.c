#include "worker/config/environment.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* True for the value of NAME_PORT of a service, such as tcp://10.0.0.1:80. */
static bool is_port_link(const char *value)
{
    return strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0 ||
           strncmp(value, "sctp://", 7) == 0;
}

/* True for the end of a service's variable after _PORT_, such as 9464_TCP or 9464_TCP_ADDR. */
static bool is_port_part(const char *text)
{
    static const char *const protocols[] = {"_TCP", "_UDP", "_SCTP"};
    static const char *const fields[] = {"", "_PROTO", "_PORT", "_ADDR"};
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; digits > 0 && i < sizeof protocols / sizeof *protocols; i++) {
        size_t length = strlen(protocols[i]);
        if (strncmp(text + digits, protocols[i], length) != 0) continue;
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
            if (strcmp(text + digits + length, fields[k]) == 0) return true;
    }
    return false;
}

/* For each service Kubernetes sets NAME_SERVICE_HOST, NAME_SERVICE_PORT, NAME_PORT, one
 * NAME_SERVICE_PORT_<port name> for each named port, and NAME_PORT_<number>_<protocol> with three
 * details. */
static bool is_service(const char *name, const char *value)
{
    const char *port = strstr(name, "_PORT_");
    return ends_with(name, "_SERVICE_HOST") || ends_with(name, "_SERVICE_PORT") ||
           strstr(name, "_SERVICE_PORT_") || (ends_with(name, "_PORT") && is_port_link(value)) ||
           (port && is_port_part(port + strlen("_PORT_")));
}

static bool is_script(const char *name)
{
    static const char *const names[] = {
        "MILLRACE_BIN",          "MILLRACE_TOOLS",        "MILLRACE_DEPS",
        "MILLRACE_CACHE",        "MILLRACE_CLANG_FORMAT", "MILLRACE_MODEL_FILE",
        "MILLRACE_MODEL_FOLDER", "MILLRACE_MUTANTS",      "MILLRACE_VERSION"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static char letter_of_option(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

void mr_variable_read(struct mr_variable *out, const char *text)
{
    size_t head = strlen(MR_VARIABLE_HEAD), length = strcspn(text, "=");
    *out = (struct mr_variable){.kind = MR_VARIABLE_OTHER, .value = ""};
    if (text[length] == '=') out->value = text + length + 1;
    if (length >= sizeof out->name) length = sizeof out->name - 1;
    memcpy(out->name, text, length);
    if (length < head || strncmp(text, MR_VARIABLE_HEAD, head) != 0) return;
    for (size_t i = head; i < length; i++)
        out->option[i - head] = letter_of_option(text[i]);
    out->kind = is_service(out->name, out->value) ? MR_VARIABLE_SERVICE
                : is_script(out->name)            ? MR_VARIABLE_SCRIPT
                                                  : MR_VARIABLE_OPTION;
}

void mr_variable_name_of(const char *option, char name[MR_VARIABLE_NAME_BYTES_MAX])
{
    int length = snprintf(name, MR_VARIABLE_NAME_BYTES_MAX, "%s%s", MR_VARIABLE_HEAD, option);
    for (int i = 0; i < length && i < (int)MR_VARIABLE_NAME_BYTES_MAX - 1; i++)
        name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
}
