/* weights.c - names, shapes and values checked, then given to the backend to make its own of them.
 * A tensor is looked for as `bert.NAME` and as `NAME`, a LayerNorm's also as gamma and beta (as
 * checkpoints converted from TensorFlow have them); what is not asked for (position_ids, optimizer
 * state, another head) is not looked at. Q is multiplied by what the backend wants folded in.
 * Layers are loaded by all cores at once, for that is what a start waits for; when they are packed,
 * the file's pages are given back, and those that tables still borrow come again when asked for. */
#include "model/weights.h"

#include "base/timing.h"
#include "kernels/kernels.h"
#include "model/safetensors.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loader { // of one part: the embedding, a layer, the head
    const struct model_config *cfg;
    const struct safetensors *file;
    const char *dir; // where it lies, for errors
    struct backend *be;
    struct error *err;
    enum status status; // the first failure; after it every step is skipped
    int64_t check_ns, convert_ns;
};
/* Parts are taken from a counter by as many threads as there are cores. */
struct load {
    struct loader loader; // what every part's begins as
    struct model_weights *weights;
    int n_parts, n_threads;
    atomic_int next, failed; // failed: the lowest part that did; parts beyond it need not be loaded
    atomic_llong check_ns, convert_ns; // of all threads
    struct part_result {
        enum status status;
        struct error error;
    } * results; // [n_parts]
};

enum { NAME_BYTES = 128, MAX_THREADS = 16 }; // more threads than memory feeds are no use

