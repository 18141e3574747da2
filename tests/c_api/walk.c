/* A caller of the C ABI in plain C99: walks the demo model's live shapes against torch's goldens, uses every
 * function, and provokes every error.
 *
 *   walk demo.live external.live constant.bin steps      (steps/index.txt: a line "B S P" a run; see test_c_api.py)
 */
#define _POSIX_C_SOURCE 200112L
#include <liveshape/c_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, ls_last_error()); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)
#define OK(call) CHECK((call) == LS_OK)
#define FAILS(status, text, call) \
  CHECK((call) == (status) && strstr(ls_last_error(), text) != NULL)

static void *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  void *bytes;
  CHECK(file != NULL);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  bytes = malloc(*size ? *size : 1);
  CHECK(fread(bytes, 1, *size, file) == *size);
  fclose(file);
  return bytes;
}

enum { VOCAB = 256, MOST_BATCH = 4 };

typedef struct step {
  int64_t dims[2], position;
  ls_tensor inputs[2];
  float *golden;
} step;

static size_t read_steps(const char *folder, step *steps, size_t most) {
  char path[1024];
  size_t count = 0, size;
  long long b, s, p;
  FILE *index;
  snprintf(path, sizeof(path), "%s/index.txt", folder);
  index = fopen(path, "r");
  CHECK(index != NULL);
  for (; count < most && fscanf(index, "%lld %lld %lld", &b, &s, &p) == 3; ++count) {
    step *at = &steps[count];
    at->dims[0] = b, at->dims[1] = s, at->position = p;
    snprintf(path, sizeof(path), "%s/in%zu.bin", folder, count);
    at->inputs[0].data = read_file(path, &at->inputs[0].bytes);
    at->inputs[0].dtype = LS_I64, at->inputs[0].rank = 2, at->inputs[0].dims = at->dims;
    at->inputs[1].data = &at->position, at->inputs[1].bytes = sizeof(at->position);
    at->inputs[1].dtype = LS_I64, at->inputs[1].rank = 0, at->inputs[1].dims = NULL;
    snprintf(path, sizeof(path), "%s/out%zu.bin", folder, count);
    at->golden = read_file(path, &size);
    CHECK(size == sizeof(float) * VOCAB * (size_t)b);
  }
  fclose(index);
  return count;
}

static void free_steps(step *steps, size_t count) {
  for (size_t i = 0; i < count; ++i) free(steps[i].inputs[0].data), free(steps[i].golden);
}

static void check_close(const step *at, const ls_tensor *out) {
  const float *found = out->data;
  const size_t count = (size_t)at->dims[0] * VOCAB;
  float largest = 1, difference = 0;
  CHECK(out->dtype == LS_F32 && out->rank == 2 && out->bytes == count * sizeof(float));
  CHECK(out->dims[0] == at->dims[0] && out->dims[1] == VOCAB);
  for (size_t i = 0; i < count; ++i) {
    const float d = fabsf(found[i] - at->golden[i]);
    if (fabsf(at->golden[i]) > largest) largest = fabsf(at->golden[i]);
    if (!(d <= difference)) difference = d;
  }
  CHECK(difference <= 1e-5f * largest);
}

static void describe(const ls_artifact *artifact) {
  size_t s;
  ls_symbol_info symbol = {.struct_size = sizeof(symbol)};
  ls_port_info port = {.struct_size = sizeof(port)};
  struct { ls_symbol_info known; long future; } newer = {{.struct_size = sizeof(newer)}, 7};
  size_t only_size = sizeof(size_t) + sizeof(char *);
  CHECK(ls_artifact_symbol_count(artifact) == 3);
  OK(ls_artifact_find_symbol(artifact, "tokens.1", &s));
  OK(ls_artifact_symbol(artifact, s, &symbol));
  CHECK(strcmp(symbol.name, "S") == 0 && symbol.torch_name[0] == 's');
  CHECK(symbol.min == 1 && symbol.max == 127 && symbol.stage == 0);
  CHECK(symbol.enters_count == 1 && strcmp(symbol.enters[0], "tokens.1") == 0);
  OK(ls_artifact_symbol(artifact, s, &newer.known)); /* of a newer header: what is unknown stays */
  CHECK(newer.future == 7 && newer.known.max == 127);
  memset(&symbol, 0, sizeof(symbol)); /* of an older header, which had one field */
  symbol.struct_size = only_size;
  OK(ls_artifact_symbol(artifact, s, &symbol));
  CHECK(strcmp(symbol.name, "S") == 0 && symbol.torch_name == NULL && symbol.max == 0);

  CHECK(ls_artifact_input_count(artifact) == 2 && ls_artifact_output_count(artifact) == 1);
  OK(ls_artifact_input(artifact, 0, &port));
  CHECK(strcmp(port.name, "tokens") == 0 && port.dtype == LS_I64 && !port.is_integer);
  CHECK(port.rank == 2 && strcmp(port.dims[0], "B") == 0 && strcmp(port.dims[1], "S") == 0);
  OK(ls_artifact_input(artifact, 1, &port));
  CHECK(port.is_integer && port.rank == 0);
  OK(ls_artifact_output(artifact, 0, &port));
  CHECK(port.dtype == LS_F32 && port.rank == 2 && strcmp(port.dims[0], "B") == 0);
}

