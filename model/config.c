/* config.c - config.json, read into a struct and refused where this network is another one.
 * Sizes come from one table with their bounds, so that no later product overflows. Anything that
 * would change the mathematics without changing a tensor's shape (another activation, relative
 * positions, a decoder's mask) must be known here, or the answers would be wrong in silence. */
#include "model/config.h"

#include "model/json_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 64 * 1024 * 1024, MAX_LABELS = 65536 };

struct reader {
    const cJSON *root;
    const char *file;
    struct error *err;
};

static const struct {
    const char *key;
    size_t offset;
    int min, max, fallback; // fallback -1: it must be there
} sizes[] = {
    {"vocab_size", offsetof(struct model_config, vocab_size), 1, 1 << 24, -1},
    {"hidden_size", offsetof(struct model_config, hidden), 1, 1 << 16, -1},
    {"intermediate_size", offsetof(struct model_config, intermediate), 1, 1 << 18, -1},
    {"num_hidden_layers", offsetof(struct model_config, n_layers), 1, 1024, -1},
    {"num_attention_heads", offsetof(struct model_config, n_heads), 1, 1 << 16, -1},
    {"max_position_embeddings", offsetof(struct model_config, max_position), 1, 1 << 20, -1},
    {"type_vocab_size", offsetof(struct model_config, type_vocab_size), 1, 1 << 16, 2},
    {"pad_token_id", offsetof(struct model_config, pad_token_id), 0, (1 << 24) - 1, 0},
};

static enum status refuse(const struct reader *r, const char *field, const cJSON *found,
                          const char *expected) {
    char text[96];
    return error_set(r->err, STATUS_INVALID, "%s: %s is %s, expected %s", r->file, field,
                     json_describe(text, sizeof(text), found), expected);
}

/* NULL when it is missing or null, which these files use alike. */
static enum status field(const struct reader *r, const char *key, const cJSON **out) {
    const cJSON *item;
    *out = NULL;
    bool seen = false;
    cJSON_ArrayForEach (item, r->root) {
        if (strcmp(item->string, key) != 0) {
            continue;
        }
        if (seen) {
            return error_set(r->err, STATUS_INVALID, "%s: %s is there twice, expected once",
                             r->file, key);
        }
        seen = true;
        *out = cJSON_IsNull(item) ? NULL : item;
    }
    return STATUS_OK;
}

static enum status read_sizes(const struct reader *r, struct model_config *c) {
    for (size_t i = 0; i < N_ITEMS(sizes); i++) {
        const cJSON *item;
        const enum status s = field(r, sizes[i].key, &item);
        if (s) {
            return s;
        }
        int value = sizes[i].fallback;
        if (item || value < 0) {
            if (!json_is_integer(item, sizes[i].min, sizes[i].max)) {
                char expected[64];
                snprintf(expected, sizeof(expected), "an integer from %d to %d", sizes[i].min,
                         sizes[i].max);
                return refuse(r, sizes[i].key, item, expected);
            }
            value = (int)item->valuedouble;
        }
        memcpy((char *)c + sizes[i].offset, &value, sizeof(value));
    }
    if (c->hidden % c->n_heads) {
        return error_set(r->err, STATUS_INVALID,
                         "%s: hidden_size is %d, expected a multiple of num_attention_heads, %d",
                         r->file, c->hidden, c->n_heads);
    }
    if (c->pad_token_id >= c->vocab_size) {
        return error_set(r->err, STATUS_INVALID,
                         "%s: pad_token_id is %d, expected less than vocab_size, %d", r->file,
                         c->pad_token_id, c->vocab_size);
    }
    return STATUS_OK;
}

/* A field that, when it is there, must be one of `words`; *choice is its index, or 0. */
static enum status read_word(const struct reader *r, const char *key, const char *const *words,
                             int n_words, int *choice) {
    const cJSON *item;
    const enum status s = field(r, key, &item);
    *choice = 0;
    if (s || !item) {
        return s;
    }
    char expected[160] = "";
    for (int i = 0; i < n_words; i++) {
        if (cJSON_IsString(item) && !strcmp(item->valuestring, words[i])) {
            *choice = i;
            return STATUS_OK;
        }
        const size_t at = strlen(expected);
        snprintf(expected + at, sizeof(expected) - at, "%s\"%s\"", i ? " or " : "", words[i]);
    }
    return refuse(r, key, item, expected);
}

static enum status read_family(const struct reader *r, struct model_config *c) {
    static const char architecture[] = "BertForSequenceClassification";
    static const char *const types[] = {"bert"}, *const positions[] = {"absolute"};
    const cJSON *list, *decoder, *name;
    int choice;
    enum status s = field(r, "architectures", &list);
    s = s ? s : field(r, "is_decoder", &decoder);
    s = s ? s : field(r, "_name_or_path", &name);
    if (s) {
        return s;
    }
    const cJSON *first = cJSON_IsArray(list) ? list->child : NULL;
    if (!cJSON_IsString(first) || strcmp(first->valuestring, architecture) != 0) {
        return refuse(r, "architectures", first ? first : list,
                      "[\"BertForSequenceClassification\"]");
    }
    if (decoder && !cJSON_IsFalse(decoder)) {
        return refuse(r, "is_decoder", decoder, "false");
    }
    if (name && !cJSON_IsString(name)) {
        return refuse(r, "_name_or_path", name, "a string");
    }
    s = read_word(r, "model_type", types, N_ITEMS(types), &choice);
    s = s ? s : read_word(r, "position_embedding_type", positions, N_ITEMS(positions), &choice);
    if (!s) {
        c->architecture = xstrdup(architecture);
        c->name_or_path = xstrdup(name ? name->valuestring : "");
    }
    return s;
}

