// The C ABI over liveshape.h: checks what C cannot promise, keeps strings and call buffers alive, and turns a Status
// into a code and this thread's message. Nothing here throws; where memory ends, loading and creating abort.
#include "liveshape/c_api.h"

#include <algorithm>
#include <cstring>

#include "ir/graph.h"
#include "liveshape/liveshape.h"
#include "liveshape/version.h"
#include "runtime/backend.h"

using namespace liveshape;

static_assert(LS_INTERNAL == static_cast<int>(Code::kInternal));
static_assert(LS_BOOL == static_cast<int>(DType::kBool));

namespace {

constexpr int32_t kMostRank = 64;  // beyond any model; keeps a wrong number from being believed

struct Names {
  std::vector<std::string> strings;
  std::vector<const char*> pointers;
  explicit Names(std::vector<std::string> list) : strings(std::move(list)) {
    for (const std::string& text : strings) pointers.push_back(text.c_str());
  }
};

std::vector<Names> DimNames(const std::vector<PortDescription>& ports) {
  std::vector<Names> names;
  names.reserve(ports.size());  // short strings hold their text: they must not move
  for (const PortDescription& port : ports) names.emplace_back(port.dims);
  return names;
}

}  // namespace

struct ls_artifact {
  std::shared_ptr<const Artifact> artifact;
  std::vector<Names> enters, input_dims, output_dims;
};

struct ls_session {
  std::shared_ptr<const Artifact> artifact;
  std::unique_ptr<Session> session;
  bool bound = false;
  // Buffers of the calls: a run allocates nothing.
  std::vector<TensorRef> inputs, outputs;
  std::vector<bool> late;      // output i has a size that no bind knows
  std::vector<bool> has_data;  // output i lies in session memory since the last run
  std::vector<size_t> state_bytes;
  std::vector<ProfileEntry> profile;

  const ir::Graph& graph() const { return artifact->graph(); }
};

