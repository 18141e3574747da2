/* Liveshape's C ABI: load an artifact once, run it exactly at every live shape. C99 and C++.
 *
 *   ls_artifact *artifact = NULL;
 *   ls_session *session = NULL;
 *   if (ls_artifact_load_file("model.live", NULL, &artifact) != LS_OK ||
 *       ls_session_create(artifact, NULL, &session) != LS_OK)
 *     die(ls_last_error());
 *   int64_t dims[2] = {1, 17};
 *   ls_tensor ids = {LS_I64, 2, dims, tokens, sizeof(int64_t) * 17};
 *   ls_tensor logits;
 *   if (ls_session_run(session, &ids, 1, NULL, 0) != LS_OK) die(ls_last_error());
 *   ls_session_output(session, 0, &logits);             // logits.data, logits.dims: until the next call
 *   ls_session_free(session);
 *   ls_artifact_free(artifact);
 *
 * Errors: every function that can fail returns an ls_status; ls_last_error() then says what was asked, what was
 * found and what to do. It belongs to the calling thread and lasts until its next failing call. No C++ exception
 * leaves the library. A null handle, or a null pointer where one is needed, is LS_INVALID_ARGUMENT.
 *
 * Threads: an artifact may be used by many threads. A session is used by one thread at a time, except
 * ls_session_set_cancelled; several sessions of one artifact may run side by side.
 *
 * Memory: strings and arrays that the library hands out belong to the handle they came from. After
 * ls_session_create, bind and run allocate nothing (unless they fail). Loading and creating allocate with malloc
 * and abort where it fails.
 *
 * Growth: structs that begin with `struct_size` may get further fields at their end. Set it to sizeof the struct,
 * zero the rest: ls_stats stats = {.struct_size = sizeof(stats)};. A newer library fills what an older caller has room for, and reads
 * missing fields as zero. An older library refuses fields that it does not know unless they are zero. ls_tensor
 * and ls_named_tensor never change. Numbers of enums are never reused.
 */
#ifndef LIVESHAPE_C_API_H_
#define LIVESHAPE_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LS_API __attribute__((visibility("default")))
#else
#define LS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something is added to this header; ls_api_version() is the library's. */
#define LS_API_VERSION 1

typedef int32_t ls_status;
enum {
  LS_OK = 0,
  LS_INVALID_ARGUMENT = 1,    /* the caller's arguments are wrong */
  LS_OUT_OF_RANGE = 2,        /* a size, index or symbol value outside its range or capacity */
  LS_NOT_FOUND = 3,           /* a named file, symbol or state that does not exist */
  LS_UNSUPPORTED = 4,         /* well-formed, but this build or machine refuses it */
  LS_DATA_LOSS = 5,           /* bytes that are truncated, corrupt or hostile */
  LS_RESOURCE_EXHAUSTED = 6,  /* memory that could not be reserved */
  LS_FAILED_PRECONDITION = 7, /* not now: nothing bound yet, or states half-changed */
  LS_CANCELLED = 8,
  LS_INTERNAL = 9 /* a bug of the library */
};

typedef int32_t ls_dtype;
enum {
  LS_F32 = 0,
  LS_F16 = 1,
  LS_BF16 = 2,
  LS_F64 = 3,
  LS_I64 = 4,
  LS_I32 = 5,
  LS_I16 = 6,
  LS_I8 = 7,
  LS_U8 = 8,
  LS_BOOL = 9
};

typedef struct ls_artifact ls_artifact; /* a loaded model: immutable */
typedef struct ls_session ls_session;   /* a model ready to run, with its states */

/* A tensor in somebody's memory: row-major and dense, at any alignment. An integer input is rank 0 and LS_I64. */
typedef struct ls_tensor {
  ls_dtype dtype;
  int32_t rank;
  const int64_t* dims; /* `rank` of them; may be null where rank is 0 */
  void* data;
  size_t bytes; /* of memory at data: what dims and dtype need, or more */
} ls_tensor;

