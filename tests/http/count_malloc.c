/* count_malloc.c - preloaded into a server: counts what is taken from the heap, by who takes it.
 * An allocation is libmicrohttpd's when that library is found on the stack before any function of
 * the program, and else ours. SIGUSR1 writes both counts, so far, to the file COUNT_MALLOC_FILE
 * names. glibc's own entries do the work, so that no symbol has to be looked up while one is
 * needed; the program's allocator is not tested here. */
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

enum { DEPTH = 24 };
static atomic_long of_program, of_library;
static atomic_bool ready;
static __thread bool inside; // backtrace() and dladdr() may allocate

static bool is_library(const void *address, bool *is_program) {
    Dl_info found;
    *is_program = false;
    if (!dladdr(address, &found) || !found.dli_fname) {
        return false;
    }
    *is_program = !strstr(found.dli_fname, ".so");
    return strstr(found.dli_fname, "libmicrohttpd") != NULL;
}
static void count(void) {
    void *stack[DEPTH];
    if (inside || !atomic_load(&ready)) {
        return;
    }
    inside = true;
    const int n = backtrace(stack, DEPTH);
    bool is_program = false, library = false;
    for (int i = 1; i < n && !library && !is_program; i++) {
        library = is_library(stack[i], &is_program);
    }
    atomic_fetch_add(library ? &of_library : &of_program, 1);
    inside = false;
}
void *malloc(size_t size) {
    count();
    return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    count();
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t size) {
    count();
    return __libc_realloc(p, size);
}
void *aligned_alloc(size_t align, size_t size) {
    count();
    return __libc_memalign(align, size);
}
void free(void *p);
void __libc_free(void *p);
void free(void *p) {
    __libc_free(p);
}

static void tell(int signal_number) {
    char text[64];
    const int fd = open(getenv("COUNT_MALLOC_FILE"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int n = snprintf(text, sizeof(text), "%ld %ld\n", atomic_load(&of_program),
                           atomic_load(&of_library));
    if (fd < 0 || write(fd, text, (size_t)n) != n) {
        _exit(3);
    }
    close(fd);
}
__attribute__((constructor)) static void begin(void) {
    void *stack[2];
    backtrace(stack, 2); // loads what it needs
    signal(SIGUSR1, tell);
    atomic_store(&ready, true);
}
