/* profile.h - what `berth profile` is asked, and what it has measured; shared by its files. */
#ifndef BERTH_SERVER_PROFILE_H
#define BERTH_SERVER_PROFILE_H
#include "kernels/profile.h"
#include "server/options.h"
#include <stdio.h>

enum { PROFILE_MAX_SEQS = 1024, PROFILE_MAX_TOKENS = 16384 };
enum profile_by { PROFILE_BY_OP, PROFILE_BY_LAYER, PROFILE_BY_BOTH, N_PROFILE_BY };
struct profile_request {
    int lens[PROFILE_MAX_SEQS]; // of the batch
    int n_seqs, n_tokens, longest;
    double seconds;
    enum profile_by by;
    bool json;
};
/* Errors: STATUS_INVALID naming the option, what was given and what is allowed. */
MUST_CHECK enum status profile_request_read(struct profile_request *out, const struct options *opt,
                                            struct error *err);

struct profile_report {
    const struct profile_request *request;
    struct op_profile profile;
    const char *model_dir, *backend, *detail, *dtype;
    int n_threads;
    int64_t pass_ns;              // on the clock, of all passes
    double peak_gflops, copy_gbs; // of the machine; 0: not known for this backend
};
void profile_print_table(FILE *out, const struct profile_report *r);
/* One JSON object and a line's end. Errors: STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status profile_print_json(const struct profile_report *r, struct error *err);

/* Figures of a step of a layer; -1: summed over all of them. Layer n_layers: what is of none. */
struct op_figures profile_sum(const struct op_profile *p, int layer, int step);
#endif