typedef struct ls_named_tensor {
  const char* name;
  ls_tensor tensor;
} ls_named_tensor;

/* printf("%s\n", ls_version());                         "0.1.0" */
LS_API const char* ls_version(void);

/* if (ls_api_version() < LS_API_VERSION) die("libliveshape is older than its header"); */
LS_API uint32_t ls_api_version(void);

/* fprintf(stderr, "%s\n", ls_last_error());             of this thread's last failing call; never null */
LS_API const char* ls_last_error(void);

/* ls_status_name(LS_OUT_OF_RANGE);                      "out of range" */
LS_API const char* ls_status_name(ls_status status);

/* ls_dtype_size(LS_BF16);                               2; 0 for a number that is no dtype */
LS_API size_t ls_dtype_size(ls_dtype dtype);

/* ---- artifacts ---- */

typedef struct ls_load_options {
  size_t struct_size;
  /* Constants that the artifact names but does not hold (compile --external): all of them, and no other. The data is
   * borrowed until `release`, and copied only where it is not 64-byte aligned. */
  const ls_named_tensor* constants;
  size_t constant_count;
  /* If not null: called once, on any thread, when neither the artifact nor a session of it will read the bytes and
   * constants given at load again. Not called where loading fails. */
  void (*release)(void* context);
  void* release_context;
} ls_load_options;

/* ls_artifact *artifact = NULL;
 * if (ls_artifact_load_file("model.live", NULL, &artifact) != LS_OK) die(ls_last_error());
 * The file is mapped: it must not be changed while the artifact lives. */
LS_API ls_status ls_artifact_load_file(const char* path, const ls_load_options* options,
                                       ls_artifact** artifact);

/* ls_named_tensor head = {"lm_head.weight", {LS_F32, 2, dims, weights, bytes}};
 * ls_load_options options = {sizeof(options), &head, 1, free_both, context};
 * if (ls_artifact_load_memory(bytes, size, &options, &artifact) != LS_OK) die(ls_last_error());
 * The bytes are borrowed; where they are 64-byte aligned their constants are used in place. */
LS_API ls_status ls_artifact_load_memory(const void* bytes, size_t size,
                                         const ls_load_options* options, ls_artifact** artifact);

/* ls_artifact_free(artifact);                           sessions of it stay valid; null is ignored */
LS_API void ls_artifact_free(ls_artifact* artifact);

typedef struct ls_symbol_info {
  size_t struct_size;
  const char* name;       /* the Dim's name, else torch's */
  const char* torch_name; /* "s43" */
  int64_t min, max;
  int32_t stage;       /* 0: known at bind; 1: read from data before a run; more: born during it */
  size_t enters_count; /* where it enters: */
  const char* const* enters; /* "ids.1": dim 1 of input `ids` */
} ls_symbol_info;

/* for (size_t i = 0; i < ls_artifact_symbol_count(artifact); ++i) {
 *   ls_symbol_info symbol = {.struct_size = sizeof(symbol)};
 *   if (ls_artifact_symbol(artifact, i, &symbol) != LS_OK) die(ls_last_error());
 *   printf("%s in [%lld, %lld]\n", symbol.name, (long long)symbol.min, (long long)symbol.max);
 * } */
LS_API size_t ls_artifact_symbol_count(const ls_artifact* artifact);
LS_API ls_status ls_artifact_symbol(const ls_artifact* artifact, size_t index,
                                    ls_symbol_info* info);

/* size_t s;
 * if (ls_artifact_find_symbol(artifact, "S", &s) != LS_OK) die(ls_last_error());
 * By the Dim's name, torch's name, or where it enters. */
LS_API ls_status ls_artifact_find_symbol(const ls_artifact* artifact, const char* name,
                                         size_t* index);

typedef struct ls_port_info {
  size_t struct_size;
  const char* name;
  ls_dtype dtype;
  int32_t is_integer; /* a Python integer of the model, not a tensor */
  int32_t rank;
  const char* const* dims; /* expressions over the symbols: "B", "2*S + 1", "64" */
} ls_port_info;

