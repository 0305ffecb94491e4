/* Preloaded into a process, this makes its wall clock wrong by $SKEW_SECONDS (such as 5, or -0.4), and no other clock:
   not the monotonic ones that sleeping rests on, and not gettimeofday, which is how SQLite reads the store's time. That
   and the time since boot are moved by $STORE_SECONDS, as if so much time had passed.
   With $SKEW_BEGIN it is that many seconds after the epoch when the process first asks, however late it gets to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define SECOND 1000000000L

int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *skew = getenv("SKEW_SECONDS"), *begin = getenv("SKEW_BEGIN");
    if (id == CLOCK_BOOTTIME)
        skew = getenv("STORE_SECONDS");
    static time_t first;
    if (result == 0 && id == CLOCK_REALTIME && begin) {
        if (!first)
            first = now->tv_sec;
        now->tv_sec += atol(begin) - first;
    }
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_BOOTTIME) && skew) {
        long wrong = now->tv_nsec + (long)(atof(skew) * SECOND);
        now->tv_sec += wrong / SECOND - (wrong % SECOND < 0);
        now->tv_nsec = wrong % SECOND + (wrong % SECOND < 0 ? SECOND : 0);
    }
    return result;
}

time_t time(time_t *kept) /* how cron asks */
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone)
{
    static int (*real)(struct timeval *, void *);
    if (!real)
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    const char *passed = getenv("STORE_SECONDS");
    if (result == 0 && passed) {
        long moved = now->tv_usec + (long)(atof(passed) * 1000000);
        now->tv_sec += moved / 1000000;
        now->tv_usec = moved % 1000000;
    }
    return result;
}
