#include "worker/bench/bench_chart.h"

#include <math.h>

/* in units of the picture, which the page scales */
#define WIDTH  640.0
#define HEIGHT 240.0
#define LEFT   58.0
#define RIGHT  12.0
#define TOP    10.0
#define BOTTOM 38.0
#define TICKS  5

struct frame {
    double x_low, x_high, y_high; /* y begins at 0 */
};

void mr_bench_chart_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

/* A step of 1, 2 or 5 times a power of ten that divides the range into at most TICKS parts. */
static double step_of(double range)
{
    if (!(range > 0)) return 1;
    double power = pow(10, floor(log10(range / TICKS))), part = range / TICKS / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static double place_x(const struct frame *frame, double x)
{
    return LEFT + (x - frame->x_low) / (frame->x_high - frame->x_low) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct frame *frame, double y)
{
    return HEIGHT - BOTTOM - y / frame->y_high * (HEIGHT - TOP - BOTTOM);
}

static struct frame frame_of(const struct mr_bench_chart *chart)
{
    struct frame frame = {.x_low = chart->count ? chart->x[0] : 0,
                          .x_high = chart->count ? chart->x[chart->count - 1] : 1,
                          .y_high = chart->limit};
    for (size_t k = 0; k < chart->line_count; k++)
        for (size_t i = 0; i < chart->count; i++)
            if (chart->lines[k].values[i] > frame.y_high) frame.y_high = chart->lines[k].values[i];
    if (frame.x_high <= frame.x_low) {
        frame.x_low -= 0.5;
        frame.x_high += 0.5;
    }
    if (frame.y_high <= 0) frame.y_high = 1;
    double step = step_of(frame.y_high);
    frame.y_high = ceil(frame.y_high / step) * step;
    return frame;
}

static void print_axes(const struct mr_bench_chart *chart, const struct frame *frame, FILE *out)
{
    double step = step_of(frame->y_high);
    for (int i = 0; i <= TICKS && i * step <= frame->y_high * 1.0001; i++) {
        double y = place_y(frame, i * step);
        fprintf(out,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"end\" x=\"%.1f\" y=\"%.1f\">%.6g</text>\n",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, i * step);
    }
    step = step_of(frame->x_high - frame->x_low);
    for (double x = ceil(frame->x_low / step) * step; x <= frame->x_high * 1.0001; x += step)
        fprintf(out, "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%.6g</text>\n",
                place_x(frame, x), HEIGHT - BOTTOM + 16, fabs(x) < step / 1e6 ? 0.0 : x);
    fprintf(out, "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 4);
    mr_bench_chart_text(chart->x_name, out);
    fputs("</text>\n", out);
}

static void print_line(const struct mr_bench_chart *chart, const struct frame *frame, size_t k,
                       FILE *out)
{
    bool open = false;
    const double *values = chart->lines[k].values;
    fprintf(out, "<path class=\"line s%zu\" d=\"", k);
    for (size_t i = 0; i < chart->count; i++) {
        if (!isfinite(values[i])) {
            open = false;
            continue;
        }
        fprintf(out, "%c%.1f %.1f", open ? 'L' : 'M', place_x(frame, chart->x[i]),
                place_y(frame, values[i]));
        open = true;
    }
    fputs("\"/>\n", out);
    for (size_t i = 0; i < chart->count; i++) {
        bool alone = (i == 0 || !isfinite(values[i - 1])) &&
                     (i + 1 == chart->count || !isfinite(values[i + 1]));
        if (!isfinite(values[i]) || (!chart->marks && !alone)) continue;
        fprintf(out, "<circle class=\"mark s%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>", k,
                place_x(frame, chart->x[i]), place_y(frame, values[i]));
        mr_bench_chart_text(chart->lines[k].name, out);
        fprintf(out, ": %.6g at %.6g</title></circle>\n", values[i], chart->x[i]);
    }
}

void mr_bench_chart_print(const struct mr_bench_chart *chart, FILE *out)
{
    struct frame frame = frame_of(chart);
    fputs("<figure><figcaption>", out);
    mr_bench_chart_text(chart->title, out);
    fputs(" <small>", out);
    mr_bench_chart_text(chart->y_name, out);
    fputs("</small></figcaption>\n", out);
    fprintf(out, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n", WIDTH, HEIGHT);
    print_axes(chart, &frame, out);
    if (chart->limit > 0)
        fprintf(out, "<line class=\"limit\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
                LEFT, WIDTH - RIGHT, place_y(&frame, chart->limit), place_y(&frame, chart->limit));
    for (size_t k = 0; k < chart->line_count; k++)
        print_line(chart, &frame, k, out);
    fputs("</svg><p class=\"legend\">", out);
    for (size_t k = 0; k < chart->line_count; k++) {
        fprintf(out, "<span class=\"s%zu\">", k);
        mr_bench_chart_text(chart->lines[k].name, out);
        fputs("</span>", out);
    }
    if (chart->limit > 0) fprintf(out, "<span class=\"bound\">objective %.6g</span>", chart->limit);
    fputs("</p></figure>\n", out);
}
