/* keys_internal.h - what keys.c and keys_read.c share. */
#ifndef BERTH_SERVER_KEYS_INTERNAL_H
#define BERTH_SERVER_KEYS_INTERNAL_H
#include "server/keys.h"
#include <pthread.h>
#include <stdint.h>

enum { KEY_DIGEST_BYTES = 32 };
struct key_entry {
    struct key key;
    uint8_t digest[KEY_DIGEST_BYTES];
    double tokens;    // of the rate's bucket, as of `since_ns`
    int64_t since_ns; // 0: nothing was taken yet, the bucket is full
    bool is_in_use;   // else the name is of a key that a reload has taken away
};
struct keys {
    pthread_mutex_t lock;
    struct key_entry entries[POLICY_MAX_KEYS]; // by index
    int n_entries;
};
struct keys *keys_create(void);
void keys_digest(uint8_t out[KEY_DIGEST_BYTES], const char *secret, size_t len);
#endif
