/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes a file inside that nobody waits for any more, whatever becomes of the one who made it. */
#ifndef CSN_SERVER_BROOM_H
#define CSN_SERVER_BROOM_H

#include "base/buf.h"
#include "server/boxes.h"

/* box: of that id, valid now; it is held until the file is gone. Takes what is in `path` and leaves it empty. */
void csn_broom_sweep(csn_boxes *boxes, const char *box_id, csn_sandbox *box, csn_buf *path);

#endif
