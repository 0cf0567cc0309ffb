/* watch.h - the server's own eyes: hang-ups of suspended connections, and deadlines.
 * libmicrohttpd sees neither (it never reads a suspended connection's socket, and its timeouts are
 * for inactivity). One thread with one epoll set (EPOLLRDHUP | EPOLLET on the connections' sockets)
 * and one heap of deadlines. One lock; callbacks run under it and must neither block nor call back
 * into the watch. */
#ifndef BERTH_SERVER_WATCH_H
#define BERTH_SERVER_WATCH_H
#include "base/status.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct watch;
enum watch_event { WATCH_HANG_UP, WATCH_HALF_CLOSE, WATCH_DEADLINE, WATCH_STOP };
typedef void watch_fn(void *arg, enum watch_event event);
/* One watched thing; embed it in what is watched. Zeroed is idle. Added and removed by one thread
 * at a time, its owner's. */
struct watch_entry {
    watch_fn *fn;
    void *arg;
    int fd;
    _Atomic int64_t deadline_ns;
    _Atomic int64_t look_ns; // when the watch looks at it, no later than the deadline
    int heap_index;          // the place in the heap, the watch's own
    int listened_fd;         // when is_listening: whose events the watch gets, told or not
    bool active, is_listening;
    bool has_event; // one has come; whoever has not been told of it is told after the next add
};
MUST_CHECK enum status watch_start(struct watch **out, int max_entries, struct error *err);
void watch_stop(struct watch *w); // takes NULL
/* fd < 0: deadline only; deadline_ns 0: hang-ups only. An entry that is active already is replaced,
 * with no moment between at which it is not watched; another deadline alone, without a socket,
 * costs no lock as long as it is no earlier than the watch looks at it anyway. A deadline is told
 * once, a hang-up once, a half-close perhaps before it; the entry stays active until it is removed.
 */
void watch_add(struct watch *w, struct watch_entry *e, int fd, int64_t deadline_ns, watch_fn *fn,
               void *arg);
/* After either returns, fn is not running and will not be called. A pause expects the same socket
 * to be watched again, which is then cheap; only after watch_remove() may the socket be closed. */
void watch_pause(struct watch *w, struct watch_entry *e);
void watch_remove(struct watch *w, struct watch_entry *e);
/* Tells, on the caller's thread, hang-ups that the watch's own has not come to yet; not when it is
 * about to. */
void watch_look(struct watch *w);
/* Tells every active entry WATCH_STOP, on the caller's thread. */
void watch_tell_all(struct watch *w);
#endif
