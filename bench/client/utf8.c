/* utf8.c - decodes and compares with the least and most that the form's length may say. */
#include "bench/client/utf8.h"

#include <stdint.h>

static size_t form_of(unsigned char first) {
    return first < 0x80                     ? 1
           : first >= 0xc2 && first <= 0xdf ? 2
           : first >= 0xe0 && first <= 0xef ? 3
           : first >= 0xf0 && first <= 0xf4 ? 4
                                            : 0;
}
bool utf8_is_valid(const char *bytes, size_t len) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    for (size_t i = 0; i < len;) {
        const unsigned char first = (unsigned char)bytes[i];
        const size_t n = form_of(first);
        if (n == 0 || n > len - i) {
            return false;
        }
        uint32_t code = n == 1 ? first : first & (0x7fU >> n);
        for (size_t k = 1; k < n; k++) {
            const unsigned char c = (unsigned char)bytes[i + k];
            if ((c & 0xc0) != 0x80) {
                return false;
            }
            code = code << 6 | (c & 0x3f);
        }
        if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
            return false;
        }
        i += n;
    }
    return true;
}
