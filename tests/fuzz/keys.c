/* keys.c - any bytes as a file of keys: taken whole, with names that are told apart, or refused
 * with a reason that begins with the file and a line. */
#include "server/keys.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}
static void require_sound(struct keys *k) {
    const int n = keys_count(k);
    require(n >= 1 && n <= POLICY_MAX_KEYS);
    for (int i = 0; i < n; i++) {
        struct key a, b;
        keys_at(k, i, &a);
        require(a.index == i && a.name[0] && strlen(a.name) < KEY_NAME_BYTES);
        require(a.weight >= 1 && a.requests_per_second >= 0 && a.burst >= 1);
        require(a.priority >= 0 && a.priority < N_PRIORITIES);
        require(keys_take(k, i, 1) == 0);
        for (int j = 0; j < i; j++) {
            keys_at(k, j, &b);
            require(strcmp(a.name, b.name) != 0);
        }
    }
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool ready;
    struct keys *k = NULL;
    struct key key;
    struct error err = {.text = ""};
    if (!ready) {
        json_init();
        ready = true;
    }
    if (keys_read(&k, (const char *)data, size, "fuzz", &err)) {
        require(!k && !strncmp(err.text, "fuzz:", 5));
        return 0;
    }
    require_sound(k);
    keys_find(k, (const char *)data, size, &key);
    keys_close(k);
    return 0;
}
