/* keys_read.c - the file of API keys.
 * Strict, because a slip here lets people in or keeps them out: unknown and repeated fields, names
 * or keys given twice, and a file that others may read are refused. What is wrong is told by line,
 * field and fix; of a field whose name is unknown not even that is quoted, since a key may stand
 * there by mistake. The text is wiped from memory when it has been read. */
#include "server/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/commented_json.h"
#include "server/keys_internal.h"

struct reading {
    struct commented_json json;
    struct keys *keys;
};
typedef enum status field_fn(struct key_entry *e, const cJSON *v, struct error *err);

static enum status read_name(struct key_entry *e, const cJSON *v, struct error *err) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    const char *s = cJSON_IsString(v) ? v->valuestring : "";
    const size_t n = strlen(s);
    if (n == 0 || n >= KEY_NAME_BYTES || strspn(s, allowed) != n) {
        return error_set(err, STATUS_INVALID,
                         "name: 1 to %d letters, digits, dots, dashes or underscores are expected",
                         KEY_NAME_BYTES - 1);
    }
    memcpy(e->key.name, s, n + 1);
    return STATUS_OK;
}
static enum status read_secret(struct key_entry *e, const cJSON *v, struct error *err) {
    const char *s = cJSON_IsString(v) ? v->valuestring : "";
    const size_t n = strlen(s);
    bool is_visible = true;
    for (size_t i = 0; i < n; i++) {
        is_visible = is_visible && s[i] > ' ' && s[i] < 0x7f;
    }
    if (n == 0 || n > KEY_MAX_SECRET_BYTES || !is_visible) {
        return error_set(err, STATUS_INVALID,
                         "key: a string of 1 to %d visible ASCII characters without spaces is "
                         "expected, such as `openssl rand -hex 24` prints",
                         KEY_MAX_SECRET_BYTES);
    }
    e->key.is_short = n < KEY_SHORT_SECRET_BYTES;
    keys_digest(e->digest, s, n);
    return STATUS_OK;
}
static enum status read_number(double *out, const cJSON *v, const char *name, double min,
                               double max, bool is_whole, struct error *err) {
    const double d = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    if (!(d >= min && d <= max) || (is_whole && d != floor(d))) {
        return error_set(err, STATUS_INVALID, "%s: %s, %.15g to %.15g, is expected", name,
                         is_whole ? "an integer" : "a number", min, max);
    }
    *out = d;
    return STATUS_OK;
}
static enum status read_weight(struct key_entry *e, const cJSON *v, struct error *err) {
    double d = 1;
    const enum status s = read_number(&d, v, "weight", 1, 1000, true, err);
    e->key.weight = (int)d;
    return s;
}
static enum status read_rate(struct key_entry *e, const cJSON *v, struct error *err) {
    return read_number(&e->key.requests_per_second, v, "requests_per_second", 0, 1e6, false, err);
}
static enum status read_burst(struct key_entry *e, const cJSON *v, struct error *err) {
    return read_number(&e->key.burst, v, "burst", 1, 1e6, false, err);
}
static enum status read_priority(struct key_entry *e, const cJSON *v, struct error *err) {
    for (int i = 0; cJSON_IsString(v) && i < N_PRIORITIES; i++) {
        if (!strcmp(v->valuestring, priority_names[i])) {
            e->key.priority = (enum priority)i;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_INVALID, "priority: \"high\", \"normal\" or \"low\" is expected");
}
static enum status read_admin(struct key_entry *e, const cJSON *v, struct error *err) {
    if (!cJSON_IsBool(v)) {
        return error_set(err, STATUS_INVALID, "admin: true or false is expected");
    }
    e->key.is_admin = cJSON_IsTrue(v);
    return STATUS_OK;
}
static const struct {
    const char *name;
    field_fn *read;
} fields[] = {
    {"name", read_name},     {"key", read_secret},
    {"weight", read_weight}, {"requests_per_second", read_rate},
    {"burst", read_burst},   {"priority", read_priority},
    {"admin", read_admin},
};
enum { NAME, SECRET, WEIGHT, RATE, BURST };

static int find_field(const char *name) {
    for (int i = 0; i < (int)N_ITEMS(fields); i++) {
        if (!strcmp(name, fields[i].name)) {
            return i;
        }
    }
    return -1;
}
static enum status read_field(struct key_entry *e, const cJSON *v, bool *seen, struct error *err) {
    const int i = find_field(v->string);
    if (i < 0) {
        return error_set(err, STATUS_INVALID,
                         "a field that is not known; known: name, key, weight, "
                         "requests_per_second, burst, priority, admin");
    }
    if (seen[i]) {
        return error_set(err, STATUS_INVALID, "%s stands twice", fields[i].name);
    }
    seen[i] = true;
    return fields[i].read(e, v, err);
}
static enum status read_fields(struct key_entry *e, const cJSON *object, const cJSON **where,
                               struct error *err) {
    bool seen[N_ITEMS(fields)] = {false};
    const cJSON *v;
    cJSON_ArrayForEach (v, object) {
        *where = v;
        const enum status s = read_field(e, v, seen, err);
        if (s) {
            return s;
        }
    }
    *where = object;
    if (!cJSON_IsObject(object) || !seen[NAME] || !seen[SECRET]) {
        return error_set(err, STATUS_INVALID,
                         "each of keys is an object with name and key, like {\"name\": \"web\", "
                         "\"key\": \"...\"}");
    }
    if (seen[BURST] && !(e->key.requests_per_second > 0)) {
        return error_set(err, STATUS_INVALID,
                         "burst without a requests_per_second above 0: add that, or leave burst "
                         "out");
    }
    if (!seen[BURST]) {
        e->key.burst = fmax(1, e->key.requests_per_second);
    }
    return STATUS_OK;
}
static enum status check_unique(const struct keys *k, const struct key_entry *e,
                                struct error *err) {
    for (int i = 0; i < k->n_entries; i++) {
        if (!strcmp(k->entries[i].key.name, e->key.name)) {
            return error_set(err, STATUS_INVALID, "the name \"%s\" stands twice: give each its own",
                             e->key.name);
        }
        if (!memcmp(k->entries[i].digest, e->digest, KEY_DIGEST_BYTES)) {
            return error_set(err, STATUS_INVALID,
                             "\"%s\" and \"%s\" have the same key: give each its own",
                             k->entries[i].key.name, e->key.name);
        }
    }
    return STATUS_OK;
}
static enum status add_key(struct keys *k, const cJSON *object, const cJSON **where,
                           struct error *err) {
    struct key_entry e = {.key = {.index = k->n_entries, .weight = 1}, .is_in_use = true};
    if (k->n_entries == POLICY_MAX_KEYS) {
        return error_set(err, STATUS_INVALID, "more than %d keys", POLICY_MAX_KEYS);
    }
    enum status s = read_fields(&e, object, where, err);
    if (!s) {
        s = check_unique(k, &e, err);
    }
    if (!s) {
        k->entries[k->n_entries++] = e;
    }
    return s ? error_prefix(err, s, "keys[%d]", k->n_entries) : STATUS_OK;
}
static enum status read_tree(struct keys *k, const struct commented_json *j, struct error *err) {
    const cJSON *list = j->root->child, *object;
    if (!cJSON_IsObject(j->root) || !list || list->next || strcmp(list->string, "keys") ||
        !cJSON_IsArray(list) || !list->child) {
        return error_set(err, STATUS_INVALID,
                         "%s:1: an object with a list of keys and nothing else is expected: "
                         "{\"keys\": [{\"name\": \"web\", \"key\": \"...\"}]}",
                         j->name);
    }
    cJSON_ArrayForEach (object, list) {
        const cJSON *where = object;
        const enum status s = add_key(k, object, &where, err);
        if (s) {
            return commented_json_at(j, where, s, err);
        }
    }
    return STATUS_OK;
}
static enum status finish_reading(struct keys **out, struct commented_json *j, enum status s,
                                  struct error *err) {
    struct keys *k = keys_create();
    if (!s) {
        s = read_tree(k, j, err);
    }
    if (!s) {
        s = commented_json_check(j, err);
    }
    commented_json_finish(j);
    if (s) {
        keys_close(k);
        return s;
    }
    *out = k;
    return STATUS_OK;
}
enum status keys_read(struct keys **out, const char *bytes, size_t len, const char *name,
                      struct error *err) {
    struct commented_json j = {.name = name, .is_secret = true};
    return finish_reading(out, &j, commented_json_read(&j, bytes, len, err), err);
}

static enum status check_mode(int fd, const char *path, struct error *err) {
    struct stat st;
    if (fstat(fd, &st)) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    if (S_ISREG(st.st_mode) && (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))) {
        return error_set(err, STATUS_INVALID,
                         "%s: others may read or write it (mode %03o): chmod 600 it, or 640 for a "
                         "group",
                         path, (unsigned)st.st_mode & 0777u);
    }
    return STATUS_OK;
}
enum status keys_open(struct keys **out, const char *path, struct error *err) {
    struct commented_json j = {.name = path, .is_secret = true};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe waits for nobody
    if (fd < 0) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    enum status s = check_mode(fd, path, err);
    if (!s) {
        s = commented_json_read_fd(&j, fd, err);
    }
    s = finish_reading(out, &j, s, err);
    close(fd);
    return s;
}