/* Every run but the odd ones goes to session memory. */
static void walk(ls_session *session, const step *steps, size_t count) {
  float own[MOST_BATCH * VOCAB];
  for (size_t i = 0; i < count; ++i) {
    ls_tensor out = {0, 0, NULL, NULL, 0};
    if (i % 2) {
      out.data = own, out.bytes = sizeof(own);
      OK(ls_session_run(session, steps[i].inputs, 2, &out, 1));
      CHECK(out.data == own);
    } else {
      OK(ls_session_run(session, steps[i].inputs, 2, NULL, 0));
      OK(ls_session_output(session, 0, &out));
    }
    check_close(&steps[i], &out);
  }
}

static void use_states(ls_session *session, const step *steps) {
  size_t size = 0, count = ls_session_state_count(session);
  ls_state_info state = {.struct_size = sizeof(state)};
  float first[VOCAB * MOST_BATCH], again[VOCAB * MOST_BATCH];
  ls_tensor out = {0, 0, NULL, first, sizeof(first)}, more = {0, 0, NULL, again, sizeof(again)};
  unsigned char *snapshot, *bytes;
  CHECK(count == 4);
  OK(ls_session_reset_states(session));
  OK(ls_session_state(session, 0, &state));
  CHECK(state.rank == 4 && state.dtype == LS_F32 && state.bytes > 0);
  bytes = malloc(state.bytes);
  OK(ls_session_read_state(session, state.name, bytes, state.bytes));
  for (size_t i = 0; i < state.bytes; ++i) CHECK(bytes[i] == 0);

  OK(ls_session_run(session, steps[0].inputs, 2, NULL, 0));
  OK(ls_session_snapshot(session, NULL, 0, &size));
  snapshot = malloc(size);
  OK(ls_session_snapshot(session, snapshot, size, &size));
  OK(ls_session_run(session, steps[1].inputs, 2, &out, 1));
  OK(ls_session_restore(session, snapshot, size));
  OK(ls_session_run(session, steps[1].inputs, 2, &more, 1));
  CHECK(out.bytes == more.bytes && memcmp(first, again, out.bytes) == 0);

  memset(bytes, 0, state.bytes);
  OK(ls_session_write_state(session, state.name, bytes, state.bytes));
  OK(ls_session_run(session, steps[1].inputs, 2, &more, 1));
  CHECK(memcmp(first, again, out.bytes) != 0); /* the keys of the first layer were forgotten */

  FAILS(LS_NOT_FOUND, "there is no state", ls_session_read_state(session, "nonesuch", bytes, 1));
  FAILS(LS_INVALID_ARGUMENT, "bytes", ls_session_read_state(session, state.name, bytes, 1));
  FAILS(LS_INVALID_ARGUMENT, "bytes", ls_session_write_state(session, state.name, bytes, 1));
  FAILS(LS_OUT_OF_RANGE, "snapshot", ls_session_snapshot(session, snapshot, 1, &size));
  FAILS(LS_INVALID_ARGUMENT, "restore", ls_session_restore(session, snapshot, 1));
  FAILS(LS_OUT_OF_RANGE, "there are 4", ls_session_state(session, count, &state));
  OK(ls_session_reset_states(session));
  CHECK(!ls_session_needs_reset(session));
  free(snapshot), free(bytes);
}

