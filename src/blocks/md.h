/* Fenced code out of Markdown: two readers, one list. */
#ifndef CSN_BLOCKS_MD_H
#define CSN_BLOCKS_MD_H

#include <caisson/blocks.h>

#include "base/str.h"

/* Appends a block, copied. 0 or -ENOMEM. */
int csn_md_add(csn_code_list *list, csn_str language, csn_str code);

int csn_md_compatible(csn_str text, csn_code_list *list);
int csn_md_commonmark(csn_str text, csn_code_list *list);

#endif
