/* embed NAME INPUT OUTPUT: a file as a C array. Writes a header with
 *   static const unsigned char NAME[] = { … };  static const unsigned long NAME_size = …;
 * The bytes are aligned to 16 and followed by a NUL that isn't counted, so that text can be used as a string. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, const char *path)
{
    fprintf(stderr, "embed: %s ", what);
    perror(path);
    return 1;
}

static int is_identifier(const char *s)
{
    if (!isalpha((unsigned char) *s) && *s != '_')
        return 0;
    for (; *s; s++)
        if (!isalnum((unsigned char) *s) && *s != '_')
            return 0;
    return 1;
}

static unsigned long copy_bytes(FILE *in, FILE *out)
{
    unsigned long n = 0;
    int c;

    while ((c = getc(in)) != EOF) {
        fprintf(out, "%d,%s", c, n % 24 == 23 ? "\n" : "");
        n++;
    }
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !is_identifier(argv[1])) {
        fputs("usage: embed NAME INPUT OUTPUT\n", stderr);
        return 2;
    }
    FILE *in = fopen(argv[2], "rb");
    if (!in)
        return fail("read", argv[2]);
    FILE *out = fopen(argv[3], "wb");
    if (!out) {
        fclose(in);
        return fail("write", argv[3]);
    }
    fprintf(out, "static const unsigned char %s[] __attribute__((aligned(16), unused)) = {\n",
            argv[1]);
    unsigned long n = copy_bytes(in, out);
    fprintf(out, "0 };\nstatic const unsigned long %s_size __attribute__((unused)) = %luUL;\n",
            argv[1], n);
    int read_failed = ferror(in);
    fclose(in);
    if (read_failed)
        return fail("read", argv[2]);
    if (fclose(out) != 0)
        return fail("write", argv[3]);
    return 0;
}
