/* config.h - every setting, its default and its bounds. One table (config_table.c) reads the file
 * and the command line, prints --help and the sample deploy/berth.jsonc; a test holds them equal.
 * Keys are "section.name", as the fields here are. */
#ifndef BERTH_SERVER_CONFIG_H
#define BERTH_SERVER_CONFIG_H
#include "base/log.h"
#include "base/status.h"
#include "batching/policy.h"
#include "kernels/plugin.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum device_loss { DEVICE_LOSS_EXIT, DEVICE_LOSS_STAY, DEVICE_LOSS_CPU }; // and then?
struct config {
    struct {
        char host[64]; // address to listen on; default 127.0.0.1
        int port;      // 0: any free port, told in the log
        int http_threads;
        int max_connections;
        int max_concurrent_requests; // slots: requests accepted and not yet answered
        int max_header_bytes;
        int64_t max_body_bytes;
        int64_t max_request_memory_bytes; // of one request, all in all; 0: auto
        int max_client_batch_size;        // inputs of one request
        int read_timeout_ms;              // headers to last body byte
        int request_timeout_ms;           // last body byte to answer
        int idle_timeout_s;               // a connection between requests
        int drain_timeout_ms;             // after SIGTERM
        bool tolerate_half_close;      // a client that shut its sending side still gets its answer
        bool timing_headers;           // Server-Timing and Berth-Batch
        bool profile_header;           // Berth-Profile: 1 is allowed
        char timing_allow_origin[128]; // Timing-Allow-Origin; "": not sent
    } server;
    struct {
        char keys_file[1024]; // keys.h; "": whoever reaches the server may ask
        bool allow_open;      // also where others than this machine can reach it
        bool open_metrics;    // /metrics without a key
    } auth;
    struct {
        char dir[1024];
        char served_name[128]; // "": the directory's name
        int max_input_tokens;  // 0: the model's limit
        bool auto_truncate;    // when a request does not say
    } model;
    struct {
        char device[16]; // auto, cpu, cuda, cuda:N, simt, reference
        int workers;     // 0: auto
        int threads;     // lanes a worker; 0: auto
        char isa[16];    // "": the best this CPU has
        enum gelu gelu;  // on a GPU
        int graph_max_rows, pass_timeout_ms, gpu_sample_ms; // 0: no graphs; the driver not asked
        int64_t max_device_bytes;                           // 0: what there is
        enum device_loss on_device_loss;
        enum precision precision;
        enum fusion fusion;
        bool pin;
        bool deterministic;      // nothing is chosen by timing
        char tuning_cache[1024]; // "": in the user's folder for caches; "off": none
    } compute;
    struct {
        enum batch_mode mode;
        int max_batch_tokens, max_batch_requests; // of buckets that do not say; tokens 0: default
        double max_wait_ms;
        double max_batch_ms; // 0: no bound in time
        double rank_cost_factor, priority_shift_ms;
        bool interrupt;
        int max_queued_jobs;
        int64_t max_queued_tokens;
        int reload_max_batch_tokens; // 0: RELOAD_GROWTH times the largest at start
        struct bucket_limits buckets[POLICY_MAX_BUCKETS]; // 0 or -1 in a limit: as above
        int n_buckets;
        int padded_max_batch_tokens, padded_max_batch_requests; // mode `padded`: no buckets
        double padded_max_wait_ms;
        char record[1024]; // trace of lengths and arrivals; "": none
        int64_t record_max_bytes;
    } batching;
    struct {            // where the buckets were read, for errors
        char file[256]; // "": the command line, or the default
        int bucket_lines[POLICY_MAX_BUCKETS];
    } origin;
    struct {
        enum log_level level;
        bool requests; // a line a request
    } log;
};
void config_defaults(struct config *c);
/* Reads a JSON file with comments over what `c` holds. Errors: STATUS_IO; STATUS_INVALID with file,
 * line, key, what stands there and what is allowed; an unknown key names the nearest known one. */
MUST_CHECK enum status config_read_file(struct config *c, const char *path, struct error *err);
/* The same from memory; `name` stands for the file in errors. */
MUST_CHECK enum status config_read_text(struct config *c, const char *bytes, size_t len,
                                        const char *name, struct error *err);
/* One command-line option, named as its key ("port", "batching.mode"; '-' may stand for '_');
 * `value` NULL for a switch. Last parts of keys that are unique stand alone. Errors:
 * STATUS_INVALID. */
MUST_CHECK enum status config_set(struct config *c, const char *key, const char *value,
                                  struct error *err);
bool config_host_is_loopback(const char *host); // a name counts when it is "localhost"
bool config_is_switch(const char *key);         // a bool: its option takes no word of its own
/* The known key that `key` was most likely meant to be. */
const char *config_nearest(const char *key);
MUST_CHECK enum status config_check(const struct config *c, struct error *err); // between settings
/* What the batcher is told, for a model that takes max_seq_len tokens. The default buckets are
 * fitted to the model; a list of the user's own that does not fit is STATUS_INVALID with the fix.
 */
MUST_CHECK enum status config_policy(struct policy_config *out, const struct config *c,
                                     int max_seq_len, struct error *err);
int config_batch_tokens(const struct config *c, bool on_gpu); // max_batch_tokens, or its default
void config_cap_rows(struct policy_config *p, int rows);      // of every batch; 0: no cap
/* How large a batch a reload may ask for, rows and inputs: room is made at start. */
enum { RELOAD_GROWTH = 4 };
void config_reserve(int *tokens, int *jobs, const struct config *c,
                    const struct policy_config *at_start);
void config_print(FILE *out, const struct config *c); // JSON that reads back, every value in force
/* The same of these keys alone, which are of one section. */
void config_print_keys(FILE *out, const struct config *c, const char *const *keys, int n);
void config_print_sample(FILE *out); // deploy/berth.jsonc: defaults and comments
void config_print_help(FILE *out);   // the settings' part of --help
#endif
