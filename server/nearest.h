/* nearest.h - what a misspelt word was most likely meant to be. Pure. */
#ifndef BERTH_SERVER_NEAREST_H
#define BERTH_SERVER_NEAREST_H

/* Edits that make `a` into `b`: insert, delete, replace, swap neighbours (optimal string alignment;
 * Damerau 1964). '-' and '_' are one letter. Only the first EDIT_MAX_LENGTH bytes of each count. */
enum { EDIT_MAX_LENGTH = 64 };
int edit_distance(const char *a, const char *b);
/* The first of the n >= 1 words at the smallest distance. */
const char *nearest_of(const char *const *words, int n, const char *given);
#endif
