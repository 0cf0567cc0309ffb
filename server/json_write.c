/* json_write.c - answers, written into the request's arena.
 * The buffer is the arena's last piece and grows in place, so nothing is ever copied. Floats are
 * written by exact integer arithmetic (the digit generation of Steele and White, PLDI 1990, and
 * Dybvig and Burger, PLDI 1996) on 192-bit numbers: no tables, no locale, no printf. The interval
 * that a text must fall into is narrowed by 2^-20 of its width, so that a reader that rounds to a
 * double first and to a float then gets the same float. */
#include "server/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { FIRST_BYTES = 512 };

void json_writer_init(struct json_writer *w, struct arena *arena) {
    *w = (struct json_writer){.arena = arena, .capacity = FIRST_BYTES};
    w->data = arena_alloc(arena, w->capacity, 1);
    w->failed = !w->data;
}

static bool grow(struct json_writer *w, size_t wanted) {
    const size_t doubled = w->capacity < SIZE_MAX / 2 ? 2 * w->capacity : SIZE_MAX;
    const size_t tries[] = {wanted > doubled ? wanted : doubled, wanted};
    const size_t end = (size_t)((unsigned char *)w->data - w->arena->data) + w->capacity;
    assert(end <= w->arena->used && w->arena->used - end < ARENA_ALIGN); // still the last piece
    for (size_t i = 0; i < N_ITEMS(tries); i++) {
        if (arena_resize_last(w->arena, w->data, tries[i], 1)) {
            w->capacity = tries[i];
            return true;
        }
    }
    return false;
}

void json_write_bytes(struct json_writer *w, const char *bytes, size_t len) {
    if (w->failed) {
        return;
    }
    if (len > w->capacity - w->len && (len > SIZE_MAX - w->len || !grow(w, w->len + len))) {
        w->failed = true;
        return;
    }
    memcpy(w->data + w->len, bytes, len);
    w->len += len;
}
void json_write_raw(struct json_writer *w, const char *text) {
    json_write_bytes(w, text, strlen(text));
}

static bool is_plain(unsigned char b) {
    return b >= 0x20 && b < 0x80 && b != '"' && b != '\\';
}
/* One byte or sequence that cannot stand as it is; gives the bytes it used up. */
static size_t write_special(struct json_writer *w, const char *p, size_t left) {
    static const char hex[] = "0123456789abcdef", names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    const unsigned char b = (unsigned char)*p;
    if (b >= 0x80) {
        const size_t n = json_utf8_sequence(p, left);
        json_write_bytes(w, n ? p : "\xEF\xBF\xBD", n ? n : 3);
        return n ? n : 1;
    }
    for (size_t i = 0; i + 1 < sizeof(names); i += 2) {
        if (b == (unsigned char)names[i]) {
            json_write_bytes(w, (const char[]){'\\', names[i + 1]}, 2);
            return 1;
        }
    }
    json_write_bytes(w, (const char[]){'\\', 'u', '0', '0', hex[b >> 4], hex[b & 15]}, 6);
    return 1;
}
void json_write_string(struct json_writer *w, const char *bytes, size_t len) {
    json_write_raw(w, "\"");
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && is_plain((unsigned char)bytes[i + n])) {
            n++;
        }
        json_write_bytes(w, bytes + i, n);
        i += n;
        if (i < len) {
            i += write_special(w, bytes + i, len - i);
        }
    }
    json_write_raw(w, "\"");
}

