/* trie.c - builds the double array, breadth first, first fit.
 * Entries are sorted, so a node is a range of them with a common prefix, and its children are the
 * sub-ranges by the next byte. Each node's children are put at the first base where all their slots
 * are free; the search starts where slots are not yet crowded, which keeps building linear in
 * practice. A slot is 8 bytes: one load tells a step, and ids are read only at a match. */
#include "tokenizer/trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { ALPHABET = 256, MAX_FAILS = 64 };

struct node { // entries [low, high) share their first `depth` bytes
    size_t low, high, depth;
    uint32_t state;
};
struct builder {
    struct trie *trie;
    const struct trie_entry *entries;
    struct node *queue;
    size_t n_queued, queue_room;
    uint32_t hint; // slots below are crowded
};

static int compare(const void *a, const void *b) {
    const struct trie_entry *x = a, *y = b;
    const size_t n = x->len < y->len ? x->len : y->len;
    const int order = memcmp(x->bytes, y->bytes, n);
    if (order || x->len != y->len) {
        return order ? order : (x->len > y->len) - (x->len < y->len);
    }
    return (x->order > y->order) - (x->order < y->order);
}

static void *grow(void *old, size_t n_old, size_t n_new, size_t size) {
    void *p = xcalloc(n_new, size);
    if (old) {
        memcpy(p, old, n_old * size);
    }
    free(old);
    return p;
}

static void ensure_slots(struct trie *t, uint32_t n) {
    if (n <= t->n_slots) {
        return;
    }
    const uint32_t room = n + n / 2 + 1024;
    t->slots = grow(t->slots, t->n_slots, room, sizeof(*t->slots));
    t->ids = grow(t->ids, t->n_slots, room, sizeof(*t->ids));
    for (uint32_t i = t->n_slots; i < room; i++) {
        t->slots[i] = (struct trie_slot){.base = 0, .check = TRIE_NONE};
    }
    t->n_slots = room;
}

static bool all_free(const struct trie *t, uint32_t base, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (t->slots[base + bytes[i]].check != TRIE_NONE) {
            return false;
        }
    }
    return true;
}

static uint32_t find_base(struct builder *b, const uint8_t *bytes, size_t n) {
    int fails = 0;
    for (uint32_t base = b->hint;; base++) {
        ensure_slots(b->trie, base + 2 * ALPHABET);
        if (all_free(b->trie, base, bytes, n)) {
            if (fails > MAX_FAILS) {
                b->hint = base - MAX_FAILS / 2;
            }
            return base;
        }
        fails++;
    }
}

static void enqueue(struct builder *b, struct node n) {
    if (b->n_queued == b->queue_room) {
        const size_t room = b->queue_room * 2 + 1024;
        b->queue = grow(b->queue, b->queue_room, room, sizeof(*b->queue));
        b->queue_room = room;
    }
    b->queue[b->n_queued++] = n;
}

static void place_children(struct builder *b, struct node n) {
    uint8_t bytes[ALPHABET];
    size_t starts[ALPHABET + 1], n_children = 0;
    for (size_t i = n.low; i < n.high; i++) {
        const uint8_t byte = (uint8_t)b->entries[i].bytes[n.depth];
        if (!n_children || bytes[n_children - 1] != byte) {
            starts[n_children] = i;
            bytes[n_children++] = byte;
        }
    }
    if (!n_children) {
        return;
    }
    starts[n_children] = n.high;
    const uint32_t base = find_base(b, bytes, n_children);
    b->trie->slots[n.state].base |= base << 1;
    for (size_t c = 0; c < n_children; c++) {
        const uint32_t state = base + bytes[c];
        b->trie->slots[state].check = n.state;
        enqueue(b, (struct node){starts[c], starts[c + 1], n.depth + 1, state});
    }
}

/* Entries that end at this node come first in its range. */
static size_t take_entries(struct trie *t, const struct trie_entry *entries, struct node n) {
    while (n.low < n.high && entries[n.low].len == n.depth) {
        t->slots[n.state].base |= 1;
        t->ids[n.state] = entries[n.low].id;
        n.low++;
    }
    return n.low;
}

void trie_init(struct trie *t, struct trie_entry *entries, size_t n_entries) {
    *t = (struct trie){.slots = NULL};
    struct builder b = {.trie = t, .entries = entries, .hint = 1};
    for (size_t i = 0; i < n_entries; i++) {
        entries[i].order = i;
    }
    if (n_entries) { // qsort() takes no NULL, even for nothing
        qsort(entries, n_entries, sizeof(*entries), compare);
    }
    ensure_slots(t, 2 * ALPHABET);
    t->slots[TRIE_ROOT].check = TRIE_NONE - 1; // taken, and no state's child
    enqueue(&b, (struct node){0, n_entries, 0, TRIE_ROOT});
    for (size_t i = 0; i < b.n_queued; i++) {
        struct node n = b.queue[i];
        n.low = take_entries(t, entries, n);
        place_children(&b, n);
    }
    free(b.queue);
}

void trie_finish(struct trie *t) {
    free(t->slots);
    free(t->ids);
    *t = (struct trie){.slots = NULL};
}

uint32_t trie_walk(const struct trie *t, uint32_t state, const char *bytes, size_t len) {
    for (size_t i = 0; i < len && state != TRIE_NONE; i++) {
        state = trie_step(t, state, (uint8_t)bytes[i]);
    }
    return state;
}

int32_t trie_find(const struct trie *t, const char *bytes, size_t len) {
    const uint32_t state = trie_walk(t, TRIE_ROOT, bytes, len);
    return state != TRIE_NONE && trie_is_entry(t, state) ? t->ids[state] : -1;
}
