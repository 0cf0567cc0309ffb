/* tune_server.c - the batching that a running server has in force, read and set.
 * What GET /debug/buckets tells goes through the configuration's own reader, so that the search
 * begins with what the server really does; what is PUT names each bucket's limits, so that putting
 * the old policy back leaves nothing of the new one. */
#include "server/tune.h"

#include <stdlib.h>
#include <string.h>

#include "base/timing.h"
#include "model/json_file.h"
#include "server/http_get.h"

const cJSON *tune_member(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}
enum status tune_ask(cJSON **out, const struct tune_task *t, const char *path, struct error *err) {
    char *body = NULL;
    size_t len = 0;
    enum status s = http_get(&body, &len, t->request.url, path, getenv("BERTH_ADMIN_KEY"), err);
    if (!s) {
        s = json_parse_object(out, body, len, path, err);
    }
    free(body);
    return s;
}

static double ms(int64_t ns) {
    return (double)ns / NS_PER_MS;
}
static void copy(cJSON *to, const char *name, const cJSON *value) { // nothing when it is not there
    if (value) {
        cJSON_AddItemToObject(to, name, cJSON_Duplicate(value, true));
    }
}
static void add_padded(cJSON *to, const cJSON *bucket) {
    copy(to, "padded_max_batch_tokens", tune_member(bucket, "max_batch_tokens"));
    copy(to, "padded_max_batch_requests", tune_member(bucket, "max_batch_requests"));
    copy(to, "padded_max_wait_ms", tune_member(bucket, "max_wait_ms"));
}
static void add_buckets(cJSON *to, const cJSON *buckets) {
    static const char *const limits[] = {"up_to", "max_batch_tokens", "max_batch_requests",
                                         "max_wait_ms"};
    cJSON *list = cJSON_AddArrayToObject(to, "buckets");
    const cJSON *from;
    cJSON_ArrayForEach (from, buckets) {
        cJSON *bucket = cJSON_CreateObject();
        for (size_t i = 0; i < N_ITEMS(limits); i++) {
            copy(bucket, limits[i], tune_member(from, limits[i]));
        }
        cJSON_AddItemToArray(list, bucket);
    }
}
/* The answer of GET /debug/buckets as the configuration's "batching". */
static cJSON *batching_of(const cJSON *told) {
    static const char *const plain[] = {"mode", "max_batch_ms", "rank_cost_factor", "interrupt"};
    const cJSON *mode = tune_member(told, "mode"), *buckets = tune_member(told, "buckets");
    cJSON *batching = cJSON_CreateObject();
    for (size_t i = 0; i < N_ITEMS(plain); i++) {
        copy(batching, plain[i], tune_member(told, plain[i]));
    }
    copy(batching, "priority_shift_ms", tune_member(tune_member(told, "priority_ms"), "low"));
    if (cJSON_IsString(mode) && !strcmp(mode->valuestring, batch_mode_names[BATCH_PADDED])) {
        add_padded(batching, cJSON_GetArrayItem(buckets, 0));
    } else {
        add_buckets(batching, buckets);
    }
    return batching;
}
enum status tune_read_in_force(struct tune_task *t, struct error *err) {
    cJSON *told = NULL;
    enum status s = tune_ask(&told, t, "/debug/buckets", err);
    if (s) {
        return s;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObject(root, "batching", batching_of(told));
    char *text = cJSON_PrintUnformatted(root);
    t->server_cfg = *t->cfg;
    s = config_read_text(&t->server_cfg, text, strlen(text), "/debug/buckets", err);
    if (!s) {
        t->cfg = &t->server_cfg;
    }
    cJSON_free(text);
    cJSON_Delete(root);
    cJSON_Delete(told);
    return s;
}

static cJSON *told_of(const struct policy_config *p) { // as GET /debug/buckets would tell it
    cJSON *told = cJSON_CreateObject();
    cJSON_AddStringToObject(told, "mode", batch_mode_names[p->mode]);
    cJSON_AddNumberToObject(told, "max_batch_ms", ms(p->max_batch_ns));
    cJSON_AddNumberToObject(told, "rank_cost_factor", p->rank_cost_factor);
    cJSON *list = cJSON_AddArrayToObject(told, "buckets");
    for (int i = 0; i < p->n_buckets; i++) {
        const struct bucket_limits *b = &p->buckets[i];
        cJSON *bucket = cJSON_CreateObject();
        cJSON_AddNumberToObject(bucket, "up_to", b->up_to);
        cJSON_AddNumberToObject(bucket, "max_batch_tokens", b->max_batch_tokens);
        cJSON_AddNumberToObject(bucket, "max_batch_requests", b->max_batch_requests);
        cJSON_AddNumberToObject(bucket, "max_wait_ms", ms(b->max_wait_ns));
        cJSON_AddItemToArray(list, bucket);
    }
    return told;
}
enum status tune_put_policy(const struct tune_task *t, const struct policy_config *p,
                            struct error *err) {
    cJSON *told = told_of(p), *batching = batching_of(told);
    char *text = cJSON_PrintUnformatted(batching);
    const enum status s =
        http_put(t->request.url, "/debug/buckets", text, getenv("BERTH_ADMIN_KEY"), err);
    cJSON_free(text);
    cJSON_Delete(batching);
    cJSON_Delete(told);
    return s;
}
