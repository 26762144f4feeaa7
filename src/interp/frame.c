#include "frame.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/fault.h"

void csn_frame_forget(csn_frame_in *in)
{
    in->is_open = false;
    csn_buf_clear(&in->data);
}

static int begin(csn_frame_in *in, const char *packet, size_t len)
{
    const unsigned char *p = (const unsigned char *) packet;

    csn_frame_forget(in);
    if (len < CSN_PACKET_HEAD)
        return -EBADMSG;
    in->want = (size_t) p[1] << 24 | (size_t) p[2] << 16 | (size_t) p[3] << 8 | p[4];
    if (in->want > in->max)
        return -EBADMSG;
    in->is_open = true;
    return csn_buf_append(&in->data, packet + CSN_PACKET_HEAD, len - CSN_PACKET_HEAD);
}

int csn_frame_take(csn_frame_in *in, const char *packet, size_t len)
{
    int r = -EBADMSG;

    if (len > 0 && packet[0] == 'B')
        r = begin(in, packet, len);
    else if (len > 0 && packet[0] == 'C' && in->is_open)
        r = csn_buf_append(&in->data, packet + 1, len - 1);
    if (r == 0 && in->data.len > in->want)
        r = -EBADMSG;
    if (r < 0) {
        csn_frame_forget(in);
        return r == -E2BIG ? -EBADMSG : r;
    }
    if (in->data.len < in->want)
        return 0;
    in->is_open = false;
    return 1;
}

csn_str csn_frame_object(const csn_buf *data, csn_str *ret_behind)
{
    csn_str object;

    *ret_behind = csn_str_n(data->data, data->len);
    (void) csn_str_split(ret_behind, '\0', &object); /* there is always a first part */
    return object;
}

csn_frame_out *csn_frame_new(const char *data, size_t len)
{
    csn_frame_out *frame = len <= UINT32_MAX ? csn_malloc(sizeof(*frame) + len) : NULL;

    if (!frame)
        return NULL;
    *frame = (csn_frame_out){ .len = len };
    memcpy(frame->data, data, len);
    return frame;
}

static size_t data_of_next(const csn_frame_out *frame)
{
    size_t left = frame->len - frame->at;

    return left < CSN_PACKET_DATA ? left : CSN_PACKET_DATA;
}

size_t csn_frame_packet(const csn_frame_out *frame, char *packet)
{
    size_t n = data_of_next(frame), head = frame->at ? 1 : CSN_PACKET_HEAD;

    if (frame->at && !n)
        return 0;
    packet[0] = frame->at ? 'C' : 'B';
    for (int i = 0; !frame->at && i < 4; i++)
        packet[1 + i] = (char) (frame->len >> (24 - 8 * i));
    memcpy(packet + head, frame->data + frame->at, n);
    return head + n;
}

void csn_frame_sent(csn_frame_out *frame)
{
    frame->at += data_of_next(frame);
}
