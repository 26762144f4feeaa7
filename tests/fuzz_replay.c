/* main() for a fuzz_x.c without libFuzzer: feeds it every file of the corpus directory, then each of them cut short
 * and with single bytes changed, the same ones in every run. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES (1 << 20)
#define N_CHANGED 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A copy of exactly the size, so that a sanitizer sees a read past its end. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    if (!copy)
        abort();
    memcpy(copy, data, size);
    (void) LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void feed_changed(uint8_t *data, size_t size)
{
    uint32_t state = (uint32_t) size * 2654435761u + 1;

    for (int i = 0; i < N_CHANGED && size > 0; i++) {
        size_t at = next_random(&state) % size;
        uint8_t old = data[at];
        data[at] = (uint8_t) next_random(&state);
        feed(data, size);
        data[at] = old;
        feed(data, next_random(&state) % size);
    }
}

static int replay(int dir, const char *name)
{
    uint8_t *data = malloc(MAX_BYTES);
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = data && fd >= 0 ? read(fd, data, MAX_BYTES) : -1;

    if (n >= 0) {
        feed(data, (size_t) n);
        feed_changed(data, (size_t) n);
    }
    if (fd >= 0)
        close(fd);
    free(data);
    return n >= 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    static uint8_t nothing[64];
    int n = 0, n_failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    feed(nothing, 0);
    feed_changed(nothing, sizeof(nothing));
    printf("ok %d - nothing and noise\n", ++n);
    DIR *dir = argc > 1 ? opendir(argv[1]) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        int r = replay(dirfd(dir), e->d_name);
        printf("%s %d - %s\n", r == 0 ? "ok" : "not ok", ++n, e->d_name);
        n_failed += r != 0;
    }
    if (dir)
        closedir(dir);
    printf("1..%d\n", n);
    return n_failed > 0;
}
