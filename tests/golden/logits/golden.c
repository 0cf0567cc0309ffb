/* golden.c - one model, one backend: every case alone, then all of them packed into batches, then
 * padded into batches. The three must agree with each other more closely than with the golden
 * file, because who shares a batch must never change an answer. */
#include "tests/golden/logits/golden.h"

#include "kernels/kernels.h"
#include "kernels/plugin.h"
#include "model/encoder.h"
#include "model/json_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1024, MAX_SEQS = 64 };

static void must(bool ok, const char *what, const char *why) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
    }
}

static int read_ids(int32_t **out, const cJSON *list, const char *path) {
    const int n = cJSON_GetArraySize(list);
    const cJSON *item;
    int i = 0;
    must(n > 0, path, "a case without ids");
    *out = xcalloc((size_t)n, sizeof(**out));
    cJSON_ArrayForEach (item, list) {
        (*out)[i++] = item->valueint;
    }
    return n;
}

static void read_case(struct golden *g, struct golden_case *c, const cJSON *item,
                      const char *path) {
    const cJSON *logits = cJSON_GetObjectItem(item, "logits"), *x;
    c->n_tokens = read_ids(&c->token_ids, cJSON_GetObjectItem(item, "token_ids"), path);
    const int n = read_ids(&c->token_type_ids, cJSON_GetObjectItem(item, "token_type_ids"), path);
    must(n == c->n_tokens, path, "ids and type ids differ in number");
    must(!g->n_labels || g->n_labels == cJSON_GetArraySize(logits), path, "logits are missing");
    g->n_labels = cJSON_GetArraySize(logits);
    c->logits = xcalloc((size_t)g->n_labels, sizeof(*c->logits));
    int i = 0;
    cJSON_ArrayForEach (x, logits) {
        c->logits[i++] = (float)x->valuedouble;
    }
}

void golden_read(struct golden *g, const char *path) {
    char *text = NULL;
    size_t len = 0;
    struct error err;
    cJSON *root = NULL;
    memset(g, 0, sizeof(*g));
    must(!file_read(&text, &len, path, 1 << 24, &err), path, "cannot be read");
    must(!json_parse_object(&root, text, len, path, &err), path, "is not JSON");
    const cJSON *cases = cJSON_GetObjectItem(root, "cases"), *item;
    must(cJSON_GetArraySize(cases) > 0, path, "no cases");
    g->cases = xcalloc((size_t)cJSON_GetArraySize(cases), sizeof(*g->cases));
    cJSON_ArrayForEach (item, cases) {
        read_case(g, &g->cases[g->n_cases++], item, path);
    }
    cJSON_Delete(root);
    free(text);
}

static void free_case(struct golden_case *c) {
    free(c->token_ids);
    free(c->token_type_ids);
    free(c->logits);
}
void golden_finish(struct golden *g) {
    for (int i = 0; i < g->n_cases; i++) {
        free_case(&g->cases[i]);
    }
    free(g->cases);
    memset(g, 0, sizeof(*g));
}

void golden_keep(struct golden *g, int max_tokens, int step) {
    int kept = 0, fitting = 0;
    for (int i = 0; i < g->n_cases; i++) {
        if (g->cases[i].n_tokens <= max_tokens && fitting++ % step == 0) {
            g->cases[kept++] = g->cases[i];
        } else {
            free_case(&g->cases[i]);
        }
    }
    g->n_cases = kept;
}

/* A batch under construction. */
struct batch {
    int32_t token_ids[MAX_ROWS], token_type_ids[MAX_ROWS], cu_seqlens[MAX_SEQS + 1],
        seq_lens[MAX_SEQS];
    int n_seqs, n_rows, longest;
};

/* Adds a sequence that takes `rows` rows; those beyond its tokens hold the id `pad`. */
static void add_sequence(struct batch *b, const struct golden_case *c, int rows, int pad) {
    for (int t = 0; t < rows; t++) {
        const bool real = t < c->n_tokens;
        b->token_ids[b->n_rows + t] = real ? c->token_ids[t] : pad;
        b->token_type_ids[b->n_rows + t] = real ? c->token_type_ids[t] : 0;
    }
    b->seq_lens[b->n_seqs++] = c->n_tokens;
    b->cu_seqlens[b->n_seqs] = b->n_rows += rows;
    b->longest = c->n_tokens > b->longest ? c->n_tokens : b->longest;
}