static void refuse_runs(ls_session *session, const step *good) {
  int64_t dims[2] = {1, 128}, values[3], before[3], now[3], token = 9999, one[2] = {1, 1};
  float small[1];
  ls_tensor inputs[2], out = {0, 0, NULL, small, sizeof(small)};
  memcpy(inputs, good->inputs, sizeof(inputs));
  OK(ls_session_run(session, inputs, 2, NULL, 0));
  OK(ls_session_symbol_values(session, before, 3));
  inputs[0].dims = dims, inputs[0].data = NULL;
  FAILS(LS_OUT_OF_RANGE, "above its bound 127", ls_session_bind(session, inputs, 2));
  inputs[0].data = &token, inputs[0].bytes = sizeof(token);
  FAILS(LS_INVALID_ARGUMENT, "needs 1024 bytes", ls_session_run(session, inputs, 2, NULL, 0));
  FAILS(LS_INVALID_ARGUMENT, "the model has 2", ls_session_run(session, inputs, 1, NULL, 0));
  FAILS(LS_INVALID_ARGUMENT, "inputs is null", ls_session_run(session, NULL, 2, NULL, 0));
  FAILS(LS_INVALID_ARGUMENT, "outputs is null", ls_session_run(session, good->inputs, 2, NULL, 1));
  FAILS(LS_INVALID_ARGUMENT, "2 outputs", ls_session_run(session, good->inputs, 2, &out, 2));
  FAILS(LS_OUT_OF_RANGE, "output 0", ls_session_run(session, good->inputs, 2, &out, 1));
  inputs[0].rank = 1;
  FAILS(LS_INVALID_ARGUMENT, "rank", ls_session_bind(session, inputs, 2));
  inputs[0].rank = 1000;
  FAILS(LS_INVALID_ARGUMENT, "rank 1000", ls_session_bind(session, inputs, 2));
  inputs[0].rank = 2, inputs[0].dtype = LS_F32;
  FAILS(LS_INVALID_ARGUMENT, "the model takes i64",
        (inputs[0].data = NULL, ls_session_bind(session, inputs, 2)));
  inputs[0].dtype = 77;
  FAILS(LS_INVALID_ARGUMENT, "no dtype", ls_session_bind(session, inputs, 2));
  inputs[0].dtype = LS_I64, dims[0] = -1;
  FAILS(LS_INVALID_ARGUMENT, "-1", ls_session_bind(session, inputs, 2));
  dims[0] = INT64_MAX, dims[1] = INT64_MAX;
  FAILS(LS_OUT_OF_RANGE, "no memory", ls_session_bind(session, inputs, 2));
  inputs[0].dims = NULL;
  FAILS(LS_INVALID_ARGUMENT, "dims is null", ls_session_bind(session, inputs, 2));
  OK(ls_session_symbol_values(session, now, 3)); /* none of these changed the live shape */
  CHECK(memcmp(before, now, sizeof(now)) == 0);

  inputs[0].dims = one, inputs[0].data = &token; /* known only when it is looked up */
  CHECK(ls_session_run(session, inputs, 2, NULL, 0) != LS_OK);
  CHECK(strstr(ls_last_error(), "embedding") != NULL && !ls_session_needs_reset(session));
  OK(ls_session_output(session, 0, &out));
  CHECK(out.data == NULL && out.dims[0] == 1); /* bound, not run */

  memcpy(values, before, sizeof(values));
  values[0] = 100000;
  FAILS(LS_OUT_OF_RANGE, "above its bound", ls_session_bind_symbols(session, values, 3));
  FAILS(LS_INVALID_ARGUMENT, "3 symbols", ls_session_bind_symbols(session, values, 2));
  OK(ls_session_bind_symbols(session, before, 3));
  FAILS(LS_INVALID_ARGUMENT, "room for 2", ls_session_symbol_values(session, now, 2));
  FAILS(LS_OUT_OF_RANGE, "there are 1", ls_session_output(session, 1, &out));

  OK(ls_session_set_cancelled(session, 1));
  FAILS(LS_CANCELLED, "", ls_session_run(session, good->inputs, 2, NULL, 0));
  OK(ls_session_set_cancelled(session, 0));
  OK(ls_session_reset_states(session));
}

