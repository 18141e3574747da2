#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstring>

#include "backends/npu/machine/reader.h"
#include "cli/common.h"
#include "ir/graph.h"
#include "python/bindings/arrays.h"
#include "python/bindings/module.h"

namespace liveshape::python {
namespace {

struct StateInfo {
  std::string name, dtype;
  std::vector<int64_t> dims;
};

Poison ReadPoison(const std::string& name) {
  if (name.empty()) return Poison::kNone;
  if (name == "nan") return Poison::kNaN;
  if (name == "large") return Poison::kLarge;
  Raise(PyExc_ValueError, fmt::format("poison `{}`: nan, large, or empty for none", name));
}

// A Session that Python may misuse: a call while another thread is inside raises, and memory that the last run did
// not fill is not handed out.
class PySession {
 public:
  PySession(const LoadedArtifact& loaded, const std::string& backend, int threads, bool strict,
            bool profile, const std::string& machine, const std::string& poison)
      : artifact_(loaded.artifact) {
    if (threads < 0 || threads > 1024)
      Raise(PyExc_ValueError, fmt::format("{} threads: 0 (one per core) to 1024", threads));
    const SessionOptions options = {
        .strict = strict, .poison = ReadPoison(poison), .profile = profile};
    auto made = Unwrap(cli::MakeBackend(backend, threads, false, machine));
    Result<std::unique_ptr<Session>> session = [&] {
      const nb::gil_scoped_release no_gil;
      return Session::Create(artifact_, std::move(made), options);
    }();
    session_ =
        Unwrap(std::move(session), machine.empty() ? PyExc_KeyError : PyExc_FileNotFoundError);
    has_data_.assign(session_->output_count(), false);
  }

  void Bind(nb::sequence inputs) {
    const InUse use(*this);
    BindInputs(ReadInputs(inputs, "bind"));
  }

  void BindSymbols(const std::vector<int64_t>& values) {
    const InUse use(*this);
    Check(session_->BindSymbols(values));
    bound_ = true;
  }

  void BindNames(const std::map<std::string, int64_t>& names) {
    BindSymbols(
        Unwrap(cli::SymbolValues(*artifact_, cli::Point(names.begin(), names.end()), "a value:")));
  }

  // `outputs`: None leaves all in session memory; a list has one array or None an output; a function is called
  // with an output's index and live dims, before anything runs, and returns one of these.
  void Run(nb::sequence given, nb::handle outputs) {
    const InUse use(*this);
    Inputs inputs = ReadInputs(given, "run");
    std::vector<Array> arrays;  // keeps the callers' memory for the time of the run
    std::vector<TensorRef> caller;
    if (!outputs.is_none()) {
      BindInputs(inputs);
      arrays = ReadOutputs(outputs, inputs);
      for (size_t i = 0; i < arrays.size(); ++i) {
        const bool late = !session_->output_known_at_bind(i);
        caller.push_back({arrays[i].tensor.dtype, late ? nullptr : arrays[i].tensor.data,
                          session_->output(i).dims});
      }
    }
    std::fill(has_data_.begin(), has_data_.end(), false);
    const Status status = [&] {
      const nb::gil_scoped_release no_gil;
      return session_->Run(inputs.refs, caller);
    }();
    Check(status);
    bound_ = true;
    for (size_t i = 0; i < has_data_.size(); ++i)
      has_data_[i] = caller.empty() || caller[i].data == session_->output(i).data;
    for (size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i].capsule.is_valid() && !session_->output_known_at_bind(i)) {
        CheckOutput(i, arrays[i]);
        std::memcpy(arrays[i].tensor.data, session_->output(i).data, arrays[i].tensor.bytes());
      }
  }

  static nb::object Output(nb::handle self, int64_t index, bool bits) {
    PySession& session = *nb::inst_ptr<PySession>(self);
    const InUse use(session);
    const size_t i = session.OutputIndex(index);
    if (!session.has_data_[i])
      Raise(PyExc_RuntimeError,
            fmt::format("output {} `{}` is not in session memory: the last call was no run, or the "
                        "run wrote it to the caller's array",
                        i, session.artifact_->outputs()[i].name));
    for (const int64_t dim : session.session_->output(i).dims)
      if (dim == kUnknownDim)
        Raise(PyExc_RuntimeError,
              fmt::format(
                  "output {}: only data would tell its size, and this backend computes none", i));
    return Export(session.session_->output(i), self, bits);
  }

