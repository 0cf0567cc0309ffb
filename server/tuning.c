/* tuning.c - the cache file, read whole at start and written whole when something is new.
 * Nothing that stands in the file is believed beyond being numbers: whoever asks for an entry
 * checks that the values can be. What cannot be read is replaced, but for one case: a file of
 * another program (no "berth_tuning" in it) is left alone. Entries are in the order in which they
 * were set, so the oldest are first and fall out first. */
#include "server/tuning.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "model/json_file.h"
#include "server/json.h"

enum { FORMAT = 1, MAX_PATH = 1024, SCRATCH_BYTES = 256 << 20 };

struct entry {
    char key[TUNING_MAX_KEY + 1];
    double values[TUNING_MAX_VALUES];
    int n;
    bool is_new; // since the file was read
};
struct tuning {
    char path[MAX_PATH];   // "": no file
    struct entry *entries; // [TUNING_MAX_ENTRIES]
    int n_entries;
    bool is_dirty;
    bool is_reread; // its faults were told before
};

static void log_unused(const struct tuning *t, const char *what, const char *reason) {
    if (t->is_reread) {
        return;
    }
    log_event(LOG_WARN, "tuning_cache", LOG_STR("path", t->path), LOG_STR("fault", what),
              LOG_STR("reason", reason));
}

static struct entry *find(const struct tuning *t, const char *key) {
    for (int i = 0; i < t->n_entries; i++) {
        if (!strcmp(t->entries[i].key, key)) {
            return &t->entries[i];
        }
    }
    return NULL;
}
static void drop(struct tuning *t, int index) {
    memmove(&t->entries[index], &t->entries[index + 1],
            (size_t)(t->n_entries - index - 1) * sizeof(*t->entries));
    t->n_entries--;
}
static void put(struct tuning *t, const struct entry *e) {
    const struct entry *old = find(t, e->key);
    if (old) {
        drop(t, (int)(old - t->entries));
    } else if (t->n_entries == TUNING_MAX_ENTRIES) {
        drop(t, 0);
    }
    t->entries[t->n_entries++] = *e;
}

/* Printable ASCII: what our own keys are made of. */
static bool is_key(const char *key) {
    const size_t len = strlen(key);
    for (size_t i = 0; i < len; i++) {
        if (key[i] < ' ' || key[i] > '~') {
            return false;
        }
    }
    return len > 0 && len <= TUNING_MAX_KEY;
}
static enum status read_entry(struct entry *out, const cJSON *list, struct error *err) {
    const cJSON *v;
    memset(out, 0, sizeof(*out));
    if (!is_key(list->string)) {
        return error_set(err, STATUS_INVALID, "a key that is not 1 to %d printable characters",
                         TUNING_MAX_KEY);
    }
    snprintf(out->key, sizeof(out->key), "%s", list->string);
    if (!cJSON_IsArray(list)) {
        return error_set(err, STATUS_INVALID, "\"%.60s\": no list of numbers", list->string);
    }
    cJSON_ArrayForEach (v, list) {
        if (!cJSON_IsNumber(v) || out->n == TUNING_MAX_VALUES) {
            return error_set(err, STATUS_INVALID, "\"%.60s\": no list of up to %d numbers",
                             list->string, TUNING_MAX_VALUES);
        }
        out->values[out->n++] = v->valuedouble;
    }
    return STATUS_OK;
}
static enum status read_tree(struct tuning *t, const cJSON *root, struct error *err) {
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "berth_tuning");
    const cJSON *list, *entries = cJSON_GetObjectItemCaseSensitive(root, "entries");
    int n = 0;
    if (!json_is_integer(format, FORMAT, FORMAT) || !cJSON_IsObject(entries) ||
        cJSON_GetArraySize(root) != 2) {
        return error_set(err, STATUS_INVALID, "not {\"berth_tuning\": %d, \"entries\": {...}}",
                         FORMAT);
    }
    struct entry *read = xcalloc(TUNING_MAX_ENTRIES, sizeof(*read));
    enum status s = STATUS_OK;
    cJSON_ArrayForEach (list, entries) {
        s = n < TUNING_MAX_ENTRIES
                ? read_entry(&read[n++], list, err)
                : error_set(err, STATUS_INVALID, "more than %d entries", TUNING_MAX_ENTRIES);
        if (s) {
            break;
        }
    }
    for (int i = 0; i < n && !s; i++) {
        put(t, &read[i]);
    }
    free(read);
    return s;
}
enum status tuning_read_text(struct tuning *t, const char *bytes, size_t len, struct error *err) {
    struct arena scratch = {.data = NULL};
    cJSON *root = NULL;
    enum status s = arena_init(&scratch, SCRATCH_BYTES, err);
    s = s ? s : json_check(bytes, len, &scratch, err);
    arena_finish(&scratch);
    s = s ? s : json_parse_object(&root, bytes, len, "tuning cache", err);
    s = s ? s : read_tree(t, root, err);
    cJSON_Delete(root);
    return s;
}

