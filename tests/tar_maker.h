/* Writes tar files byte by byte, honest ones and others. */
#ifndef CSN_TAR_MAKER_H
#define CSN_TAR_MAKER_H

#include <stddef.h>
#include <stdint.h>

typedef struct tar_entry {
    const char *name;
    char type; /* '0' file, '1' hard link, '2' symlink, '3' char device, '5' directory, '6' FIFO, 'x' pax; 0: '0' */
    const char *link;
    unsigned mode; /* 0: 0644, 0755 for directories */
    unsigned uid, gid;
    const char *data; /* NULL: `size` zeros */
    size_t size;      /* 0 and data: its length */
    int64_t claims;   /* the size the header says; 0: the true one */
} tar_entry;

typedef struct tar_maker {
    int fd;
} tar_maker;

void tar_begin(tar_maker *tar, const char *path);
void tar_add(tar_maker *tar, const tar_entry *entry);
void tar_pax(tar_maker *tar, const char *key, const char *value); /* for the next entry */
void tar_end(tar_maker *tar);
/* Eight gigabytes of zeros that take no place: long enough to look at whoever reads them. */
void tar_make_long(const char *path);

#define TAR_ADD(tar, ...) tar_add((tar), &(const tar_entry){ __VA_ARGS__ })

/* Runs a program and fails the test unless it exits with 0. */
void run_program(const char *const argv[]);
#define RUN(...) run_program((const char *const[]){ __VA_ARGS__, NULL })

#endif
