"""Whether a measurement got slower: pairs (base, head) of one round each, judged by their log ratios.

The estimate is Hodges and Lehmann's, the median of all pairwise means; confidence and interval are those of Wilcoxon's
signed-rank test, exact. Both take heavy tails and outliers, of which a shared machine is full, and ask only that a
pair's two sides be alike when the commits are: measured side by side, in an order drawn anew each time.
"""
import math
import statistics
from dataclasses import dataclass
from functools import lru_cache

# The chance that a run without a change flags anything, over all measurements and looks together.
FALSE_ALARMS_A_RUN = 0.002
SUSPECT_P = 0.25  # of the screening rounds; what is below goes on to rounds of its own
FUTILE_P = 0.5  # at a look: it looks no slower than the margin, so that more rounds would hardly make it
INTERVAL = 0.95
LEAST_PAIRS = 6  # that can give such an interval


@lru_cache(maxsize=None)
def rank_sum_counts(n):
    """How many of the 2^n ways to sign the ranks 1..n give each sum of the positive ones."""
    counts = [1]
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for i, c in enumerate(counts):
            longer[i + rank] += c
        counts = longer
    return counts


def midranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks, at = [0.0] * len(values), 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for i in order[at:end + 1]:
            ranks[i] = (at + end) / 2 + 1
        at = end + 1
    return ranks


def p_above(differences, shift):
    """The chance of ranks as high as these if the true shift were `shift` or less."""
    moved = [d - shift for d in differences if d != shift]
    if not moved:
        return 1.0
    ranks = midranks([abs(d) for d in moved])
    positive = math.floor(sum(r for r, d in zip(ranks, moved) if d > 0))  # ties: rounded to the cautious side
    counts = rank_sum_counts(len(moved))
    return sum(counts[positive:]) / 2 ** len(moved)


def pairwise_means(differences):
    return sorted((differences[i] + differences[j]) / 2
                  for i in range(len(differences)) for j in range(i, len(differences)))


def interval(differences, confidence=INTERVAL):
    """(low, high). Fewer than LEAST_PAIRS cannot give that confidence."""
    means, n = pairwise_means(differences), len(differences)
    cut, chance = -1, 0.0
    for count in rank_sum_counts(n):
        chance += count / 2 ** n
        if chance > (1 - confidence) / 2:
            break
        cut += 1
    if cut < 0:
        raise ValueError(f"{n} pairs give no interval of {confidence}")
    return means[cut], means[-1 - cut]


@dataclass
class Verdict:
    """change, low and high are shares: 0.05 is 5 % slower. p: the chance of this if it were not slower by `margin`."""
    word: str  # slower, faster, same; noisy: a slowdown of twice the margin would have gone unseen
    change: float
    low: float
    high: float
    p: float
    rounds: int
    margin: float

    def sentence(self):
        span = f"{self.change:+.1%} ({self.low:+.1%} to {self.high:+.1%})"
        if self.word == "slower":
            return f"{span}: slower by more than {self.margin:.0%}, confidence {1 - self.p:.5f}"
        if self.word == "noisy":
            return f"{span}: not known to be slower; the noise would hide up to {self.high:.1%}"
        return f"{span}: {self.word}"


def judge(pairs, margin, alpha):
    """pairs: (base, head), of which less is better."""
    logs = [math.log(head / base) for base, head in pairs]
    low, high = interval(logs)
    p = p_above(logs, math.log1p(margin))
    change = statistics.median(pairwise_means(logs))
    word = "slower" if p < alpha else "faster" if high < 0 else "same" if high < math.log1p(2 * margin) else "noisy"
    return Verdict(word, math.expm1(change), math.expm1(low), math.expm1(high), p, len(pairs), margin)


def is_suspect(pairs, margin):
    """Worth rounds of its own. Those are judged alone: they know nothing of why they were asked for."""
    return judge(pairs, margin, SUSPECT_P).word == "slower"


def confirm(more_pairs, looks, margin, n_measurements):
    """Judges fresh pairs, looking when there are as many as each of `looks`, until one look is sure, or there is nothing
    left to be sure of. more_pairs(n) measures n more. The allowed chance of a false alarm is divided by all measurements,
    and by the looks; to stop because it looks no slower can only take alarms away."""
    alpha = FALSE_ALARMS_A_RUN / n_measurements / len(looks)
    pairs = []
    for look in looks:
        pairs += more_pairs(look - len(pairs))
        verdict = judge(pairs, margin, alpha)
        if verdict.word != "noisy" and (verdict.word == "slower" or verdict.high < math.log1p(2 * margin)):
            break
        if verdict.p > FUTILE_P:
            break
    return verdict, pairs
