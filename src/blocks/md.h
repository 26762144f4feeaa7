/* Fenced code out of Markdown: two readers, one list. */
#ifndef CSN_BLOCKS_MD_H
#define CSN_BLOCKS_MD_H

#include <caisson/blocks.h>

#include "base/str.h"

/* The text behind a UTF-8 byte order mark, if it begins with one. */
csn_str csn_md_without_mark(csn_str text);

/* Appends a block, copied. 0 or -ENOMEM. */
int csn_md_add(csn_code_list *list, csn_str language, csn_str code);

int csn_md_compatible(csn_str text, csn_code_list *list);
int csn_md_commonmark(csn_str text, csn_code_list *list);

#endif
