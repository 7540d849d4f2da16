/* Preloaded library that records what a program does to the files of one folder, in order.

   RECORD_FOLDER names the folder, and RECORD_LOG the file of records. Format of a record:
       kind (1 byte) · length of name (u32) · offset (u64) · length of data (u32) · name · data
   Kinds: O opened, and created if missing; W written; T truncated to offset; S synced;
   U removed. A sync of the folder itself is S with an empty name. Reads and memory maps are not
   recorded: SQLite recreates the file that it maps after a power cut. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST 4096
static char *names[MOST]; /* names of the folder's open files, by descriptor */
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;

static void put(const void *bytes, size_t length) {
    while (length > 0) {
        ssize_t done = syscall(SYS_write, out, bytes, length);
        if (done <= 0) abort();
        bytes = (const char *) bytes + done;
        length -= (size_t) done;
    }
}

static void record(char kind, const char *name, uint64_t offset, const void *data, uint32_t length) {
    if (out < 0)
        out = (int) syscall(SYS_openat, AT_FDCWD, getenv("RECORD_LOG"),
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    uint32_t letters = (uint32_t) strlen(name);
    put(&kind, 1); put(&letters, 4); put(&offset, 8); put(&length, 4);
    put(name, letters); put(data, length);
}

/* Return the name within the folder, or NULL if the path is elsewhere. */
static const char *inside(const char *path) {
    const char *folder = getenv("RECORD_FOLDER");
    size_t length = folder ? strlen(folder) : 0;
    if (!length || strncmp(path, folder, length)) return NULL;
    return path[length] == '/' ? path + length + 1 : path[length] ? NULL : path + length;
}

static const char *name_of(int file) { return file >= 0 && file < MOST ? names[file] : NULL; }

static int opened(int file, const char *path, int flags) {
    const char *name = inside(path);
    if (file < 0 || file >= MOST || !name) return file;
    names[file] = strdup(name);
    if (flags & O_CREAT) record('O', name, 0, "", 0);
    return file;
}

#define REAL(name, ...) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define LOCKED(action) pthread_mutex_lock(&one); action; pthread_mutex_unlock(&one)
#define MODE(flags) va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest)

int open(const char *path, int flags, ...) {
    MODE(flags); int file;
    LOCKED(file = opened(REAL(open, path, flags, mode), path, flags));
    return file;
}
int open64(const char *path, int flags, ...) {
    MODE(flags); int file;
    LOCKED(file = opened(REAL(open64, path, flags, mode), path, flags));
    return file;
}
int close(int file) {
    int done;
    LOCKED(if (name_of(file)) { free(names[file]); names[file] = NULL; } done = REAL(close, file));
    return done;
}

static ssize_t written(int file, ssize_t done, uint64_t offset, const void *data) {
    if (done > 0 && name_of(file)) record('W', name_of(file), offset, data, (uint32_t) done);
    return done;
}
ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    ssize_t done;
    LOCKED(done = written(file, REAL(pwrite, file, data, length, offset), (uint64_t) offset, data));
    return done;
}
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    ssize_t done;
    LOCKED(done = written(file, REAL(pwrite64, file, data, length, offset), (uint64_t) offset, data));
    return done;
}
ssize_t write(int file, const void *data, size_t length) { /* appends, as programs write a log */
    ssize_t done;
    LOCKED(uint64_t end = name_of(file) ? (uint64_t) lseek(file, 0, SEEK_END) : 0;
           done = written(file, REAL(write, file, data, length), end, data));
    return done;
}

static int noted(char kind, int file, int done, uint64_t offset) {
    if (done == 0 && name_of(file)) record(kind, name_of(file), offset, "", 0);
    return done;
}
int ftruncate(int file, off_t size) {
    int done;
    LOCKED(done = noted('T', file, REAL(ftruncate, file, size), (uint64_t) size));
    return done;
}
int ftruncate64(int file, off64_t size) {
    int done;
    LOCKED(done = noted('T', file, REAL(ftruncate64, file, size), (uint64_t) size));
    return done;
}
int fsync(int file) {
    int done;
    LOCKED(done = noted('S', file, REAL(fsync, file), 0));
    return done;
}
int fdatasync(int file) {
    int done;
    LOCKED(done = noted('S', file, REAL(fdatasync, file), 0));
    return done;
}
int unlink(const char *path) {
    int done;
    LOCKED(done = REAL(unlink, path);
           if (!done && inside(path)) record('U', inside(path), 0, "", 0));
    return done;
}