/* How many cases from `first` on fit a batch, and the longest of them. */
static int count_fitting(const struct golden *g, int first, bool padded, int *longest) {
    int n = 0, rows = 0, most = 0;
    for (; first + n < g->n_cases && n < MAX_SEQS; n++) {
        const int tokens = g->cases[first + n].n_tokens, now = tokens > most ? tokens : most;
        rows += tokens;
        if ((padded ? (n + 1) * now : rows) > MAX_ROWS) {
            break;
        }
        most = now;
    }
    *longest = most;
    return n;
}

enum mode { ALONE, PACKED, PADDED, N_MODES };
static const char *const mode_names[] = {"alone", "packed", "padded"};

static void run_mode(float *logits, struct encoder *e, const struct golden *g, enum mode mode,
                     const struct model_config *cfg) {
    static struct batch b;
    struct error err;
    int n = 0;
    for (int first = 0; first < g->n_cases; first += n) {
        int longest;
        n = count_fitting(g, first, mode == PADDED, &longest);
        n = mode == ALONE ? 1 : n;
        b.n_seqs = b.n_rows = b.longest = 0;
        for (int i = first; i < first + n; i++) {
            add_sequence(&b, &g->cases[i], mode == PADDED ? longest : g->cases[i].n_tokens,
                         cfg->pad_token_id);
        }
        const struct token_batch batch = {b.token_ids, b.token_type_ids, b.cu_seqlens, b.seq_lens,
                                          b.n_seqs,    b.n_rows,         b.longest};
        must(!encoder_forward(e, logits + first * g->n_labels, &batch, NULL, &err),
             "encoder_forward", err.text);
    }
}

static double worst_difference(const float *a, const float *b, int n) {
    double worst = 0;
    for (int i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (isnan(d)) {
            return d; // as far as can be: it passes no limit
        }
        worst = fmax(worst, d);
    }
    return worst;
}

static double cosine(const float *a, const float *b, int n) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}
static bool compare_directions(float *const got[N_MODES], const float *want, int n,
                               const char *model_dir, const char *backend) {
    const double least = 0.9999;
    bool ok = true;
    for (int m = 0; m < N_MODES; m++) {
        const double golden = cosine(got[m], want, n), mates = cosine(got[m], got[ALONE], n);
        const bool good = golden >= least && mates >= least;
        printf("%s %s, %s: %s, cosine %.7f with the golden logits, %.7f with alone (%d logits)\n",
               good ? "ok" : "FAILED", backend, model_dir, mode_names[m], golden, mates, n);
        ok = ok && good;
    }
    return ok;
}

/* How far a precision may be from the golden logits; alone, packed and padded must be as one. */
struct tolerance {
    double off, mates, cosine;
};
static const struct tolerance tolerances[] = {
    [DTYPE_F32] = {1e-4, 1e-5, 0.99999},
    [DTYPE_BF16] = {0.05, 0, 0.999},
    [DTYPE_I8] = {0.5, 0, 0.99},
};

static bool compare(float *const got[N_MODES], const float *want, int n, const char *model_dir,
                    const char *backend, const struct tolerance *most) {
    bool ok = true;
    for (int m = 0; m < N_MODES; m++) {
        const double off = worst_difference(got[m], want, n);
        const double mates = worst_difference(got[m], got[ALONE], n);
        const double angle = cosine(got[m], want, n);
        const bool good = off <= most->off && mates <= most->mates && angle >= most->cosine;
        printf("%s %s, %s: %s by %.2g from the golden logits (cosine %.6f), %.2g from alone "
               "(%d logits)\n",
               good ? "ok" : "FAILED", backend, model_dir, mode_names[m], off, angle, mates, n);
        ok = ok && good;
    }
    return ok;
}

