/* sizes.c - the sizes of batch that something is made for before the server is ready.
 * A graph is of one number of rows and one of sequences, so batches are filled up to a coarse grid
 * of both: buckets of rows, and for each at most SEQS_LEVELS numbers of sequences. Idle rows are
 * computed, idle tiles of attention leave at once, and an idle sequence costs its row of the last
 * layer. So the number of graphs is bounded, and known when room for passes is made. Larger
 * batches have no graphs, but products whose algorithms are chosen by bucket of rows. Pure. */
#include "kernels/cuda/internal.h"

enum { SEQS_LEVELS = 3 };
static const int buckets[] = {16,   32,   64,   128,  192,  256,  384,   512,   768,   1024,
                              1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
/* Of a bucket's rows: sequences of 32 tokens and more on average, of 8 and more, and the rest. */
static const int rows_a_seq[SEQS_LEVELS] = {32, 8, 1};
static_assert(CUDA_MAX_SIZES >= (SEQS_LEVELS + 2) * N_ITEMS(buckets), "room for every size");

static int min_int(int a, int b) {
    return a < b ? a : b;
}
static int max_int(int a, int b) {
    return a > b ? a : b;
}

int cuda_product_bucket(int rows) {
    size_t i = 0;
    while (i + 1 < N_ITEMS(buckets) && buckets[i] < rows) {
        i++;
    }
    return buckets[i];
}
int cuda_graph_limit(const struct cuda_backend *cuda) {
    return min_int(min_int(cuda->opt.graph_max_rows, CUDA_GRAPH_ROWS), cuda->limits.max_rows);
}
int cuda_graph_rows(const struct cuda_backend *cuda, int n_rows) {
    assert(n_rows <= cuda_graph_limit(cuda));
    return min_int(cuda_product_bucket(n_rows), cuda_graph_limit(cuda));
}
static int seqs_level(const struct cuda_backend *cuda, int rows, int level) {
    return min_int(max_int(rows / rows_a_seq[level], 1), cuda->limits.max_seqs);
}
int cuda_graph_seqs(const struct cuda_backend *cuda, int rows, int n_seqs) {
    int level = 0;
    while (level + 1 < SEQS_LEVELS && seqs_level(cuda, rows, level) < n_seqs) {
        level++;
    }
    return seqs_level(cuda, rows, level);
}

static void add(struct cuda_backend *cuda, int rows, int seqs) {
    assert(cuda->n_sizes < CUDA_MAX_SIZES);
    cuda->sizes[cuda->n_sizes++] = (struct batch_size){rows, seqs};
}
/* A size whose sequences cannot be long enough to fill more than the bucket below is left out: no
 * batch has it. */
static void add_graph_rows(struct cuda_backend *cuda, int rows, int below) {
    int before = 0;
    for (int level = 0; level < SEQS_LEVELS; level++) {
        const int seqs = seqs_level(cuda, rows, level);
        const int64_t most = (int64_t)seqs * cuda->limits.max_seq_len;
        if (seqs > before && most > below) {
            add(cuda, most < rows ? (int)most : rows, seqs);
        }
        before = seqs;
    }
}
static void add_graphs(struct cuda_backend *cuda) {
    const int limit = cuda_graph_limit(cuda);
    for (int below = 0, i = 0; below < limit; i++) {
        const int rows = min_int(buckets[i], limit);
        add_graph_rows(cuda, rows, below);
        below = rows;
    }
}
/* Batches without a graph: every bucket of rows, with as few sequences as fill it, and every bucket
 * of sequences, with as few rows as have no graph. */
static void add_products(struct cuda_backend *cuda) {
    const struct pass_limits *l = &cuda->limits;
    const int limit = cuda_graph_limit(cuda);
    for (int below = 0, i = 0; below < l->max_rows && i < (int)N_ITEMS(buckets); i++) {
        const int rows = min_int(buckets[i], l->max_rows);
        const int seqs = (rows + l->max_seq_len - 1) / l->max_seq_len;
        if (rows > limit && seqs <= l->max_seqs) {
            add(cuda, rows, seqs);
        }
        below = rows;
    }
    for (int below = 0, i = 0; below < l->max_seqs && i < (int)N_ITEMS(buckets); i++) {
        const int seqs = min_int(buckets[i], l->max_seqs), rows = max_int(seqs, limit + 1);
        if (rows <= l->max_rows && rows <= (int64_t)seqs * l->max_seq_len) {
            add(cuda, rows, seqs);
        }
        below = seqs;
    }
}
void cuda_sizes_list(struct cuda_backend *cuda) {
    cuda->n_sizes = 0;
    add_graphs(cuda);
    cuda->n_graph_sizes = cuda->n_sizes;
    add_products(cuda);
}
bool cuda_warm_up_size(const struct backend *be, int i, int *rows, int *seqs) {
    const struct cuda_backend *cuda = (const struct cuda_backend *)be;
    if (i >= cuda->n_sizes) {
        return false;
    }
    *rows = cuda->sizes[i].rows, *seqs = cuda->sizes[i].seqs;
    return true;
}
