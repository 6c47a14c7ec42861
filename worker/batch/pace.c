#include "worker/batch/pace.h"

#define FIRST_WINDOW 64u
#define ROUND_NS     ((uint64_t)500000000)
#define GAIN         (1.0 + 1.0 / 6)
#define RESTS        8u

void mr_pace_init(struct mr_pace *pace, uint32_t most, uint64_t now_ns)
{
    const uint32_t least = most < FIRST_WINDOW ? most : FIRST_WINDOW;
    *pace = (struct mr_pace){.window = least, .least = least, .most = most, .begun_ns = now_ns};
}

void mr_pace_full(struct mr_pace *pace)
{
    pace->was_full = true;
}

static void double_window(struct mr_pace *pace, double rate_per_s)
{
    pace->best_per_s = rate_per_s;
    pace->window = pace->window > pace->most / 2 ? pace->most : 2 * pace->window;
}

static void end_round(struct mr_pace *pace, double rate_per_s)
{
    if (pace->rests_left > 0) {
        if (--pace->rests_left == 0) double_window(pace, rate_per_s);
    } else if (rate_per_s >= GAIN * pace->best_per_s && pace->window < pace->most) {
        double_window(pace, rate_per_s);
    } else if (rate_per_s < GAIN * pace->best_per_s) {
        pace->window = pace->window / 2 > pace->least ? pace->window / 2 : pace->least;
        pace->rests_left = RESTS;
    }
}

void mr_pace_answered(struct mr_pace *pace, uint64_t now_ns)
{
    pace->answers++;
    const uint64_t elapsed_ns = now_ns - pace->begun_ns;
    if (pace->answers < pace->window || elapsed_ns < ROUND_NS) return;
    if (pace->was_full) end_round(pace, (double)pace->answers * 1e9 / (double)elapsed_ns);
    pace->answers = 0;
    pace->begun_ns = now_ns;
    pace->was_full = false;
}