  nb::tuple OutputDims(int64_t index) {
    const InUse use(*this);
    if (!bound_) Raise(PyExc_RuntimeError, "nothing is bound yet: bind or run first");
    return Dims(OutputIndex(index));
  }

  bool OutputKnown(int64_t index) { return session_->output_known_at_bind(OutputIndex(index)); }

  nb::dict SymbolValues() {
    const InUse use(*this);
    if (!bound_) Raise(PyExc_RuntimeError, "nothing is bound yet: bind or run first");
    nb::dict values;
    const auto live = session_->symbol_values();
    for (size_t i = 0; i < live.size(); ++i)
      values[cli::SymbolName(artifact_->symbols()[i]).c_str()] = live[i];
    return values;
  }

  std::vector<StateInfo> States() {
    std::vector<StateInfo> states;
    for (const std::string& name : session_->state_names()) {
      const TensorRef state = Unwrap(session_->state(name));
      states.push_back({name, Name(state.dtype), state.dims});
    }
    return states;
  }

  nb::object ReadState(const std::string& name, bool bits) {
    const InUse use(*this);
    TensorRef state = Unwrap(session_->state(name));
    std::vector<std::byte> bytes(state.bytes());
    Check(session_->ReadState(name, bytes));
    state.data = bytes.data();
    return ExportCopy(state, bits);
  }

  void WriteState(const std::string& name, nb::handle value) {
    const InUse use(*this);
    const TensorRef state = Unwrap(session_->state(name));
    const std::string where = fmt::format("state `{}`", name);
    const Array array = Import(value, where, state.dtype);
    if (array.tensor.dtype != state.dtype || array.tensor.dims != state.dims)
      Raise(PyExc_ValueError, fmt::format("{} is {}[{}], given {}[{}]", where, Name(state.dtype),
                                          fmt::join(state.dims, ", "), Name(array.tensor.dtype),
                                          fmt::join(array.tensor.dims, ", ")));
    Check(session_->WriteState(
        name, {static_cast<const std::byte*>(array.tensor.data), array.tensor.bytes()}));
  }

  void Reset() {
    const InUse use(*this);
    Check(session_->ResetStates());
  }

  nb::bytes Snapshot() {
    const InUse use(*this);
    const auto bytes = Unwrap(session_->Snapshot());
    return nb::bytes(bytes.data(), bytes.size());
  }

  void Restore(nb::handle snapshot) {
    const InUse use(*this);
    const HeldBytes held = Hold(snapshot);
    Check(session_->Restore(held.bytes));
  }

  Stats GetStats() {
    const InUse use(*this);
    return session_->stats();
  }

  std::vector<ProfileEntry> Profile() {
    const InUse use(*this);
    return session_->profile();
  }

  void Trim() {
    const InUse use(*this);
    session_->Trim();
  }

  bool needs_reset() {
    const InUse use(*this);
    return session_->needs_reset();
  }
  void Cancel(bool on) {
    session_->cancel() = on;
  }  // the one call that any thread may make at any time

 private:
  struct Inputs {
    std::vector<Array> arrays;
    std::vector<int64_t> integers;
    std::vector<TensorRef> refs;
  };

  class InUse {
   public:
    explicit InUse(PySession& session) : busy_(session.busy_) {
      if (busy_.test_and_set())
        Raise(PyExc_RuntimeError,
              "the session is in use by another thread: a session serves one at a time; make one a "
              "thread, they share the artifact");
    }
    ~InUse() { busy_.clear(); }

   private:
    std::atomic_flag& busy_;
  };

