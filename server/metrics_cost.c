/* metrics_cost.c - the cost model as Prometheus text: what a pass is predicted to take, by term,
 * and by how much the latest predictions were off. A token pair can cost less than a nanosecond. */
#include "server/metrics_internal.h"

#include <math.h>

static uint64_t scaled(double value, double factor) {
    return (uint64_t)fmin(value * factor, 1e18);
}
void expose_cost(struct json_writer *w, const struct cost_model *m) {
    static const char *const terms[COST_TERMS] = {"batch", "row", "token_pair"};
    expose_family(w, "berth_cost_seconds", "gauge",
                  "Predicted time of a pass: batch + row * rows + token_pair * sum of squared "
                  "lengths.");
    for (int i = 0; i < COST_TERMS; i++) {
        expose_sample(w, "berth_cost_seconds", LABEL("term", terms[i]), scaled(m->coef[i], 1e3),
                      UNIT_PS_AS_SECONDS);
    }
    expose_family(w, "berth_cost_error_ratio", "gauge",
                  "Median over the latest 64 passes of |measured - predicted| / measured.");
    expose_sample(w, "berth_cost_error_ratio", NO_LABELS, scaled(cost_error(m), 1e6),
                  UNIT_MILLIONTHS);
    expose_family(w, "berth_cost_updates_total", "counter",
                  "Passes that the prediction was corrected by.");
    expose_sample(w, "berth_cost_updates_total", NO_LABELS, (uint64_t)m->n_updates, UNIT_NONE);
}
