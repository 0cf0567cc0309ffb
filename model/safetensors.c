/* safetensors.c - a checkpoint's files, mapped, and tensors found in them by name.
 * A directory has model.safetensors, or model.safetensors.index.json, which says which shard holds
 * which tensor; a shard is a plain file name, so no index can name a file elsewhere. Old files may
 * put a tensor where its elements are not aligned: such a tensor is copied once, when it opens. */
#include "model/safetensors.h"

#include "model/json_file.h"
#include "model/safetensors_header.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SHARDS = 1000, LENGTH_BYTES = 8, MAX_INDEX_BYTES = 100000000 };

struct shard {
    char *file; // in the directory
    unsigned char *map;
    size_t map_bytes;
    const unsigned char *data; // behind the header
    struct safetensors_table table;
    void **copies; // [table.n], NULL but for tensors that were not aligned
};
struct safetensors {
    char *dir;
    struct shard *shards;
    int n_shards;
};

static enum status map_file(struct shard *sh, const char *path, struct error *err) {
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe waits for nobody
    if (fd < 0) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    enum status s = STATUS_OK;
    if (fstat(fd, &st)) {
        s = error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        s = error_set(err, STATUS_IO, "%s: not a regular file", path);
    } else if (st.st_size < LENGTH_BYTES) {
        s = error_set(err, STATUS_INVALID, "%s: %lld bytes are no safetensors file", path,
                      (long long)st.st_size);
    } else {
        sh->map_bytes = (size_t)st.st_size;
        void *p = mmap(NULL, sh->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            s = error_set(err, STATUS_IO, "%s: cannot map it: %s", path, strerror(errno));
        } else {
            sh->map = p;
        }
    }
    close(fd);
    return s;
}

static uint64_t header_length(const unsigned char *p) {
    uint64_t n = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        n = n << 8 | p[i];
    }
    return n;
}

static enum status read_header(struct shard *sh, const char *path, struct error *err) {
    const uint64_t len = header_length(sh->map), rest = sh->map_bytes - LENGTH_BYTES;
    if (len > rest || len > SAFETENSORS_MAX_HEADER) {
        return error_set(err, STATUS_INVALID,
                         "%s: a header of %" PRIu64 " bytes, expected at most %" PRIu64, path, len,
                         rest < SAFETENSORS_MAX_HEADER ? rest : SAFETENSORS_MAX_HEADER);
    }
    sh->data = sh->map + LENGTH_BYTES + len;
    return safetensors_table_parse(&sh->table, (const char *)sh->map + LENGTH_BYTES, (size_t)len,
                                   rest - len, path, err);
}

static void copy_unaligned(struct shard *sh) {
    sh->copies = xcalloc((size_t)sh->table.n, sizeof(*sh->copies));
    for (int i = 0; i < sh->table.n; i++) {
        const struct safetensors_entry *e = &sh->table.entries[i];
        const unsigned char *from = sh->data + e->begin;
        if (e->item_bytes && (uintptr_t)from % (size_t)e->item_bytes) {
            sh->copies[i] = xcalloc(e->end - e->begin, 1);
            memcpy(sh->copies[i], from, e->end - e->begin);
        }
    }
}

static enum status open_shard(struct safetensors *st, const char *file, struct error *err) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", st->dir, file) >= (int)sizeof(path)) {
        return error_set(err, STATUS_TOO_LONG, "%.200s: the path is too long", file);
    }
    struct shard *sh = &st->shards[st->n_shards++];
    sh->file = xstrdup(file);
    enum status s = map_file(sh, path, err);
    s = s ? s : read_header(sh, path, err);
    if (!s) {
        /* The header says what the file's size says: now all of it is read at once, as the checks
         * want it. A kernel that cannot do that reads page by page. */
        madvise(sh->map, sh->map_bytes, MADV_POPULATE_READ);
        copy_unaligned(sh);
    }
    return s;
}