/* ls_port_info port = {.struct_size = sizeof(port)};
 * if (ls_artifact_input(artifact, 0, &port) != LS_OK) die(ls_last_error());
 * printf("%s: rank %d, first dim %s\n", port.name, (int)port.rank, port.rank ? port.dims[0] : "none"); */
LS_API size_t ls_artifact_input_count(const ls_artifact* artifact);
LS_API ls_status ls_artifact_input(const ls_artifact* artifact, size_t index, ls_port_info* info);
LS_API size_t ls_artifact_output_count(const ls_artifact* artifact);
LS_API ls_status ls_artifact_output(const ls_artifact* artifact, size_t index, ls_port_info* info);

/* ---- sessions ---- */

typedef struct ls_session_options {
  size_t struct_size;
  const char*
      backend;     /* "cpu", which null means too, or "null": plans and binds, computes nothing */
  int32_t threads; /* 0: one per core */
  int32_t strict;  /* not 0: an allocation, rebuild or moved address after this call aborts */
  int32_t profile; /* not 0: ls_session_profile has times */
} ls_session_options;

/* ls_session_options options = {.struct_size = sizeof(options), .threads = 2};
 * if (ls_session_create(artifact, &options, &session) != LS_OK) die(ls_last_error());
 * Null options: the CPU, one thread a core. The session keeps what it needs of the artifact alive. */
LS_API ls_status ls_session_create(const ls_artifact* artifact, const ls_session_options* options,
                                   ls_session** session);

/* ls_session_free(session);                             null is ignored */
LS_API void ls_session_free(ls_session* session);

/* if (ls_session_bind(session, inputs, count) != LS_OK) die(ls_last_error());
 * Makes a live shape current, all or nothing: a refused one leaves the session as it was. Data is read of integer
 * inputs only. Running binds too; this is for knowing early, as in sizing outputs. */
LS_API ls_status ls_session_bind(ls_session* session, const ls_tensor* inputs, size_t count);

/* values[s] = 128;
 * if (ls_session_bind_symbols(session, values, symbol_count) != LS_OK) die(ls_last_error());
 * The same by value, in the order of ls_artifact_symbol; those of stage 1 and more are not read. */
LS_API ls_status ls_session_bind_symbols(ls_session* session, const int64_t* values, size_t count);

/* if (ls_session_symbol_values(session, values, symbol_count) != LS_OK) die(ls_last_error());
 * The live shape that is current. */
LS_API ls_status ls_session_symbol_values(const ls_session* session, int64_t* values, size_t count);

/* ls_tensor out = {LS_F32, 0, NULL, buffer, sizeof(buffer)};
 * if (ls_session_run(session, inputs, input_count, &out, 1) != LS_OK) die(ls_last_error());
 * use(out.data, out.dims, out.rank);
 * Binds the inputs' shape and executes. Inputs, in the model's order, are borrowed for the call. Outputs: null and 0
 * leaves all of them in session memory (ls_session_output); else one a model output, and those whose data is null go to
 * session memory. In `outputs` only data and bytes are read; the call sets dtype, rank, dims and bytes to what the live shape
 * gives, and data where it was null. dims and session memory last until the next call on the session. An output that does
 * not fit its memory is LS_OUT_OF_RANGE, before anything runs where its size is known then. */
LS_API ls_status ls_session_run(ls_session* session, const ls_tensor* inputs, size_t input_count,
                                ls_tensor* outputs, size_t output_count);

/* ls_tensor out;
 * if (ls_session_output(session, 0, &out) != LS_OK) die(ls_last_error());
 * After a bind its dims, -1 (and 0 bytes) where only data will tell; after a run its data too, where the run left it
 * in session memory. */
LS_API ls_status ls_session_output(const ls_session* session, size_t index, ls_tensor* output);

/* ls_session_set_cancelled(session, 1);                 from any thread: the run returns LS_CANCELLED
 * ls_session_set_cancelled(session, 0);                 before the next run */
LS_API ls_status ls_session_set_cancelled(ls_session* session, int32_t cancelled);

