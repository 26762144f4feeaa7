/* Log lines of programs (the library never logs): "time=… level=info msg=… key=value", one write() per line to
 * stderr, control characters made visible. */
#ifndef CSN_BASE_LOG_H
#define CSN_BASE_LOG_H

typedef enum csn_log_level {
    CSN_LOG_DEBUG,
    CSN_LOG_INFO,
    CSN_LOG_WARN,
    CSN_LOG_ERROR,
} csn_log_level;

/* Lines below it are dropped. Default: info. */
void csn_log_set_level(csn_log_level level);

/* Where lines go; default 2. */
void csn_log_set_fd(int fd);

/* Key/value pairs of strings, NULL-terminated: csn_log(CSN_LOG_INFO, "started", "id", id, "image", image, NULL).
 * A NULL in a key's place ends the list, a NULL value is written as "-". A line is cut at 4096 bytes. */
void csn_log(csn_log_level level, const char *msg, ...) __attribute__((sentinel));

#endif
