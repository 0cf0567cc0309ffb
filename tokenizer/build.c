/* build.c - turns what a model's files say (struct tokenizer_spec) into a tokenizer.
 * The rules for added tokens' ids are the reference's: an added token that is in the vocabulary has
 * its id there, others follow behind the vocabulary in order, whatever id the file gives. Where the
 * file disagrees, the reference's answer is taken and logged, as it is what the model was trained
 * with. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tokenizer/spec.h"

int32_t spec_find(const struct tokenizer_spec *spec, const char *token) {
    int32_t id = -1;
    for (size_t i = 0; i < spec->n_vocab; i++) { // the last of equal entries counts
        if (!strcmp(spec->vocab[i].text, token)) {
            id = spec->vocab[i].id;
        }
    }
    return id;
}

/* The token of that content, to be filled; a later one of the same content replaces the earlier. */
struct added_token *spec_add_token(struct tokenizer_spec *spec, const char *content) {
    for (int i = 0; i < spec->n_added; i++) {
        if (!strcmp(spec->added[i].content, content)) {
            char *same = spec->added[i].content;
            spec->added[i] = (struct added_token){.content = same, .id = -1};
            return &spec->added[i];
        }
    }
    if (spec->n_added == spec->added_room) {
        const int room = spec->added_room * 2 + 16;
        struct added_token *added = xcalloc((size_t)room, sizeof(*added));
        if (spec->n_added) {
            memcpy(added, spec->added, (size_t)spec->n_added * sizeof(*added));
        }
        free(spec->added);
        spec->added = added;
        spec->added_room = room;
    }
    struct added_token *token = &spec->added[spec->n_added++];
    *token = (struct added_token){.content = xstrdup(content), .id = -1};
    return token;
}

static void template_finish(struct template *t) {
    free(t->parts);
    *t = (struct template){.parts = NULL};
}

void spec_finish(struct tokenizer_spec *spec) {
    for (int i = 0; i < spec->n_added; i++) {
        free(spec->added[i].content);
    }
    free(spec->added);
    free(spec->pool);
    free(spec->vocab);
    free(spec->unk_token);
    free(spec->prefix);
    free(spec->pad_token);
    template_finish(&spec->single);
    template_finish(&spec->pair);
    *spec = (struct tokenizer_spec){.pool = NULL};
}

static void resolve_ids(struct tokenizer *t, int32_t next, const char *file) {
    for (int i = 0; i < t->n_added; i++) {
        struct added_token *a = &t->added[i];
        const int32_t said = a->id;
        a->id = trie_find(&t->vocab, a->content, strlen(a->content));
        if (a->id < 0) {
            a->id = next++;
        }
        if (said >= 0 && said != a->id) {
            log_event(LOG_WARN, "added_token_id", LOG_STR("file", file),
                      LOG_STR("token", a->content), LOG_INT("file_says", said),
                      LOG_INT("used", a->id));
        }
    }
}

static void index_tokens(struct tokenizer *t, const struct tokenizer_spec *spec) {
    for (size_t i = 0; i < spec->n_vocab; i++) {
        t->n_tokens = spec->vocab[i].id >= t->n_tokens ? spec->vocab[i].id + 1 : t->n_tokens;
    }
    for (int i = 0; i < t->n_added; i++) {
        t->n_tokens = t->added[i].id >= t->n_tokens ? t->added[i].id + 1 : t->n_tokens;
    }
    t->tokens = xcalloc((size_t)t->n_tokens, sizeof(*t->tokens));
    for (size_t i = 0; i < spec->n_vocab; i++) {
        t->tokens[spec->vocab[i].id] = t->pool + (spec->vocab[i].text - spec->pool);
    }
    for (int i = 0; i < t->n_added; i++) {
        t->tokens[t->added[i].id] = t->added[i].content;
    }
}

/* Returns how many different entries there are. */
static int32_t build_trie(struct tokenizer *t, const struct tokenizer_spec *spec) {
    struct trie_entry *entries = xcalloc(spec->n_vocab, sizeof(*entries));
    size_t n = 0;
    for (size_t i = 0; i < spec->n_vocab; i++) {
        const size_t len = strlen(spec->vocab[i].text);
        if (len) { // an empty line of vocab.txt takes an id, and never matches
            entries[n++] = (struct trie_entry){
                .bytes = spec->vocab[i].text, .len = len, .id = spec->vocab[i].id};
        }
    }
    trie_init(&t->vocab, entries, n);
    int32_t n_different = n < spec->n_vocab; // the empty one
    for (size_t i = 0; i < n; i++) {         // sorted now
        n_different += !i || strcmp(entries[i].bytes, entries[i - 1].bytes) != 0;
    }
    free(entries);
    t->continuing = trie_walk(&t->vocab, TRIE_ROOT, spec->prefix, strlen(spec->prefix));
    return n_different;
}

