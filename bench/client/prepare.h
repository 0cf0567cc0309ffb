/* prepare.h - from options to a plan: everything that can be wrong is found before the first
 * request. */
#ifndef BERTH_BENCH_CLIENT_PREPARE_H
#define BERTH_BENCH_CLIENT_PREPARE_H
#include "bench/client/bench.h"
#include "bench/client/plan.h"

struct load { // what a plan borrows from
    struct plan plan;
    struct stages stages;
    struct texts *texts;
    struct trace trace;
    struct url url;
    char target[1400]; // the URL with the path that is asked
    bool has_plan;
};
/* STATUS_INVALID: an option; STATUS_IO: a file or a host name. */
MUST_CHECK enum status load_prepare(struct load *out, const struct bench_config *cfg,
                                    struct error *err);
void load_finish(struct load *l); // takes one that is half made, or zeroed
#endif
