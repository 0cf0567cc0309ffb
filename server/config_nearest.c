/* config_nearest.c - the known key that a wrong one was most likely meant to be.
 * Distance is counted in edits, to the whole key and to its last part, whichever is nearer, so that
 * both a slip of the finger and a key in the wrong section find their way; a key of another section
 * has to be nearer by some edits. */
#include "server/config_table.h"

#include <string.h>

#include "server/nearest.h"

enum { OTHER_SECTION = 3 };

const char *config_nearest(const char *key) {
    const char *dot = strrchr(key, '.'), *best = config_settings[0].key;
    int best_distance = 2 * EDIT_MAX_LENGTH;
    for (int i = 0; i < config_n_settings; i++) {
        const int whole = edit_distance(key, config_settings[i].key);
        const int last = edit_distance(dot ? dot + 1 : key, setting_name(&config_settings[i]));
        const bool is_other = dot && strncmp(key, config_settings[i].key, (size_t)(dot - key) + 1);
        const int d = (whole < last ? whole : last) + (is_other ? OTHER_SECTION : 0);
        if (d < best_distance) {
            best = config_settings[i].key, best_distance = d;
        }
    }
    return best;
}
const char *config_nearest_section(const char *name, char *out, size_t size) {
    int best_distance = 2 * EDIT_MAX_LENGTH;
    for (int i = 0; i < config_n_settings; i++) {
        char section[EDIT_MAX_LENGTH];
        snprintf(section, sizeof(section), "%.*s", (int)setting_section_length(&config_settings[i]),
                 config_settings[i].key);
        const int d = edit_distance(name, section);
        if (d < best_distance) {
            snprintf(out, size, "%s", section);
            best_distance = d;
        }
    }
    return out;
}
