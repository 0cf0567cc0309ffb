/* exposition.h - Prometheus' text format 0.0.4, line by line. Knows the format, not the metrics. */
#ifndef BERTH_SERVER_EXPOSITION_H
#define BERTH_SERVER_EXPOSITION_H
#include "base/histogram.h"
#include "server/json.h"

/* A sample's labels; at most two. */
struct label {
    const char *name, *value; // name NULL: none
};
struct labels {
    struct label first, second;
};
#define NO_LABELS ((struct labels){{NULL, NULL}, {NULL, NULL}})
#define LABEL(n, v) ((struct labels){{(n), (v)}, {NULL, NULL}})
#define LABELS(n, v, n2, v2) ((struct labels){{(n), (v)}, {(n2), (v2)}})

/* What an integer counts, and so how it is written. */
enum unit { UNIT_NONE, UNIT_NS_AS_SECONDS, UNIT_PS_AS_SECONDS, UNIT_MILLIONTHS };

/* # HELP and # TYPE; every sample of the family follows before the next family. */
void expose_family(struct json_writer *w, const char *name, const char *type, const char *help);
void expose_sample(struct json_writer *w, const char *name, struct labels labels, uint64_t value,
                   enum unit unit);
/* _bucket (cumulative, with le as the second label), _sum and _count. bounds: ascending, in the
 * histogram's own integers. The count is that of the last bucket, whatever is recorded meanwhile.
 */
void expose_histogram(struct json_writer *w, const char *name, struct label label,
                      const struct histogram *h, const int64_t *bounds, int n_bounds,
                      enum unit unit);
#endif
