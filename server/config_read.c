/* config_read.c - a JSON file with comments over a config.
 * Comments become spaces in place, newlines stay: so an offset in what cJSON reads is an offset in
 * the file. cJSON's nodes do not know where they stood; but a walk over the tree meets the keys in
 * the order of the text, so the n-th key of the walk is the n-th key of a scan, and that gives the
 * line. The scan also bounds the nesting, before cJSON recurses. */
#include "server/config_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/json.h"
#include "server/nearest.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_NESTING = 8, SCRATCH_BYTES = 64 << 20 };

struct source {
    const char *name;
    char *text; // owned; comments blanked, ends in NUL
    cJSON *root;
};

static int line_of(const char *text, size_t offset) {
    int line = 1;
    for (size_t i = 0; i < offset && text[i]; i++) {
        line += text[i] == '\n';
    }
    return line;
}
/* The offset after the string that begins at `i`. */
static size_t skip_string(const char *text, size_t i) {
    for (i++; text[i] && text[i] != '"'; i++) {
        i += text[i] == '\\' && text[i + 1];
    }
    return text[i] ? i + 1 : i;
}
static size_t blank_line_comment(char *text, size_t i) {
    for (; text[i] && text[i] != '\n'; i++) {
        text[i] = ' ';
    }
    return i;
}
/* The offset after the comment; the text's end, with *open set, when it is never closed. */
static size_t blank_block_comment(char *text, size_t i, bool *open) {
    const char *end = strstr(text + i + 2, "*/");
    const size_t stop = end ? (size_t)(end - text) + 2 : i + strlen(text + i);
    *open = !end;
    for (; i < stop; i++) {
        text[i] = text[i] == '\n' ? '\n' : ' ';
    }
    return stop;
}
static enum status blank_comments(const struct source *src, struct error *err) {
    char *text = src->text;
    int depth = 0;
    for (size_t i = 0; text[i];) {
        const size_t start = i;
        bool open = false;
        if (text[i] == '"') {
            i = skip_string(text, i);
        } else if (text[i] == '/' && text[i + 1] == '/') {
            i = blank_line_comment(text, i);
        } else if (text[i] == '/' && text[i + 1] == '*') {
            i = blank_block_comment(text, i, &open);
        } else {
            depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
            i++;
        }
        if (open || depth > MAX_NESTING) {
            return error_set(err, STATUS_INVALID, "%s:%d: %s", src->name, line_of(text, start),
                             open ? "a comment that never ends" : "nested too deeply");
        }
    }
    return STATUS_OK;
}

/* The node after `n` in the order of the text, parents first. Depth is bounded, so is the stack. */
struct walk {
    const cJSON *at[MAX_NESTING + 2];
    int depth;
};
static const cJSON *walk_next(struct walk *w) {
    const cJSON *n = w->at[w->depth];
    if (n->child) {
        w->at[++w->depth] = n->child;
        return n->child;
    }
    while (w->depth > 0 && !w->at[w->depth]->next) {
        w->depth--;
    }
    if (w->depth == 0) {
        return NULL;
    }
    w->at[w->depth] = w->at[w->depth]->next;
    return w->at[w->depth];
}
/* How many keys the text has before and at `node` (a node without a name: at the one before). */
static int key_number(const cJSON *root, const cJSON *node) {
    struct walk w = {.at = {root}};
    int n = 0;
    for (const cJSON *at = root; at && at != node; at = walk_next(&w)) {
        n += at->string != NULL;
    }
    return n + (node->string != NULL);
}
static size_t key_offset(const char *text, int number) {
    size_t last = 0;
    for (size_t i = 0; text[i] && number > 0;) {
        if (text[i] != '"') {
            i++;
            continue;
        }
        const size_t start = i;
        i = skip_string(text, i);
        i += strspn(text + i, " \t\r\n");
        if (text[i] == ':') {
            last = start, number--;
        }
    }
    return last;
}
static int line_of_node(const struct source *src, const cJSON *node) {
    return line_of(src->text, key_offset(src->text, key_number(src->root, node)));
}
/* Puts "file:line: " before the reason. */
static enum status at_node(const struct source *src, const cJSON *node, enum status s,
                           struct error *err) {
    return error_prefix(err, s, "%s:%d", src->name, line_of_node(src, node));
}

