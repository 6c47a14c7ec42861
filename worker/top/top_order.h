/* top_order - what `millrace top` shows and in which order, and the keys that change it.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_TOP_TOP_ORDER_H
#define MR_WORKER_TOP_TOP_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/* Cancelling the chosen request takes two keys, since the list moves while one types. */
enum mr_top_cancel { MR_TOP_CANCEL_NONE, MR_TOP_CANCEL_ASKED, MR_TOP_CANCEL_SURE };

/* Start with a zeroed struct: the rows as they were given. */
struct mr_top_order {
    bool sorted;               /* by a column */
    size_t column;             /* below the number of columns */
    bool ascending;            /* else the largest value comes first */
    bool partitions;           /* the lag of each partition is shown below the table */
    bool slowest;              /* the slowest requests are shown below the table */
    size_t chosen;             /* of the slowest requests, by its row; may be beyond the last one */
    enum mr_top_cancel cancel; /* of the chosen request */
    bool next_tenant;          /* the user wants to see the next tenant; the screen resets it */
    bool quit;                 /* the user wants to leave */
};

/* Takes one key: '>' and '<' choose the next and the previous column to sort by, 'r' reverses, 'o'
 * goes back to the order of the command line, 'p' shows partitions or hides them, 's' the slowest
 * requests, among which 'j' and 'k' (and the arrow keys) choose one, 'c' asks to cancel it and 'y'
 * agrees, 't' wants the next tenant, 'q' quits; false: another key, which changes nothing. */
bool mr_top_order_key(struct mr_top_order *order, size_t column_count, char key);
/* Fills sequence[row_count] with the rows in the order to show. values[row]: what the row has in
 * order->column; NaN (not known) comes last. Rows of equal values keep their order. */
void mr_top_order_sort(const struct mr_top_order *order, const double *values, size_t row_count,
                       size_t *sequence);

#endif