/* The name under which the file has the tensor; where it has none, `bert.NAME`, to be missed. */
static void resolve(const struct safetensors *file, char out[NAME_BYTES], const char *name) {
    static const char *const prefixes[] = {"bert.", ""};
    static const char *const endings[][2] = {
        {"", ""}, {"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
    const size_t len = strlen(name);
    for (size_t e = 0; e < N_ITEMS(endings); e++) {
        const size_t end_len = strlen(endings[e][0]);
        if (end_len > len || strcmp(name + len - end_len, endings[e][0]) != 0) {
            continue;
        }
        for (size_t p = 0; p < N_ITEMS(prefixes); p++) {
            snprintf(out, NAME_BYTES, "%s%.*s%s", prefixes[p], (int)(len - end_len), name,
                     endings[e][1]);
            if (safetensors_has(file, out)) {
                return;
            }
        }
    }
    snprintf(out, NAME_BYTES, "%s%s", strncmp(name, "classifier", 10) ? "bert." : "", name);
}

/* rows 0: a vector. */
static struct host_tensor find(struct loader *ld, const char *name, int rows, int cols) {
    struct host_tensor t = {0};
    char full[NAME_BYTES];
    if (ld->status) {
        return t;
    }
    resolve(ld->file, full, name);
    ld->status = safetensors_find(ld->file, &t, full, rows, cols, ld->err);
    if (!ld->status) {
        const int64_t start = time_now_ns();
        const enum status s = host_tensor_check_finite(&t, full, ld->err);
        ld->status = s ? error_prefix(ld->err, s, "%s", ld->dir) : s;
        ld->check_ns += time_now_ns() - start;
    }
    return t;
}

/* The first failure is kept; the time goes to convert_ns. */
static void made(struct loader *ld, enum status s, int64_t start) {
    ld->status = s;
    ld->convert_ns += time_now_ns() - start;
}

static struct linear_part find_part(struct loader *ld, const char *name, int n, int k) {
    char weight[NAME_BYTES], bias[NAME_BYTES];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    struct linear_part part = {.scale = 1};
    part.weight = find(ld, weight, n, k);
    part.bias = find(ld, bias, 0, n);
    return part;
}

static void make_linear(struct loader *ld, struct linear_weight **out,
                        const struct linear_part *parts, int n_parts) {
    if (!ld->status) {
        const int64_t start = time_now_ns();
        made(ld, ld->be->fn->linear_create(ld->be, out, parts, n_parts, ld->err), start);
    }
}

static void load_norm(struct loader *ld, struct norm_weight **out, const char *name) {
    char weight[NAME_BYTES], bias[NAME_BYTES];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    const struct host_tensor gamma = find(ld, weight, 0, ld->cfg->hidden);
    const struct host_tensor beta = find(ld, bias, 0, ld->cfg->hidden);
    if (!ld->status) {
        const int64_t start = time_now_ns();
        made(ld,
             ld->be->fn->norm_create(ld->be, out, &gamma, &beta, ld->cfg->layer_norm_eps, ld->err),
             start);
    }
}

static void load_table(struct loader *ld, struct table_weight **out, const char *name, int rows) {
    const struct host_tensor t = find(ld, name, rows, ld->cfg->hidden);
    if (!ld->status) {
        const int64_t start = time_now_ns();
        made(ld, ld->be->fn->table_create(ld->be, out, &t, ld->err), start);
    }
}

static void load_embedding(struct loader *ld, struct embedding_weights *w) {
    const struct model_config *c = ld->cfg;
    load_table(ld, &w->words, "embeddings.word_embeddings.weight", c->vocab_size);
    load_table(ld, &w->positions, "embeddings.position_embeddings.weight", c->max_position);
    load_table(ld, &w->types, "embeddings.token_type_embeddings.weight", c->type_vocab_size);
    load_norm(ld, &w->norm, "embeddings.LayerNorm");
}

PRINTF_LIKE(3, 4)
static const char *layer_name(char out[NAME_BYTES], int layer, const char *fmt, ...) {
    va_list args;
    const int n = snprintf(out, NAME_BYTES, "encoder.layer.%d.", layer);
    va_start(args, fmt);
    vsnprintf(out + n, (size_t)(NAME_BYTES - n), fmt, args);
    va_end(args);
    return out;
}

static void load_qkv(struct loader *ld, struct linear_weight **out, int layer) {
    static const char *const names[] = {"query", "key", "value"};
    const int hidden = ld->cfg->hidden;
    struct linear_part parts[3];
    char name[NAME_BYTES];
    for (int i = 0; i < 3; i++) {
        parts[i] =
            find_part(ld, layer_name(name, layer, "attention.self.%s", names[i]), hidden, hidden);
    }
    parts[0].scale = ld->be->fn->query_scale(ld->be, hidden / ld->cfg->n_heads);
    make_linear(ld, out, parts, 3);
}

/* What follows the last layer's attention is computed for a row a sequence, as a rule. */
static void load_linear(struct loader *ld, struct linear_weight **out, int layer, const char *what,
                        int n, int k) {
    char name[NAME_BYTES];
    struct linear_part part = find_part(ld, layer_name(name, layer, "%s", what), n, k);
    part.by_seq = layer == ld->cfg->n_layers - 1;
    make_linear(ld, out, &part, 1);
}
static void load_layer(struct loader *ld, struct layer_weights *w, int i) {
    const int hidden = ld->cfg->hidden, intermediate = ld->cfg->intermediate;
    char name[NAME_BYTES];
    w->activation = ld->cfg->activation;
    load_qkv(ld, &w->qkv, i);
    load_linear(ld, &w->attention_out, i, "attention.output.dense", hidden, hidden);
    load_norm(ld, &w->attention_norm, layer_name(name, i, "attention.output.LayerNorm"));
    load_linear(ld, &w->intermediate, i, "intermediate.dense", intermediate, hidden);
    load_linear(ld, &w->output, i, "output.dense", hidden, intermediate);
    load_norm(ld, &w->output_norm, layer_name(name, i, "output.LayerNorm"));
}

/* In fp32 in every precision: a row a sequence costs nothing, and the logits come from it. */
static void load_exact(struct loader *ld, struct linear_weight **out, const char *name, int n) {
    struct linear_part part = find_part(ld, name, n, ld->cfg->hidden);
    part.exact = true;
    make_linear(ld, out, &part, 1);
}
static void load_head(struct loader *ld, struct head_weights *w) {
    load_exact(ld, &w->dense, "pooler.dense", ld->cfg->hidden);
    load_exact(ld, &w->classifier, "classifier", ld->cfg->n_labels);
}
static void load_part(struct loader *ld, struct model_weights *w, int part) {
    if (part == 0) {
        load_embedding(ld, &w->embedding);
    } else if (part <= w->n_layers) {
        load_layer(ld, &w->layers[part - 1], part - 1);
    } else {
        load_head(ld, &w->head);
    }
}
static void note_failure(struct load *all, int part) {
    int lowest = atomic_load(&all->failed);
    while (part < lowest && !atomic_compare_exchange_weak(&all->failed, &lowest, part)) {
        continue;
    }
}
static void *load_parts(void *arg) {
    struct load *all = arg;
    int part;
    while ((part = atomic_fetch_add(&all->next, 1)) < all->n_parts &&
           part < atomic_load(&all->failed)) {
        struct part_result *result = &all->results[part];
        struct loader ld = all->loader;
        ld.err = &result->error;
        load_part(&ld, all->weights, part);
        result->status = ld.status;
        atomic_fetch_add(&all->check_ns, ld.check_ns);
        atomic_fetch_add(&all->convert_ns, ld.convert_ns);
        if (ld.status) {
            note_failure(all, part);
        }
    }
    return NULL;
}
static int count_threads(const struct backend *be, int n_parts) {
    cpu_set_t cores;
    const int n = sched_getaffinity(0, sizeof(cores), &cores) ? 1 : CPU_COUNT(&cores);
    const int useful = n < n_parts ? n : n_parts;
    return !be->makes_in_parallel ? 1 : useful < MAX_THREADS ? useful : MAX_THREADS;
}
/* The caller takes part; a thread that cannot be started is done without. The failure that counts
 * is the one that loading in order would have met first: whatever was loaded before it was begun
 * earlier, and is finished. */
static enum status load_all(struct load *all, struct error *err) {
    pthread_t threads[MAX_THREADS];
    int n_started = 1;
    while (n_started < all->n_threads &&
           !pthread_create(&threads[n_started], NULL, load_parts, all)) {
        n_started++;
    }
    load_parts(all);
    for (int i = 1; i < n_started; i++) {
        pthread_join(threads[i], NULL);
    }
    all->n_threads = n_started;
    const int failed = atomic_load(&all->failed);
    if (failed == all->n_parts) {
        return STATUS_OK;
    }
    *err = all->results[failed].error;
    return all->results[failed].status;
}

enum status model_weights_load(struct model_weights *out, struct backend *be,
                               const struct model_config *cfg, const char *dir,
                               struct load_times *times, struct error *err) {
    const int64_t start = time_now_ns();
    struct model_weights w = {.be = be, .n_layers = cfg->n_layers};
    enum status s = safetensors_open(&w.file, dir, err);
    if (s) {
        return s;
    }
    const int64_t mapped = time_now_ns();
    w.layers = xcalloc((size_t)w.n_layers, sizeof(*w.layers));
    struct load all = {.loader = {.cfg = cfg, .file = w.file, .dir = dir, .be = be},
                       .weights = &w,
                       .n_parts = w.n_layers + 2};
    all.n_threads = count_threads(be, all.n_parts);
    all.results = xcalloc((size_t)all.n_parts, sizeof(*all.results));
    atomic_init(&all.failed, all.n_parts);
    s = load_all(&all, err);
    free(all.results);
    if (s) {
        model_weights_finish(&w);
        return s;
    }
    safetensors_give_back(w.file);
    if (times) {
        const double per_ms = (double)NS_PER_MS * all.n_threads;
        times->map_ms = (double)(mapped - start) / NS_PER_MS;
        times->check_ms = (double)atomic_load(&all.check_ns) / per_ms;
        times->convert_ms = (double)atomic_load(&all.convert_ns) / per_ms;
    }
    *out = w;
    return STATUS_OK;
}

static void finish_layer(struct backend *be, const struct layer_weights *w) {
    be->fn->linear_destroy(be, w->qkv);
    be->fn->linear_destroy(be, w->attention_out);
    be->fn->linear_destroy(be, w->intermediate);
    be->fn->linear_destroy(be, w->output);
    be->fn->norm_destroy(be, w->attention_norm);
    be->fn->norm_destroy(be, w->output_norm);
}

void model_weights_finish(struct model_weights *w) {
    struct backend *be = w->be;
    if (be) {
        be->fn->table_destroy(be, w->embedding.words);
        be->fn->table_destroy(be, w->embedding.positions);
        be->fn->table_destroy(be, w->embedding.types);
        be->fn->norm_destroy(be, w->embedding.norm);
        for (int i = 0; w->layers && i < w->n_layers; i++) {
            finish_layer(be, &w->layers[i]);
        }
        be->fn->linear_destroy(be, w->head.dense);
        be->fn->linear_destroy(be, w->head.classifier);
    }
    free(w->layers);
    safetensors_close(w->file);
    memset(w, 0, sizeof(*w));
}