  Inputs ReadInputs(nb::sequence given, const char* call) {
    const auto& ports = artifact_->inputs();
    const size_t count = nb::len(given);
    if (count != ports.size())
      Raise(PyExc_ValueError,
            fmt::format("{}: {} inputs given, the model has {}", call, count, ports.size()));
    Inputs inputs;
    inputs.integers.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const std::string where = fmt::format("{}: input {} `{}`", call, i, ports[i].name);
      const nb::object value = given[i];
      if (ports[i].scalar) {
        inputs.integers[i] = Integer(value, where);
        inputs.refs.push_back({DType::kI64, &inputs.integers[i], {}});
      } else {
        inputs.arrays.push_back(Import(value, where, ports[i].dtype));
        inputs.refs.push_back(inputs.arrays.back().tensor);
      }
    }
    return inputs;
  }

  static int64_t Integer(nb::handle value, const std::string& where) {
    const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
    if (!index.is_valid()) {
      PyErr_Clear();
      Raise(PyExc_TypeError, fmt::format("{}: wants an integer, not a {}", where,
                                         nb::type_name(value.type()).c_str()));
    }
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0) Raise(PyExc_IndexError, where + ": beyond 64 bits");
    return number;
  }

  void BindInputs(const Inputs& inputs) {
    Check(session_->Bind(inputs.refs));
    bound_ = true;
  }

  std::vector<Array> ReadOutputs(nb::handle outputs, const Inputs& inputs) {
    const size_t count = session_->output_count();
    const bool make = PyCallable_Check(outputs.ptr());
    if (!make && nb::len(outputs) != count)
      Raise(PyExc_ValueError,
            fmt::format("run: {} outputs given, the model has {}", nb::len(outputs), count));
    std::vector<Array> arrays(count);
    for (size_t i = 0; i < count; ++i) {
      const bool known = session_->output_known_at_bind(i);
      const nb::object value = !make   ? nb::object(outputs[i])
                               : known ? outputs(i, Dims(i))
                                       : nb::none();
      if (value.is_none()) continue;
      arrays[i] = Import(value, OutputName(i), session_->output(i).dtype);
      if (arrays[i].read_only) Raise(PyExc_ValueError, OutputName(i) + ": is read-only");
      if (known) CheckOutput(i, arrays[i]);
      for (const TensorRef& input : inputs.refs) CheckApart(i, arrays[i].tensor, input, "an input");
      for (size_t j = 0; j < i; ++j)
        if (arrays[j].capsule.is_valid())
          CheckApart(i, arrays[i].tensor, arrays[j].tensor, "another output");
    }
    return arrays;
  }

  void CheckOutput(size_t i, const Array& array) const {
    const TensorRef& live = session_->output(i);
    if (array.tensor.dtype != live.dtype || array.tensor.dims != live.dims)
      Raise(PyExc_ValueError,
            fmt::format("{} is {}[{}], given {}[{}]", OutputName(i), Name(live.dtype),
                        fmt::join(live.dims, ", "), Name(array.tensor.dtype),
                        fmt::join(array.tensor.dims, ", ")));
  }

  // A kernel may write an output before the last read of an input.
  void CheckApart(size_t i, const TensorRef& a, const TensorRef& b, const char* what) const {
    if (Overlap(a, b))
      Raise(PyExc_ValueError, fmt::format("{}: shares memory with {}", OutputName(i), what));
  }

  std::string OutputName(size_t i) const {
    return fmt::format("run: output {} `{}`", i, artifact_->outputs()[i].name);
  }

  size_t OutputIndex(int64_t index) const {
    const auto count = static_cast<int64_t>(session_->output_count());
    if (index < 0 || index >= count)
      Raise(PyExc_IndexError, fmt::format("output {}: there are {}", index, count));
    return static_cast<size_t>(index);
  }

  nb::tuple Dims(size_t i) const { return nb::tuple(nb::cast(session_->output(i).dims)); }

  std::shared_ptr<const Artifact> artifact_;
  std::unique_ptr<Session> session_;
  std::atomic_flag busy_;
  bool bound_ = false;
  std::vector<bool> has_data_;  // output i lies in session memory since the last run
};

}  // namespace

