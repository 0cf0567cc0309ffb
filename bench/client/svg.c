/* svg.c - a chart's units to pixels, and what is drawn with them. */
#include "bench/client/svg.h"

#include <math.h>
#include <string.h>

enum {
    LEFT = 70,
    RIGHT = 14,
    TOP = 30,
    BOTTOM = 44,
    MAX_TICKS = 12,
    LEGEND_STEP = 140,
    LEGEND_ROW = 4
};
static const char *const colours[] = {"#1f6fb4", "#d1495b", "#3a9d5d", "#8a6fb0",
                                      "#c98a1b", "#2aa5a0", "#8c564b", "#6b7280"};

void html_escape(FILE *out, const char *text) {
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*c, out); break;
        }
    }
}
double svg_round_up(double v) {
    if (!(v > 0) || !isfinite(v)) {
        return 1;
    }
    const double power = pow(10, floor(log10(v))), part = v / power;
    const double step = part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10;
    return step * power;
}
static double place(double v, double low, double high, bool is_log) {
    const double at = is_log ? log(fmax(v, low) / low) / log(high / low) : (v - low) / (high - low);
    return fmin(1, fmax(0, at));
}
static double x_of(const struct chart *c, double v) {
    return LEFT + place(v, c->x_low, c->x_high, c->x_is_log) * (SVG_WIDTH - LEFT - RIGHT);
}
static double y_of(const struct chart *c, double v) {
    return SVG_HEIGHT - BOTTOM -
           place(v, c->y_low, c->y_high, c->y_is_log) * (SVG_HEIGHT - TOP - BOTTOM);
}
/* On a log axis: powers of ten, fewer over many decades, and 2 and 5 times them over few. */
static int log_ticks(double out[MAX_TICKS], double low, double high) {
    static const double parts[] = {1, 2, 5};
    const double decades = log10(high / low), step = pow(10, ceil(decades / (MAX_TICKS - 2)));
    const int n_parts = decades <= 3 ? 3 : 1;
    int n = 0;
    for (double power = pow(10, floor(log10(low))); power <= high; power *= step) {
        for (int i = 0; i < n_parts && n < MAX_TICKS; i++) {
            const double v = power * parts[i];
            if (v >= low * 0.999999 && v <= high * 1.000001) {
                out[n++] = v;
            }
        }
    }
    return n;
}
/* On a linear axis about five even ones. */
static int ticks(double out[MAX_TICKS], double low, double high, bool is_log) {
    int n = 0;
    if (is_log) {
        return log_ticks(out, low, high);
    }
    const double step = svg_round_up((high - low) / 5);
    for (int i = 0; n < MAX_TICKS && low + i * step <= high * 1.000001; i++) {
        out[n++] = low + i * step;
    }
    return n;
}
static void draw_axes(FILE *out, const struct chart *c) {
    double at[MAX_TICKS];
    int n = ticks(at, c->x_low, c->x_high, c->x_is_log);
    for (int i = 0; i < n; i++) {
        fprintf(out, "<line class=\"g\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>",
                x_of(c, at[i]), x_of(c, at[i]), TOP, SVG_HEIGHT - BOTTOM);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n",
                x_of(c, at[i]), SVG_HEIGHT - BOTTOM + 15, at[i]);
    }
    n = ticks(at, c->y_low, c->y_high, c->y_is_log);
    for (int i = 0; i < n; i++) {
        fprintf(out, "<line class=\"g\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
                SVG_WIDTH - RIGHT, y_of(c, at[i]), y_of(c, at[i]));
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", LEFT - 5,
                y_of(c, at[i]) + 4, at[i]);
    }
}
void svg_begin(FILE *out, const struct chart *c) {
    fprintf(out, "<figure><figcaption>");
    html_escape(out, c->title);
    fprintf(out, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", SVG_WIDTH,
            SVG_HEIGHT);
    html_escape(out, c->title);
    fputs("\">\n", out);
    draw_axes(out, c);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + SVG_WIDTH) / 2,
            SVG_HEIGHT - 8);
    html_escape(out, c->x_label);
    fprintf(out, "</text><text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">",
            SVG_HEIGHT / 2);
    html_escape(out, c->y_label);
    fputs("</text>\n", out);
}
void svg_line(FILE *out, const struct chart *c, const struct point *p, int n, int colour,
              const char *name) {
    bool is_open = false;
    fputs("<path fill=\"none\" d=\"", out);
    for (int i = 0; i < n; i++) {
        if (!isfinite(p[i].x) || !isfinite(p[i].y)) {
            is_open = false;
            continue;
        }
        fprintf(out, "%s%.1f %.1f", is_open ? "L" : "M", x_of(c, p[i].x), y_of(c, p[i].y));
        is_open = true;
    }
    fprintf(out, "\" stroke=\"%s\"><title>", colours[colour]);
    html_escape(out, name);
    const int x = LEFT + 8 + colour % LEGEND_ROW * LEGEND_STEP;
    const int y = 18 + colour / LEGEND_ROW * 12;
    fprintf(out,
            "</title></path><rect x=\"%d\" y=\"%d\" width=\"12\" height=\"4\" fill=\"%s\"/>"
            "<text x=\"%d\" y=\"%d\">",
            x, y - 6, colours[colour], x + 16, y);
    html_escape(out, name);
    fputs("</text>\n", out);
}
void svg_mark(FILE *out, const struct chart *c, struct point p, int colour, const char *name) {
    fprintf(out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"none\" stroke=\"%s\" "
            "stroke-width=\"2\"><title>",
            x_of(c, p.x), y_of(c, p.y), colours[colour]);
    html_escape(out, name);
    fputs("</title></circle>\n", out);
}
void svg_bars(FILE *out, const struct chart *c, const struct point *p, int n, double width,
              int colour) {
    const double floor_y = y_of(c, c->y_low);
    for (int i = 0; i < n; i++) {
        const double left = x_of(c, p[i].x), top = y_of(c, p[i].y);
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\">"
                "<title>%.4g: %.6g</title></rect>\n",
                left, top, fmax(1, x_of(c, p[i].x + width) - left - 1), fmax(0, floor_y - top),
                colours[colour], p[i].x, p[i].y);
    }
}
void svg_end(FILE *out) {
    fputs("</svg></figure>\n", out);
}
void html_begin(FILE *out, const char *title, const char *css) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>berth bench: ",
          out);
    html_escape(out, title);
    fputs("</title>\n<style>\n"
          "body{font:14px/1.45 system-ui,sans-serif;max-width:1340px;margin:1.5em auto;"
          "padding:0 1em;color:#1c2330}\n"
          "table{border-collapse:collapse;margin:.6em 0}td,th{padding:.2em .8em;text-align:right;"
          "border-bottom:1px solid #dde2ea}th:first-child,td:first-child{text-align:left}\n"
          "figure{display:inline-block;width:640px;max-width:100%;margin:.6em .4em 0 0}"
          "figcaption{font-weight:600}\n"
          "svg text{font:11px system-ui,sans-serif;fill:#4a5568}svg .g{stroke:#e6eaf0}"
          "svg path{stroke-width:1.6}\n"
          ".bad{background:#fde8ea;padding:.6em 1em;border-left:4px solid #d1495b}",
          out);
    fputs(css, out);
    fputs("</style></head><body>\n<h1>", out);
    html_escape(out, title);
    fputs("</h1>\n", out);
}