/* False: there is something that we may not replace. */
static bool read_file(struct tuning *t) {
    struct error err = {.text = ""};
    char *text = NULL;
    size_t len = 0;
    if (access(t->path, F_OK) && errno == ENOENT) {
        return true;
    }
    enum status s = file_read(&text, &len, t->path, TUNING_MAX_FILE_BYTES, &err);
    if (s) {
        log_unused(t, "unreadable", err.text);
        return false;
    }
    s = len ? tuning_read_text(t, text, len, &err) : STATUS_OK;
    const bool is_ours = !s || memmem(text, len, "berth_tuning", strlen("berth_tuning"));
    free(text);
    if (s) {
        log_unused(t, is_ours ? "broken" : "foreign", err.text);
    }
    return is_ours;
}

/* `path` with a suffix; false when it does not fit. */
static bool join(char out[MAX_PATH], const char *path, const char *suffix) {
    const int n = snprintf(out, MAX_PATH, "%s%s", path, suffix);
    return n >= 0 && n < MAX_PATH;
}
/* The user's folder for caches, made if need be; false when there is none. */
static bool find_cache_folder(char out[MAX_PATH]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') { // the specification has relative ones ignored
        return join(out, cache, "");
    }
    return home && home[0] == '/' && join(out, home, "/.cache");
}
static bool find_default_path(char out[MAX_PATH]) {
    char cache[MAX_PATH], folder[MAX_PATH];
    if (!find_cache_folder(cache) || !join(folder, cache, "/berth") ||
        !join(out, folder, "/tuning.json")) {
        return false;
    }
    (void)mkdir(cache, 0700); // if either fails, so will opening the file, and that is told
    (void)mkdir(folder, 0700);
    return true;
}
static void set_path(struct tuning *t, const char *path) {
    if (!strcmp(path, "off")) {
        return;
    }
    if (*path ? !join(t->path, path, "") : !find_default_path(t->path)) {
        t->path[0] = '\0';
        log_unused(t, "no place", "neither XDG_CACHE_HOME nor HOME tells a folder for caches");
    }
}
struct tuning *tuning_open(const char *path) {
    struct tuning *t = xcalloc(1, sizeof(*t));
    t->entries = xcalloc(TUNING_MAX_ENTRIES, sizeof(*t->entries));
    set_path(t, path);
    if (*t->path && !read_file(t)) {
        t->path[0] = '\0';
    }
    return t;
}

bool tuning_get(const struct tuning *t, const char *key, double *out, int n) {
    const struct entry *e = find(t, key);
    if (!e || e->n != n) {
        return false;
    }
    memcpy(out, e->values, (size_t)n * sizeof(*out));
    return true;
}
bool tuning_has(const struct tuning *t, const char *key) {
    return find(t, key) != NULL;
}
void tuning_set(struct tuning *t, const char *key, const double *values, int n) {
    struct entry e = {.n = n, .is_new = true};
    assert(is_key(key) && n >= 1 && n <= TUNING_MAX_VALUES);
    for (int i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return;
        }
        e.values[i] = values[i];
    }
    snprintf(e.key, sizeof(e.key), "%s", key);
    put(t, &e);
    t->is_dirty = true;
}

static void write_string(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    fputc('"', out);
}
static bool write_entries(const struct tuning *t, FILE *out) {
    fprintf(out, "{\"berth_tuning\": %d, \"entries\": {", FORMAT);
    for (int i = 0; i < t->n_entries; i++) {
        fputs(i ? ",\n" : "\n", out);
        write_string(out, t->entries[i].key);
        for (int k = 0; k < t->entries[i].n; k++) {
            fprintf(out, "%s%.17g", k ? ", " : ": [", t->entries[i].values[k]);
        }
        fputs(t->entries[i].n ? "]" : ": []", out);
    }
    fputs("\n}}\n", out);
    return !ferror(out);
}
/* No fsync: a file that a power cut left empty is as good as none. */
static bool write_file(const struct tuning *t) {
    char temporary[MAX_PATH], suffix[32];
    snprintf(suffix, sizeof(suffix), ".%ld.new", (long)getpid());
    if (!join(temporary, t->path, suffix)) {
        errno = ENAMETOOLONG;
        return false;
    }
    (void)unlink(temporary); // of a process of the same number that was killed in between
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        return false;
    }
    const bool is_written = write_entries(t, out);
    const bool is_whole = !fclose(out) && is_written && !rename(temporary, t->path);
    const int reason = errno;
    if (!is_whole) {
        (void)unlink(temporary);
    }
    errno = reason;
    return is_whole;
}
/* Another process may have written since: its entries stay, ours are added. */
static void save(const struct tuning *t) {
    struct tuning now = {.is_reread = true,
                         .entries = xcalloc(TUNING_MAX_ENTRIES, sizeof(*now.entries))};
    snprintf(now.path, sizeof(now.path), "%s", t->path);
    const bool is_ours = read_file(&now);
    for (int i = 0; i < t->n_entries; i++) {
        if (t->entries[i].is_new) {
            put(&now, &t->entries[i]);
        }
    }
    if (is_ours && !write_file(&now)) {
        log_unused(t, "unwritable", strerror(errno));
    }
    free(now.entries);
}
void tuning_save(struct tuning *t) {
    if (t->is_dirty && *t->path) {
        save(t);
    }
    for (int i = 0; i < t->n_entries; i++) {
        t->entries[i].is_new = false; // what others make of it from now on is theirs
    }
    t->is_dirty = false;
}
void tuning_close(struct tuning *t) {
    if (!t) {
        return;
    }
    tuning_save(t);
    free(t->entries);
    free(t);
}
