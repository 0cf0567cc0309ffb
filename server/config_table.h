/* config_table.h - one row a setting: what reading, checking and printing share. For config_*.c
 * and their tests alone. */
#ifndef BERTH_SERVER_CONFIG_TABLE_H
#define BERTH_SERVER_CONFIG_TABLE_H
#include "server/config.h"
#include <cjson/cJSON.h>

enum setting_kind {
    SETTING_INT,
    SETTING_INT64,
    SETTING_DOUBLE,
    SETTING_BOOL,
    SETTING_STRING, // char[size]
    SETTING_CHOICE, // char[size], one of `choices`
    SETTING_ENUM,   // an enum whose values index `choices`
    SETTING_BUCKETS,
};
struct setting {
    const char *key;  // "server.port"
    const char *unit; // "ms"; "" where there is none
    const char *text; // its default, as it would stand on the command line
    const char *effect;
    enum setting_kind kind;
    size_t offset, size; // of the field in struct config
    double min, max;     // of a number
    const char *const *choices;
    int n_choices;
};
extern const struct setting config_settings[];
extern const int config_n_settings;

const struct setting *setting_find(const char *key);    // by its full key; NULL: none
const char *setting_name(const struct setting *s);      // the part after the dot
size_t setting_section_length(const struct setting *s); // of the part before it
bool setting_in_section(const struct setting *s, const char *section);
/* "an integer, 0 to 65535", "one of none, padded, ..." */
void setting_describe(const struct setting *s, char *out, size_t size);
void *setting_field(const struct setting *s, struct config *c);

/* Puts a value into its field. Errors: STATUS_INVALID with key, value and what is allowed, and then
 * *where is the node of the tree that is wrong; the field is as before. */
MUST_CHECK enum status setting_set_json(const struct setting *s, struct config *c,
                                        const cJSON *value, const cJSON **where, struct error *err);
MUST_CHECK enum status setting_set_text(const struct setting *s, struct config *c, const char *text,
                                        struct error *err);
/* The same for batching.buckets alone. */
MUST_CHECK enum status buckets_set_json(struct config *c, const cJSON *value, const cJSON **where,
                                        struct error *err);

/* Likewise for the part before the dot; written to `out`, and given back. */
const char *config_nearest_section(const char *name, char *out, size_t size);
#endif
