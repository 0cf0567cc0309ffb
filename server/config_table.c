/* config_table.c - every setting, once.
 * A row holds a key, a type, the field's place in struct config, the default as text, the bounds,
 * the unit and one sentence. Reading (config_read.c), values (config_value.c) and printing
 * (config_print.c) walk this table and know no setting by name; so a new setting is a field in
 * config.h, a row here, and the sample printed anew. */
#include "server/config_table.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static const char *const devices[] = {"auto",   "cpu",    "cuda",     "cuda:0", "cuda:1",
                                      "cuda:2", "cuda:3", "cuda:4",   "cuda:5", "cuda:6",
                                      "cuda:7", "simt",   "reference"};
static const char *const device_losses[] = {"exit", "stay", "cpu"};
static const char *const log_levels[] = {"debug", "info", "warn", "error", "off"};
static_assert(LOG_OFF + 1 == N_ITEMS(log_levels), "names follow enum log_level");

#define HOUR_MS 3600e3
#define FIELD(field) offsetof(struct config, field), sizeof(((struct config *)0)->field)
#define NUMBER(kind, key, field, text, min, max, unit, effect)                                     \
    { key, unit, text, effect, kind, FIELD(field), min, max, NULL, 0 }
#define INT(...) NUMBER(SETTING_INT, __VA_ARGS__)
#define INT64(...) NUMBER(SETTING_INT64, __VA_ARGS__)
#define DOUBLE(...) NUMBER(SETTING_DOUBLE, __VA_ARGS__)
#define BOOL(key, field, text, effect)                                                             \
    { key, "", text, effect, SETTING_BOOL, FIELD(field), 0, 1, NULL, 0 }
#define STRING(key, field, text, effect)                                                           \
    { key, "", text, effect, SETTING_STRING, FIELD(field), 0, 0, NULL, 0 }
#define NAMED(kind, key, field, text, choices, effect)                                             \
    { key, "", text, effect, kind, FIELD(field), 0, 0, choices, (int)N_ITEMS(choices) }

