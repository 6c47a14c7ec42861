#include "worker/batch/batch_progress.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define TERMINAL_NS ((uint64_t)1000000000)
#define LOG_NS      ((uint64_t)10000000000)
#define SMOOTHING   0.3 /* weight of the last interval */

static uint64_t done(const struct mr_batch_progress_counts *counts)
{
    return counts->answered + counts->failed;
}

void mr_batch_progress_init(struct mr_batch_progress *progress, FILE *out,
                            const struct mr_batch_progress_counts *counts, uint64_t now_ns)
{
    *progress = (struct mr_batch_progress){.out = out,
                                           .is_terminal = isatty(fileno(out)) == 1,
                                           .begun_ns = now_ns,
                                           .last_ns = now_ns,
                                           .begun = *counts,
                                           .last = *counts};
    progress->next_ns = now_ns + (progress->is_terminal ? TERMINAL_NS : LOG_NS);
}

static void smooth(double *rate, uint64_t count, double seconds)
{
    const double now = (double)count / seconds;
    *rate = *rate > 0 ? (1 - SMOOTHING) * *rate + SMOOTHING * now : now;
}

/* Seconds until the last line is answered; -1: unknown. */
static double seconds_left(const struct mr_batch_progress *progress,
                           const struct mr_batch_progress_counts *counts)
{
    return progress->calls_per_s > 0
               ? (double)(counts->calls - done(counts)) / progress->calls_per_s
               : -1;
}

static void show_line(struct mr_batch_progress *progress,
                      const struct mr_batch_progress_counts *counts)
{
    const double left_s = seconds_left(progress, counts);
    fprintf(progress->out,
            "\r\033[K%" PRIu64 " of %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64
            " in flight, %.1f requests/s, %.0f tokens/s",
            done(counts), counts->calls, counts->failed, counts->in_flight, progress->calls_per_s,
            progress->tokens_per_s);
    if (left_s >= 0)
        fprintf(progress->out, ", %d:%02d:%02d left", (int)left_s / 3600, (int)left_s / 60 % 60,
                (int)left_s % 60);
    fflush(progress->out);
    progress->is_shown = true;
}

static void show_json(const struct mr_batch_progress *progress,
                      const struct mr_batch_progress_counts *counts)
{
    const double left_s = seconds_left(progress, counts);
    fprintf(progress->out,
            "{\"event\":\"progress\",\"requests\":%" PRIu64 ",\"done\":%" PRIu64
            ",\"failed\":%" PRIu64 ",\"in_flight\":%" PRIu64
            ",\"requests_per_s\":%.1f,\"tokens_per_s\":%.0f,\"seconds_left\":",
            counts->calls, done(counts), counts->failed, counts->in_flight, progress->calls_per_s,
            progress->tokens_per_s);
    fprintf(progress->out, left_s >= 0 ? "%.0f}\n" : "null}\n", left_s);
    fflush(progress->out);
}

void mr_batch_progress_show(struct mr_batch_progress *progress,
                            const struct mr_batch_progress_counts *counts, uint64_t now_ns)
{
    if (now_ns < progress->next_ns) return;
    const double seconds = (double)(now_ns - progress->last_ns) / 1e9;
    smooth(&progress->calls_per_s, done(counts) - done(&progress->last), seconds);
    smooth(&progress->tokens_per_s, counts->tokens - progress->last.tokens, seconds);
    progress->last = *counts;
    progress->last_ns = now_ns;
    progress->next_ns = now_ns + (progress->is_terminal ? TERMINAL_NS : LOG_NS);
    if (progress->is_terminal)
        show_line(progress, counts);
    else
        show_json(progress, counts);
}

void mr_batch_progress_pause(struct mr_batch_progress *progress)
{
    if (progress->is_shown) fputc('\n', progress->out);
    progress->is_shown = false;
}

void mr_batch_progress_end(struct mr_batch_progress *progress,
                           const struct mr_batch_progress_counts *counts, const char *errors,
                           uint64_t now_ns)
{
    const double seconds = (double)(now_ns - progress->begun_ns) / 1e9;
    const uint64_t here = done(counts) - done(&progress->begun);
    const double rate = seconds > 0 ? (double)here / seconds : 0;
    const double tokens = seconds > 0 ? (double)counts->tokens / seconds : 0;
    mr_batch_progress_pause(progress);
    if (!progress->is_terminal) {
        fprintf(progress->out,
                "{\"event\":\"end\",\"requests\":%" PRIu64 ",\"answered\":%" PRIu64
                ",\"failed\":%" PRIu64 ",\"seconds\":%.1f,\"requests_per_s\":%.1f,"
                "\"tokens_per_s\":%.0f}\n",
                counts->calls, counts->answered, counts->failed, seconds, rate, tokens);
        return;
    }
    fprintf(progress->out, "%" PRIu64 " requests: %" PRIu64 " answered, %" PRIu64 " failed",
            counts->calls, counts->answered, counts->failed);
    if (counts->failed > 0 && errors[0]) fprintf(progress->out, " (see %s)", errors);
    if (done(counts) < counts->calls)
        fprintf(progress->out, ", %" PRIu64 " to do", counts->calls - done(counts));
    if (here > 0)
        fprintf(progress->out, "; %" PRIu64 " in %.1f s, %.1f requests/s, %.0f tokens/s", here,
                seconds, rate, tokens);
    fputc('\n', progress->out);
}
