/* Bytes from a sandbox on their way to one of our own descriptors: exact into a pipe or file, harmless on a terminal. */
#ifndef CSN_CLI_STREAM_H
#define CSN_CLI_STREAM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_stream {
    int fd;
    bool is_escaped;
    bool is_broken; /* the reader went away, or the disk is full: what comes is dropped */
    char held[4];   /* beginning of a character that the last piece cut */
    size_t n_held;
} cli_stream;

void cli_stream_init(cli_stream *s, int fd, bool raw);
void cli_stream_put(cli_stream *s, const char *data, size_t len);
void cli_stream_finish(cli_stream *s); /* lets a cut character out */

#endif
