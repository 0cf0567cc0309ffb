"""Slowdowns of a known size, to see whether the guard sees them: a function is renamed, and one of its old name waits
for a share of the time that the renamed one took, by the processor's clock, so that it is the same share on any machine.
One call in PERIOD waits, for as many: looking at the clock takes a tenth of the shortest calls. Where instructions are counted (PLANT_COUNTED is set), time means nothing, and it goes through
as many steps of an empty loop as make up that share of the instructions."""
import os
import re
import sys

SHARE_OF = 20  # one part in so many: 5 %
PERIOD = 7  # a prime, so that calls that come in a pattern have their turn alike

HELP = """
#include <stdint.h>
#include <stdlib.h>
#ifdef __x86_64__
#include <x86intrin.h>
#define PLANT_NOW() ((uint64_t)__rdtsc())
#else
#include "base/timing.h"
#define PLANT_NOW() ((uint64_t)time_now_ns())
#endif
static uint64_t plant_start(void) {
    static _Thread_local unsigned n;
    return ++n %% %d ? 0 : PLANT_NOW();
}
static void plant_wait(uint64_t start, uint64_t steps) {
    static int is_counted = -1;
    if (is_counted < 0) {
        is_counted = getenv("PLANT_COUNTED") != NULL;
    }
    if (is_counted) {
        for (; steps > 0; steps--) {
            __asm__ volatile("");
        }
    } else if (start) {
        const uint64_t end = PLANT_NOW(), until = end + (end - start) * %d / %d;
        while (PLANT_NOW() < until) {
        }
    }
}
""" % (PERIOD, PERIOD, SHARE_OF)


class Plant:
    """result: the function's type; arguments: what its parameters are called; steps: 5 % of its instructions, in steps
    of two, from its arguments."""

    def __init__(self, file, result, name, parameters, arguments, steps):
        self.file, self.result, self.name = file, result, name
        self.parameters, self.arguments, self.steps = parameters, arguments, steps

    def wrapper(self, is_static):
        keep = "" if self.result == "void" else f"const {self.result} result = "
        give = "" if self.result == "void" else "    return result;\n"
        return (f"{'static ' if is_static else ''}{self.result} {self.name}({self.parameters}) {{\n"
                f"    const uint64_t start = plant_start();\n    {keep}planted_{self.name}({self.arguments});\n"
                f"    plant_wait(start, (uint64_t)({self.steps}));\n{give}}}\n")

    def apply(self, source):
        path = os.path.join(source, self.file)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        found = re.compile(r"^((?:static )?)" + re.escape(self.result) + r"\s+" + re.escape(self.name)
                           + r"\(([^)]*)\) \{$", re.M)
        places = list(found.finditer(text))
        if len(places) != 1 or " ".join(places[0].group(2).split()) != self.parameters:
            sys.exit(f"regress: {self.file} has no {self.name}({self.parameters}): the plant must follow its change")
        start = places[0].start()
        end = text.index("\n}\n", start) + len("\n}\n")
        inner = text[start:end].replace(f"{self.name}(", f"planted_{self.name}(", 1)
        inner = inner if places[0].group(1) else "static " + inner
        helper = "" if "plant_wait" in text else HELP
        text = text[:start] + helper + inner + self.wrapper(bool(places[0].group(1))) + text[end:]
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


CHOOSE = ("struct queues *q, int worker, int n_idle_workers, int64_t now_ns, bool draining, struct job **chosen, "
          "int max_chosen")
ENCODE = ("const struct tokenizer *t, struct encoding *out, const struct text *first, const struct text *second, "
          "const struct encode_options *opt, struct arena *arena, struct error *err")
PLANTS = {
    "gemm": [Plant("kernels/cpu/gemm.c", "void", "run", "const struct gemm *g", "g",
                   "(int64_t)g->m * (g->n1 - g->n0) * g->w->k * (g->b1 - g->b0) / gemm_blocks(g->w) / 150")],
    "tokenizer": [Plant("tokenizer/encode.c", "enum status", "tokenizer_encode", ENCODE,
                        "t, out, first, second, opt, arena, err", "first->len * 3 / 2")],
    "queue": [Plant("batching/queues.c", "void", "queues_push", "struct queues *q, struct job *job, int64_t now_ns",
                    "q, job, now_ns", "40"),
              Plant("batching/queues.c", "struct decision", "queues_choose", CHOOSE,
                    "q, worker, n_idle_workers, now_ns, draining, chosen, max_chosen", "600")],
}


def planter(name):
    def change(source):
        for plant in PLANTS[name]:
            plant.apply(source)
    return change
