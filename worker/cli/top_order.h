/* top_order - in which order `millrace top` shows its rows, and the keys that change it.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_CLI_TOP_ORDER_H
#define MR_WORKER_CLI_TOP_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/* Start with a zeroed struct: the rows as they were given. */
struct mr_top_order {
    bool sorted;     /* by a column */
    size_t column;   /* below the number of columns */
    bool ascending;  /* else the largest value comes first */
    bool partitions; /* the lag of each partition is shown below the table */
    bool slowest;    /* the slowest requests are shown below the table */
    bool quit;       /* the user wants to leave */
};

/* Takes one key: '>' and '<' choose the next and the previous column to sort by, 'r' reverses, 'o'
 * goes back to the order of the command line, 'p' shows partitions or hides them,
 * 's' the slowest requests, 'q' quits; false:
 * another key, which changes nothing. */
bool mr_top_order_key(struct mr_top_order *order, size_t column_count, char key);
/* Fills sequence[row_count] with the rows in the order to show. values[row]: what the row has in
 * order->column; NaN (not known) comes last. Rows of equal values keep their order. */
void mr_top_order_sort(const struct mr_top_order *order, const double *values, size_t row_count,
                       size_t *sequence);

#endif