static void build_ascii(struct tokenizer *t) {
    for (uint32_t b = 0; b < 256; b++) {
        const uint32_t e = entry_of(&t->chars, b);
        const enum char_kind kind = entry_kind(e);
        const bool easy = b < 128 && kind <= CHAR_PUNCT && entry_becomes(e, b) < 128;
        t->ascii_kind[b] = easy ? (uint8_t)kind : ASCII_HARD;
        t->ascii_lower[b] = (uint8_t)(easy ? entry_becomes(e, b) : b);
    }
}

/* A special token that the model has no row for would read past the embeddings. */
static enum status check_template(const struct tokenizer *t, struct template *tmpl,
                                  const char *file, struct error *err) {
    tmpl->n_special = tmpl->n_types = 0;
    for (int i = 0; i < tmpl->n_parts; i++) {
        const struct template_part *p = &tmpl->parts[i];
        tmpl->n_types = p->type_id >= tmpl->n_types ? p->type_id + 1 : tmpl->n_types;
        tmpl->n_special += p->what == PART_TOKEN;
        if (p->what == PART_TOKEN && (p->id < 0 || p->id >= t->n_tokens)) {
            return error_set(err, STATUS_INVALID,
                             "%s: post_processor: special token id %d, expected one below %d", file,
                             p->id, t->n_tokens);
        }
    }
    return STATUS_OK;
}

static int32_t find_pad(const struct tokenizer *t, const struct tokenizer_spec *spec) {
    for (int i = 0; i < t->n_tokens && spec->pad_token; i++) {
        if (t->tokens[i] && !strcmp(t->tokens[i], spec->pad_token)) {
            return i;
        }
    }
    return spec->pad_id;
}

/* Vocabulary, added tokens and templates; they become the tokenizer's own. */
static void take_over(struct tokenizer *t, struct tokenizer_spec *spec, const char *file) {
    const int32_t n_different = build_trie(t, spec);
    t->max_word_chars = spec->max_word_chars;
    t->max_length = spec->max_length;
    t->unk_id = trie_find(&t->vocab, spec->unk_token, strlen(spec->unk_token));
    t->added = spec->added;
    t->n_added = spec->n_added;
    spec->added = NULL;
    spec->n_added = spec->added_room = 0;
    resolve_ids(t, n_different, file);
    t->pool = spec->pool;
    index_tokens(t, spec); // reads spec->pool
    spec->pool = NULL;
    t->pad_id = find_pad(t, spec);
    t->single = spec->single;
    t->pair = spec->pair;
    spec->single = spec->pair = (struct template){.parts = NULL};
}

enum status tokenizer_build(struct tokenizer **out, struct tokenizer_spec *spec, const char *file,
                            struct error *err) {
    struct tokenizer *t = xcalloc(1, sizeof(*t));
    enum status s = STATUS_OK;
    take_over(t, spec, file);
    if (t->unk_id < 0) {
        s = error_set(err, STATUS_INVALID, "%s: unk_token \"%s\" is not in the vocabulary", file,
                      spec->unk_token);
    }
    s = s ? s : check_template(t, &t->single, file, err);
    s = s ? s : check_template(t, &t->pair, file, err);
    if (!s) { // the slow part, once all else is right
        charmap_init(&t->chars, spec->norm);
        build_ascii(t);
        s = added_init(t, file, err);
    }
    if (s) {
        tokenizer_close(t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

void tokenizer_close(struct tokenizer *t) {
    if (!t) {
        return;
    }
    for (int i = 0; i < t->n_added; i++) {
        free(t->added[i].content);
    }
    free(t->added);
    free(t->tokens);
    free(t->pool);
    charmap_finish(&t->chars);
    trie_finish(&t->vocab);
    added_set_finish(&t->in_source);
    added_set_finish(&t->in_normalized);
    template_finish(&t->single);
    template_finish(&t->pair);
    free(t);
}

int tokenizer_vocab_size(const struct tokenizer *t) {
    return t->n_tokens;
}
const char *tokenizer_token(const struct tokenizer *t, int32_t id) {
    return id >= 0 && id < t->n_tokens ? t->tokens[id] : NULL;
}
int tokenizer_n_special(const struct tokenizer *t, bool pair) {
    return pair ? t->pair.n_special : t->single.n_special;
}
int tokenizer_n_types(const struct tokenizer *t, bool pair) {
    return pair ? t->pair.n_types : t->single.n_types;
}
int32_t tokenizer_pad_id(const struct tokenizer *t) {
    return t->pad_id;
}
int tokenizer_max_length(const struct tokenizer *t) {
    return t->max_length;
}
