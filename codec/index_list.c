#include "codec/index_list.h"

#include "codec/check.h"

void mr_index_list_append(struct mr_index_list *list, struct mr_index_link *links, uint32_t index)
{
    links[index] = (struct mr_index_link){list->last, MR_INDEX_NONE};
    if (list->last == MR_INDEX_NONE)
        list->first = index;
    else
        links[list->last].next = index;
    list->last = index;
    list->count++;
}

void mr_index_list_remove(struct mr_index_list *list, struct mr_index_link *links, uint32_t index)
{
    const struct mr_index_link link = links[index];
    if (link.previous == MR_INDEX_NONE)
        list->first = link.next;
    else
        links[link.previous].next = link.next;
    if (link.next == MR_INDEX_NONE)
        list->last = link.previous;
    else
        links[link.next].previous = link.previous;
    links[index] = (struct mr_index_link){MR_INDEX_NONE, MR_INDEX_NONE};
    list->count--;
}

void mr_index_list_check(const struct mr_index_list *list, const struct mr_index_link *links)
{
    uint32_t count = 0, previous = MR_INDEX_NONE;
    for (uint32_t i = list->first; i != MR_INDEX_NONE; i = links[i].next) {
        MR_ASSERT(count++ < list->count && links[i].previous == previous);
        previous = i;
    }
    MR_ASSERT(count == list->count && list->last == previous);
}
