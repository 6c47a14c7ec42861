#include "worker/bench/bench_compare.h"

#include "codec/check.h"
#include "codec/wire/document.h"
#include "worker/bench/bench_chart.h"
#include "worker/bench/bench_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A smaller change is neither better nor worse, because two runs of one program differ by more. */
#define NOTABLE_PERCENT 2.0

struct file {
    const char *path;
    char *text;
    struct mr_document *document;
};

static enum mr_status open_file(struct file *file, const char *path, struct mr_error *err)
{
    file->path = path;
    file->text = malloc(MR_BENCH_COMPARE_BYTES_MAX);
    if (!file->text) return mr_fail(err, MR_NOMEM, "no memory for %.200s", path);
    FILE *in = fopen(path, "r");
    if (!in) return mr_fail(err, MR_BAD_CONFIG, "cannot read %.200s", path);
    size_t length = fread(file->text, 1, MR_BENCH_COMPARE_BYTES_MAX, in);
    bool whole = feof(in) && !ferror(in);
    fclose(in);
    if (!whole) return mr_fail(err, MR_BAD_CONFIG, "cannot read all of %.200s", path);
    struct mr_error reason = {0};
    struct mr_text text = {file->text, length};
    if (mr_document_open(&file->document, text, MR_ENCODING_JSON, &reason) == MR_OK) return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "%.200s is not a file of bench --output: %s", path,
                   reason.detail);
}

static void close_file(struct file *file)
{
    mr_document_close(file->document);
    free(file->text);
}

/* 1: a higher value is better; -1: a lower one; 0: neither. */
static int direction_of(const char *name)
{
    size_t length = strlen(name);
    if (strstr(name, "throughput") || strcmp(name, "highest_rate") == 0 ||
        strcmp(name, "max_output_tokens_per_s") == 0)
        return 1;
    bool time = length > 3 && strcmp(name + length - 3, "_ms") == 0;
    return time || strcmp(name, "failed") == 0 || strcmp(name, "duration") == 0 ? -1 : 0;
}

static bool is_number(struct mr_value value)
{
    enum mr_value_kind kind = mr_value_kind(value);
    return kind == MR_VALUE_INT || kind == MR_VALUE_FLOAT;
}

/* One row. percent: NaN if the old value is 0. verdict: "", "better" or "worse". */
struct row {
    char name[64];
    double before, after, percent;
    const char *verdict;
};

/* The next number that both files have; false: no more. member: see mr_value_next. */
static bool next_row(const struct file *files, struct mr_member *member, struct row *row)
{
    struct mr_value other;
    while (mr_value_next(mr_document_root(files[0].document), member)) {
        snprintf(row->name, sizeof row->name, "%.*s", (int)member->name.length, member->name.bytes);
        if (!is_number(member->value) ||
            !mr_value_get(mr_document_root(files[1].document), row->name, &other) ||
            !is_number(other))
            continue;
        row->before = mr_value_number(member->value);
        row->after = mr_value_number(other);
        row->percent =
            row->before != 0 ? 100 * (row->after - row->before) / row->before : (double)NAN;
        double gain = row->percent * direction_of(row->name);
        row->verdict = gain >= NOTABLE_PERCENT ? "better" : gain <= -NOTABLE_PERCENT ? "worse" : "";
        return true;
    }
    return false;
}

static void print_table(const struct file *files, FILE *out)
{
    struct mr_member member = {0};
    struct row row;
    fprintf(out, "%-28s %14s %14s %9s\n", "", "old", "new", "change");
    while (next_row(files, &member, &row)) {
        fprintf(out, "%-28s %14.6g %14.6g ", row.name, row.before, row.after);
        if (isnan(row.percent))
            fprintf(out, "%9s\n", "-");
        else
            fprintf(out, "%+8.1f%%%s%s\n", row.percent, row.verdict[0] ? " " : "", row.verdict);
    }
}

static enum mr_status write_page(const struct file *files, const char *path, struct mr_error *err)
{
    struct mr_member member = {0};
    struct row row;
    FILE *out = fopen(path, "w");
    if (!out) return mr_fail(err, MR_BAD_CONFIG, "cannot write %.200s", path);
    mr_bench_page_begin("millrace bench: comparison", out);
    fputs("<p>old: ", out);
    mr_bench_chart_text(files[0].path, out);
    fputs("<br>new: ", out);
    mr_bench_chart_text(files[1].path, out);
    fputs("</p>\n<div class=\"table\"><table>\n<tr><th>figure</th><th>old</th><th>new</th>"
          "<th>change</th></tr>\n",
          out);
    while (next_row(files, &member, &row)) {
        fputs("<tr><td>", out);
        mr_bench_chart_text(row.name, out);
        fprintf(out, "</td><td>%.6g</td><td>%.6g</td>", row.before, row.after);
        if (isnan(row.percent))
            fputs("<td>-</td></tr>\n", out);
        else
            fprintf(out, "<td class=\"%s\">%+.1f %%</td></tr>\n", row.verdict, row.percent);
    }
    fputs("</table></div>\n", out);
    mr_bench_page_end(out);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    return failed ? mr_fail(err, MR_BAD_CONFIG, "cannot write %.200s", path) : MR_OK;
}

enum mr_status mr_bench_compare(const struct mr_config *config, FILE *table, struct mr_error *err)
{
    struct file files[2] = {0};
    MR_ASSERT(config->argument_count == 2);
    enum mr_status status = open_file(&files[0], config->arguments[0], err);
    if (status == MR_OK) status = open_file(&files[1], config->arguments[1], err);
    if (status == MR_OK) print_table(files, table);
    if (status == MR_OK && config->report[0]) status = write_page(files, config->report, err);
    close_file(&files[1]);
    close_file(&files[0]);
    return status;
}