namespace {

thread_local std::string last_error;

ls_status Report(const Status& status) {
  if (status.ok()) return LS_OK;
  last_error = status.message();
  return static_cast<ls_status>(status.code());
}

ls_status NullArgument(const char* what) { return Report(InvalidArgument("{} is null", what)); }
#define LS_NEED(pointer) \
  if ((pointer) == nullptr) return NullArgument(#pointer)

// An options struct of any size: missing fields are zero, unknown ones must be.
template <typename Options>
Result<Options> Read(const Options* given) {
  Options options = {};
  if (given == nullptr) return options;
  if (given->struct_size < sizeof(size_t))
    return InvalidArgument("struct_size is {}: set it to sizeof the struct", given->struct_size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(Options); i < given->struct_size; ++i)
    if (bytes[i] != 0)
      return Unsupported("an option that this library, API version {}, does not know is set",
                         LS_API_VERSION);
  std::memcpy(&options, given, std::min(given->struct_size, sizeof(Options)));
  return options;
}

// A result struct of any size: what the caller has room for is filled.
template <typename Info>
ls_status Fill(Info* out, Info value) {
  if (out == nullptr) return NullArgument("the struct to fill");
  if (out->struct_size < sizeof(size_t))
    return Report(
        InvalidArgument("struct_size is {}: set it to sizeof the struct", out->struct_size));
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min(out->struct_size, sizeof(Info)));
  return LS_OK;
}

Status CheckIndex(const char* what, size_t index, size_t count) {
  if (index < count) return {};
  return OutOfRange("{} {}: there are {}", what, index, count);
}

Status ReadTensor(const ls_tensor& given, TensorRef& tensor) {
  if (given.dtype < 0 || given.dtype >= kDTypeCount)
    return InvalidArgument("{} is no dtype", given.dtype);
  if (given.rank < 0 || given.rank > kMostRank)
    return InvalidArgument("rank {}: 0 to {}", given.rank, kMostRank);
  if (given.rank > 0 && given.dims == nullptr) return InvalidArgument("dims is null");
  tensor.dtype = static_cast<DType>(given.dtype);
  tensor.data = given.data;
  tensor.dims.assign(given.dims, given.dims + given.rank);  // of the model's rank: no allocation
  for (const int64_t dim : tensor.dims)
    if (dim < 0) return InvalidArgument("a dim is {}", dim);
  const auto bytes = ir::DenseBytes(tensor.dtype, tensor.dims);
  if (!bytes) return OutOfRange("no memory could hold [{}]", fmt::join(tensor.dims, ", "));
  if (given.data != nullptr && given.bytes < *bytes)
    return InvalidArgument("[{}] of {} needs {} bytes, {} are given", fmt::join(tensor.dims, ", "),
                           Name(tensor.dtype), *bytes, given.bytes);
  return {};
}

Status ReadInputs(ls_session& session, const ls_tensor* inputs, size_t count, const char* where) {
  if (count != session.inputs.size())
    return InvalidArgument("{}: {} inputs given, the model has {}", where, count,
                           session.inputs.size());
  if (inputs == nullptr && count > 0) return InvalidArgument("{}: inputs is null", where);
  for (size_t i = 0; i < count; ++i)
    if (Status s = ReadTensor(inputs[i], session.inputs[i]); !s.ok())
      return std::move(s).Prefixed(
          fmt::format("{}: input {} `{}`", where, i, session.artifact->inputs()[i].name));
  return {};
}

ls_tensor ToC(const TensorRef& tensor) {
  const bool known = std::ranges::find(tensor.dims, kUnknownDim) == tensor.dims.end();
  return {static_cast<ls_dtype>(tensor.dtype), static_cast<int32_t>(tensor.dims.size()),
          tensor.dims.data(), tensor.data, known ? tensor.bytes() : 0};
}

Status Fits(const ls_session& session, size_t output, const ls_tensor& memory) {
  const TensorRef& live = session.session->output(output);
  const size_t bytes = ToC(live).bytes;
  if (memory.data == nullptr || memory.bytes >= bytes) return {};
  return OutOfRange("run: output {} `{}` is [{}], {} bytes, and {} are given", output,
                    session.artifact->outputs()[output].name, fmt::join(live.dims, ", "), bytes,
                    memory.bytes);
}

Status Bind(ls_session& session) {
  LS_RETURN_IF_ERROR(session.session->Bind(session.inputs));
  session.bound = true;
  return {};
}

void ForgetData(ls_session& session) {
  std::fill(session.has_data.begin(), session.has_data.end(), false);
}

Status Run(ls_session& session, ls_tensor* outputs, size_t count) {
  if (outputs == nullptr && count > 0) return InvalidArgument("run: outputs is null");
  if (count != 0 && count != session.outputs.size())
    return InvalidArgument("run: {} outputs given, the model has {}", count,
                           session.outputs.size());
  LS_RETURN_IF_ERROR(Bind(session));
  for (size_t i = 0; i < count; ++i) {
    if (!session.late[i]) LS_RETURN_IF_ERROR(Fits(session, i, outputs[i]));
    session.outputs[i].data = session.late[i] ? nullptr : outputs[i].data;
  }
  ForgetData(session);
  LS_RETURN_IF_ERROR(session.session->Run(
      session.inputs, std::span(session.outputs).first(count == 0 ? 0 : session.outputs.size())));
  for (size_t i = 0; i < session.has_data.size(); ++i)
    session.has_data[i] = count == 0 || session.late[i] || outputs[i].data == nullptr;
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(Fits(session, i, outputs[i]));  // the late ones
    void* const given = outputs[i].data;
    outputs[i] = ToC(session.session->output(i));
    if (given == nullptr) continue;
    if (session.late[i] && outputs[i].bytes > 0)
      std::memcpy(given, outputs[i].data, outputs[i].bytes);
    outputs[i].data = given;
  }
  return {};
}

// Calls `release` when the last user of what the caller lent is gone.
struct Lent {
  ls_load_options options = {};
  std::shared_ptr<const Artifact> artifact;
  ~Lent() {
    artifact.reset();
    if (options.release) options.release(options.release_context);
  }
};

