#include "base/list.h"
#include "csn_test.h"

struct item {
    int value;
    csn_list link;
};

static int sum(csn_list *head)
{
    int digits = 0;

    csn_list_foreach (node, head)
        digits = digits * 10 + csn_list_entry(node, struct item, link)->value;
    return digits;
}

TEST(nodes_come_and_go)
{
    csn_list head = CSN_LIST_INIT(head);
    struct item items[4] = { { .value = 1 }, { .value = 2 }, { .value = 3 }, { .value = 4 } };

    CHECK(csn_list_empty(&head));
    CHECK(!csn_list_pop(&head));
    csn_list_remove(&items[0].link); /* never inserted */
    csn_list_append(&head, &items[1].link);
    csn_list_append(&head, &items[2].link);
    csn_list_prepend(&head, &items[0].link);
    csn_list_insert(&items[2].link, &items[3].link);
    CHECK_INT(sum(&head), 1243);
    csn_list_foreach (node, &head)
        if (csn_list_entry(node, struct item, link)->value % 2 == 0)
            csn_list_remove(node);
    CHECK_INT(sum(&head), 13);
    csn_list_remove(&items[1].link); /* twice */
    CHECK(csn_list_pop(&head) == &items[0].link);
    CHECK(csn_list_first(&head) == &items[2].link);
}
