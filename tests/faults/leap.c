/* Preloaded into a server or a process, this makes its clock wrong while the file $LEAP_FILE says so: eight bytes, the
   seconds by which the time of day is off. Clocks that nobody sets stay right. The kernel says that nobody keeps the
   clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static long leap(void)
{
    static volatile double *off;
    if (!off) {
        int file = open(getenv("LEAP_FILE"), O_RDONLY);
        void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0)
            close(file);
        if (found == MAP_FAILED)
            return 0;
        off = found;
    }
    return (long)*off;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += leap();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    static int (*real)(struct timeval *, void *);
    if (!real)
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (result == 0)
        now->tv_sec += leap();
    return result;
}

time_t time(time_t *kept)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}

int adjtimex(struct timex *state)
{
    state->status = STA_UNSYNC;
    return 5; /* TIME_ERROR: not synchronised */
}
