/* commented_json.c - comments blanked, then cJSON, then a strict check of the same bytes.
 * Comments become spaces in place, newlines stay: so an offset in what cJSON reads is an offset in
 * the file. cJSON's nodes do not know where they stood; but a walk over the tree meets the keys in
 * the order of the text, so the n-th key of the walk is the n-th key of a scan, and that gives the
 * line. The scan also bounds the nesting, before cJSON recurses. */
#include "server/commented_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/json.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_NESTING = 8, SCRATCH_BYTES = 64 << 20 };

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
static enum status blank_comments(const struct commented_json *j, struct error *err) {
    char *text = j->text;
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
            return error_set(err, STATUS_INVALID, "%s:%d: %s", j->name, line_of(text, start),
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
/* How many keys the text has before and at `node` (one without a name: at its first member, or else
 * at the key before it). */
static int key_number(const cJSON *root, const cJSON *node) {
    node = !node->string && node->child && node->child->string ? node->child : node;
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
int commented_json_line(const struct commented_json *j, const cJSON *node) {
    return line_of(j->text, key_offset(j->text, key_number(j->root, node)));
}
enum status commented_json_at(const struct commented_json *j, const cJSON *node, enum status s,
                              struct error *err) {
    return error_prefix(err, s, "%s:%d", j->name, commented_json_line(j, node));
}

bool commented_json_is_repeated(const cJSON *object, const cJSON *member) {
    const cJSON *n = object->child;
    while (n != member && strcmp(n->string, member->string)) {
        n = n->next;
    }
    return n != member;
}

static enum status syntax_error(const struct commented_json *j, const char *at, struct error *err) {
    const size_t offset = (size_t)(at - j->text);
    const char *line = at;
    while (line > j->text && line[-1] != '\n') {
        line--;
    }
    const int n = line_of(j->text, offset), column = (int)(at - line) + 1;
    return j->is_secret
               ? error_set(err, STATUS_INVALID, "%s:%d:%d: not JSON from here on", j->name, n,
                           column)
               : error_set(err, STATUS_INVALID, "%s:%d:%d: not JSON from here on: \"%.20s\"",
                           j->name, n, column, at);
}
/* What cJSON lets pass: invalid UTF-8, 0080, control characters in strings. */
enum status commented_json_check(const struct commented_json *j, struct error *err) {
    struct arena scratch = {.data = NULL};
    struct error why = {.text = ""};
    enum status s = arena_init(&scratch, SCRATCH_BYTES, err);
    if (s) {
        return s;
    }
    s = json_check(j->text, j->len, &scratch, &why);
    arena_finish(&scratch);
    if (!s) {
        return STATUS_OK;
    }
    why.text[j->is_secret ? strcspn(why.text, ":") : sizeof(why.text) - 1] = '\0'; // up to the byte
    return error_set(err, s, "%s: %s", j->name, why.text);
}
enum status commented_json_read(struct commented_json *j, const char *bytes, size_t len,
                                struct error *err) {
    j->text = xcalloc(len + 1, 1);
    j->len = len;
    memcpy(j->text, bytes, len);
    if (memchr(bytes, 0, len)) {
        return error_set(err, STATUS_INVALID, "%s:%d: a zero byte", j->name,
                         line_of(j->text, strlen(j->text)));
    }
    const enum status s = blank_comments(j, err);
    if (s) {
        return s;
    }
    const char *end = j->text;
    j->root = cJSON_ParseWithOpts(j->text, &end, 1);
    return j->root ? STATUS_OK : syntax_error(j, end, err);
}

static enum status read_whole(int fd, char *bytes, size_t size, const char *name,
                              struct error *err) {
    for (size_t n = 0; n < size;) {
        const ssize_t got = read(fd, bytes + n, size - n);
        if (got <= 0) {
            return error_set(err, STATUS_IO, "%s: %s", name,
                             got ? strerror(errno) : "it became shorter while it was read");
        }
        n += (size_t)got;
    }
    return STATUS_OK;
}
enum status commented_json_read_fd(struct commented_json *j, int fd, struct error *err) {
    struct stat st;
    if (fstat(fd, &st)) {
        return error_set(err, STATUS_IO, "%s: %s", j->name, strerror(errno));
    }
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE_BYTES) {
        return error_set(err, STATUS_INVALID, "%s: no regular file of at most %d bytes", j->name,
                         MAX_FILE_BYTES);
    }
    const size_t size = (size_t)st.st_size;
    char *bytes = xcalloc(size + 1, 1);
    enum status s = read_whole(fd, bytes, size, j->name, err);
    if (!s) {
        s = commented_json_read(j, bytes, size, err);
    }
    explicit_bzero(bytes, size);
    free(bytes);
    return s;
}

static void wipe_strings(cJSON *root) {
    struct walk w = {.at = {root}};
    for (const cJSON *n = root; n; n = walk_next(&w)) {
        if (cJSON_IsString(n)) {
            explicit_bzero(n->valuestring, strlen(n->valuestring));
        }
    }
}
void commented_json_finish(struct commented_json *j) {
    if (j->text && j->is_secret) {
        explicit_bzero(j->text, j->len);
    }
    if (j->root && j->is_secret) {
        wipe_strings(j->root);
    }
    cJSON_Delete(j->root);
    free(j->text);
    j->root = NULL;
    j->text = NULL;
}
