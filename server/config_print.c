/* config_print.c - a config as JSON, the commented sample, and the settings' part of --help.
 * All three are the table in its order; the sample is the first with each setting's sentence, unit
 * and bounds above it. Start-up and command line only. */
#include "server/config_table.h"

#include <assert.h>
#include <string.h>

#include "base/timing.h"

static void put_string(FILE *out, const char *s) {
    fputc('"', out);
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
    fputc('"', out);
}
static void put_bucket(FILE *out, const struct bucket_limits *b) {
    fprintf(out, "{\"up_to\": %d", b->up_to);
    if (b->max_batch_tokens) {
        fprintf(out, ", \"max_batch_tokens\": %d", b->max_batch_tokens);
    }
    if (b->max_batch_requests) {
        fprintf(out, ", \"max_batch_requests\": %d", b->max_batch_requests);
    }
    if (b->max_wait_ns >= 0) {
        fprintf(out, ", \"max_wait_ms\": %.15g", (double)b->max_wait_ns / NS_PER_MS);
    }
    fputc('}', out);
}
static void put_buckets(FILE *out, const struct config *c) {
    fputs("[\n", out);
    for (int i = 0; i < c->batching.n_buckets; i++) {
        fputs("      ", out);
        put_bucket(out, &c->batching.buckets[i]);
        fputs(i + 1 < c->batching.n_buckets ? ",\n" : "\n", out);
    }
    fputs("    ]", out);
}
static int enum_value(const void *field) {
    int v;
    memcpy(&v, field, sizeof(v));
    return v;
}
static void put_value(FILE *out, const struct setting *s, const struct config *c) {
    const void *field = (const char *)c + s->offset;
    switch (s->kind) {
    case SETTING_INT: fprintf(out, "%d", *(const int *)field); break;
    case SETTING_INT64: fprintf(out, "%lld", (long long)*(const int64_t *)field); break;
    case SETTING_DOUBLE: fprintf(out, "%.15g", *(const double *)field); break;
    case SETTING_BOOL: fputs(*(const bool *)field ? "true" : "false", out); break;
    case SETTING_STRING:
    case SETTING_CHOICE: put_string(out, field); break;
    case SETTING_ENUM: put_string(out, s->choices[enum_value(field)]); break;
    case SETTING_BUCKETS: put_buckets(out, c); break;
    }
}
static void put_comment(FILE *out, const struct setting *s) {
    char allowed[160];
    setting_describe(s, allowed, sizeof(allowed));
    fprintf(out, "    // %s\n    // Value: %s", s->effect, allowed);
    fprintf(out, "%s%s.\n", *s->unit ? "; unit: " : "", s->unit);
}
static bool same_section(const struct setting *a, const struct setting *b) {
    const size_t n = setting_section_length(a);
    return n == setting_section_length(b) && !memcmp(a->key, b->key, n);
}
static void put_json(FILE *out, const struct config *c, bool with_comments) {
    fputs("{\n", out);
    for (int i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];
        if (i == 0 || !same_section(s, s - 1)) {
            fprintf(out, "  \"%.*s\": {\n", (int)setting_section_length(s), s->key);
        }
        if (with_comments) {
            put_comment(out, s);
        }
        fprintf(out, "    \"%s\": ", setting_name(s));
        put_value(out, s, c);
        const bool is_last = i + 1 == config_n_settings;
        if (!is_last && same_section(s, s + 1)) {
            fputs(",\n", out);
        } else {
            fputs(is_last ? "\n  }\n" : "\n  },\n", out);
        }
        if (with_comments && !is_last) {
            fputc('\n', out);
        }
    }
    fputs("}\n", out);
}
void config_print(FILE *out, const struct config *c) {
    put_json(out, c, false);
}
void config_print_keys(FILE *out, const struct config *c, const char *const *keys, int n) {
    for (int i = 0; i < n; i++) {
        const struct setting *s = setting_find(keys[i]);
        assert(s); // the caller's table is wrong otherwise
        if (i == 0) {
            fprintf(out, "{\n  \"%.*s\": {\n", (int)setting_section_length(s), s->key);
        }
        fprintf(out, "    \"%s\": ", setting_name(s));
        put_value(out, s, c);
        fputs(i + 1 < n ? ",\n" : "\n  }\n}\n", out);
    }
}
void config_print_sample(FILE *out) {
    struct config c;
    config_defaults(&c);
    fputs("// Every setting of Berth with its default: berth serve MODEL_DIR --config FILE.\n"
          "// What is left out keeps its default. On the command line \"server.port\" is\n"
          "// --server.port 9000, or --port 9000, and goes before the file.\n"
          "// Printed by `berth help config`.\n",
          out);
    put_json(out, &c, true);
}

void config_print_help(FILE *out) {
    struct config defaults;
    config_defaults(&defaults);
    for (int i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];
        char allowed[160];
        setting_describe(s, allowed, sizeof(allowed));
        fprintf(out, "  --%s\n      %s\n      %s", s->key, s->effect, allowed);
        if (*s->unit) {
            fprintf(out, "; unit: %s", s->unit);
        }
        if (s->kind == SETTING_BUCKETS) {
            fprintf(out, "; default %s\n", s->text);
        } else {
            fputs("; default ", out);
            put_value(out, s, &defaults);
            fputc('\n', out);
        }
    }
}
