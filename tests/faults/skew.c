/* Preloaded into a process, this makes its wall clock wrong by $SKEW_SECONDS, and no other clock: not the monotonic ones
   that sleeping rests on, and not gettimeofday, which is how SQLite reads the store's time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *skew = getenv("SKEW_SECONDS");
    if (result == 0 && id == CLOCK_REALTIME && skew)
        now->tv_sec += atol(skew);
    return result;
}
