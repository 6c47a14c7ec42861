#include "worker/offsets/handover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_PREFIX "given-up-"
#define LINE_BYTES  ((size_t)320)
/* room for the file's name after the folder */
#define NAME_BYTES ((size_t)32)

static void path_of(const struct mr_handover *handover, uint32_t instance,
                    char path[MR_HANDOVER_PATH_BYTES + NAME_BYTES])
{
    snprintf(path, MR_HANDOVER_PATH_BYTES + NAME_BYTES, "%s/" FILE_PREFIX "%08" PRIx32,
             handover->folder, instance);
}

static void report(struct mr_handover *handover, const char *path)
{
    if (handover->failed) return;
    handover->failed = true;
    mr_log_warn(handover->log,
                "%s: %s; if this worker ends while Kafka is unreachable, each of its running "
                "requests counts "
                "one crash (--state-dir)",
                path, strerror(errno));
}

/* ---- the folder ---- */

/* Creates the folder and its parents. True: the folder exists and this process may write to it. */
static bool make_folder(const char *folder)
{
    char part[MR_HANDOVER_PATH_BYTES];
    struct stat found;
    if (strlen(folder) >= sizeof part) return false;
    for (const char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(part, folder, (size_t)(slash - folder));
        part[slash - folder] = '\0';
        (void)mkdir(part, 0755);
    }
    (void)mkdir(folder, 0700);
    if (stat(folder, &found) != 0 || !S_ISDIR(found.st_mode)) return false;
    return access(folder, W_OK | X_OK) == 0;
}

static bool try_folder(struct mr_handover *handover, const char *parent, const char *below)
{
    char folder[MR_HANDOVER_PATH_BYTES];
    if (!parent || parent[0] != '/') return false;
    int length = snprintf(folder, sizeof folder, "%s%s", parent, below);
    if (length < 0 || (size_t)length >= sizeof folder || !make_folder(folder)) return false;
    memcpy(handover->folder, folder, (size_t)length + 1);
    return true;
}

/* Every user may write to /var/tmp, so another user may have created the folder. */
static bool try_shared_folder(struct mr_handover *handover)
{
    char below[NAME_BYTES];
    struct stat found;
    snprintf(below, sizeof below, "/millrace-%u", (unsigned)geteuid());
    if (!try_folder(handover, "/var/tmp", below)) return false;
    if (lstat(handover->folder, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid())
        return true;
    handover->folder[0] = '\0';
    return false;
}

static void choose_folder(struct mr_handover *handover, const char *folder)
{
    char state[MR_HANDOVER_PATH_BYTES];
    const char *given = getenv("STATE_DIRECTORY");
    if (folder[0] != '\0') {
        if (make_folder(folder))
            snprintf(handover->folder, sizeof handover->folder, "%s", folder);
        else
            report(handover, folder);
        return;
    }
    if (given) { /* systemd separates several folders by colons; the first one is used */
        snprintf(state, sizeof state, "%.*s", (int)strcspn(given, ":"), given);
        if (try_folder(handover, state, "")) return;
    }
    if (try_folder(handover, getenv("XDG_STATE_HOME"), "/millrace") ||
        try_folder(handover, getenv("HOME"), "/.local/state/millrace") ||
        try_shared_folder(handover))
        return;
    report(handover, "no state folder");
}

static void remove_old_files(const struct mr_handover *handover)
{
    DIR *folder = opendir(handover->folder);
    time_t now = time(NULL);
    const struct dirent *entry;
    struct stat found;
    while (folder && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) != 0) continue;
        if (fstatat(dirfd(folder), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
            now - found.st_mtime > MR_HANDOVER_KEEP_S)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder) closedir(folder);
}

void mr_handover_open(struct mr_handover *handover, const char *folder, struct mr_log *log)
{
    *handover = (struct mr_handover){.log = log};
    while (handover->instance == 0)
        if (getrandom(&handover->instance, sizeof handover->instance, 0) !=
            (ssize_t)sizeof handover->instance)
            break;
    choose_folder(handover, folder);
    if (handover->folder[0] != '\0') remove_old_files(handover);
}

/* ---- the file ---- */

/* O_NONBLOCK: the open of a FIFO does not block. */
#define OPEN_FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

static int line_of(const struct mr_handover_place *place, char line[LINE_BYTES])
{
    return snprintf(line, LINE_BYTES, "%" PRId32 " %" PRId64 " %" PRIu32 " %s\n", place->partition,
                    place->offset, place->attempt, place->topic);
}

/* Appends the whole line or nothing, because a partial line would run into the next one. */
static bool append_line(int file, const char *line, size_t length)
{
    const off_t size = lseek(file, 0, SEEK_END);
    const ssize_t written = size < 0 ? -1 : write(file, line, length);
    if (written == (ssize_t)length) return true;
    if (written <= 0) return false;
    if (ftruncate(file, size) == 0) errno = ENOSPC;
    return false;
}

void mr_handover_add(struct mr_handover *handover, const struct mr_handover_place *place)
{
    char path[MR_HANDOVER_PATH_BYTES + NAME_BYTES], line[LINE_BYTES];
    if (handover->folder[0] == '\0' || handover->instance == 0) return;
    path_of(handover, handover->instance, path);
    const int length = line_of(place, line);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | OPEN_FLAGS, 0600);
    if (file >= 0 && append_line(file, line, (size_t)length))
        handover->lines++;
    else
        report(handover, path);
    if (file >= 0) close(file);
}

bool mr_handover_has(const struct mr_handover *handover, uint32_t instance,
                     const struct mr_handover_place *place)
{
    char path[MR_HANDOVER_PATH_BYTES + NAME_BYTES], line[LINE_BYTES], wanted[LINE_BYTES];
    bool found = false;
    if (instance == 0) return false;
    if (instance == handover->instance) return true;
    if (handover->folder[0] == '\0') return false;
    path_of(handover, instance, path);
    line_of(place, wanted);
    int descriptor = open(path, O_RDONLY | OPEN_FLAGS);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (!file && descriptor >= 0) close(descriptor);
    while (file && !found && fgets(line, sizeof line, file))
        found = strcmp(line, wanted) == 0;
    if (file) fclose(file);
    return found;
}

void mr_handover_remove(struct mr_handover *handover)
{
    char path[MR_HANDOVER_PATH_BYTES + NAME_BYTES];
    if (handover->lines == 0) return;
    path_of(handover, handover->instance, path);
    if (unlink(path) == 0) handover->lines = 0;
}
