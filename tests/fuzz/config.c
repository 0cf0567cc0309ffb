/* config.c - any bytes as a config file: taken whole or refused with a reason, and what is taken
 * prints as JSON that reads back to the same settings. */
#include "server/config.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *printed(const struct config *c) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert(out);
    config_print(out, c);
    fclose(out);
    return text;
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config c, back;
    struct error err = {.text = ""};
    config_defaults(&c);
    if (config_read_text(&c, (const char *)data, size, "fuzz", &err)) {
        assert(!strncmp(err.text, "fuzz:", 5));
        return 0;
    }
    char *first = printed(&c);
    config_defaults(&back);
    const enum status s = config_read_text(&back, first, strlen(first), "printed", &err);
    assert(!s);
    char *second = printed(&back);
    assert(!strcmp(first, second));
    struct policy_config p;
    if (!config_check(&c, NULL)) {
        assert(!config_policy(&p, &c, c.batching.buckets[c.batching.n_buckets - 1].up_to, &err));
    }
    free(first);
    free(second);
    return 0;
}
