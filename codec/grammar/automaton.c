#include "codec/grammar/automaton.h"

#include <stdlib.h>

struct mr_grammar *mr_grammar_hold(struct mr_grammar *grammar)
{
    atomic_fetch_add_explicit(&grammar->references, 1, memory_order_relaxed);
    return grammar;
}

void mr_grammar_drop(struct mr_grammar *grammar)
{
    if (!grammar) return;
    if (atomic_fetch_sub_explicit(&grammar->references, 1, memory_order_acq_rel) > 1) return;
    free(grammar->states);
    free(grammar->edges);
    free(grammar->calls);
    free(grammar->rules);
    free(grammar->counted);
    free(grammar);
}

size_t mr_grammar_bytes(const struct mr_grammar *grammar)
{
    return sizeof *grammar + grammar->state_count * sizeof *grammar->states +
           grammar->edge_count * sizeof *grammar->edges +
           grammar->call_count * sizeof *grammar->calls +
           grammar->rule_count * (sizeof *grammar->rules + sizeof *grammar->counted);
}
