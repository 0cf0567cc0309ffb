/* engine.h - what bench_forward times: a model's weights and one or more workers that run passes.
 * Threads: a worker is used by one thread at a time. */
#ifndef BERTH_BENCH_FORWARD_ENGINE_H
#define BERTH_BENCH_FORWARD_ENGINE_H
#include "model/encoder.h"
#include <stdbool.h>

enum { MAX_SHAPES = 64, MAX_LENGTHS = 100000, MAX_WORKERS = 256 };
struct options {
    const char *model_dir, *backend, *isa, *lengths_file;
    enum precision precision;
    int threads, workers, rows;
    double seconds;
    bool csv, grid, commands, all_rows;
    int n_shapes;
    struct {
        int batch, len;
    } shapes[MAX_SHAPES];
};

struct worker {
    struct backend *be;
    struct encoder *e;
    int32_t *cu_seqlens, *seq_lens; // the batch that is being run
    float *out;                     // [rows, hidden], or [seqs, n_labels]
    struct op_times times;          // of the last pass
};
struct engine {
    struct model_config cfg;
    struct model_weights w;
    struct encoder_limits limits;
    struct worker *workers; // [n_workers]
    int n_workers;
    int32_t *ids, *zeros; // [limits.max_rows]: made-up tokens; token types
    bool all_rows;        // hidden states of every row, else the classifier's logits
};
/* limits->max_seq_len 0: what the model takes. Ends the process with a message when it fails. */
void engine_open(struct engine *g, const struct options *o, const struct encoder_limits *limits);
void engine_close(struct engine *g);
/* One pass over packed sequences of these lengths, in milliseconds; their ids lie one after the
 * other. */
double engine_pass(const struct engine *g, struct worker *w, const int32_t *ids, const int *lens,
                   int n_seqs);
int engine_out_floats(const struct engine *g, const int *lens, int n_seqs); // what a pass wrote
/* How many of the sequences fit one batch; at least one, whatever its length. */
int engine_count_fitting(const struct engine *g, const int *lens, int n, int max_rows);

/* Operations of a pass as it computes them: products with weights, and attention. */
struct flops {
    double gemm, attention;
};
struct flops flops_of(const struct engine *g, const int *lens, int n_seqs);

/* The ISA that the CPU backend takes with these options; the reference is compared with it too. */
const char *peak_isa(const struct options *o);
void die(const char *what, const char *why) __attribute__((noreturn));
int parse_number(const char *text, const char *what, int max);

void bench_shapes(const struct options *o); // shapes.c
void bench_mix(const struct options *o);    // mix.c
void run_commands(const struct options *o); // serve.c
#endif
