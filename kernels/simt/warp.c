/* warp.c - what the 32 threads of a warp do together. Fragments: PTX ISA, "Matrix fragments for
 * mma.m16n8k16 with floating point type" and "ldmatrix"; lane = 4 * group + place. */
#include "kernels/simt/internal.h"
#include "kernels/simt/words.h"

#include <string.h>

static const uint32_t ALL = 0xffffffffu;

void simt_warp_barrier(uint32_t mask) {
    struct warp *w = simt_my_warp();
    race_give(w);
    simt_meet(mask, WARP_BARRIER, 0, NULL);
    race_take(w);
}

static void hand_over(struct warp *w) {
    for (int i = 0; i < SIMT_LANES; i++) {
        if (w->mask >> i & 1) {
            w->lanes[i].taken = w->lanes[w->lanes[i].from].brought;
        }
    }
}
uint64_t simt_shuffle(uint32_t mask, uint64_t value, int lane) {
    struct lane_operands *mine = &simt_my_warp()->lanes[simt_lane(simt_me())];
    if (!(mask >> lane & 1)) {
        simt_fail("a shuffle takes from lane %d, which mask %#x does not have", lane, mask);
    }
    mine->brought = value, mine->from = lane;
    simt_meet(mask, WARP_SHUFFLE, 0, hand_over);
    return mine->taken;
}

static uint32_t word_at(const void *row, int column) {
    uint16_t word;
    memcpy(&word, (const char *)row + column * 2, sizeof(word));
    return word;
}
/* Lane l gets values 2 * (l mod 4) and the next of row l / 4; of the columns, when transposed. */
static void load(struct warp *w, int matrix, bool is_transposed) {
    const struct lane_operands *rows = w->lanes + matrix * 8;
    for (int l = 0; l < SIMT_LANES; l++) {
        const int group = l / 4, pair = l % 4 * 2;
        const uint32_t low =
            is_transposed ? word_at(rows[pair].row, group) : word_at(rows[group].row, pair);
        const uint32_t high =
            is_transposed ? word_at(rows[pair + 1].row, group) : word_at(rows[group].row, pair + 1);
        w->lanes[l].out[matrix] = low | high << 16;
    }
}
static void load_all(struct warp *w) {
    for (int m = 0; m < w->parameter / 2; m++) {
        load(w, m, w->parameter & 1);
    }
}
void simt_ldmatrix(uint32_t *r, const void *row, int n, int is_transposed) {
    struct lane_operands *mine = &simt_my_warp()->lanes[simt_lane(simt_me())];
    if (simt_lane(simt_me()) < 8 * n) { // the other lanes' addresses are not used
        if ((uintptr_t)row % 16) {
            simt_fail("ldmatrix from %p, which is no multiple of 16", row);
        }
        if (simt_beyond_shared(row, 16)) {
            simt_fail("ldmatrix reads outside shared memory, at %p", row);
        }
        race_reads(row, 16);
    }
    mine->row = row, mine->out = r;
    simt_meet(ALL, WARP_LDMATRIX, 2 * n + (is_transposed != 0), load_all);
}

static void unpack(float *even, float *odd, uint32_t pair, enum simt_type type) {
    const uint16_t low = (uint16_t)pair, high = (uint16_t)(pair >> 16);
    *even = type == SIMT_BF16 ? simt_from_bf16(low) : simt_from_f16(low);
    *odd = type == SIMT_BF16 ? simt_from_bf16(high) : simt_from_f16(high);
}
struct operands {
    float a[16][16], b[16][8], d[16][8];
};
static void gather(struct operands *o, const struct warp *w) {
    const enum simt_type type = (enum simt_type)w->parameter;
    for (int l = 0; l < SIMT_LANES; l++) {
        const struct lane_operands *in = &w->lanes[l];
        const int group = l / 4, pair = l % 4 * 2;
        for (int r = 0; r < 4; r++) {
            float *a = &o->a[group + r % 2 * 8][pair + r / 2 * 8];
            unpack(a, a + 1, in->a[r], type);
            o->d[group + r / 2 * 8][pair + r % 2] = in->c[r];
        }
        for (int r = 0; r < 2; r++) {
            unpack(&o->b[pair + r * 8][group], &o->b[pair + r * 8 + 1][group], in->b[r], type);
        }
    }
}
static void multiply(struct warp *w) {
    struct operands o;
    gather(&o, w); // of all lanes first: d may be c
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 16; k++) {
            for (int j = 0; j < 8; j++) {
                o.d[i][j] += o.a[i][k] * o.b[k][j];
            }
        }
    }
    for (int l = 0; l < SIMT_LANES; l++) {
        for (int r = 0; r < 4; r++) {
            w->lanes[l].d[r] = o.d[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2];
        }
    }
}
void simt_mma_16816(float *d, const uint32_t *a, const uint32_t *b, const float *c,
                    enum simt_type type) {
    struct lane_operands *mine = &simt_my_warp()->lanes[simt_lane(simt_me())];
    mine->a = a, mine->b = b, mine->c = c, mine->d = d;
    simt_meet(ALL, WARP_MMA, (int)type, multiply);
}
