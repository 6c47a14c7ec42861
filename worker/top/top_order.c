#include "worker/top/top_order.h"

#include <math.h>

/* Keys of the table. False: the key has no meaning. */
static bool take_table_key(struct mr_top_order *order, size_t column_count, char key)
{
    switch (key) {
    case '>':
        order->column = order->sorted ? (order->column + 1) % column_count : 0;
        order->sorted = true;
        return true;
    case '<':
        order->column = (order->sorted && order->column > 0 ? order->column : column_count) - 1;
        order->sorted = true;
        return true;
    case 'r':
        order->ascending = !order->ascending;
        return true;
    case 'o':
        order->sorted = order->ascending = false;
        return true;
    case 'p':
        order->partitions = !order->partitions;
        return true;
    case 's':
        order->slowest = !order->slowest;
        order->chosen = 0;
        return true;
    case 't':
        order->next_tenant = true;
        return true;
    case 'q':
        order->quit = true;
        return true;
    default:
        return false;
    }
}

/* A terminal sends ESC [ A for the arrow up and ESC [ B for the arrow down. */
bool mr_top_order_key(struct mr_top_order *order, size_t column_count, char key)
{
    if (order->cancel == MR_TOP_CANCEL_ASKED) {
        order->cancel = key == 'y' ? MR_TOP_CANCEL_SURE : MR_TOP_CANCEL_NONE;
        return true;
    }
    if (order->slowest && (key == 'j' || key == 'B'))
        order->chosen++;
    else if (order->slowest && (key == 'k' || key == 'A'))
        order->chosen -= order->chosen > 0;
    else if (order->slowest && key == 'c')
        order->cancel = MR_TOP_CANCEL_ASKED;
    else
        return take_table_key(order, column_count, key);
    return true;
}

static bool is_before(const struct mr_top_order *order, double one, double other)
{
    if (isnan(one) || isnan(other)) return !isnan(one) && isnan(other);
    return order->ascending ? one < other : one > other;
}

/* Insertion sort: it is stable, and there are few rows. */
void mr_top_order_sort(const struct mr_top_order *order, const double *values, size_t row_count,
                       size_t *sequence)
{
    for (size_t i = 0; i < row_count; i++) {
        size_t at = i;
        while (order->sorted && at > 0 && is_before(order, values[i], values[sequence[at - 1]])) {
            sequence[at] = sequence[at - 1];
            at--;
        }
        sequence[at] = i;
    }
}