static void refuse_null_and_wrong(ls_artifact *artifact, ls_session *session) {
  ls_artifact *none = NULL;
  ls_session *other = NULL;
  ls_tensor out;
  int64_t values[3];
  size_t n;
  ls_symbol_info symbol = {.struct_size = 0};
  ls_stats stats = {.struct_size = 0};
  ls_session_options options = {sizeof(options), "abacus", 0, 0, 0};
  struct { ls_session_options known; long future; } newer = {{sizeof(newer), NULL, 1, 0, 0}, 1};

  FAILS(LS_INVALID_ARGUMENT, "path", ls_artifact_load_file(NULL, NULL, &none));
  FAILS(LS_INVALID_ARGUMENT, "artifact", ls_artifact_load_file("x", NULL, NULL));
  FAILS(LS_INVALID_ARGUMENT, "bytes", ls_artifact_load_memory(NULL, 1, NULL, &none));
  FAILS(LS_NOT_FOUND, "nonesuch.live", ls_artifact_load_file("nonesuch.live", NULL, &none));
  FAILS(LS_DATA_LOSS, "", ls_artifact_load_memory("LIVE", 4, NULL, &none));
  FAILS(LS_INVALID_ARGUMENT, "artifact", ls_artifact_symbol(NULL, 0, &symbol));
  FAILS(LS_INVALID_ARGUMENT, "struct_size", ls_artifact_symbol(artifact, 0, &symbol));
  FAILS(LS_INVALID_ARGUMENT, "null", ls_artifact_symbol(artifact, 0, NULL));
  FAILS(LS_OUT_OF_RANGE, "there are 3", ls_artifact_symbol(artifact, 3, &symbol));
  FAILS(LS_OUT_OF_RANGE, "there are 2", ls_artifact_input(artifact, 2, NULL));
  FAILS(LS_OUT_OF_RANGE, "there are 1", ls_artifact_output(artifact, 1, NULL));
  FAILS(LS_NOT_FOUND, "no symbol `T`", ls_artifact_find_symbol(artifact, "T", &n));
  FAILS(LS_INVALID_ARGUMENT, "name", ls_artifact_find_symbol(artifact, NULL, &n));
  FAILS(LS_UNSUPPORTED, "abacus", ls_session_create(artifact, &options, &other));
  options.backend = NULL, options.threads = -1;
  FAILS(LS_INVALID_ARGUMENT, "threads", ls_session_create(artifact, &options, &other));
  options.struct_size = 1;
  FAILS(LS_INVALID_ARGUMENT, "struct_size", ls_session_create(artifact, &options, &other));
  FAILS(LS_UNSUPPORTED, "does not know", ls_session_create(artifact, &newer.known, &other));
  newer.future = 0;
  OK(ls_session_create(artifact, &newer.known, &other));
  FAILS(LS_FAILED_PRECONDITION, "no shape is bound", ls_session_output(other, 0, &out));
  FAILS(LS_FAILED_PRECONDITION, "no shape", ls_session_symbol_values(other, values, 3));
  ls_session_free(other);

  FAILS(LS_INVALID_ARGUMENT, "session", ls_session_run(NULL, NULL, 0, NULL, 0));
  FAILS(LS_INVALID_ARGUMENT, "session", ls_session_bind(NULL, NULL, 0));
  FAILS(LS_INVALID_ARGUMENT, "session", ls_session_bind_symbols(NULL, NULL, 0));
  FAILS(LS_INVALID_ARGUMENT, "values", ls_session_bind_symbols(session, NULL, 3));
  FAILS(LS_INVALID_ARGUMENT, "session", ls_session_trim(NULL));
  FAILS(LS_INVALID_ARGUMENT, "session", ls_session_set_cancelled(NULL, 1));
  FAILS(LS_INVALID_ARGUMENT, "session", ls_session_reset_states(NULL));
  FAILS(LS_INVALID_ARGUMENT, "struct_size", ls_session_stats(session, &stats));
  FAILS(LS_INVALID_ARGUMENT, "name", ls_session_read_state(session, NULL, NULL, 0));
  FAILS(LS_INVALID_ARGUMENT, "data", ls_session_write_state(session, "x", NULL, 1));
  FAILS(LS_INVALID_ARGUMENT, "count", ls_session_profile_count(session, NULL));
  FAILS(LS_OUT_OF_RANGE, "profile", ls_session_profile(session, 100000, NULL));
  CHECK(ls_artifact_symbol_count(NULL) == 0 && ls_artifact_input_count(NULL) == 0);
  CHECK(ls_artifact_output_count(NULL) == 0 && ls_session_state_count(NULL) == 0);
  CHECK(!ls_session_needs_reset(NULL));
  ls_session_free(NULL);
  ls_artifact_free(NULL);
  CHECK(ls_dtype_size(LS_BF16) == 2 && ls_dtype_size(-1) == 0 && ls_dtype_size(10) == 0);
  CHECK(strcmp(ls_status_name(LS_OUT_OF_RANGE), "out of range") == 0);
}

static void count_release(void *context) { ++*(int *)context; }