template <typename Load>
Status LoadWith(const ls_load_options* given, Load&& load, ls_artifact** result) {
  LS_ASSIGN_OR_RETURN(const ls_load_options options, Read(given));
  if (options.constants == nullptr && options.constant_count > 0)
    return InvalidArgument("load: constants is null");
  Artifact::LoadOptions with;
  for (size_t i = 0; i < options.constant_count; ++i) {
    const ls_named_tensor& constant = options.constants[i];
    if (constant.name == nullptr) return InvalidArgument("load: constant {} has no name", i);
    TensorRef tensor;
    if (Status s = ReadTensor(constant.tensor, tensor); !s.ok())
      return std::move(s).Prefixed(fmt::format("load: constant `{}`", constant.name));
    if (!with.external_constants.try_emplace(constant.name, std::move(tensor)).second)
      return InvalidArgument("load: constant `{}` is given twice", constant.name);
  }
  auto lent = std::make_shared<Lent>();
  LS_ASSIGN_OR_RETURN(lent->artifact, load(with));
  lent->options = options;
  const Artifact& artifact = *lent->artifact;
  auto handle = std::make_unique<ls_artifact>();
  handle->artifact = std::shared_ptr<const Artifact>(lent, &artifact);
  handle->enters.reserve(artifact.symbols().size());
  for (const SymbolDescription& symbol : artifact.symbols())
    handle->enters.emplace_back(symbol.enters);
  handle->input_dims = DimNames(artifact.inputs());
  handle->output_dims = DimNames(artifact.outputs());
  *result = handle.release();
  return {};
}

ls_status FillPort(const std::vector<PortDescription>& ports, const std::vector<Names>& dims,
                   const char* what, size_t index, ls_port_info* info) {
  if (Status s = CheckIndex(what, index, ports.size()); !s.ok()) return Report(s);
  const PortDescription& port = ports[index];
  return Fill(info, {0, port.name.c_str(), static_cast<ls_dtype>(port.dtype), port.scalar,
                     static_cast<int32_t>(port.dims.size()), dims[index].pointers.data()});
}

Status Create(const ls_artifact& artifact, const ls_session_options* given, ls_session** result) {
  LS_ASSIGN_OR_RETURN(const ls_session_options options, Read(given));
  const std::string name = options.backend ? options.backend : "cpu";
  if (options.threads < 0 || options.threads > 1024)
    return InvalidArgument("create: {} threads: 0 (one per core) to 1024", options.threads);
  BackendPtr backend;
  if (name == "cpu") backend = MakeCpuBackend({.threads = options.threads});
  if (name == "null") backend = MakeNullBackend();
  if (!backend) return Unsupported("create: no backend `{}`: this build has cpu and null", name);
  auto handle = std::make_unique<ls_session>();
  handle->artifact = artifact.artifact;
  LS_ASSIGN_OR_RETURN(handle->session, Session::Create(artifact.artifact, std::move(backend),
                                                       {.strict = options.strict != 0,
                                                        .profile = options.profile != 0}));
  const ir::Graph& graph = handle->graph();
  for (const PortDescription& port : artifact.artifact->inputs())
    handle->inputs.push_back({port.dtype, nullptr, std::vector<int64_t>(port.dims.size())});
  for (size_t i = 0; i < handle->session->output_count(); ++i) {
    TensorRef ref;
    ref.dims.resize(handle->session->output(i).dims.size());
    handle->outputs.push_back(std::move(ref));
    handle->late.push_back(!handle->session->output_known_at_bind(i));
  }
  handle->has_data.assign(handle->outputs.size(), false);
  for (const ir::State& state : graph.states)
    handle->state_bytes.push_back(ir::DenseBytes(state.dtype, state.dims).value_or(0));
  *result = handle.release();
  return {};
}

}  // namespace

const char* ls_version(void) { return LIVESHAPE_VERSION; }
uint32_t ls_api_version(void) { return LS_API_VERSION; }
const char* ls_last_error(void) { return last_error.c_str(); }
const char* ls_status_name(ls_status status) { return CodeName(static_cast<Code>(status)); }
size_t ls_dtype_size(ls_dtype dtype) {
  return dtype < 0 || dtype >= kDTypeCount ? 0 : SizeOf(static_cast<DType>(dtype));
}

ls_status ls_artifact_load_file(const char* path, const ls_load_options* options,
                                ls_artifact** artifact) {
  LS_NEED(path);
  LS_NEED(artifact);
  const auto load = [&](const Artifact::LoadOptions& with) { return Artifact::Load(path, with); };
  return Report(LoadWith(options, load, artifact));
}

