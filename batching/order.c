/* order.c - a treap whose nodes are the jobs.
 * A search tree by (rank, number), and at the same time a heap by a number that only looks random:
 * the job's own, hashed. So the expected depth is logarithmic whatever ranks clients choose, and
 * there is no state beside the links. Each node keeps the cost of its subtree, which gives the work
 * ahead of any rank in one descent. Source: Seidel and Aragon 1996, Randomized search trees. */
#include "batching/order.h"

static uint64_t dice(const struct job *job) { // splitmix64's finish
    uint64_t x = job->number * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

bool job_before(const struct job *a, const struct job *b) {
    return a->rank < b->rank || (a->rank == b->rank && a->number < b->number);
}

static int64_t sum_of(const struct job *job) {
    return job ? job->order_sum_ns : 0;
}

static void sum_up(struct job *job) {
    job->order_sum_ns = job->cost_ns + sum_of(job->left) + sum_of(job->right);
}

/* `child` takes the place of `job` below the parent of `job`. */
static void replace(struct job_order *o, const struct job *job, struct job *child) {
    struct job *parent = job->parent;
    if (!parent) {
        o->root = child;
    } else if (parent->left == job) {
        parent->left = child;
    } else {
        parent->right = child;
    }
    if (child) {
        child->parent = parent;
    }
}

/* Lifts `job` above its parent; the order stays. */
static void rotate_up(struct job_order *o, struct job *job) {
    struct job *parent = job->parent, *moved;
    replace(o, parent, job);
    if (parent->left == job) {
        moved = parent->left = job->right;
        job->right = parent;
    } else {
        moved = parent->right = job->left;
        job->left = parent;
    }
    if (moved) {
        moved->parent = parent;
    }
    parent->parent = job;
    sum_up(parent);
    sum_up(job);
}

void job_order_insert(struct job_order *o, struct job *job) {
    job->left = job->right = job->parent = NULL;
    job->order_sum_ns = job->cost_ns;
    if (!o->first || job_before(job, o->first)) {
        o->first = job;
    }
    struct job **place = &o->root;
    while (*place) {
        job->parent = *place;
        job->parent->order_sum_ns += job->cost_ns;
        place = job_before(job, job->parent) ? &job->parent->left : &job->parent->right;
    }
    *place = job;
    while (job->parent && dice(job) < dice(job->parent)) {
        rotate_up(o, job);
    }
}

void job_order_remove(struct job_order *o, struct job *job) {
    if (o->first == job) {
        o->first = job_order_next(job);
    }
    while (job->left && job->right) {
        rotate_up(o, dice(job->left) < dice(job->right) ? job->left : job->right);
    }
    replace(o, job, job->left ? job->left : job->right);
    for (struct job *above = job->parent; above; above = above->parent) {
        above->order_sum_ns -= job->cost_ns;
    }
    job->left = job->right = job->parent = NULL;
}

struct job *job_order_next(const struct job *job) {
    if (job->right) {
        struct job *next = job->right;
        while (next->left) {
            next = next->left;
        }
        return next;
    }
    const struct job *below = job;
    struct job *above = job->parent;
    while (above && above->right == below) {
        below = above;
        above = above->parent;
    }
    return above;
}

int64_t job_order_ahead_ns(const struct job_order *o, int64_t rank) {
    int64_t ahead_ns = 0;
    for (const struct job *job = o->root; job;) {
        if (job->rank <= rank) {
            ahead_ns += job->cost_ns + sum_of(job->left);
            job = job->right;
        } else {
            job = job->left;
        }
    }
    return ahead_ns;
}

int64_t job_order_total_ns(const struct job_order *o) {
    return sum_of(o->root);
}