static enum status read_numbers(const struct reader *r, struct model_config *c) {
    static const char *const words[] = {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"};
    static const enum activation activations[] = {ACT_GELU, ACT_GELU_TANH, ACT_GELU_TANH, ACT_RELU};
    int choice;
    const cJSON *eps;
    enum status s = read_word(r, "hidden_act", words, N_ITEMS(words), &choice);
    s = s ? s : field(r, "layer_norm_eps", &eps);
    if (s) {
        return s;
    }
    c->activation = activations[choice];
    c->layer_norm_eps = 1e-12f;
    if (eps) {
        if (!cJSON_IsNumber(eps) || !(eps->valuedouble > 0 && eps->valuedouble < 1)) {
            return refuse(r, "layer_norm_eps", eps, "a number between 0 and 1");
        }
        c->layer_norm_eps = (float)eps->valuedouble;
    }
    return STATUS_OK;
}

/* "0", "17", but not "", "x", "01": the index in 0 ... n - 1, or -1. */
static int label_index(const char *key, int n) {
    char *end;
    const long i = strtol(key, &end, 10);
    char again[32];
    snprintf(again, sizeof(again), "%ld", i);
    return !strcmp(again, key) && i >= 0 && i < n ? (int)i : -1;
}

static enum status read_id2label(const struct reader *r, struct model_config *c, const cJSON *map) {
    if (!cJSON_IsObject(map) || !map->child || cJSON_GetArraySize(map) > MAX_LABELS) {
        return refuse(r, "id2label", map, "an object of 1 to 65536 labels");
    }
    c->n_labels = cJSON_GetArraySize(map);
    c->labels = xcalloc((size_t)c->n_labels, sizeof(*c->labels));
    const cJSON *item;
    cJSON_ArrayForEach (item, map) {
        const int i = label_index(item->string, c->n_labels);
        if (i < 0 || c->labels[i]) {
            return error_set(r->err, STATUS_INVALID,
                             "%s: id2label has the key \"%.40s\", expected each of \"0\" to \"%d\" "
                             "once",
                             r->file, item->string, c->n_labels - 1);
        }
        if (!cJSON_IsString(item)) {
            char key[80];
            snprintf(key, sizeof(key), "id2label[\"%d\"]", i);
            return refuse(r, key, item, "a string");
        }
        c->labels[i] = xstrdup(item->valuestring);
    }
    return STATUS_OK;
}

static void name_labels(struct model_config *c, int n) {
    c->n_labels = n;
    c->labels = xcalloc((size_t)n, sizeof(*c->labels));
    for (int i = 0; i < n; i++) {
        char label[32];
        snprintf(label, sizeof(label), "LABEL_%d", i);
        c->labels[i] = xstrdup(label);
    }
}

static enum status read_labels(const struct reader *r, struct model_config *c) {
    const cJSON *map, *count;
    enum status s = field(r, "id2label", &map);
    s = s ? s : field(r, "num_labels", &count);
    if (s) {
        return s;
    }
    if (count && !json_is_integer(count, 1, MAX_LABELS)) {
        return refuse(r, "num_labels", count, "an integer from 1 to 65536");
    }
    if (!map) {
        name_labels(c, count ? (int)count->valuedouble : 2);
        return STATUS_OK;
    }
    s = read_id2label(r, c, map);
    if (!s && count && (int)count->valuedouble != c->n_labels) {
        return error_set(r->err, STATUS_INVALID,
                         "%s: num_labels is %d, expected %d, the number of labels in id2label",
                         r->file, (int)count->valuedouble, c->n_labels);
    }
    return s;
}

static enum status read_problem(const struct reader *r, struct model_config *c) {
    static const char *const words[] = {"single_label_classification", "multi_label_classification",
                                        "regression"};
    const cJSON *item;
    int choice;
    enum status s = field(r, "problem_type", &item);
    s = s ? s : read_word(r, "problem_type", words, N_ITEMS(words), &choice);
    if (s) {
        return s;
    }
    c->problem_type = item ? words[choice] : NULL;
    if (choice == 2) {
        c->score = SCORE_NONE;
    } else if (choice == 1 || c->n_labels == 1) {
        c->score = SCORE_SIGMOID;
    } else {
        c->score = SCORE_SOFTMAX;
    }
    return STATUS_OK;
}

enum status model_config_parse(struct model_config *out, const char *text, size_t len,
                               const char *file, struct error *err) {
    cJSON *root = NULL;
    enum status s = json_parse_object(&root, text, len, file, err);
    if (s) {
        return s;
    }
    const struct reader r = {root, file, err};
    struct model_config c = {0};
    s = read_family(&r, &c);
    s = s ? s : read_sizes(&r, &c);
    s = s ? s : read_numbers(&r, &c);
    s = s ? s : read_labels(&r, &c);
    s = s ? s : read_problem(&r, &c);
    cJSON_Delete(root);
    if (s) {
        model_config_finish(&c);
        return s;
    }
    *out = c;
    return STATUS_OK;
}

enum status model_config_read(struct model_config *out, const char *dir, struct error *err) {
    char path[PATH_MAX];
    char *text = NULL;
    size_t len = 0;
    if (snprintf(path, sizeof(path), "%s/config.json", dir) >= (int)sizeof(path)) {
        return error_set(err, STATUS_TOO_LONG, "%.200s: the path is too long", dir);
    }
    enum status s = file_read(&text, &len, path, MAX_CONFIG_BYTES, err);
    s = s ? s : model_config_parse(out, text, len, path, err);
    free(text);
    return s;
}

void model_config_finish(struct model_config *c) {
    for (int i = 0; c->labels && i < c->n_labels; i++) {
        free(c->labels[i]);
    }
    free(c->labels);
    free(c->name_or_path);
    free(c->architecture);
    memset(c, 0, sizeof(*c));
}
