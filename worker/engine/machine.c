#include "worker/engine/machine.h"

#include "ops/cpu_kernels/parallel.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES   ((size_t)2 * PATH_MAX)
#define NUMBER_BYTES ((size_t)64)
/* Version 1 writes "no limit" as the largest multiple of a page below 2^63. */
#define NO_LIMIT_BYTES (UINT64_C(1) << 62)

enum controller { CPU, MEMORY };

static const char *const controller_names[] = {[CPU] = "cpu", [MEMORY] = "memory"};

/* Where the files of one controller are. */
struct place {
    bool version_2;
    char group[PATH_MAX];       /* of this process, as in /proc/self/cgroup */
    char mount_root[PATH_MAX];  /* the group that is mounted at mount_point */
    char mount_point[PATH_MAX]; /* "" while none is found */
};

/* True if the comma-separated list contains the word. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (*list) {
        size_t part = strcspn(list, ",");
        if (part == length && strncmp(list, word, length) == 0) return true;
        list += part + (list[part] == ',');
    }
    return false;
}

static FILE *open_below(const char *root, const char *path)
{
    char whole[LINE_BYTES];
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return NULL;
    return fopen(whole, "re");
}

/* Returns the next word of a line, which is cut there, and moves *rest past it; NULL: there is
 * none. */
static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \n");
    size_t length = strcspn(word, " \n");
    *rest = word + length + (word[length] != '\0');
    word[length] = '\0';
    return length > 0 ? word : NULL;
}

static bool is_octal(const char *text)
{
    return strspn(text, "01234567") >= 3 && text[0] <= '3';
}

