/* ticket_table - finds a ticket by tenant and request id (codec/hash_table.h). A ticket is in at
 * most one table at a time.
 *
 * Owner:  intake thread. Memory: made by _create for count_max tickets; tickets are borrowed.
 * Errors: _create MR_NOMEM. */
#ifndef MR_WORKER_INTAKE_TICKET_TABLE_H
#define MR_WORKER_INTAKE_TICKET_TABLE_H

#include "worker/ticket/ticket.h"

struct mr_ticket_table;

enum mr_status mr_ticket_table_create(struct mr_ticket_table **out, uint32_t count_max,
                                      struct mr_error *err);
/* The table must be empty. */
void mr_ticket_table_destroy(struct mr_ticket_table *table);
/* The table must not be full and must not contain the ticket's tenant and id. */
void mr_ticket_table_add(struct mr_ticket_table *table, struct mr_ticket *ticket);
struct mr_ticket *mr_ticket_table_find(const struct mr_ticket_table *table, uint32_t tenant_index,
                                       struct mr_text id);
void mr_ticket_table_remove(struct mr_ticket_table *table, struct mr_ticket *ticket);
uint32_t mr_ticket_table_count(const struct mr_ticket_table *table);
/* Calls visit for each ticket; visit may remove that ticket from the table. */
void mr_ticket_table_each(struct mr_ticket_table *table,
                          void (*visit)(void *context, struct mr_ticket *ticket), void *context);
void mr_ticket_table_check(const struct mr_ticket_table *table);

#endif