static const struct safetensors_entry *find_in(const struct shard *sh, const char *name) {
    int lo = 0, hi = sh->table.n;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2, order = strcmp(name, sh->table.entries[mid].name);
        if (!order) {
            return &sh->table.entries[mid];
        }
        if (order < 0) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return NULL;
}

static struct shard *shard_named(const struct safetensors *st, const char *file) {
    for (int i = 0; i < st->n_shards; i++) {
        if (!strcmp(st->shards[i].file, file)) {
            return &st->shards[i];
        }
    }
    return NULL;
}

/* One line of the index: opens the shard when it is new, and looks whether the tensor is there. */
static enum status open_mapped(struct safetensors *st, const cJSON *item, const char *index,
                               struct error *err) {
    const char *file = cJSON_GetStringValue(item);
    char text[96];
    if (!file || !*file || *file == '.' || strchr(file, '/')) {
        return error_set(err, STATUS_INVALID,
                         "%s: weight_map: %.100s is in %s, expected a file name in this directory",
                         index, item->string, json_describe(text, sizeof(text), item));
    }
    if (!shard_named(st, file)) {
        if (st->n_shards == MAX_SHARDS) {
            return error_set(err, STATUS_TOO_LONG, "%s: more than %d shards", index, MAX_SHARDS);
        }
        const enum status s = open_shard(st, file, err);
        if (s) {
            return s;
        }
    }
    if (!find_in(shard_named(st, file), item->string)) {
        return error_set(err, STATUS_INVALID, "%s: weight_map: %.100s is not in %.100s", index,
                         item->string, file);
    }
    return STATUS_OK;
}

static enum status open_shards(struct safetensors *st, const char *index, struct error *err) {
    char *text = NULL;
    size_t len = 0;
    cJSON *root = NULL;
    enum status s = file_read(&text, &len, index, MAX_INDEX_BYTES, err);
    s = s ? s : json_parse_object(&root, text, len, index, err);
    free(text);
    if (s) {
        return s;
    }
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(root, "weight_map"), *item;
    if (!cJSON_IsObject(map) || !map->child) {
        char found[96];
        s = error_set(err, STATUS_INVALID,
                      "%s: weight_map is %s, expected {tensor name: file name}", index,
                      json_describe(found, sizeof(found), map));
    }
    cJSON_ArrayForEach (item, map) {
        s = s ? s : open_mapped(st, item, index, err);
    }
    cJSON_Delete(root);
    return s;
}

static enum status open_files(struct safetensors *st, struct error *err) {
    char single[PATH_MAX], index[PATH_MAX];
    if (snprintf(index, sizeof(index), "%s/model.safetensors.index.json", st->dir) >=
        (int)sizeof(index)) {
        return error_set(err, STATUS_TOO_LONG, "%.200s: the path is too long", st->dir);
    }
    snprintf(single, sizeof(single), "%s/model.safetensors", st->dir);
    if (!access(single, F_OK)) {
        return open_shard(st, "model.safetensors", err);
    }
    if (!access(index, F_OK)) {
        return open_shards(st, index, err);
    }
    return error_set(err, STATUS_IO,
                     "%s: neither model.safetensors nor model.safetensors.index.json is there",
                     st->dir);
}

enum status safetensors_open(struct safetensors **out, const char *dir, struct error *err) {
    struct safetensors *st = xcalloc(1, sizeof(*st));
    st->dir = xstrdup(dir);
    st->shards = xcalloc(MAX_SHARDS, sizeof(*st->shards));
    const enum status s = open_files(st, err);
    if (s) {
        safetensors_close(st);
        return s;
    }
    *out = st;
    return STATUS_OK;
}

static void close_shard(struct shard *sh) {
    for (int i = 0; sh->copies && i < sh->table.n; i++) {
        free(sh->copies[i]);
    }
    free(sh->copies);
    safetensors_table_finish(&sh->table);
    if (sh->map) {
        munmap(sh->map, sh->map_bytes);
    }
    free(sh->file);
}

