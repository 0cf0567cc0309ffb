/* config.h - reads tokenizer_config.json and special_tokens_map.json, and added tokens wherever
 * they stand. */
#ifndef BERTH_TOKENIZER_CONFIG_H
#define BERTH_TOKENIZER_CONFIG_H
#include "tokenizer/spec.h"
#include "tokenizer/fields.h"

/* An object with content and flags. `required`: the flags must be there; else they default to a
 * plain special token's. */
MUST_CHECK enum status added_token_read(struct tokenizer_spec *spec, const cJSON *object,
                                        bool required, struct field_at at, struct error *err);
/* model_max_length and pad_token: all that counts beside a tokenizer.json. */
MUST_CHECK enum status tokenizer_config_limits(struct tokenizer_spec *spec,
                                               const struct text *config_json, const char *dir,
                                               struct error *err);
/* Everything, for a vocab.txt that is in `spec` already; either text may be NULL. */
MUST_CHECK enum status tokenizer_config_all(struct tokenizer_spec *spec,
                                            const struct text *config_json,
                                            const struct text *map_json, const char *dir,
                                            struct error *err);
#endif