/* From memory, with a constant of ours: the same results, and the memory is given back when the last user is gone. */
static void external(const char *path, const char *constant_path, const step *steps, size_t count) {
  size_t size, constant_size;
  int released = 0;
  void *bytes = read_file(path, &size), *constant = read_file(constant_path, &constant_size);
  const int64_t dims[2] = {VOCAB, 64};
  ls_named_tensor given = {"embed.weight", {LS_F32, 2, NULL, NULL, 0}};
  ls_load_options options = {sizeof(options), &given, 1, count_release, NULL};
  ls_artifact *artifact = NULL;
  ls_session *session = NULL;
  given.tensor.dims = dims, given.tensor.data = constant, given.tensor.bytes = constant_size;
  options.release_context = &released;

  FAILS(LS_INVALID_ARGUMENT, "embed.weight", ls_artifact_load_memory(bytes, size, NULL, &artifact));
  given.name = "nonesuch";
  CHECK(ls_artifact_load_memory(bytes, size, &options, &artifact) == LS_INVALID_ARGUMENT);
  given.name = NULL;
  FAILS(LS_INVALID_ARGUMENT, "no name", ls_artifact_load_memory(bytes, size, &options, &artifact));
  given.name = "embed.weight", given.tensor.bytes = 4;
  FAILS(LS_INVALID_ARGUMENT, "bytes", ls_artifact_load_memory(bytes, size, &options, &artifact));
  given.tensor.bytes = constant_size, given.tensor.dtype = LS_I32;
  FAILS(LS_INVALID_ARGUMENT, "i32", ls_artifact_load_memory(bytes, size, &options, &artifact));
  given.tensor.dtype = LS_F32;
  CHECK(released == 0 && artifact == NULL);

  OK(ls_artifact_load_memory(bytes, size, &options, &artifact));
  OK(ls_session_create(artifact, NULL, &session));
  ls_artifact_free(artifact);
  CHECK(released == 0);
  walk(session, steps, count);
  ls_session_free(session);
  CHECK(released == 1);
  free(bytes), free(constant);
}

/* No address space is left to reserve: an error, not a crash. What small allocations need is kept free before. */
static void exhaust(const ls_artifact *artifact) {
  enum { BLOCKS = 16384 };
  static void *blocks[BLOCKS];
  struct rlimit limit, none;
  ls_session_options options = {sizeof(options), "cpu", 1, 0, 0};
  ls_session *session = NULL;
  for (size_t i = 0; i < BLOCKS; ++i) blocks[i] = malloc(1000);
  for (size_t i = 0; i + 1 < BLOCKS; ++i) free(blocks[i]);
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  none = limit;
  none.rlim_cur = 1 << 20;
  CHECK(setrlimit(RLIMIT_AS, &none) == 0);
  FAILS(LS_RESOURCE_EXHAUSTED, "", ls_session_create(artifact, &options, &session));
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  free(blocks[BLOCKS - 1]);
}

int main(int argc, char **argv) {
  static step steps[64];
  ls_artifact *artifact = NULL;
  ls_session *session = NULL;
  ls_session_options options = {sizeof(options), "cpu", 2, 1, 1};
  ls_stats stats = {.struct_size = sizeof(stats)};
  ls_profile_entry entry = {.struct_size = sizeof(entry)};
  size_t count, entries = 0;
  CHECK(argc == 5);
  CHECK(ls_api_version() == LS_API_VERSION && ls_version()[0] != 0);
  count = read_steps(argv[4], steps, sizeof(steps) / sizeof(steps[0]));
  CHECK(count > 4);

  OK(ls_artifact_load_file(argv[1], NULL, &artifact));
  describe(artifact);
  OK(ls_session_create(artifact, &options, &session));
  walk(session, steps, count);
  OK(ls_session_stats(session, &stats));
  CHECK(stats.runs == count && stats.binds > 1 && stats.rebuilds == 0);
  CHECK(stats.moved_addresses == 0 && stats.arena_reserved > 0 && stats.arena_live > 0);
  OK(ls_session_profile_count(session, &entries));
  CHECK(entries > 0);
  OK(ls_session_profile(session, 0, &entry));
  CHECK(entry.calls == count && entry.op[0] != 0);
  OK(ls_session_trim(session));

  use_states(session, steps);
  refuse_runs(session, &steps[0]);
  refuse_null_and_wrong(artifact, session);
  walk(session, steps, count); /* after all that: as at first */
  external(argv[2], argv[3], steps, count);
  exhaust(artifact);
  ls_session_free(session);
  ls_artifact_free(artifact);
  free_steps(steps, count);
  printf("%zu runs agree with torch; every error was met\n", count);
  return 0;
}
