/* Makes the n-th call of a kind fail for files in one folder: preloaded by tests/hard/test_faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, WRITE, FSYNC, RENAME, MMAP, READ };
static int kind = -1, left, code, has_fired;
static char folder[4096];

void arm(int a_kind, int number, int error, const char *place) {
    snprintf(folder, sizeof folder, "%s", place);
    kind = a_kind, left = number, code = error;
}

int fired(void) { return has_fired; }

static int fails(int a_kind, const char *path) {
    if (a_kind != kind || !path || (path[0] == '/' && strncmp(path, folder, strlen(folder)))) return 0;
    if (__sync_sub_and_fetch(&left, 1) != 0) return 0;
    has_fired = 1, errno = code;
    return 1;
}

static int fails_at(int a_kind, int descriptor) {
    char name[64], path[4096];
    if (a_kind != kind) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return path[0] == '/' && fails(a_kind, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more)

int open(const char *path, int flags, ...) { MODE; return fails(OPEN, path) ? -1 : REAL(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE; return fails(OPEN, path) ? -1 : REAL(open64)(path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE; return fails(OPEN, path) ? -1 : REAL(openat)(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE; return fails(OPEN, path) ? -1 : REAL(openat64)(at, path, flags, mode); }
ssize_t write(int to, const void *data, size_t size) { return fails_at(WRITE, to) ? -1 : REAL(write)(to, data, size); }
int fsync(int to) { return fails_at(FSYNC, to) ? -1 : REAL(fsync)(to); }
int rename(const char *from, const char *to) { return fails(RENAME, from) ? -1 : REAL(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) { return fails(RENAME, from) ? -1 : REAL(renameat)(a, from, b, to); }
void *mmap(void *at, size_t size, int prot, int flags, int from, off_t offset) {
    return from >= 0 && fails_at(MMAP, from) ? MAP_FAILED : REAL(mmap)(at, size, prot, flags, from, offset);
}
void *mmap64(void *at, size_t size, int prot, int flags, int from, off64_t offset) {
    return from >= 0 && fails_at(MMAP, from) ? MAP_FAILED : REAL(mmap64)(at, size, prot, flags, from, offset);
}
ssize_t read(int from, void *data, size_t size) { return fails_at(READ, from) ? -1 : REAL(read)(from, data, size); }
size_t fread(void *data, size_t size, size_t count, FILE *from) {
    return fails_at(READ, fileno(from)) ? 0 : REAL(fread)(data, size, count, from);
}
size_t fwrite(const void *data, size_t size, size_t count, FILE *to) {
    return fails_at(WRITE, fileno(to)) ? 0 : REAL(fwrite)(data, size, count, to);
}
ssize_t pread(int from, void *data, size_t size, off_t at) { return fails_at(READ, from) ? -1 : REAL(pread)(from, data, size, at); }
ssize_t pread64(int from, void *data, size_t size, off64_t at) { return fails_at(READ, from) ? -1 : REAL(pread64)(from, data, size, at); }
ssize_t preadv(int from, const struct iovec *to, int count, off_t at) { return fails_at(READ, from) ? -1 : REAL(preadv)(from, to, count, at); }
ssize_t preadv64(int from, const struct iovec *to, int count, off64_t at) { return fails_at(READ, from) ? -1 : REAL(preadv64)(from, to, count, at); }
