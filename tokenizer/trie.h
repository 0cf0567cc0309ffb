/* trie.h - a double-array trie over bytes: strings to ids, and the longest match from any state.
 * Threads: read-only once built. */
#ifndef BERTH_TOKENIZER_TRIE_H
#define BERTH_TOKENIZER_TRIE_H
#include <stdint.h>
#include <stddef.h>

/* The child of state s by byte c is (base >> 1) + c, and exists when that slot's check is s. */
struct trie_slot {
    uint32_t base;  // twice the base; the low bit says that an entry ends here
    uint32_t check; // the parent state; TRIE_NONE: the slot is free
};
struct trie {
    struct trie_slot *slots; // owns; 256 more than are used, so that a step needs no bounds check
    int32_t *ids;            // owns, [n_slots], where an entry ends
    uint32_t n_slots;
};
struct trie_entry {
    const char *bytes; // borrowed
    size_t len;        // not 0
    int32_t id;
    size_t order; // set by trie_init()
};
enum { TRIE_ROOT = 0 };
#define TRIE_NONE UINT32_MAX

/* Entries are sorted in place; of equal ones the last given counts. Start-up only. */
void trie_init(struct trie *t, struct trie_entry *entries, size_t n_entries);
void trie_finish(struct trie *t); // takes a zeroed trie too

static inline uint32_t trie_step(const struct trie *t, uint32_t state, uint8_t byte) {
    const uint32_t next = (t->slots[state].base >> 1) + byte;
    return t->slots[next].check == state ? next : TRIE_NONE;
}
static inline int trie_is_entry(const struct trie *t, uint32_t state) {
    return (int)(t->slots[state].base & 1);
}
/* Follows `len` bytes from `state`; TRIE_NONE when they lead nowhere. */
uint32_t trie_walk(const struct trie *t, uint32_t state, const char *bytes, size_t len);
/* The id of the entry that is exactly these bytes; -1: none. */
int32_t trie_find(const struct trie *t, const char *bytes, size_t len);
#endif