/* "": fp32; "-int8", "-bfloat16". */
static enum precision precision_of(const char *ending) {
    for (enum precision p = PRECISION_BFLOAT16; *ending && p <= PRECISION_INT8; p++) {
        if (!strcmp(ending + 1, precision_names[p])) {
            return p;
        }
    }
    must(!*ending, ending, "no such precision");
    return PRECISION_FLOAT32;
}
/* A name that no machine knows is a mistake in the tests, not something that is lacking here. */
static void must_be_level(const char *isa) {
    static const char *const known[] = {"best",       "baseline",   "avx2", "avxvnni", "avx512",
                                        "avx512vnni", "avx512bf16", "amx",  "wide",    "tiles"};
    bool is_known = false;
    for (size_t i = 0; i < N_ITEMS(known); i++) {
        is_known = is_known || !strcmp(isa, known[i]);
    }
    must(is_known, isa, "no such level");
}
static bool is_accelerated(const char *name) {
    return !strncmp(name, "cuda-", 5) || !strncmp(name, "simt-", 5);
}
/* NULL, with the reason: there is no plugin, or no device for it. */
static struct backend *make_accelerated(const char *name, struct error *err) {
    const struct accelerator *a = NULL;
    struct backend *be = NULL;
    char plugin[16];
    struct accelerator_options opt = {.graph_max_rows = 256,
                                      .pass_timeout_ns = INT64_C(60000000000)};
    snprintf(plugin, sizeof(plugin), "%.4s", name);
    while (opt.precision < PRECISION_AUTO &&
           strcmp(name + 5, precision_names[opt.precision]) != 0) {
        opt.precision++;
    }
    return plugin_open(&a, plugin, err) || a->create(&be, &opt, err) ? NULL : be;
}

/* "reference"; "cpu-ISA-LANES", with "-PRECISION" or without; "separate-ISA-LANES", which is that
 * without fusion; "cuda-PRECISION", "simt-PRECISION". The ISA `best` is the best of this machine.
 * NULL, with the reason: it cannot run here. */
static struct backend *make_backend(const char *name, struct error *err) {
    struct backend *be = NULL;
    if (!strcmp(name, "reference")) {
        must(!reference_backend_create(&be, err), name, err->text);
        return be;
    }
    if (is_accelerated(name)) {
        return make_accelerated(name, err);
    }
    char kind[16], isa[32];
    int n_lanes = 0, used = 0;
    const bool is_form = sscanf(name, "%15[a-z]-%31[a-z0-9]-%d%n", kind, isa, &n_lanes, &used) == 3;
    const bool is_separate = is_form && !strcmp(kind, "separate");
    must(is_form && (is_separate || !strcmp(kind, "cpu")), name, "no such backend");
    must_be_level(isa);
    const struct cpu_options opt = {.n_lanes = n_lanes,
                                    .first_core = -1,
                                    .isa = strcmp(isa, "best") ? isa : NULL,
                                    .precision = precision_of(name + used),
                                    .fusion = is_separate ? FUSION_OFF : FUSION_ON};
    return cpu_backend_create(&be, &opt, err) ? NULL : be;
}
bool golden_can_run(const char *backend) {
    struct error err;
    struct backend *be = make_backend(backend, &err);
    if (!be) {
        printf("skipped: %s: %s\n", backend, err.text);
    }
    backend_destroy(be);
    return be;
}

bool golden_check(const struct golden *g, const char *backend, const char *model_dir) {
    struct error err;
    struct backend *be = make_backend(backend, &err);
    struct model_config cfg;
    struct model_weights w;
    struct encoder *e;
    must(be, backend, err.text);
    must(!model_config_read(&cfg, model_dir, &err), "model_config_read", err.text);
    must(cfg.n_labels == g->n_labels, model_dir, "another number of labels");
    must(!model_weights_load(&w, be, &cfg, model_dir, NULL, &err), "model_weights_load", err.text);
    const struct encoder_limits limits = {MAX_ROWS, MAX_SEQS,
                                          cfg.max_position < 512 ? cfg.max_position : 512, 0};
    must(!encoder_create(&e, be, &cfg, &w, &limits, &err), "encoder_create", err.text);

    const int n = g->n_cases * g->n_labels;
    float *want = xcalloc((size_t)n, sizeof(*want)), *got[N_MODES];
    for (int i = 0; i < n; i++) {
        want[i] = g->cases[i / g->n_labels].logits[i % g->n_labels];
    }
    for (int m = 0; m < N_MODES; m++) {
        got[m] = xcalloc((size_t)n, sizeof(*got[m]));
        run_mode(got[m], e, g, (enum mode)m, &cfg);
    }
    const bool ok = is_accelerated(backend) && be->dtype != DTYPE_F32
                        ? compare_directions(got, want, n, model_dir, backend)
                        : compare(got, want, n, model_dir, backend, &tolerances[be->dtype]);
    for (int m = 0; m < N_MODES; m++) {
        free(got[m]);
    }
    free(want);
    encoder_destroy(e);
    model_weights_finish(&w);
    model_config_finish(&cfg);
    backend_destroy(be);
    return ok;
}
