/* Preloaded into a process of the cluster: moves its wall clock by the nanoseconds in the file that
 * ORLOJ_WALL_OFFSET names (a native 64-bit integer, mapped shared, so that the harness moves it with one
 * store), and leaves every other clock alone.
 *
 * It also knows the name of the sink, ORLOJ_SINK_NAME: the processes of a run find it at ORLOJ_SINK_ADDRESS, whatever
 * names the machine knows. Callbacks go to names alone.
 *
 * A wait until an instant of the wall clock is moved back, for the kernel's own clock has not moved.
 *
 * Reading the clock makes no library call that may allocate: the allocator asks for the time while it starts,
 * and a clock that allocates then waits for itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SECOND_NS = 1000000000 };

static const volatile int64_t *offset_ns;
static int (*timed_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("ORLOJ_WALL_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        _exit(99);
    void *map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        _exit(99);
    close(file);
    timed_wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    offset_ns = map;
}

/* Adds to an instant: the offset may be of either sign, the nanoseconds stay within a second. */
static void add_ns(struct timespec *instant, int64_t ns) {
    int64_t s = ns / SECOND_NS, rest = ns % SECOND_NS + instant->tv_nsec;
    if (rest < 0) {
        rest += SECOND_NS;
        s -= 1;
    } else if (rest >= SECOND_NS) {
        rest -= SECOND_NS;
        s += 1;
    }
    instant->tv_sec += s;
    instant->tv_nsec = rest;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add_ns(now, *offset_ns);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

/* A condition may wait by either clock, and only its inside knows which; but an instant decades after zero is
 * one of the wall clock, for no machine has been up so long. */
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec moved = *until;
    if (offset_ns && until->tv_sec > SECOND_NS)
        add_ns(&moved, -*offset_ns);
    return timed_wait(condition, mutex, &moved);
}

int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found) {
    typedef int resolve(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    resolve *next = (resolve *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *name = getenv("ORLOJ_SINK_NAME"), *address = getenv("ORLOJ_SINK_ADDRESS");
    if (node && name && address && strcmp(node, name) == 0)
        node = address;
    return next(node, service, hints, found);
}
