/* text_folder - a temporary folder with files of a model. */
#ifndef MR_TESTS_TEXT_FOLDER_H
#define MR_TESTS_TEXT_FOLDER_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char text_folder[32];

static void make_text_folder(void)
{
    snprintf(text_folder, sizeof text_folder, "/tmp/millrace-texts-XXXXXX");
    assert_non_null(mkdtemp(text_folder));
}

/* Writes a file; `inner` is a folder that is made for it, or NULL. */
static void write_text_file(const char *inner, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", text_folder, inner ? inner : "");
    if (inner) (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", text_folder, inner ? inner : ".", name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

static void drop_text_folder(void)
{
    assert_int_equal(nftw(text_folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
