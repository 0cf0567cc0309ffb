/* open.c - finds and reads a model's tokenizer files. tokenizer.json wins, as it says everything in
 * one place; without one, vocab.txt and what lies beside it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer/spec.h"

enum { MAX_FILE_BYTES = 512 << 20 };

struct file {
    char *bytes; // owns; NULL: there is no such file
    size_t len;
};

static enum status read_all(struct file *f, int fd, size_t len, const char *path,
                            struct error *err) {
    f->bytes = xcalloc(len + 1, 1);
    while (f->len < len) {
        const ssize_t n = read(fd, f->bytes + f->len, len - f->len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
        }
        if (n == 0) {
            return error_set(err, STATUS_IO, "%s: it became shorter while it was read", path);
        }
        f->len += (size_t)n;
    }
    return STATUS_OK;
}

/* A file that is not there leaves `f` empty, and is no error here. A link to nothing is one: with
 * tokenizer.json gone that way, vocab.txt alone might mean other ids. */
static enum status read_file(struct file *f, const char *dir, const char *name, struct error *err) {
    char path[4096];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe waits for nobody
    if (fd < 0) {
        const int e = errno;
        return e == ENOENT && lstat(path, &st)
                   ? STATUS_OK
                   : error_set(err, STATUS_IO, "%s: %s%s", path, strerror(e),
                               e == ENOENT ? " (a link to nothing)" : "");
    }
    enum status s = STATUS_OK;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        s = error_set(err, STATUS_IO, "%s: not a regular file", path);
    } else if (st.st_size > MAX_FILE_BYTES) {
        s = error_set(err, STATUS_INVALID, "%s: %lld bytes, expected at most %d", path,
                      (long long)st.st_size, MAX_FILE_BYTES);
    } else {
        s = read_all(f, fd, (size_t)st.st_size, path, err);
    }
    close(fd);
    return s;
}

enum { TOKENIZER_JSON, VOCAB_TXT, CONFIG_JSON, SPECIALS_JSON, N_FILES };

enum status tokenizer_open(struct tokenizer **out, const char *dir, struct error *err) {
    static const char *const names[N_FILES] = {"tokenizer.json", "vocab.txt",
                                               "tokenizer_config.json", "special_tokens_map.json"};
    struct file files[N_FILES] = {{NULL, 0}};
    struct text texts[N_FILES];
    enum status s = STATUS_OK;
    for (int i = 0; i < N_FILES && !s; i++) {
        s = read_file(&files[i], dir, names[i], err);
        texts[i] = (struct text){files[i].bytes, files[i].len};
    }
    const struct text *config = files[CONFIG_JSON].bytes ? &texts[CONFIG_JSON] : NULL;
    const struct text *map = files[SPECIALS_JSON].bytes ? &texts[SPECIALS_JSON] : NULL;
    if (!s && files[TOKENIZER_JSON].bytes) {
        s = tokenizer_from_json(out, &texts[TOKENIZER_JSON], config, dir, err);
    } else if (!s && files[VOCAB_TXT].bytes) {
        s = tokenizer_from_vocab(out, &texts[VOCAB_TXT], config, map, dir, err);
    } else if (!s) {
        s = error_set(err, STATUS_IO, "%s: expected tokenizer.json or vocab.txt, found neither",
                      dir);
    }
    for (int i = 0; i < N_FILES; i++) {
        free(files[i].bytes);
    }
    return s;
}