/* Copies text, cut at out_bytes, with the escapes of mountinfo (\040 for a space) replaced. */
static void unescape(const char *text, char *out, size_t out_bytes)
{
    size_t length = 0;
    while (*text && length + 1 < out_bytes) {
        bool escape = text[0] == '\\' && is_octal(text + 1);
        int code = escape ? (text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0') : text[0];
        out[length++] = (char)code;
        text += escape ? 4 : 1;
    }
    out[length] = '\0';
}

/* ---- which group ---- */

/* Lines are "0::/path" for version 2 and "4:cpu,cpuacct:/path" for version 1. A machine that has
 * both keeps a controller in one of them: version 1 if a line of it names the controller. */
static bool find_group(const char *root, enum controller controller, struct place *place)
{
    char line[LINE_BYTES];
    bool found = false;
    FILE *file = open_below(root, "/proc/self/cgroup");
    while (file && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        bool version_2 = names[1] == '\0';
        if (version_2 ? found : !has_word(names + 1, controller_names[controller])) continue;
        place->version_2 = version_2;
        snprintf(place->group, sizeof place->group, "%.*s", PATH_MAX - 1, path);
        found = true;
    }
    if (file) fclose(file);
    return found;
}

/* ---- where the control group is mounted ---- */

/* A line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type,
 * source, options of the file system. */
static bool parse_mount(char *line, char *fields[5], const char **type, const char **options)
{
    char *rest = strstr(line, " - ");
    if (!rest) return false;
    *rest = '\0';
    rest += 3;
    for (size_t i = 0; i < 5; i++)
        if (!(fields[i] = next_word(&line))) return false;
    *type = next_word(&rest);
    if (!*type || !next_word(&rest)) return false; /* the source */
    *options = next_word(&rest);
    return *options != NULL;
}

static bool find_mount(const char *root, enum controller controller, struct place *place)
{
    char line[LINE_BYTES], *fields[5];
    const char *type, *options;
    FILE *file = open_below(root, "/proc/self/mountinfo");
    while (file && place->mount_point[0] == '\0' && fgets(line, sizeof line, file)) {
        if (!parse_mount(line, fields, &type, &options)) continue;
        bool fits = place->version_2 ? strcmp(type, "cgroup2") == 0
                                     : strcmp(type, "cgroup") == 0 &&
                                           has_word(options, controller_names[controller]);
        if (!fits) continue;
        unescape(fields[3], place->mount_root, sizeof place->mount_root);
        unescape(fields[4], place->mount_point, sizeof place->mount_point);
    }
    if (file) fclose(file);
    return place->mount_point[0] != '\0';
}

/* Returns the part of the group's path below the mounted group; "" for the mounted group itself,
 * also if the group is outside the mounted hierarchy (another namespace). */
static const char *below_mount(const struct place *place)
{
    size_t length = strlen(place->mount_root);
    if (strstr(place->group, "..")) return "";
    if (length == 1) return strcmp(place->group, "/") == 0 ? "" : place->group;
    bool inside = strncmp(place->group, place->mount_root, length) == 0 &&
                  (place->group[length] == '/' || place->group[length] == '\0');
    return inside ? place->group + length : "";
}

/* ---- limits ---- */

/* Reads the first two words of a file of the group; "" for a missing word. */
static void read_words(const char *folder, const char *name, char words[2][NUMBER_BYTES])
{
    char path[LINE_BYTES], line[2 * NUMBER_BYTES] = "";
    words[0][0] = words[1][0] = '\0';
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    char *rest = fgets(line, sizeof line, file);
    fclose(file);
    for (size_t i = 0; rest && i < 2; i++) {
        const char *word = next_word(&rest);
        if (word) snprintf(words[i], NUMBER_BYTES, "%.*s", (int)NUMBER_BYTES - 1, word);
    }
}

/* Returns the number in text; 0 for "max", for a negative number and for any other text. */
static double number_of(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(number) && number > 0 ? number : 0;
}

/* Returns the quota of one group in cores; 0: none. */
static double quota_of(const struct place *place, const char *folder)
{
    char words[2][NUMBER_BYTES], period[2][NUMBER_BYTES];
    if (place->version_2) {
        read_words(folder, "cpu.max", words);
    } else {
        read_words(folder, "cpu.cfs_quota_us", words);
        read_words(folder, "cpu.cfs_period_us", period);
        memcpy(words[1], period[0], sizeof words[1]);
    }
    double quota = number_of(words[0]), length = number_of(words[1]);
    return length > 0 ? quota / length : 0;
}

/* Returns the memory limit of one group in bytes; 0: none. */
static double memory_of(const struct place *place, const char *folder)
{
    char words[2][NUMBER_BYTES];
    read_words(folder, place->version_2 ? "memory.max" : "memory.limit_in_bytes", words);
    double bytes = number_of(words[0]);
    return bytes < (double)NO_LIMIT_BYTES ? bytes : 0;
}

/* Returns the least limit of the process's group and its ancestors up to the mount; 0: none. */
static double least_limit(const char *root, enum controller controller)
{
    struct place place = {0};
    char folder[LINE_BYTES];
    double least = 0;
    if (!find_group(root, controller, &place) || !find_mount(root, controller, &place)) return 0;
    int length = snprintf(folder, sizeof folder, "%s%s", root, place.mount_point);
    int whole =
        snprintf(folder, sizeof folder, "%s%s%s", root, place.mount_point, below_mount(&place));
    if (whole >= (int)sizeof folder) return 0;
    for (;;) {
        double limit = controller == CPU ? quota_of(&place, folder) : memory_of(&place, folder);
        if (limit > 0 && (least <= 0 || limit < least)) least = limit;
        char *slash = strrchr(folder, '/');
        if (!slash || slash - folder < length) return least;
        *slash = '\0';
    }
}

void mr_machine_read(struct mr_machine *out, const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    *out = (struct mr_machine){.core_count = mr_parallel_core_count(),
                               .cpu_quota = least_limit(root, CPU),
                               .memory_limit_bytes = (uint64_t)least_limit(root, MEMORY)};
    if (pages > 0 && page_bytes > 0) out->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
}

uint32_t mr_machine_thread_count(const struct mr_machine *machine)
{
    double quota = ceil(machine->cpu_quota);
    bool limited = quota > 0 && quota < machine->core_count;
    uint32_t count = limited ? (uint32_t)quota : machine->core_count;
    if (count > MR_PARALLEL_THREADS_MAX) return MR_PARALLEL_THREADS_MAX;
    return count > 0 ? count : 1;
}

uint64_t mr_machine_usable_bytes(const struct mr_machine *machine)
{
    bool limited =
        machine->memory_limit_bytes > 0 &&
        (machine->memory_bytes == 0 || machine->memory_limit_bytes < machine->memory_bytes);
    return limited ? machine->memory_limit_bytes : machine->memory_bytes;
}