void safetensors_close(struct safetensors *st) {
    if (st) {
        for (int i = 0; i < st->n_shards; i++) {
            close_shard(&st->shards[i]);
        }
        free(st->shards);
        free(st->dir);
        free(st);
    }
}

void safetensors_give_back(const struct safetensors *st) {
    for (int i = 0; i < st->n_shards; i++) {
        madvise(st->shards[i].map, st->shards[i].map_bytes, MADV_DONTNEED); // only to save memory
    }
}

bool safetensors_has(const struct safetensors *st, const char *name) {
    for (int i = 0; i < st->n_shards; i++) {
        if (find_in(&st->shards[i], name)) {
            return true;
        }
    }
    return false;
}

static const char *shape_text(char *out, size_t size, const struct safetensors_entry *e) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < e->n_dims && at < size; i++) {
        at += (size_t)snprintf(out + at, size - at, "%s%" PRId64, i ? ", " : "", e->dims[i]);
    }
    return out;
}

static const char *wanted_text(char *out, size_t size, int rows, int cols) {
    if (rows) {
        snprintf(out, size, "%d, %d", rows, cols);
    } else {
        snprintf(out, size, "%d", cols);
    }
    return out;
}

static enum status make_view(struct host_tensor *out, const struct safetensors_entry *e,
                             const void *data, int rows, int cols, struct error *err) {
    static const struct {
        const char *name;
        enum dtype dtype;
    } known[] = {{"F32", DTYPE_F32}, {"F16", DTYPE_F16}, {"BF16", DTYPE_BF16}};
    const bool fits = rows ? e->n_dims == 2 && e->dims[0] == rows && e->dims[1] == cols
                           : e->n_dims == 1 && e->dims[0] == cols;
    if (!fits) {
        char shape[192], want[48];
        return error_set(err, STATUS_INVALID, "tensor %.100s has the shape [%s], expected [%s]",
                         e->name, shape_text(shape, sizeof(shape), e),
                         wanted_text(want, sizeof(want), rows, cols));
    }
    for (size_t i = 0; i < N_ITEMS(known); i++) {
        if (!strcmp(known[i].name, e->dtype)) {
            *out = (struct host_tensor){data, known[i].dtype, rows ? rows : 1, cols};
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_INVALID, "tensor %.100s has the dtype %s, expected F32, F16, BF16",
                     e->name, e->dtype);
}

enum status safetensors_find(const struct safetensors *st, struct host_tensor *out,
                             const char *name, int rows, int cols, struct error *err) {
    for (int i = 0; i < st->n_shards; i++) {
        const struct shard *sh = &st->shards[i];
        const struct safetensors_entry *e = find_in(sh, name);
        if (e) {
            const void *copy = sh->copies[e - sh->table.entries];
            const enum status s =
                make_view(out, e, copy ? copy : sh->data + e->begin, rows, cols, err);
            return s ? error_prefix(err, s, "%s/%s", st->dir, sh->file) : s;
        }
    }
    char want[48];
    return error_set(err, STATUS_INVALID, "%s: tensor %s is missing, expected with the shape [%s]",
                     st->dir, name, wanted_text(want, sizeof(want), rows, cols));
}

enum status safetensors_check_header(const char *header, size_t len, size_t file_bytes,
                                     struct error *err) {
    if (len > SAFETENSORS_MAX_HEADER || file_bytes < LENGTH_BYTES + len) {
        return error_set(err, STATUS_INVALID, "a header of %zu bytes in a file of %zu", len,
                         file_bytes);
    }
    struct safetensors_table t = {0};
    const enum status s =
        safetensors_table_parse(&t, header, len, file_bytes - LENGTH_BYTES - len, "header", err);
    safetensors_table_finish(&t);
    return s;
}
