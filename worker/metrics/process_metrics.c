#include "worker/metrics/process_metrics.h"

#include "worker/metrics/metric_text.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Fields of /proc/self/stat (proc(5)); times in clock ticks. */
struct process {
    unsigned long long user, system, threads;
    unsigned long long started; /* since the machine's start */
    unsigned long long virtual_bytes, resident_pages;
};

/* Skips `count` fields of a line in which a space separates fields. */
static const char *skip(const char *at, unsigned count)
{
    while (at && count-- > 0) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    return at;
}

static unsigned long long field(const char *line, unsigned number)
{
    const char *at = skip(line, number);
    return at ? strtoull(at, NULL, 10) : 0;
}

static bool read_stat(struct process *process)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    /* the name of the program, in brackets, may hold spaces and brackets */
    const char *line = strrchr(text, ')');
    if (!line) return false;
    /* numbers of the fields, counted from the name */
    *process = (struct process){.user = field(line, 12),
                                .system = field(line, 13),
                                .threads = field(line, 18),
                                .started = field(line, 20),
                                .virtual_bytes = field(line, 21),
                                .resident_pages = field(line, 22)};
    return true;
}

/* Unix time of the machine's start in seconds; 0: unknown. */
static double boot_time(void)
{
    static const char name[] = "btime ";
    char line[256];
    double time = 0;
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return 0;
    while (time == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, sizeof name - 1) == 0) time = strtod(line + sizeof name - 1, NULL);
    fclose(file);
    return time;
}

/* Open file descriptors, without the one that reads the folder; -1: unknown. */
static int count_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = -1;
    if (!folder) return -1;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') count++;
    closedir(folder);
    return count;
}

void mr_process_metrics_print(FILE *out)
{
    struct process process = {0};
    struct rlimit limit;
    double ticks = (double)sysconf(_SC_CLK_TCK), booted_s = boot_time();
    int files = count_files();
    if (read_stat(&process)) {
        mr_metric_put_value(out, "process_cpu_seconds_total", "counter",
                            "CPU time of this process, user and system, in seconds.",
                            (double)(process.user + process.system) / ticks);
        mr_metric_put_value(out, "process_resident_memory_bytes", "gauge",
                            "Resident memory of this process in bytes.",
                            (double)process.resident_pages * (double)sysconf(_SC_PAGESIZE));
        mr_metric_put_value(out, "process_virtual_memory_bytes", "gauge",
                            "Virtual memory of this process in bytes.",
                            (double)process.virtual_bytes);
        mr_metric_put_value(out, "process_threads", "gauge", "Threads of this process.",
                            (double)process.threads);
        if (booted_s > 0)
            mr_metric_put_value(out, "process_start_time_seconds", "gauge",
                                "Unix time at which this process started, in seconds.",
                                booted_s + (double)process.started / ticks);
    }
    if (files >= 0)
        mr_metric_put_value(out, "process_open_fds", "gauge",
                            "Open file descriptors of this process.", files);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        mr_metric_put_value(out, "process_max_fds", "gauge",
                            "Largest number of file descriptors that this process may open.",
                            (double)limit.rlim_cur);
}
