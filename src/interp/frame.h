/* Frames on the driver's channel: SEQPACKET packets of at most 32 KiB. 'B' + length (4 bytes, big-endian) + data begins a
 * frame and drops an unfinished one; 'C' + data continues it. No input or output happens here. */
#ifndef CSN_INTERP_FRAME_H
#define CSN_INTERP_FRAME_H

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"

enum { CSN_PACKET_DATA = 32 * 1024 - 16, CSN_PACKET_MAX = 32 * 1024, CSN_PACKET_HEAD = 5 };

/* What has come of a frame. `max` bounds what the other side can make us hold. */
typedef struct csn_frame_in {
    csn_buf data;
    size_t want;
    bool is_open;
    size_t max;
} csn_frame_in;

#define CSN_FRAME_IN_INIT(max_len) \
    { \
        CSN_BUF_INIT_MAX(max_len), 0, false, (max_len) \
    }

/* Takes one packet. 1: a frame is whole, in `data` until the next packet; 0: more is to come; -EBADMSG; -ENOMEM. */
int csn_frame_take(csn_frame_in *in, const char *packet, size_t len);
void csn_frame_forget(csn_frame_in *in);
/* The JSON object of a whole frame; behind it and a NUL byte stand values that need not be quoted, in *ret_behind. */
csn_str csn_frame_object(const csn_buf *data, csn_str *ret_behind);

/* A frame on its way out, packet by packet. */
typedef struct csn_frame_out {
    csn_list link;
    size_t len, at;
    char data[];
} csn_frame_out;

csn_frame_out *csn_frame_new(const char *data,
                             size_t len); /* copied; NULL: no memory or too long */
/* The next packet into `packet` (CSN_PACKET_MAX bytes): its length, 0 when all were given. csn_frame_sent() moves on. */
size_t csn_frame_packet(const csn_frame_out *frame, char *packet);
void csn_frame_sent(csn_frame_out *frame);

#endif