static bool is_repeated(const cJSON *object, const cJSON *node) {
    const cJSON *n = object->child;
    while (n != node && strcmp(n->string, node->string)) {
        n = n->next;
    }
    return n != node;
}
static enum status apply_value(const struct source *src, struct config *c, const cJSON *section,
                               const cJSON *value, struct error *err) {
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
    } else if (is_repeated(section, value)) {
        status = error_set(err, STATUS_INVALID, "%s stands twice", key);
    } else {
        status = setting_set_json(s, c, value, &where, err);
    }
    return status ? at_node(src, where, status, err) : STATUS_OK;
}
static bool is_section(const char *name) {
    for (int i = 0; i < config_n_settings; i++) {
        if (setting_in_section(&config_settings[i], name)) {
            return true;
        }
    }
    return false;
}
static enum status check_section(const struct source *src, const cJSON *section,
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
    } else if (is_repeated(src->root, section)) {
        s = error_set(err, STATUS_INVALID, "%s stands twice", section->string);
    }
    return s ? at_node(src, section, s, err) : STATUS_OK;
}
static enum status apply_tree(const struct source *src, struct config *c, struct error *err) {
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

static enum status syntax_error(const struct source *src, const char *at, struct error *err) {
    const size_t offset = (size_t)(at - src->text);
    const char *line = at;
    while (line > src->text && line[-1] != '\n') {
        line--;
    }
    return error_set(err, STATUS_INVALID, "%s:%d:%d: not JSON from here on: \"%.20s\"", src->name,
                     line_of(src->text, offset), (int)(at - line) + 1, at);
}
/* What cJSON lets pass: invalid UTF-8, 0080, control characters in strings. */
static enum status check_strict(const struct source *src, struct error *err) {
    struct arena scratch = {.data = NULL};
    enum status s = arena_init(&scratch, SCRATCH_BYTES, err);
    if (!s) {
        s = json_check(src->text, strlen(src->text), &scratch, err);
    }
    arena_finish(&scratch);
    return s ? error_prefix(err, s, "%s", src->name) : STATUS_OK;
}
enum status config_read_text(struct config *c, const char *bytes, size_t len, const char *name,
                             struct error *err) {
    struct source src = {.name = name, .text = xcalloc(len + 1, 1)};
    memcpy(src.text, bytes, len);
    struct config next = *c;
    enum status s = STATUS_OK;
    if (memchr(bytes, 0, len)) {
        s = error_set(err, STATUS_INVALID, "%s:%d: a zero byte", name,
                      line_of(src.text, strlen(src.text)));
        goto out;
    }
    s = blank_comments(&src, err);
    if (s) {
        goto out;
    }
    const char *end = src.text;
    src.root = cJSON_ParseWithOpts(src.text, &end, 1);
    s = src.root ? apply_tree(&src, &next, err) : syntax_error(&src, end, err);
    if (!s) {
        s = check_strict(&src, err);
    }
    if (!s) {
        *c = next; // all of the file or nothing
    }
out:
    cJSON_Delete(src.root);
    free(src.text);
    return s;
}

static enum status read_whole(int fd, char *bytes, size_t size, const char *path,
                              struct error *err) {
    for (size_t n = 0; n < size;) {
        const ssize_t got = read(fd, bytes + n, size - n);
        if (got <= 0) {
            return error_set(err, STATUS_IO, "%s: %s", path,
                             got ? strerror(errno) : "it became shorter while it was read");
        }
        n += (size_t)got;
    }
    return STATUS_OK;
}
enum status config_read_file(struct config *c, const char *path, struct error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe waits for nobody
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        const enum status s = error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return s;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE_BYTES) {
        close(fd);
        return error_set(err, STATUS_INVALID, "%s: no regular file of at most %d bytes", path,
                         MAX_FILE_BYTES);
    }
    char *bytes = xcalloc((size_t)st.st_size + 1, 1);
    enum status s = read_whole(fd, bytes, (size_t)st.st_size, path, err);
    if (!s) {
        s = config_read_text(c, bytes, (size_t)st.st_size, path, err);
    }
    free(bytes);
    close(fd);
    return s;
}
