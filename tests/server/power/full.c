/* Preloaded library that makes a disk look full for some writes to one folder.

   FULL_FOLDER names the folder. FULL_LOG names a file that gets a byte each time the disk fills up.
   About every twentieth write fails, and so do up to 8 writes after it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static unsigned seed = 20261118;
static int rest;

static int inside(int file) {
    char link[64], path[4096];
    const char *folder = getenv("FULL_FOLDER");
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!folder || length <= 0 || strncmp(path, folder, strlen(folder))) return 0;
    path[length] = 0;
    return !strstr(path, "-shm"); /* if this write failed, the store could not be opened */
}

static int full(int file) {
    if (!inside(file)) return 0;
    pthread_mutex_lock(&one);
    int begins = rest == 0 && rand_r(&seed) % 20 == 0;
    if (begins) {
        int log = (int) syscall(SYS_openat, AT_FDCWD, getenv("FULL_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
        syscall(SYS_write, log, "x", 1);
        syscall(SYS_close, log);
        rest = 1 + rand_r(&seed) % 8;
    }
    int now = rest > 0;
    rest -= now;
    pthread_mutex_unlock(&one);
    if (now) errno = ENOSPC;
    return now;
}

#define REAL(name, ...) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    return full(file) ? -1 : REAL(pwrite, file, data, length, offset);
}
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    return full(file) ? -1 : REAL(pwrite64, file, data, length, offset);
}
