/* top_order - the contents and the order of the screen of `millrace top`, and the keys that change
 * them.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_TOP_TOP_ORDER_H
#define MR_WORKER_TOP_TOP_ORDER_H

#include <stdbool.h>
#include <stddef.h>

/* Cancelling the chosen request takes two keys, because the list changes while the user types. */
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

/* Handles one key. False: the key has no meaning.
 *     > <   sort by the next, the previous column
 *     r o   reverse the order; return to the order of the command line
 *     p s   show or hide partitions, the slowest requests
 *     j k   choose the next, the previous slow request (also the arrow keys)
 *     c y   cancel the chosen request; confirm
 *     t q   show the next tenant; quit */
bool mr_top_order_key(struct mr_top_order *order, size_t column_count, char key);
/* Fills sequence[row_count] with the rows in the order of the screen. values[row]: the row's value
 * in order->column; NaN (unknown) comes last. Rows with equal values keep their order. */
void mr_top_order_sort(const struct mr_top_order *order, const double *values, size_t row_count,
                       size_t *sequence);

#endif
