/* nearest.c - edit distance by dynamic programming over the two words' prefixes.
 * Three rows of the table are enough: a swap of neighbours looks two rows back. */
#include "server/nearest.h"

#include <string.h>

static int min3(int a, int b, int c) {
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}
/* A dash is an underscore: options may be written either way. */
static char letter(char c) {
    return c == '-' ? '_' : c;
}
int edit_distance(const char *a, const char *b) {
    const int na = (int)strnlen(a, EDIT_MAX_LENGTH), nb = (int)strnlen(b, EDIT_MAX_LENGTH);
    int rows[3][EDIT_MAX_LENGTH + 1]; // of the table of prefixes: i - 2, i - 1, i; by i % 3
    for (int i = 0; i <= na; i++) {
        int *row = rows[i % 3];
        const int *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        for (int j = 0; j <= nb; j++) {
            if (!i || !j) {
                row[j] = i + j;
                continue;
            }
            const char x = letter(a[i - 1]), y = letter(b[j - 1]);
            row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == letter(b[j - 2]) && letter(a[i - 2]) == y &&
                up2[j - 2] + 1 < row[j]) {
                row[j] = up2[j - 2] + 1;
            }
        }
    }
    return rows[na % 3][nb];
}

const char *nearest_of(const char *const *words, int n, const char *given) {
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (edit_distance(given, words[i]) < edit_distance(given, words[best])) {
            best = i;
        }
    }
    return words[best];
}
