/* profile.c - the encoder's list of ops once more, as figures instead of calls. It follows
 * encoder.c: of a classifier's last layer, attention and all that comes after it work on one row a
 * sequence. Padding is computed like other rows, but no token attends to it. */
#include "model/profile.h"

#include "kernels/work.h"

struct pass_shape pass_shape_of(const struct token_batch *batch, bool firsts) {
    struct pass_shape s = {.n_seqs = batch->n_seqs, .n_rows = batch->n_rows, .firsts = firsts};
    for (int i = 0; i < batch->n_seqs; i++) {
        const int64_t len = batch->seq_lens[i];
        s.n_tokens += len;
        s.n_pairs += len * len;
    }
    return s;
}

static void add(struct op_profile *sum, int layer, enum op_step step, struct op_work w) {
    struct op_figures *f = op_profile_at(sum, layer, step);
    f->calls++;
    f->rows += w.rows;
    f->flops += w.flops;
    f->bytes += w.bytes;
}
static void count_layer(struct op_profile *sum, int layer, const struct pass_shape *s,
                        const struct model_config *cfg, enum dtype weights) {
    const int hidden = cfg->hidden, inner = cfg->intermediate;
    const bool firsts = s->firsts && layer == cfg->n_layers - 1;
    const int64_t rows = firsts ? s->n_seqs : s->n_rows;
    add(sum, layer, STEP_QKV, linear_work(s->n_rows, 3 * hidden, hidden, weights, false));
    add(sum, layer, STEP_ATTENTION,
        firsts ? attention_work(rows, s->n_tokens, s->n_tokens, hidden)
               : attention_work(rows, s->n_tokens, s->n_pairs, hidden));
    add(sum, layer, STEP_ATTENTION_OUT, linear_work(rows, hidden, hidden, weights, true));
    add(sum, layer, STEP_ATTENTION_NORM, layernorm_work(rows, hidden));
    add(sum, layer, STEP_INTERMEDIATE, linear_work(rows, inner, hidden, weights, false));
    add(sum, layer, STEP_OUTPUT, linear_work(rows, hidden, inner, weights, true));
    add(sum, layer, STEP_OUTPUT_NORM, layernorm_work(rows, hidden));
}
static struct op_work head_work(const struct pass_shape *s, const struct model_config *cfg,
                                enum dtype weights) {
    struct op_work w = linear_work(s->n_seqs, cfg->hidden, cfg->hidden, weights, false);
    const struct op_work last = linear_work(s->n_seqs, cfg->n_labels, cfg->hidden, weights, false);
    w.flops += last.flops, w.bytes += last.bytes;
    return w;
}

void pass_count(struct op_profile *sum, const struct pass_shape *shape,
                const struct model_config *cfg, enum dtype weights) {
    const int none = cfg->n_layers; // of no layer
    sum->n_passes++;
    add(sum, none, STEP_EMBED, embed_work(shape->n_rows, cfg->hidden));
    for (int layer = 0; layer < cfg->n_layers; layer++) {
        count_layer(sum, layer, shape, cfg, weights);
    }
    if (shape->firsts) {
        add(sum, none, STEP_POOL, copy_work(shape->n_seqs, cfg->hidden));
        add(sum, none, STEP_HEAD, head_work(shape, cfg, weights));
        add(sum, none, STEP_FETCH, copy_work(shape->n_seqs, cfg->n_labels));
    } else {
        add(sum, none, STEP_FETCH, copy_work(shape->n_rows, cfg->hidden));
    }
}
