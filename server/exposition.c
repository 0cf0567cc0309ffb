/* exposition.c - one function a line.
 * Numbers are integers all the way (nanoseconds are written as seconds with nine decimals), so no
 * locale and no rounding come in between. A json_writer is the buffer: it grows in the arena and
 * remembers that something did not fit. */
#include "server/exposition.h"

#include <stdio.h>
#include <string.h>

/* HELP escapes backslash and newline, a label's value the double quote too. A name from outside may
 * be no UTF-8, and one wrong byte would make the whole page unreadable. */
static void write_escaped(struct json_writer *w, const char *text, bool is_label) {
    for (size_t left = strlen(text); left > 0;) {
        const size_t n = json_utf8_sequence(text, left), used = n ? n : 1;
        if (*text == '\n') {
            json_write_raw(w, "\\n");
        } else {
            const bool is_special = *text == '\\' || (is_label && *text == '"');
            json_write_raw(w, is_special ? "\\" : "");
            json_write_bytes(w, n ? text : "\xEF\xBF\xBD", n ? n : 3);
        }
        text += used;
        left -= used;
    }
}

void expose_family(struct json_writer *w, const char *name, const char *type, const char *help) {
    json_write_raw(w, "# HELP ");
    json_write_raw(w, name);
    json_write_raw(w, " ");
    write_escaped(w, help, false);
    json_write_raw(w, "\n# TYPE ");
    json_write_raw(w, name);
    json_write_raw(w, " ");
    json_write_raw(w, type);
    json_write_raw(w, "\n");
}

struct number {
    char text[40];
};
static struct number number_of(uint64_t value, enum unit unit) {
    static const struct {
        uint64_t whole; // of the unit in one
        int decimals;
    } scales[] = {[UNIT_NS_AS_SECONDS] = {1000000000, 9},
                  [UNIT_PS_AS_SECONDS] = {1000000000000, 12},
                  [UNIT_MILLIONTHS] = {1000000, 6}};
    struct number n;
    if (unit == UNIT_NONE) {
        snprintf(n.text, sizeof(n.text), "%llu", (unsigned long long)value);
    } else {
        snprintf(n.text, sizeof(n.text), "%llu.%0*llu",
                 (unsigned long long)(value / scales[unit].whole), scales[unit].decimals,
                 (unsigned long long)(value % scales[unit].whole));
    }
    return n;
}
/* A bound without its trailing zeros: 0.005, not 0.005000000. */
static struct number bound_of(int64_t value, enum unit unit) {
    struct number n = number_of((uint64_t)value, unit);
    if (unit == UNIT_NS_AS_SECONDS) {
        size_t len = strlen(n.text);
        while (n.text[len - 1] == '0' && n.text[len - 2] != '.') {
            n.text[--len] = '\0';
        }
    }
    return n;
}

static void write_label(struct json_writer *w, const char *before, const struct label *l) {
    json_write_raw(w, before);
    json_write_raw(w, l->name);
    json_write_raw(w, "=\"");
    write_escaped(w, l->value, true);
    json_write_raw(w, "\"");
}
static void write_sample(struct json_writer *w, const char *name, const char *suffix,
                         const struct labels *labels, const char *value) {
    json_write_raw(w, name);
    json_write_raw(w, suffix);
    const struct label *all[] = {&labels->first, &labels->second};
    bool any = false;
    for (size_t i = 0; i < N_ITEMS(all); i++) {
        if (all[i]->name) {
            write_label(w, any ? "," : "{", all[i]);
            any = true;
        }
    }
    json_write_raw(w, any ? "} " : " ");
    json_write_raw(w, value);
    json_write_raw(w, "\n");
}
void expose_sample(struct json_writer *w, const char *name, struct labels labels, uint64_t value,
                   enum unit unit) {
    write_sample(w, name, "", &labels, number_of(value, unit).text);
}

void expose_histogram(struct json_writer *w, const char *name, struct label label,
                      const struct histogram *h, const int64_t *bounds, int n_bounds,
                      enum unit unit) {
    struct labels labels = {label, {"le", NULL}};
    /* Ascending, each read after the one before: what is recorded meanwhile only raises later ones.
     */
    for (int i = 0; i < n_bounds; i++) {
        const struct number bound = bound_of(bounds[i], unit);
        labels.second.value = bound.text;
        const uint64_t n = histogram_count_le(h, bounds[i]);
        write_sample(w, name, "_bucket", &labels, number_of(n, UNIT_NONE).text);
    }
    const struct number all = number_of(histogram_count_le(h, INT64_MAX), UNIT_NONE);
    const uint64_t sum = atomic_load_explicit(&h->sum, memory_order_relaxed);
    labels.second.value = "+Inf";
    write_sample(w, name, "_bucket", &labels, all.text);
    labels.second.name = NULL;
    write_sample(w, name, "_sum", &labels, number_of(sum, unit).text);
    write_sample(w, name, "_count", &labels, all.text);
}
