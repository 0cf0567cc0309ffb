/* encode.c - tokens of one or two texts to an encoding: the cut, then the template.
 * Tokens are made in a piece of the arena that grows in place; the output arrays are laid out
 * behind them, moved to the piece's front and the piece is shrunk to them, so that an encoding
 * leaves nothing else in the arena. When the right end is cut, tokens beyond the limit are counted
 * but not kept. */
#include <string.h>

#include "tokenizer/internal.h"

struct part { // tokens of one text
    const struct token *tokens;
    size_t n; // made in all
    size_t keep;
};

/* Longest first: the shorter text keeps all it can, and when both must shrink they share the room;
 * an odd token goes to the longer, on ties to the second. */
static void share(struct part *a, struct part *b, size_t room) {
    struct part *shorter = a->n > b->n ? b : a, *longer = a->n > b->n ? a : b;
    if (shorter->n * 2 <= room) {
        shorter->keep = shorter->n;
        longer->keep = room - shorter->n;
    } else {
        shorter->keep = room / 2;
        longer->keep = room - room / 2;
    }
}

/* The output arrays, as offsets into one block. */
struct layout {
    size_t ids, types, spans, special, sequence, bytes;
};
static size_t place(size_t *at, size_t n, size_t size) {
    const size_t here = *at;
    *at = (here + n * size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return here;
}
static struct layout layout_of(size_t n, bool want_spans) {
    struct layout l = {.bytes = 0};
    l.ids = place(&l.bytes, n, sizeof(int32_t));
    l.types = place(&l.bytes, n, sizeof(int32_t));
    if (want_spans) {
        l.spans = place(&l.bytes, n, sizeof(struct span));
        l.special = place(&l.bytes, n, 1);
        l.sequence = place(&l.bytes, n, 1);
    }
    return l;
}
static void set_arrays(struct encoding *out, unsigned char *block, const struct layout *l,
                       bool want_spans) {
    out->token_ids = (int32_t *)(void *)(block + l->ids);
    out->token_type_ids = (int32_t *)(void *)(block + l->types);
    out->spans = want_spans ? (struct span *)(void *)(block + l->spans) : NULL;
    out->is_special = want_spans ? block + l->special : NULL;
    out->sequence = want_spans ? block + l->sequence : NULL;
}

static void put_part(struct encoding *out, const struct part *p, bool from_left, int32_t type,
                     uint8_t sequence) {
    const struct token *tokens = p->tokens + (from_left ? p->n - p->keep : 0);
    const int at = out->n_tokens;
    for (size_t i = 0; i < p->keep; i++) {
        out->token_ids[at + (int)i] = tokens[i].id;
        out->token_type_ids[at + (int)i] = type;
    }
    for (size_t i = 0; i < p->keep && out->spans; i++) {
        out->spans[at + (int)i] = (struct span){tokens[i].start, tokens[i].end};
        out->is_special[at + (int)i] = 0;
        out->sequence[at + (int)i] = sequence;
    }
    out->n_tokens += (int)p->keep;
}

static void put_special(struct encoding *out, const struct template_part *p) {
    const int at = out->n_tokens++;
    out->token_ids[at] = p->id;
    out->token_type_ids[at] = p->type_id;
    if (out->spans) {
        out->spans[at] = (struct span){0, 0};
        out->is_special[at] = 1;
        out->sequence[at] = 0;
    }
}

static void fill(struct encoding *out, const struct template *tmpl, const struct part *parts,
                 const struct encode_options *opt) {
    const bool from_left = opt->truncate && opt->side == TRUNCATE_LEFT;
    out->n_tokens = 0;
    for (int i = 0; i < tmpl->n_parts; i++) {
        const struct template_part *p = &tmpl->parts[i];
        if (p->what != PART_TOKEN) {
            const int second = p->what == PART_SECOND;
            put_part(out, &parts[second], from_left, p->type_id, (uint8_t)second);
        } else if (opt->add_special_tokens) {
            put_special(out, p);
        }
    }
}

/* Writes the arrays behind the tokens, then moves them to the front of the piece. */
static enum status assemble(struct walk *w, struct encoding *out, const struct template *tmpl,
                            const struct part *parts, size_t n_special,
                            const struct encode_options *opt, struct error *err) {
    const struct layout l = layout_of(parts[0].keep + parts[1].keep + n_special, opt->want_spans);
    const size_t n_stored =
        (size_t)(parts[1].tokens - parts[0].tokens) + (parts[1].n < w->cap ? parts[1].n : w->cap);
    size_t at = w->tokens_at + n_stored * sizeof(struct token);
    at = (at + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (!arena_resize_last(w->arena, w->block, at + l.bytes, 1)) {
        return error_set(err, STATUS_NO_MEMORY,
                         "the text's tokens do not fit the request's memory");
    }
    set_arrays(out, w->block + at, &l, opt->want_spans);
    fill(out, tmpl, parts, opt);
    memmove(w->block, w->block + at, l.bytes);
    set_arrays(out, w->block, &l, opt->want_spans);
    return arena_resize_last(w->arena, w->block, l.bytes, 1)
               ? STATUS_OK
               : error_set(err, STATUS_NO_MEMORY, "an arena did not shrink");
}

/* Tokenizes both texts; parts[].tokens are set last, as the block may have grown, never moved. */
static void read_texts(struct walk *w, struct part parts[2], const struct text *const texts[2],
                       const struct encode_options *opt) {
    const bool limited = opt->max_tokens > 0;
    const bool keep_all = !limited || (opt->truncate && opt->side == TRUNCATE_LEFT);
    size_t bases[2] = {0, 0};
    w->cap = keep_all ? SIZE_MAX : (size_t)opt->max_tokens;
    for (int i = 0; i < 2; i++) {
        bases[i] = w->base;
        if (texts[i] && texts[i]->len) {
            walk_text(w, texts[i]);
            parts[i].n = w->n;
            w->base += w->n < w->cap ? w->n : w->cap;
        }
    }
    for (int i = 0; i < 2 && !w->full; i++) {
        parts[i].tokens = walk_tokens(w) + bases[i];
    }
}

static enum status apply_limit(struct encoding *out, struct part parts[2], size_t n_special,
                               const struct encode_options *opt, struct error *err) {
    out->n_tokens_uncut = (int64_t)(parts[0].n + parts[1].n + n_special);
    parts[0].keep = parts[0].n;
    parts[1].keep = parts[1].n;
    if (opt->max_tokens <= 0 || out->n_tokens_uncut <= opt->max_tokens) {
        return out->n_tokens_uncut <= INT32_MAX
                   ? STATUS_OK
                   : error_set(err, STATUS_TOO_LONG, "the text has more than %d tokens", INT32_MAX);
    }
    if (!opt->truncate) {
        return error_set(err, STATUS_TOO_LONG, "the text has %lld tokens, at most %d are allowed",
                         (long long)out->n_tokens_uncut, opt->max_tokens);
    }
    if ((size_t)opt->max_tokens < n_special) {
        return error_set(err, STATUS_TOO_LONG,
                         "a limit of %d tokens leaves no room for the %zu special ones",
                         opt->max_tokens, n_special);
    }
    share(&parts[0], &parts[1], (size_t)opt->max_tokens - n_special);
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *t, struct encoding *out,
                             const struct text *first, const struct text *second,
                             const struct encode_options *opt, struct arena *arena,
                             struct error *err) {
    const struct text *const texts[2] = {first, second};
    const struct template *tmpl = second ? &t->pair : &t->single;
    const size_t n_special = opt->add_special_tokens ? (size_t)tmpl->n_special : 0;
    const size_t second_len = second ? second->len : 0;
    const size_t longest = first->len > second_len ? first->len : second_len;
    struct part parts[2] = {{.n = 0}, {.n = 0}};
    struct walk w;
    *out = (struct encoding){.n_tokens = 0};
    if (longest > INT32_MAX) {
        return error_set(err, STATUS_TOO_LONG, "a text of %zu bytes is too long", longest);
    }
    if (!walk_init(&w, t, arena, longest)) {
        return error_set(err, STATUS_NO_MEMORY, "the text does not fit the request's memory");
    }
    read_texts(&w, parts, texts, opt);
    enum status s = w.full ? error_set(err, STATUS_NO_MEMORY,
                                       "the text's tokens do not fit the request's memory")
                           : apply_limit(out, parts, n_special, opt, err);
    if (!s) {
        s = assemble(&w, out, tmpl, parts, n_special, opt, err);
    }
    if (s && !arena_resize_last(arena, w.block, 0, 1)) {
        return error_set(err, STATUS_NO_MEMORY, "an arena did not shrink");
    }
    return s;
}
