/* svg.h - small charts as inline SVG: axes with ticks, lines, bars. No script, no style from
 * elsewhere; text is escaped. */
#ifndef BERTH_BENCH_CLIENT_SVG_H
#define BERTH_BENCH_CLIENT_SVG_H
#include <stdbool.h>
#include <stdio.h>

enum { SVG_WIDTH = 640, SVG_HEIGHT = 280 };
struct chart {
    const char *title, *x_label, *y_label;
    double x_low, x_high, y_low, y_high;
    bool x_is_log, y_is_log; // low and high above 0 then
};
struct point {
    double x, y;
};
void html_escape(FILE *out, const char *text);
/* From the doctype to the heading; `css` is what a report adds to the style they share. */
void html_begin(FILE *out, const char *title, const char *css);
void svg_begin(FILE *out, const struct chart *c);
/* Colours 0 to 7; `name` goes into the legend, and a tooltip. Points that are not finite break the
 * line. */
void svg_line(FILE *out, const struct chart *c, const struct point *p, int n, int colour,
              const char *name);
/* From the axis up; x is the left edge, each `width` wide, in the chart's units. */
void svg_bars(FILE *out, const struct chart *c, const struct point *p, int n, double width,
              int colour);
/* A circle; `name` is its tooltip. */
void svg_mark(FILE *out, const struct chart *c, struct point p, int colour, const char *name);
void svg_end(FILE *out);
/* The next 1, 2 or 5 times a power of ten from v on; 1 for what is not above 0. */
double svg_round_up(double v);
#endif
