/* config_read.c - a JSON file with comments over a config.
 * The file is read whole (commented_json.c); then each value finds its row in the table. All of a
 * file is taken or nothing of it. */
#include "server/config_table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "server/commented_json.h"
#include "server/nearest.h"

/* A bound may be wrong for the model, which is not known yet. */
static void note_origin(struct config *c, const struct commented_json *src, const cJSON *list) {
    int i = 0;
    const cJSON *bucket;
    snprintf(c->origin.file, sizeof(c->origin.file), "%s", src->name);
    cJSON_ArrayForEach (bucket, list) {
        c->origin.bucket_lines[i++] = commented_json_line(src, bucket);
    }
}
static enum status apply_value(const struct commented_json *src, struct config *c,
                               const cJSON *section, const cJSON *value, struct error *err) {
    char key[160];
    snprintf(key, sizeof(key), "%.70s.%.70s", section->string, value->string);
    const struct setting *s = setting_find(key);
    enum status status;
    const cJSON *where = value;
    if (!s) {
        status = error_set(err, STATUS_INVALID,
                           "unknown key \"%s\"; the nearest known one is "
                           "\"%s\"",
                           key, config_nearest(key));
    } else if (commented_json_is_repeated(section, value)) {
        status = error_set(err, STATUS_INVALID, "%s stands twice", key);
    } else {
        status = setting_set_json(s, c, value, &where, err);
    }
    if (!status && s->kind == SETTING_BUCKETS) {
        note_origin(c, src, value);
    }
    return status ? commented_json_at(src, where, status, err) : STATUS_OK;
}
static bool is_section(const char *name) {
    for (int i = 0; i < config_n_settings; i++) {
        if (setting_in_section(&config_settings[i], name)) {
            return true;
        }
    }
    return false;
}
static enum status check_section(const struct commented_json *src, const cJSON *section,
                                 struct error *err) {
    char nearest[EDIT_MAX_LENGTH];
    enum status s = STATUS_OK;
    if (!is_section(section->string)) {
        s = error_set(err, STATUS_INVALID, "unknown key \"%.60s\"; the nearest known one is \"%s\"",
                      section->string,
                      config_nearest_section(section->string, nearest, sizeof(nearest)));
    } else if (!cJSON_IsObject(section)) {
        s = error_set(err, STATUS_INVALID,
                      "%s: no object, where one like {\"%s\": ...} is "
                      "expected",
                      section->string, section->string);
    } else if (commented_json_is_repeated(src->root, section)) {
        s = error_set(err, STATUS_INVALID, "%s stands twice", section->string);
    }
    return s ? commented_json_at(src, section, s, err) : STATUS_OK;
}
static enum status apply_tree(const struct commented_json *src, struct config *c,
                              struct error *err) {
    if (!cJSON_IsObject(src->root)) {
        return error_set(err, STATUS_INVALID, "%s:1: an object, {...}, is expected", src->name);
    }
    const cJSON *section, *value;
    cJSON_ArrayForEach (section, src->root) {
        enum status s = check_section(src, section, err);
        if (s) {
            return s;
        }
        cJSON_ArrayForEach (value, section) {
            s = apply_value(src, c, section, value, err);
            if (s) {
                return s;
            }
        }
    }
    return STATUS_OK;
}

static enum status apply(const struct commented_json *src, struct config *c, enum status s,
                         struct error *err) {
    struct config next = *c;
    if (!s) {
        s = apply_tree(src, &next, err);
    }
    if (!s) {
        s = commented_json_check(src, err);
    }
    if (!s) {
        *c = next; // all of the file or nothing
    }
    return s;
}
enum status config_read_text(struct config *c, const char *bytes, size_t len, const char *name,
                             struct error *err) {
    struct commented_json src = {.name = name};
    const enum status s = apply(&src, c, commented_json_read(&src, bytes, len, err), err);
    commented_json_finish(&src);
    return s;
}
enum status config_read_file(struct config *c, const char *path, struct error *err) {
    struct commented_json src = {.name = path};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe waits for nobody
    if (fd < 0) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    const enum status s = apply(&src, c, commented_json_read_fd(&src, fd, err), err);
    commented_json_finish(&src);
    close(fd);
    return s;
}
