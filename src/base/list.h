/* Intrusive doubly linked list: a node sits in the struct, an empty list points at itself. */
#ifndef CSN_BASE_LIST_H
#define CSN_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "auto.h"

typedef struct csn_list {
    struct csn_list *next, *prev;
} csn_list;

#define CSN_LIST_INIT(head) \
    { \
        &(head), &(head) \
    }

static inline void csn_list_init(csn_list *head)
{
    head->next = head->prev = head;
}

static inline bool csn_list_empty(const csn_list *head)
{
    return head->next == head;
}

static inline void csn_list_insert(csn_list *before, csn_list *node)
{
    node->prev = before->prev;
    node->next = before;
    before->prev->next = node;
    before->prev = node;
}

static inline void csn_list_append(csn_list *head, csn_list *node)
{
    csn_list_insert(head, node);
}

static inline void csn_list_prepend(csn_list *head, csn_list *node)
{
    csn_list_insert(head->next, node);
}

/* The node is an empty list of its own after; removing it again, or a zeroed one, does nothing. */
static inline void csn_list_remove(csn_list *node)
{
    if (!node->next)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    csn_list_init(node);
}

static inline csn_list *csn_list_first(csn_list *head)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a node that was freed has left; the analyzer loses sight of that */
    return csn_list_empty(head) ? NULL : head->next;
}

/* The first node taken out of the list, or NULL. */
static inline csn_list *csn_list_pop(csn_list *head)
{
    csn_list *node = head->next;

    if (node == head)
        return NULL;
    head->next = node->next;
    head->next->prev = head;
    csn_list_init(node);
    return node;
}

#define csn_list_entry(node, type, member) csn_container_of(node, type, member)

/* The body may remove `node`, and no other. */
#define csn_list_foreach(node, head) \
    for (csn_list *node = (head)->next, *node##_next = node->next; node != (head); \
         node = node##_next, node##_next = node->next)

#endif