void json_write_int(struct json_writer *w, int64_t v) {
    char text[24], *p = text + sizeof(text);
    uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
    do {
        *--p = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (v < 0) {
        *--p = '-';
    }
    json_write_bytes(w, p, (size_t)(text + sizeof(text) - p));
}

/* Numbers up to 2^192; the largest here is below 2^185. Least word first. */
enum { BIG_WORDS = 6, GUARD_BITS = 20, MAX_DIGITS = 9 };
struct big {
    uint32_t word[BIG_WORDS];
};
static struct big big_shifted(uint32_t v, int bits) {
    struct big b = {{0}};
    const uint64_t two = (uint64_t)v << (bits % 32);
    b.word[bits / 32] = (uint32_t)two;
    if (two >> 32) {
        b.word[bits / 32 + 1] = (uint32_t)(two >> 32);
    }
    return b;
}
static void big_times(struct big *b, uint32_t factor) {
    uint64_t carry = 0;
    for (int i = 0; i < BIG_WORDS; i++) {
        carry += (uint64_t)b->word[i] * factor;
        b->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
}
static int big_compare(const struct big *a, const struct big *b) {
    for (int i = BIG_WORDS - 1; i >= 0; i--) {
        if (a->word[i] != b->word[i]) {
            return a->word[i] < b->word[i] ? -1 : 1;
        }
    }
    return 0;
}
static struct big big_sum(const struct big *a, const struct big *b) {
    struct big sum;
    uint64_t carry = 0;
    for (int i = 0; i < BIG_WORDS; i++) {
        carry += (uint64_t)a->word[i] + b->word[i];
        sum.word[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return sum;
}
static void big_minus(struct big *a, const struct big *b) {
    int64_t carry = 0;
    for (int i = 0; i < BIG_WORDS; i++) {
        carry += (int64_t)a->word[i] - b->word[i];
        a->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* The value is r / s; texts from r - below to r + above (in units of 1 / s) read back as it. */
struct generator {
    struct big r, s, below, above;
};
static struct generator generator_of(uint32_t fraction, int exponent, bool is_power_of_two) {
    const int up = exponent > 0 ? exponent : 0, down = exponent < 0 ? -exponent : 0;
    const uint32_t half_gap = (1u << GUARD_BITS) - 1;
    return (struct generator){
        .r = big_shifted(fraction, up + 2 + GUARD_BITS),
        .s = big_shifted(1, down + 2 + GUARD_BITS),
        .below = big_shifted(half_gap, up + (is_power_of_two ? 0 : 1)),
        .above = big_shifted(half_gap, up + 1),
    };
}
static void times_ten(struct generator *g) {
    big_times(&g->r, 10);
    big_times(&g->below, 10);
    big_times(&g->above, 10);
}
/* Scales until 0.1 <= value < 1 as seen with its upper edge; gives the decimal exponent. */
static int scale(struct generator *g) {
    int exponent = 0;
    for (;;) {
        const struct big top = big_sum(&g->r, &g->above);
        struct big ten_tops = top;
        big_times(&ten_tops, 10);
        if (big_compare(&top, &g->s) >= 0) {
            big_times(&g->s, 10);
            exponent++;
        } else if (big_compare(&ten_tops, &g->s) < 0) {
            times_ten(g);
            exponent--;
        } else {
            return exponent;
        }
    }
}
/* The fewest digits d1 d2 ... with 0.d1d2... inside the interval, the last one rounded. */
static int generate(struct generator *g, char *digits) {
    for (int n = 0;;) {
        int digit = 0;
        times_ten(g);
        for (; big_compare(&g->r, &g->s) >= 0; digit++) {
            big_minus(&g->r, &g->s);
        }
        const struct big top = big_sum(&g->r, &g->above);
        const bool may_stay = big_compare(&g->r, &g->below) < 0;
        const bool may_rise = big_compare(&top, &g->s) > 0;
        if (may_stay || may_rise) {
            const struct big twice = big_sum(&g->r, &g->r);
            const bool rises = may_rise && (!may_stay || big_compare(&twice, &g->s) > 0);
            digits[n++] = (char)('0' + digit + rises);
            return n;
        }
        digits[n++] = (char)('0' + digit);
    }
}

/* 0.DIGITS times 10 to `exponent`, as people write it. */
static void write_decimal(struct json_writer *w, const char *digits, int n, int exponent) {
    static const char zeros[] = "0000000000";
    if (exponent > 10 || exponent < -4) {
        json_write_bytes(w, digits, 1);
        json_write_raw(w, ".");
        json_write_bytes(w, n > 1 ? digits + 1 : zeros, n > 1 ? (size_t)n - 1 : 1);
        json_write_raw(w, "e");
        json_write_int(w, exponent - 1);
    } else if (exponent <= 0) {
        json_write_raw(w, "0.");
        json_write_bytes(w, zeros, (size_t)-exponent);
        json_write_bytes(w, digits, (size_t)n);
    } else if (exponent >= n) {
        json_write_bytes(w, digits, (size_t)n);
        json_write_bytes(w, zeros, (size_t)(exponent - n));
        json_write_raw(w, ".0");
    } else {
        json_write_bytes(w, digits, (size_t)exponent);
        json_write_raw(w, ".");
        json_write_bytes(w, digits + exponent, (size_t)(n - exponent));
    }
}

void json_write_float(struct json_writer *w, float v) {
    char digits[2 * MAX_DIGITS];
    uint32_t bits;
    if (!isfinite(v)) {
        json_write_raw(w, "null");
        return;
    }
    memcpy(&bits, &v, sizeof(bits));
    if (bits >> 31) {
        json_write_raw(w, "-");
    }
    const uint32_t stored = bits & 0x7FFFFF, biased = bits >> 23 & 0xFF;
    if (!stored && !biased) {
        json_write_raw(w, "0.0");
        return;
    }
    struct generator g = generator_of(biased ? stored | 0x800000 : stored,
                                      (int)(biased ? biased : 1) - 150, !stored && biased > 1);
    const int exponent = scale(&g);
    write_decimal(w, digits, generate(&g, digits), exponent);
}

void json_field(struct json_writer *w, const char *key) {
    const char last = w->failed || w->len == 0 ? '{' : w->data[w->len - 1];
    json_write_raw(w, last == '{' || last == '[' ? "" : ",");
    json_write_string(w, key, strlen(key));
    json_write_raw(w, ":");
}
void json_field_text(struct json_writer *w, const char *key, const char *value) {
    json_field(w, key);
    json_write_string(w, value, strlen(value));
}
void json_field_int(struct json_writer *w, const char *key, int64_t value) {
    json_field(w, key);
    json_write_int(w, value);
}
void json_field_number(struct json_writer *w, const char *key, double value) {
    json_field(w, key);
    json_write_float(w, (float)value);
}
void json_field_raw(struct json_writer *w, const char *key, const char *literal) {
    json_field(w, key);
    json_write_raw(w, literal);
}
