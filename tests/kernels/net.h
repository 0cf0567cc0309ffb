/* net.h - a small random encoder for tests and benches of whole layers. */
#ifndef BERTH_TESTS_KERNELS_NET_H
#define BERTH_TESTS_KERNELS_NET_H
#include "kernels/kernels.h"

enum { NET_LAYERS = 6, NET_VOCAB = 50, NET_POSITIONS = 520 };
struct net_shape {
    int n_heads, head_dim, intermediate, n_layers, n_labels;
    enum activation activation;
};
/* The checkpoint: host tensors, the same for every backend. */
struct net_host {
    struct net_shape shape;
    int hidden;
    struct host_tensor words, positions, types, gamma[2 * NET_LAYERS + 1], beta[2 * NET_LAYERS + 1];
    struct linear_part qkv[NET_LAYERS][3], out[NET_LAYERS], up[NET_LAYERS], down[NET_LAYERS], head;
};
void net_host_init(struct net_host *h, const struct net_shape *shape);
void net_host_finish(struct net_host *h);

/* A backend's weights of it. */
struct net_weights {
    struct embedding_weights embedding;
    struct layer_weights layers[NET_LAYERS];
    struct head_weights head;
};
void net_weights_make(struct net_weights *w, struct backend *be, const struct net_host *h);
void net_weights_finish(struct net_weights *w, struct backend *be, int n_layers);

/* Its activations on a backend. */
struct net {
    struct backend *be;
    const struct net_host *host;
    const struct net_weights *w;
    struct layer_buffers tokens, firsts;
    struct tensor qkv[2], logits;
};
void net_init(struct net *n, struct backend *be, const struct net_host *h,
              const struct net_weights *w, int max_rows, int max_seqs, int max_seq_len);
void net_finish(struct net *n);
struct net_pass {
    const struct net *net;
    float *hidden; // [rows, hidden]: every layer over all tokens; NULL: logits are wanted
    float *logits; // [seqs, n_labels]: the last layer over first tokens only
};
void net_program(struct lane *ln, const void *pass); // a program_fn over a struct net_pass
#endif