void BindSession(nb::module_& m) {
  nb::class_<npu::Machine>(m, "Machine")
      .def_ro("name", &npu::Machine::name)
      .def_ro("frequency_mhz", &npu::Machine::frequency_mhz)
      .def_ro("cores", &npu::Machine::cores);
  m.def(
      "read_machine",
      [](const std::string& path) {
        return Unwrap(npu::ReadMachineFile(path), PyExc_FileNotFoundError);
      },
      nb::arg("path"));
  nb::class_<StateInfo>(m, "State")
      .def_ro("name", &StateInfo::name)
      .def_ro("dtype", &StateInfo::dtype)
      .def_ro("dims", &StateInfo::dims)
      .def("__repr__", [](const StateInfo& s) {
        return fmt::format("State({}: {}[{}])", s.name, s.dtype, fmt::join(s.dims, ", "));
      });
  nb::class_<Stats>(m, "Stats")
      .def_ro("allocations_observed", &Stats::allocations_observed)
      .def_ro("allocations", &Stats::allocations)
      .def_ro("rebuilds", &Stats::rebuilds)
      .def_ro("moved_addresses", &Stats::moved_addresses)
      .def_ro("binds", &Stats::binds)
      .def_ro("runs", &Stats::runs)
      .def_ro("last_bind_us", &Stats::last_bind_us)
      .def_ro("last_run_ms", &Stats::last_run_ms)
      .def_ro("cycles", &Stats::cycles)
      .def_ro("arena_reserved", &Stats::arena_reserved)
      .def_ro("arena_resident", &Stats::arena_resident)
      .def_ro("arena_live", &Stats::arena_live)
      .def("__repr__", [](const Stats& s) {
        return fmt::format("Stats(binds={}, runs={}, rebuilds={}, moved_addresses={})", s.binds,
                           s.runs, s.rebuilds, s.moved_addresses);
      });
  nb::class_<ProfileEntry>(m, "ProfileEntry")
      .def_ro("op", &ProfileEntry::op)
      .def_ro("node", &ProfileEntry::node)
      .def_ro("source", &ProfileEntry::source)
      .def_ro("us", &ProfileEntry::us)
      .def_ro("calls", &ProfileEntry::calls)
      .def("__repr__", [](const ProfileEntry& e) {
        return fmt::format("ProfileEntry({} {}: {:.1f} us in {} calls)", e.op, e.node, e.us,
                           e.calls);
      });
  nb::class_<PySession>(m, "Session")
      .def(nb::init<const LoadedArtifact&, const std::string&, int, bool, bool, const std::string&,
                    const std::string&>(),
           nb::arg("artifact"), nb::arg("backend") = "cpu", nb::arg("threads") = 0,
           nb::arg("strict") = false, nb::arg("profile") = false, nb::arg("machine") = "",
           nb::arg("poison") = "")
      .def("bind", &PySession::Bind, nb::arg("inputs"))
      .def("bind_symbols", &PySession::BindNames, nb::arg("values"))
      .def("bind_symbols", &PySession::BindSymbols, nb::arg("values"))
      .def("run", &PySession::Run, nb::arg("inputs"), nb::arg("outputs").none() = nb::none())
      .def(
          "output",
          [](nb::handle_t<PySession> self, int64_t index, bool bits) {
            return PySession::Output(self, index, bits);
          },
          nb::arg("index"), nb::arg("bits") = false)
      .def("output_dims", &PySession::OutputDims, nb::arg("index"))
      .def("output_known_at_bind", &PySession::OutputKnown, nb::arg("index"))
      .def_prop_ro("symbol_values", &PySession::SymbolValues)
      .def_prop_ro("states", &PySession::States)
      .def("read_state", &PySession::ReadState, nb::arg("name"), nb::arg("bits") = false)
      .def("write_state", &PySession::WriteState, nb::arg("name"), nb::arg("value"))
      .def("reset", &PySession::Reset)
      .def("snapshot", &PySession::Snapshot)
      .def("restore", &PySession::Restore, nb::arg("snapshot"))
      .def_prop_ro("needs_reset", &PySession::needs_reset)
      .def_prop_ro("stats", &PySession::GetStats)
      .def("profile", &PySession::Profile)
      .def("trim", &PySession::Trim)
      .def("cancel", &PySession::Cancel, nb::arg("on") = true);
}

}  // namespace liveshape::python