ls_status ls_artifact_load_memory(const void* bytes, size_t size, const ls_load_options* options,
                                  ls_artifact** artifact) {
  LS_NEED(bytes);
  LS_NEED(artifact);
  const auto load = [&](const Artifact::LoadOptions& with) {
    return Artifact::Load({static_cast<const std::byte*>(bytes), size}, nullptr, with);
  };
  return Report(LoadWith(options, load, artifact));
}

void ls_artifact_free(ls_artifact* artifact) { delete artifact; }

size_t ls_artifact_symbol_count(const ls_artifact* artifact) {
  return artifact ? artifact->artifact->symbols().size() : 0;
}

ls_status ls_artifact_symbol(const ls_artifact* artifact, size_t index, ls_symbol_info* info) {
  LS_NEED(artifact);
  const auto& symbols = artifact->artifact->symbols();
  if (Status s = CheckIndex("symbol", index, symbols.size()); !s.ok()) return Report(s);
  const SymbolDescription& symbol = symbols[index];
  const std::string& name = symbol.display.empty() ? symbol.name : symbol.display;
  const auto stage = artifact->artifact->graph().table().symbols()[index].stage;
  const Names& enters = artifact->enters[index];
  return Fill(info, {0, name.c_str(), symbol.name.c_str(), symbol.min, symbol.max, stage,
                     enters.pointers.size(), enters.pointers.data()});
}

