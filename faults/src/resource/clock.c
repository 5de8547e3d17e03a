/* Preloaded into a server: its wall clock is the machine's plus an offset, which stands in a file (nanoseconds, 8
 * bytes in the machine's order) named by MONGOSOAK_CLOCK and mapped, so that it counts from the moment it is written.
 * Clocks that only measure time are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
/* No machine has been up for that many seconds: a larger time is one of the wall clock. */
#define WALL_CLOCK_S 1000000000LL

static const int64_t none = 0;
static const volatile int64_t *offset = &none;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);

static void *real(const char *name, const char *version) {
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    return found ? found : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MONGOSOAK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED)
            offset = mapped;
        close(file);
    }
    /* There is an older one of that name, with another layout. */
    real_cond_timedwait = real("pthread_cond_timedwait", "GLIBC_2.3.2");
    real_sem_timedwait = real("sem_timedwait", NULL);
    real_clock_gettime = real("clock_gettime", NULL);
}

static struct timespec shifted(struct timespec at, int64_t by) {
    int64_t all = at.tv_nsec + by % SECOND;
    at.tv_sec += by / SECOND + (all >= SECOND) - (all < 0);
    at.tv_nsec = all - SECOND * ((all >= SECOND) - (all < 0));
    return at;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    /* Libraries that begin before this one may ask as well. */
    int result = real_clock_gettime ? real_clock_gettime(clock, at) : (int)syscall(SYS_clock_gettime, clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *at = shifted(*at, *offset);
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (time_t)-1;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

/* Who waits until a time of the wall clock has reckoned it with the offset; the kernel knows nothing of that. */
static struct timespec for_kernel(const struct timespec *until) {
    return until->tv_sec >= WALL_CLOCK_S ? shifted(*until, -*offset) : *until;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec at = for_kernel(until);
    return real_cond_timedwait(condition, mutex, &at);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec at = for_kernel(until);
    return real_sem_timedwait(semaphore, &at);
}
