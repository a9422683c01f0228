/* What a program does to its disk, written down from outside: for verify/robustness/power_cuts.py, by LD_PRELOAD.

   Every call that changes files below OPLOG_ROOT, and every sync, is passed on and then appended to the file OPLOG:
   kind, time, descriptor, two lengths, a path (of a write: its place), data. A call that fails changes nothing and is not written down. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, WRITE, FSYNC, CLOSE, RENAME, UNLINK, MKDIR, WRITE_AT, TRUNCATE };
#define MOST 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int oplog = -1;
static const char *root;
static char tracked[MOST];

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void __attribute__((constructor)) begin(void) {
    root = getenv("OPLOG_ROOT");
    const char *path = getenv("OPLOG");
    if (root && path) oplog = NEXT(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int below(const char *path) { return oplog >= 0 && root && path && !strncmp(path, root, strlen(root)); }

static void append(int kind, int fd, const char *path, const void *data, size_t size) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct __attribute__((packed)) { int32_t kind; int64_t t; int32_t fd; uint32_t a, b; } head = {
        kind, now.tv_sec * 1000000000LL + now.tv_nsec, fd, path ? strlen(path) : 0, size};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, head.a}, {(void *)data, size}};
    if (NEXT(writev)(oplog, parts, 3) < 0) abort();
}

static int opened(int fd, const char *path) {
    if (fd >= 0 && fd < MOST && below(path)) {
        pthread_mutex_lock(&lock);
        tracked[fd] = 1;
        append(OPEN, fd, path, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return fd;
}

#define MODE va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more)
int open(const char *path, int flags, ...) { MODE; return opened(NEXT(open)(path, flags, mode), path); }
int open64(const char *path, int flags, ...) { MODE; return opened(NEXT(open64)(path, flags, mode), path); }
int openat(int at, const char *path, int flags, ...) { MODE; return opened(NEXT(openat)(at, path, flags, mode), path); }
int openat64(int at, const char *path, int flags, ...) { MODE; return opened(NEXT(openat64)(at, path, flags, mode), path); }

ssize_t write(int fd, const void *data, size_t size) {
    if (fd < 0 || fd >= MOST || !tracked[fd]) return NEXT(write)(fd, data, size);
    pthread_mutex_lock(&lock);
    ssize_t done = NEXT(write)(fd, data, size);
    if (done > 0) append(WRITE, fd, NULL, data, done);
    pthread_mutex_unlock(&lock);
    return done;
}

static ssize_t put_at(ssize_t (*next)(int, const void *, size_t, off_t), int fd, const void *data, size_t size, off_t at) {
    if (fd < 0 || fd >= MOST || !tracked[fd]) return next(fd, data, size, at);
    char place[24];
    snprintf(place, sizeof place, "%lld", (long long)at);
    pthread_mutex_lock(&lock);
    ssize_t done = next(fd, data, size, at);
    if (done > 0) append(WRITE_AT, fd, place, data, done);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return put_at(NEXT(pwrite), fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return put_at(NEXT(pwrite), fd, data, size, at); }

static int cut(int fd, off_t at) {
    int code = NEXT(ftruncate)(fd, at);
    if (code == 0 && fd >= 0 && fd < MOST && tracked[fd]) {
        char place[24];
        snprintf(place, sizeof place, "%lld", (long long)at);
        pthread_mutex_lock(&lock);
        append(TRUNCATE, fd, place, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return code;
}

int ftruncate(int fd, off_t at) { return cut(fd, at); }
int ftruncate64(int fd, off_t at) { return cut(fd, at); }

static int synced(int fd, int code) {
    if (code == 0 && fd >= 0 && fd < MOST && tracked[fd]) {
        pthread_mutex_lock(&lock);
        append(FSYNC, fd, NULL, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return code;
}

int fsync(int fd) { return synced(fd, NEXT(fsync)(fd)); }
int fdatasync(int fd) { return synced(fd, NEXT(fdatasync)(fd)); }

int close(int fd) {
    if (fd < 0 || fd >= MOST || !tracked[fd]) return NEXT(close)(fd);
    pthread_mutex_lock(&lock);
    tracked[fd] = 0;
    append(CLOSE, fd, NULL, NULL, 0);
    int code = NEXT(close)(fd);
    pthread_mutex_unlock(&lock);
    return code;
}

int rename(const char *from, const char *to) {
    int code = NEXT(rename)(from, to);
    if (code == 0 && below(to)) {
        pthread_mutex_lock(&lock);
        append(RENAME, -1, from, to, strlen(to));
        pthread_mutex_unlock(&lock);
    }
    return code;
}

int unlink(const char *path) {
    int code = NEXT(unlink)(path);
    if (code == 0 && below(path)) {
        pthread_mutex_lock(&lock);
        append(UNLINK, -1, path, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return code;
}

int mkdir(const char *path, mode_t mode) {
    int code = NEXT(mkdir)(path, mode);
    if (code == 0 && below(path)) {
        pthread_mutex_lock(&lock);
        append(MKDIR, -1, path, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return code;
}
