/* json_file.c - reading files whole, and cJSON behind one strict door.
 * cJSON stops at the end of the first value and takes a NUL for the end of the text; here what
 * follows the object must be white space. It is given a copy with a NUL at its end, because older
 * releases may look one byte beyond the length that they were told. */
#include "model/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status read_all(char *text, size_t len, int fd, const char *path, struct error *err) {
    for (size_t at = 0; at < len;) {
        const ssize_t n = read(fd, text + at, len - at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set(err, STATUS_IO, "%s: %s", path,
                             n ? strerror(errno) : "ends before its size");
        }
        at += (size_t)n;
    }
    return STATUS_OK;
}

enum status file_read(char **text, size_t *len, const char *path, size_t max_bytes,
                      struct error *err) {
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe waits for nobody
    if (fd < 0 || fstat(fd, &st)) {
        const int e = errno;
        if (fd >= 0) {
            close(fd);
        }
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(e));
    }
    enum status s = STATUS_OK;
    if (!S_ISREG(st.st_mode)) {
        s = error_set(err, STATUS_IO, "%s: not a regular file", path);
    } else if ((uint64_t)st.st_size > max_bytes) {
        s = error_set(err, STATUS_TOO_LONG, "%s: %lld bytes, at most %zu are read", path,
                      (long long)st.st_size, max_bytes);
    } else {
        char *data = xcalloc((size_t)st.st_size + 1, 1);
        s = read_all(data, (size_t)st.st_size, fd, path, err);
        if (s) {
            free(data);
        } else {
            *text = data;
            *len = (size_t)st.st_size;
        }
    }
    close(fd);
    return s;
}

static enum status check_parsed(const cJSON *root, const char *end, const char *text, size_t len,
                                const char *name, struct error *err) {
    const char *const stop = text + len;
    if (!root) {
        return error_set(err, STATUS_INVALID, "%s: not valid JSON near byte %zu", name,
                         end ? (size_t)(end - text) : 0);
    }
    if (!cJSON_IsObject(root)) {
        return error_set(err, STATUS_INVALID, "%s: the top level is not a JSON object", name);
    }
    while (end < stop && strchr(" \t\r\n", *end) && *end) {
        end++;
    }
    if (end < stop) {
        return error_set(err, STATUS_INVALID, "%s: byte %zu is beyond the end of the JSON object",
                         name, (size_t)(end - text));
    }
    return STATUS_OK;
}

enum status json_parse_object(cJSON **out, const char *text, size_t len, const char *name,
                              struct error *err) {
    char *copy = xcalloc(len + 1, 1);
    memcpy(copy, text, len);
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(copy, len + 1, &end, 0);
    const enum status s = check_parsed(root, end, copy, len, name, err);
    free(copy);
    if (s) {
        cJSON_Delete(root);
        return s;
    }
    *out = root;
    return STATUS_OK;
}

const char *json_describe(char *out, size_t size, const cJSON *item) {
    if (!item) {
        snprintf(out, size, "nothing");
    } else if (cJSON_IsString(item)) {
        snprintf(out, size, "\"%.60s\"", item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        snprintf(out, size, "%.10g", item->valuedouble);
    } else if (cJSON_IsBool(item)) {
        snprintf(out, size, "%s", cJSON_IsTrue(item) ? "true" : "false");
    } else {
        snprintf(out, size, "%s",
                 cJSON_IsNull(item)     ? "null"
                 : cJSON_IsArray(item)  ? "an array"
                 : cJSON_IsObject(item) ? "an object"
                                        : "something else");
    }
    for (char *p = out; *p; p++) { // one line, whatever the file holds
        if ((unsigned char)*p < ' ' || *p == 0x7f) {
            *p = '?';
        }
    }
    return out;
}

bool json_is_integer(const cJSON *item, double lo, double hi) {
    return cJSON_IsNumber(item) && item->valuedouble >= lo && item->valuedouble <= hi &&
           floor(item->valuedouble) == item->valuedouble;
}