ls_status ls_artifact_find_symbol(const ls_artifact* artifact, const char* name, size_t* index) {
  LS_NEED(artifact);
  LS_NEED(name);
  LS_NEED(index);
  const int found = artifact->artifact->FindSymbol(name);
  if (found < 0) {
    std::vector<std::string> known;
    for (const SymbolDescription& symbol : artifact->artifact->symbols())
      known.push_back(symbol.display.empty() ? symbol.name : symbol.display);
    return Report(NotFound("there is no symbol `{}`; the model has: {}", name,
                           known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  *index = static_cast<size_t>(found);
  return LS_OK;
}

size_t ls_artifact_input_count(const ls_artifact* artifact) {
  return artifact ? artifact->artifact->inputs().size() : 0;
}
size_t ls_artifact_output_count(const ls_artifact* artifact) {
  return artifact ? artifact->artifact->outputs().size() : 0;
}
ls_status ls_artifact_input(const ls_artifact* artifact, size_t index, ls_port_info* info) {
  LS_NEED(artifact);
  return FillPort(artifact->artifact->inputs(), artifact->input_dims, "input", index, info);
}
ls_status ls_artifact_output(const ls_artifact* artifact, size_t index, ls_port_info* info) {
  LS_NEED(artifact);
  return FillPort(artifact->artifact->outputs(), artifact->output_dims, "output", index, info);
}

ls_status ls_session_create(const ls_artifact* artifact, const ls_session_options* options,
                            ls_session** session) {
  LS_NEED(artifact);
  LS_NEED(session);
  return Report(Create(*artifact, options, session));
}

void ls_session_free(ls_session* session) { delete session; }

ls_status ls_session_bind(ls_session* session, const ls_tensor* inputs, size_t count) {
  LS_NEED(session);
  Status status = ReadInputs(*session, inputs, count, "bind");
  if (status.ok()) status = Bind(*session);
  if (status.ok()) ForgetData(*session);
  return Report(status);
}

ls_status ls_session_bind_symbols(ls_session* session, const int64_t* values, size_t count) {
  LS_NEED(session);
  if (count > 0) LS_NEED(values);
  const Status status = session->session->BindSymbols({values, count});
  if (status.ok()) session->bound = true, ForgetData(*session);
  return Report(status);
}

ls_status ls_session_symbol_values(const ls_session* session, int64_t* values, size_t count) {
  LS_NEED(session);
  const std::span<const int64_t> current = session->session->symbol_values();
  if (count > 0) LS_NEED(values);
  if (count != current.size())
    return Report(
        InvalidArgument("room for {} values, the model has {} symbols", count, current.size()));
  if (!session->bound) return Report(FailedPrecondition("no shape is bound yet"));
  std::copy(current.begin(), current.end(), values);
  return LS_OK;
}

ls_status ls_session_run(ls_session* session, const ls_tensor* inputs, size_t input_count,
                         ls_tensor* outputs, size_t output_count) {
  LS_NEED(session);
  Status status = ReadInputs(*session, inputs, input_count, "run");
  if (status.ok()) status = Run(*session, outputs, output_count);
  return Report(status);
}

ls_status ls_session_output(const ls_session* session, size_t index, ls_tensor* output) {
  LS_NEED(session);
  LS_NEED(output);
  if (Status s = CheckIndex("output", index, session->outputs.size()); !s.ok()) return Report(s);
  if (!session->bound) return Report(FailedPrecondition("no shape is bound yet"));
  *output = ToC(session->session->output(index));
  if (!session->has_data[index]) output->data = nullptr;
  return LS_OK;
}

ls_status ls_session_set_cancelled(ls_session* session, int32_t cancelled) {
  LS_NEED(session);
  session->session->cancel() = cancelled != 0;
  return LS_OK;
}

ls_status ls_session_trim(ls_session* session) {
  LS_NEED(session);
  session->session->Trim();
  return LS_OK;
}

ls_status ls_session_stats(const ls_session* session, ls_stats* stats) {
  LS_NEED(session);
  const Stats s = session->session->stats();
  return Fill(stats, {0, s.binds, s.runs, s.allocations_observed, s.allocations, s.rebuilds,
                      s.moved_addresses, s.last_bind_us, s.last_run_ms, s.arena_reserved,
                      s.arena_resident, s.arena_live});
}

ls_status ls_session_profile_count(ls_session* session, size_t* count) {
  LS_NEED(session);
  LS_NEED(count);
  session->profile = session->session->profile();
  *count = session->profile.size();
  return LS_OK;
}

ls_status ls_session_profile(const ls_session* session, size_t index, ls_profile_entry* entry) {
  LS_NEED(session);
  if (Status s = CheckIndex("profile entry", index, session->profile.size()); !s.ok())
    return Report(s);
  const ProfileEntry& e = session->profile[index];
  return Fill(entry, {0, e.op.c_str(), e.node.c_str(), e.source.c_str(), e.us, e.calls});
}

size_t ls_session_state_count(const ls_session* session) {
  return session ? session->state_bytes.size() : 0;
}

ls_status ls_session_state(const ls_session* session, size_t index, ls_state_info* info) {
  LS_NEED(session);
  if (Status s = CheckIndex("state", index, session->state_bytes.size()); !s.ok()) return Report(s);
  const ir::State& state = session->graph().states[index];
  return Fill(info, {0, state.name.c_str(), static_cast<ls_dtype>(state.dtype),
                     static_cast<int32_t>(state.dims.size()), state.dims.data(),
                     session->state_bytes[index]});
}

ls_status ls_session_read_state(const ls_session* session, const char* name, void* data,
                                size_t bytes) {
  LS_NEED(session);
  LS_NEED(name);
  if (bytes > 0) LS_NEED(data);
  return Report(session->session->ReadState(name, {static_cast<std::byte*>(data), bytes}));
}

ls_status ls_session_write_state(ls_session* session, const char* name, const void* data,
                                 size_t bytes) {
  LS_NEED(session);
  LS_NEED(name);
  if (bytes > 0) LS_NEED(data);
  return Report(session->session->WriteState(name, {static_cast<const std::byte*>(data), bytes}));
}

ls_status ls_session_reset_states(ls_session* session) {
  LS_NEED(session);
  return Report(session->session->ResetStates());
}

ls_status ls_session_snapshot(const ls_session* session, void* data, size_t capacity,
                              size_t* size) {
  LS_NEED(session);
  LS_NEED(size);
  size_t total = 0;
  for (const size_t bytes : session->state_bytes) total += bytes;
  *size = total;
  if (data == nullptr) return LS_OK;
  if (capacity < total)
    return Report(OutOfRange("a snapshot has {} bytes, {} are given", total, capacity));
  auto snapshot = session->session->Snapshot();
  if (!snapshot.ok()) return Report(snapshot.status());
  if (total > 0) std::memcpy(data, snapshot->data(), total);
  return LS_OK;
}

ls_status ls_session_restore(ls_session* session, const void* data, size_t size) {
  LS_NEED(session);
  if (size > 0) LS_NEED(data);
  return Report(session->session->Restore({static_cast<const std::byte*>(data), size}));
}

int32_t ls_session_needs_reset(const ls_session* session) {
  return session != nullptr && session->session->needs_reset();
}
