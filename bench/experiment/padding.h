/* padding.h - the experiment on padding, as its reports see it. */
#ifndef BERTH_BENCH_EXPERIMENT_PADDING_H
#define BERTH_BENCH_EXPERIMENT_PADDING_H
#include "bench/experiment/way.h"

enum padding_load {
    LOAD_CLOSED,   // how much there can be
    LOAD_EQUAL,    // a rate that the bad case holds
    LOAD_OVERLOAD, // one that it does not
    N_PADDING_LOADS
};
extern const char *const padding_load_names[N_PADDING_LOADS];
enum { PADDING_MAX_WAYS = 6 };
struct padding {
    struct runner runner;
    struct way ways[PADDING_MAX_WAYS];
    int n_ways, n_compared; // the first n_compared get every load, the others the closed loop
    int bad, cure;          // of the ways
    double rates[N_PADDING_LOADS];
    char started[32];
    double took_s;
};
struct figures padding_figures(const struct padding *p, int way, enum padding_load load);
/* Throughput of one fused or not, packed or padded; NULL: the run has no such way. */
const struct way *padding_find(const struct padding *p, const char *mode, bool is_fused);
/* Throughput of a way in units of another's; NAN: one is missing. */
double padding_gain(const struct way *a, const struct way *b);
/* From padded without fusion to packed with it, in throughput; what fusion makes of it, after
 * packing and before, for the two do not simply multiply. Shares are of the logarithm. */
struct fusion_shares {
    bool is_there;
    double total, batching_first, fusion_last, fusion_first, batching_last;
    double share_last, share_first;
};
struct fusion_shares padding_fusion(const struct padding *p);

void padding_text(FILE *out, const void *padding);
void padding_json(FILE *out, const void *padding);
void padding_csv(FILE *out, const void *padding);
void padding_html(FILE *out, const void *padding);
#endif