/* if (ls_session_trim(session) != LS_OK) die(ls_last_error());
 * Gives physical memory that the live shape does not need back to the system. */
LS_API ls_status ls_session_trim(ls_session* session);

typedef struct ls_stats {
  size_t struct_size;
  uint64_t binds; /* to a new shape */
  uint64_t runs;
  int32_t allocations_observed; /* 0: `allocations` says nothing */
  uint64_t allocations;         /* inside bind and run */
  uint64_t rebuilds;
  uint64_t moved_addresses;
  double last_bind_us, last_run_ms;
  uint64_t arena_reserved; /* bytes at the bound */
  uint64_t arena_resident; /* physical now */
  uint64_t arena_live;     /* most bytes live at one time, at the live shape */
} ls_stats;

/* ls_stats stats = {.struct_size = sizeof(stats)};
 * if (ls_session_stats(session, &stats) != LS_OK) die(ls_last_error()); */
LS_API ls_status ls_session_stats(const ls_session* session, ls_stats* stats);

typedef struct ls_profile_entry {
  size_t struct_size;
  const char *op, *node, *source; /* until the next call of ls_session_profile_count */
  double us;                      /* over all runs of the session */
  uint64_t calls;
} ls_profile_entry;

/* size_t count;                                         entries, in the order in which they run
 * if (ls_session_profile_count(session, &count) != LS_OK) die(ls_last_error());
 * for (size_t i = 0; i < count; ++i) {
 *   ls_profile_entry entry = {.struct_size = sizeof(entry)};
 *   if (ls_session_profile(session, i, &entry) != LS_OK) die(ls_last_error());
 * } */
LS_API ls_status ls_session_profile_count(ls_session* session, size_t* count);
LS_API ls_status ls_session_profile(const ls_session* session, size_t index,
                                    ls_profile_entry* entry);

/* ---- states: what the model keeps between runs ---- */

typedef struct ls_state_info {
  size_t struct_size;
  const char* name;
  ls_dtype dtype;
  int32_t rank;
  const int64_t* dims; /* its capacity */
  size_t bytes;
} ls_state_info;

/* ls_state_info state = {.struct_size = sizeof(state)};
 * if (ls_session_state(session, 0, &state) != LS_OK) die(ls_last_error()); */
LS_API size_t ls_session_state_count(const ls_session* session);
LS_API ls_status ls_session_state(const ls_session* session, size_t index, ls_state_info* info);

/* if (ls_session_read_state(session, "cache.key", copy, state.bytes) != LS_OK) die(ls_last_error());
 * if (ls_session_write_state(session, "cache.key", copy, state.bytes) != LS_OK) die(ls_last_error()); */
LS_API ls_status ls_session_read_state(const ls_session* session, const char* name, void* data,
                                       size_t bytes);
LS_API ls_status ls_session_write_state(ls_session* session, const char* name, const void* data,
                                        size_t bytes);

/* if (ls_session_reset_states(session) != LS_OK) die(ls_last_error());     to the model's initial values */
LS_API ls_status ls_session_reset_states(ls_session* session);

/* size_t size;
 * if (ls_session_snapshot(session, NULL, 0, &size) != LS_OK) die(ls_last_error());
 * void *snapshot = malloc(size);
 * if (ls_session_snapshot(session, snapshot, size, &size) != LS_OK) die(ls_last_error());
 * if (ls_session_restore(session, snapshot, size) != LS_OK) die(ls_last_error());
 * All states at once. A null buffer asks for the size. */
LS_API ls_status ls_session_snapshot(const ls_session* session, void* data, size_t capacity,
                                     size_t* size);
LS_API ls_status ls_session_restore(ls_session* session, const void* data, size_t size);

/* if (ls_session_needs_reset(session)) ls_session_reset_states(session);
 * A run that failed after it had begun to change states leaves the session refusing to run until states are reset
 * or restored. */
LS_API int32_t ls_session_needs_reset(const ls_session* session);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LIVESHAPE_C_API_H_ */
