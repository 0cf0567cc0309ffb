/* model_config.c - fuzzes config.json; what is accepted must be a network that can be built. */
#include "model/config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_sound(const struct model_config *c) {
    int labels = c->n_labels >= 1;
    for (int i = 0; i < c->n_labels; i++) {
        labels = labels && c->labels[i];
    }
    return labels && c->architecture && c->name_or_path && c->vocab_size > 0 && c->n_layers > 0 &&
           c->n_heads > 0 && c->hidden > 0 && c->hidden % c->n_heads == 0 && c->intermediate > 0 &&
           c->max_position > 0 && c->type_vocab_size > 0 && c->layer_norm_eps >= 0 &&
           c->pad_token_id >= 0 && c->pad_token_id < c->vocab_size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model_config c;
    struct error err;
    const enum status s = model_config_parse(&c, (const char *)data, size, "config.json", &err);
    if (s == STATUS_OK) {
        if (!is_sound(&c)) {
            abort();
        }
        model_config_finish(&c);
    } else if (s != STATUS_INVALID || !memchr(err.text, 0, sizeof(err.text))) {
        abort();
    }
    return 0;
}
