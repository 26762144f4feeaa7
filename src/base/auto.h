/* Scope-bound ownership: csn_auto(fd) int fd = -1; is closed on every way out. */
#ifndef CSN_BASE_AUTO_H
#define CSN_BASE_AUTO_H

/* The one spelling of the cleanup attribute. A type x joins by defining csn_x_auto(T *), which must keep
 * errno, since it runs between a failing call and the return that reports it. */
#define csn_auto(x) __attribute__((cleanup(csn_##x##_auto)))

#define CSN_UNUSED __attribute__((unused))

#define CSN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define csn_container_of(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) - __builtin_offsetof(type, member)))

/* csn_auto(mem) char *p = NULL; for plain malloc'd memory. */
void csn_mem_auto(void *pointer_to_pointer);

#endif