const struct setting config_settings[] = {
    STRING("server.host", server.host, "127.0.0.1",
           "Address to listen on. Others than loopback need auth.keys_file, or auth.allow_open."),
    INT("server.port", server.port, "8080", 0, 65535, "",
        "TCP port; 0 takes a free one, which the log tells."),
    INT("server.http_threads", server.http_threads, "2", 1, 64, "threads",
        "Threads that read requests, tokenize and write answers."),
    INT("server.max_connections", server.max_connections, "4096", 1, 1000000, "connections",
        "Open connections; requests over more than these are answered 503, but for GET."),
    INT("server.max_concurrent_requests", server.max_concurrent_requests, "512", 1, 65536,
        "requests", "Requests accepted and not yet answered; one more is answered 429."),
    INT("server.max_header_bytes", server.max_header_bytes, "16384", 256, 131072, "bytes",
        "Path and headers of a request; larger ones are answered 431."),
    INT64("server.max_body_bytes", server.max_body_bytes, "2097152", 1024, 1 << 30, "bytes",
          "The largest body of a request; a larger one is answered 413 unread."),
    INT64("server.max_request_memory_bytes", server.max_request_memory_bytes, "0", 0,
          INT64_C(1) << 36, "bytes",
          "What one request may use for body, ids and answer; then 413. 0: 16 x body + 32 MiB."),
    INT("server.max_client_batch_size", server.max_client_batch_size, "32", 1, 4096, "inputs",
        "Texts (or pairs) in one request; more are answered 422."),
    INT("server.read_timeout_ms", server.read_timeout_ms, "10000", 1, HOUR_MS, "ms",
        "From a request's headers to its last body byte; then 408."),
    INT("server.request_timeout_ms", server.request_timeout_ms, "30000", 1, HOUR_MS, "ms",
        "From the last body byte to the answer; then 504."),
    INT("server.idle_timeout_s", server.idle_timeout_s, "60", 1, 86400, "s",
        "How long a connection may be silent between requests."),
    INT("server.drain_timeout_ms", server.drain_timeout_ms, "10000", 0, HOUR_MS, "ms",
        "After SIGTERM: how long accepted requests may still take."),
    BOOL("server.tolerate_half_close", server.tolerate_half_close, "false",
         "Answer clients that shut their sending side; else that counts as hanging up."),
    BOOL("server.timing_headers", server.timing_headers, "true",
         "Send Server-Timing and Berth-Batch with every answer."),
    BOOL("server.profile_header", server.profile_header, "true",
         "Let a request ask for times by kind of op with Berth-Profile: 1."),
    STRING("server.timing_allow_origin", server.timing_allow_origin, "",
           "Value of Timing-Allow-Origin, for pages of other origins; empty: not sent."),

    STRING("auth.keys_file", auth.keys_file, "",
           "File of API keys (docs/KEYS.md), for its owner alone to read; empty: no key is asked "
           "for."),
    BOOL("auth.allow_open", auth.allow_open, "false",
         "Without a keys_file, listen on other addresses than loopback all the same."),
    BOOL("auth.open_metrics", auth.open_metrics, "false",
         "Answer GET /metrics without a key, also when there is a keys_file."),

    STRING("model.dir", model.dir, "",
           "Hugging Face model directory; the command line's MODEL_DIR goes first."),
    STRING("model.served_name", model.served_name, "",
           "Name in /info and metrics; empty: the directory's name."),
    INT("model.max_input_tokens", model.max_input_tokens, "0", 0, 1 << 20, "tokens",
        "Longest input, special tokens counted; 0: what the model takes."),
    BOOL("model.auto_truncate", model.auto_truncate, "true",
         "Cut inputs that are too long when a request does not say; else they get 422."),

    NAMED(SETTING_CHOICE, "compute.device", compute.device, "auto", devices,
          "What runs the model: cpu, cuda (every GPU), cuda:0 (that one), auto (GPUs, else the "
          "CPU); reference and simt, where it was built, are slow, for checks."),
    INT("compute.workers", compute.workers, "0", 0, 256, "workers",
        "Batches computed at the same time; 0 with threads 0: what measures best at start."),
    INT("compute.threads", compute.threads, "0", 0, 256, "threads",
        "Threads of each worker; 0: the cores there are, shared out, at most 16 a worker."),
    STRING("compute.isa", compute.isa, "",
           "Instruction set, such as baseline or avx2; empty: the best this CPU has."),
    NAMED(SETTING_ENUM, "compute.precision", compute.precision, "float32", precision_names,
          "What products are computed in; auto is bfloat16 on GPUs and on CPUs with "
          "AMX, else float32; float16 is for GPUs. "
          "Try int8 with `berth models check` first."),
    NAMED(SETTING_ENUM, "compute.fusion", compute.fusion, "on", fusion_names,
          "off: products, softmax, additions and the rest one by one, as servers do that take a "
          "model op by op; slow, for berth bench --experiment."),
    NAMED(SETTING_ENUM, "compute.gelu", compute.gelu, "auto", gelu_names,
          "GELU on a GPU: erf (exact) or tanh; auto: exact in float32, tanh in 16 bits, where "
          "rounding hides the difference."),
    INT("compute.graph_max_rows", compute.graph_max_rows, "4096", 0, 4096, "rows",
        "Batches up to these are replayed as CUDA graphs, filled up to a bucket; 0: none."),
    INT("compute.pass_timeout_ms", compute.pass_timeout_ms, "10000", 1, HOUR_MS, "ms",
        "A pass on a GPU that takes longer will not end: the device counts as lost."),
    INT64("compute.max_device_bytes", compute.max_device_bytes, "0", 0, INT64_C(1) << 40, "bytes",
          "Device memory that each GPU's weights and batches may take; 0: what there is."),
    NAMED(SETTING_ENUM, "compute.on_device_loss", compute.on_device_loss, "exit", device_losses,
          "When a GPU is lost: exit, for a supervisor to start anew; stay, and answer 503; cpu: "
          "the CPU takes over from the last one."),
    INT("compute.gpu_sample_ms", compute.gpu_sample_ms, "1000", 0, HOUR_MS, "ms",
        "How often the driver is asked how GPUs fare, for the metrics; 0: never."),
    BOOL("compute.pin", compute.pin, "true",
         "Keep each thread of a pass on its core, when they use every core this process may run "
         "on."),
    BOOL("compute.deterministic", compute.deterministic, "false",
         "Let no timing choose: one worker, if compute.workers does not say, and fixed kernels."),
    STRING("compute.tuning_cache", compute.tuning_cache, "",
           "File that keeps what was measured at start; empty: ~/.cache/berth/tuning.json; off: "
           "none."),

    NAMED(SETTING_ENUM, "batching.mode", batching.mode, "packed", batch_mode_names,
          "packed: by length, no padding. The others are there to compare with."),
    INT("batching.max_batch_tokens", batching.max_batch_tokens, "0", 0, 1 << 20, "tokens",
        "Rows of one forward pass, padding included; a longer input runs alone. 0: 256 on a CPU, "
        "8192 on a GPU."),
    INT("batching.max_batch_requests", batching.max_batch_requests, "64", 1, 65536, "inputs",
        "Inputs of one forward pass."),
    DOUBLE("batching.max_wait_ms", batching.max_wait_ms, "0", 0, 60e3, "ms",
           "How long an idle worker may wait for company; 0: it never waits."),
    DOUBLE(
        "batching.max_batch_ms", batching.max_batch_ms, "100", 0, 60e3, "ms",
        "How long a batch may be predicted to take; 0: the other caps alone. Not in mode padded."),
    DOUBLE("batching.rank_cost_factor", batching.rank_cost_factor, "4.5", 0, 1000, "",
           "An input that takes t is queued as if it had come this many t later; 0: by arrival."),
    DOUBLE("batching.priority_shift_ms", batching.priority_shift_ms, "100", 0, 60e3, "ms",
           "By how much priority high goes ahead of normal, and low comes after it."),
    BOOL("batching.interrupt", batching.interrupt, "false",
         "Let urgent short inputs run between two layers of a long batch."),
    INT("batching.max_queued_jobs", batching.max_queued_jobs, "2048", 1, 1000000, "inputs",
        "Inputs that wait in all queues; a request that does not fit is answered 429."),
    INT64("batching.max_queued_tokens", batching.max_queued_tokens, "262144", 1, 1 << 30, "tokens",
          "Their tokens, in all; likewise."),
    INT("batching.reload_max_batch_tokens", batching.reload_max_batch_tokens, "0", 0, 1 << 20,
        "tokens",
        "The largest max_batch_tokens that a reload may bring; 0: four times what is there at "
        "start."),
    {"batching.buckets", "",
     "[{\"up_to\": 16}, {\"up_to\": 32}, {\"up_to\": 64}, {\"up_to\": 128}, {\"up_to\": 256}, "
     "{\"up_to\": 512}]",
     "Length classes, each a queue; may have max_batch_tokens, max_batch_requests, max_wait_ms.",
     SETTING_BUCKETS, FIELD(batching.buckets), 0, 0, NULL, 0},
    INT("batching.padded_max_batch_tokens", batching.padded_max_batch_tokens, "16384", 1, 1 << 20,
        "tokens", "max_batch_tokens of mode padded, which stands for servers without buckets."),
    INT("batching.padded_max_batch_requests", batching.padded_max_batch_requests, "32", 1, 65536,
        "inputs", "max_batch_requests of mode padded."),
    DOUBLE("batching.padded_max_wait_ms", batching.padded_max_wait_ms, "5", 0, 60e3, "ms",
           "max_wait_ms of mode padded."),
    STRING(
        "batching.record", batching.record, "",
        "File for lengths and arrival times, for berth tune; texts are never in it. Empty: none."),
    INT64("batching.record_max_bytes", batching.record_max_bytes, "268435456", 4096,
          INT64_C(1) << 40, "bytes",
          "The largest that file may become; what comes then is counted."),

    NAMED(SETTING_ENUM, "log.level", log.level, "info", log_levels,
          "The least that is logged; JSON lines on stderr."),
    BOOL("log.requests", log.requests, "false", "Log a line for every request."),
};
const int config_n_settings = (int)N_ITEMS(config_settings);

const struct setting *setting_find(const char *key) {
    for (int i = 0; i < config_n_settings; i++) {
        if (!strcmp(key, config_settings[i].key)) {
            return &config_settings[i];
        }
    }
    return NULL;
}
size_t setting_section_length(const struct setting *s) {
    return strcspn(s->key, ".");
}
const char *setting_name(const struct setting *s) {
    return s->key + setting_section_length(s) + 1;
}
bool setting_in_section(const struct setting *s, const char *section) {
    const size_t n = setting_section_length(s);
    return strlen(section) == n && !memcmp(s->key, section, n);
}
void *setting_field(const struct setting *s, struct config *c) {
    return (char *)c + s->offset;
}
void config_defaults(struct config *c) {
    memset(c, 0, sizeof(*c));
    for (int i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];
        struct error err = {{0}};
        const enum status status = setting_set_text(s, c, s->text, &err);
        assert(status == STATUS_OK); // the table itself is wrong otherwise; a test reads every row
        (void)status;
    }
}
