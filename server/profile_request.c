/* profile_request.c - the options of `berth profile`: their table, and their values read strictly.
 * A batch is given as one shape or as the lengths of its sequences; whether the model takes them is
 * seen when it is open. */
#include "server/profile.h"

#include <stdlib.h>
#include <string.h>

#include "server/commands.h"

enum { OPT_SHAPE, OPT_LENGTHS, OPT_SECONDS, OPT_BY, OPT_JSON, N_OPTS };
static const struct own_option rows[N_OPTS] = {
    [OPT_SHAPE] = {"shape", "BATCHxLENGTH",
                   "The batch: so many sequences of so many tokens, like 8x128."},
    [OPT_LENGTHS] = {"lengths", "N,N,...",
                     "Or the length of every sequence, in tokens; default: ten short ones, 256 "
                     "tokens in all."},
    [OPT_SECONDS] = {"seconds", "S",
                     "How long passes are run, 0.01 to 3600; one at least; default 2."},
    [OPT_BY] = {"by", "WHAT",
                "Lines by op (default), summed over the layers; by layer, summed over the ops; or "
                "both."},
    [OPT_JSON] = {"json", NULL, "Every op of every layer, as one JSON object."},
};
const struct own_options profile_options = {rows, N_OPTS};

static enum status refuse(int option, const char *value, const char *wanted, struct error *err) {
    return error_set(err, STATUS_INVALID, "--%s: \"%.60s\", where %s is expected",
                     rows[option].name, value, wanted);
}
/* A whole number from 1 to max; at its end *at. */
static bool read_count(int *out, const char **at, int max) {
    char *end = NULL;
    if (**at < '0' || **at > '9') {
        return false;
    }
    const long v = strtol(*at, &end, 10);
    *at = end;
    *out = (int)v;
    return v >= 1 && v <= max;
}
static bool add_seq(struct profile_request *q, int len) {
    if (q->n_seqs == PROFILE_MAX_SEQS || q->n_tokens + len > PROFILE_MAX_TOKENS) {
        return false;
    }
    q->lens[q->n_seqs++] = len;
    q->n_tokens += len;
    q->longest = len > q->longest ? len : q->longest;
    return true;
}
static enum status read_shape(struct profile_request *q, const char *text, struct error *err) {
    const char *at = text;
    int batch = 0, len = 0;
    bool ok = read_count(&batch, &at, PROFILE_MAX_SEQS) && *at++ == 'x' &&
              read_count(&len, &at, PROFILE_MAX_TOKENS) && !*at;
    for (int i = 0; i < batch && ok; i++) {
        ok = add_seq(q, len);
    }
    return ok ? STATUS_OK
              : refuse(OPT_SHAPE, text,
                       "BATCHxLENGTH, like 8x128, at most 1024 sequences and 16384 tokens in all,",
                       err);
}
static enum status read_lengths(struct profile_request *q, const char *text, struct error *err) {
    const char *at = text;
    bool ok = true, more = true;
    while (ok && more) {
        int len = 0;
        ok = read_count(&len, &at, PROFILE_MAX_TOKENS) && add_seq(q, len);
        more = ok && *at == ',';
        at += more;
    }
    return ok && !*at ? STATUS_OK
                      : refuse(OPT_LENGTHS, text,
                               "lengths parted by commas, like 12,80,33, at most 1024 of them and "
                               "16384 tokens in all,",
                               err);
}
static enum status read_batch(struct profile_request *q, const struct options *opt,
                              struct error *err) {
    static const int usual[] = {16, 8, 24, 32, 12, 20, 48, 10, 64, 22};
    const char *shape = opt->own[OPT_SHAPE], *lengths = opt->own[OPT_LENGTHS];
    if (shape && lengths) {
        return error_set(err, STATUS_INVALID, "--shape and --lengths are two batches: give one");
    }
    for (size_t i = 0; i < N_ITEMS(usual) && !shape && !lengths; i++) {
        (void)add_seq(q, usual[i]);
    }
    return shape ? read_shape(q, shape, err) : lengths ? read_lengths(q, lengths, err) : STATUS_OK;
}
static enum status read_seconds(struct profile_request *q, const char *text, struct error *err) {
    char *end = NULL;
    q->seconds = 2;
    if (!text) {
        return STATUS_OK;
    }
    const bool is_number = strspn(text, "0123456789.") == strlen(text) && *text;
    q->seconds = is_number ? strtod(text, &end) : 0;
    return is_number && !*end && q->seconds >= 0.01 && q->seconds <= 3600
               ? STATUS_OK
               : refuse(OPT_SECONDS, text, "a number of seconds, 0.01 to 3600,", err);
}
static enum status read_by(struct profile_request *q, const char *text, struct error *err) {
    static const char *const names[N_PROFILE_BY] = {"op", "layer", "both"};
    for (int i = 0; text && i < N_PROFILE_BY; i++) {
        if (!strcmp(text, names[i])) {
            q->by = (enum profile_by)i;
            return STATUS_OK;
        }
    }
    return text ? refuse(OPT_BY, text, "op, layer or both", err) : STATUS_OK;
}
enum status profile_request_read(struct profile_request *out, const struct options *opt,
                                 struct error *err) {
    *out = (struct profile_request){.by = PROFILE_BY_OP, .json = opt->own[OPT_JSON] != NULL};
    enum status s = read_batch(out, opt, err);
    s = s ? s : read_seconds(out, opt->own[OPT_SECONDS], err);
    return s ? s : read_by(out, opt->own[OPT_BY], err);
}
