#include "tests/unit/model/folder.h"

#include "base/status.h"
#include "tests/unit/test.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void folder_init(struct folder *f) {
    snprintf(f->path, sizeof(f->path), "/tmp/berth-test-XXXXXX");
    assert_non_null(mkdtemp(f->path));
}

static FILE *open_in(const char *dir, const char *file, const char *mode) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    FILE *out = fopen(path, mode);
    if (!out) {
        fail_msg("cannot open %s", path);
    }
    return out;
}

void folder_finish(struct folder *f) {
    DIR *d = opendir(f->path);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
        }
    }
    closedir(d);
    assert_int_equal(rmdir(f->path), 0);
}

void folder_write(const struct folder *f, const char *file, const void *data, size_t len) {
    FILE *out = open_in(f->path, file, "wb");
    assert_int_equal(fwrite(data, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

void folder_write_tensors(const struct folder *f, const char *file, const char *header,
                          const void *data, size_t len) {
    FILE *out = open_in(f->path, file, "wb");
    const uint64_t n = strlen(header);
    assert_int_equal(fwrite(&n, 8, 1, out), 1);
    assert_int_equal(fwrite(header, 1, n, out), n);
    assert_int_equal(fwrite(data, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

static char *read_whole(const char *dir, const char *file, size_t *len) {
    FILE *in = open_in(dir, file, "rb");
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    *len = (size_t)ftell(in);
    rewind(in);
    char *data = xcalloc(*len, 1);
    assert_int_equal(fread(data, 1, *len, in), *len);
    fclose(in);
    return data;
}

void folder_copy(const struct folder *f, const char *from_dir, const char *file) {
    size_t len;
    char *data = read_whole(from_dir, file, &len);
    folder_write(f, file, data, len);
    free(data);
}

void folder_patch(const struct folder *f, const char *file, const char *from, const char *to) {
    size_t len;
    char *data = read_whole(f->path, file, &len);
    assert_int_equal(strlen(from), strlen(to));
    char *at = memmem(data, len, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    folder_write(f, file, data, len);
    free(data);
}
