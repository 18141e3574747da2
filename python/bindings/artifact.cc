#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cli/common.h"
#include "ir/graph.h"
#include "python/bindings/arrays.h"
#include "python/bindings/module.h"

namespace liveshape::python {
namespace {

struct SymbolInfo {
  std::string name, torch_name;
  int64_t min, max;
  int stage;
  std::vector<std::string> enters;
};

struct PortInfo {
  std::string name, dtype;
  std::vector<std::string> dims;
  bool is_integer;
};

// The caller's constants, given back when neither the artifact nor a session reads them again.
struct Borrowed {
  std::vector<nb::object> capsules;
  std::shared_ptr<const Artifact> artifact;
  ~Borrowed() {
    artifact.reset();
    const nb::gil_scoped_acquire gil;
    capsules.clear();
  }
};

template <typename Load>
LoadedArtifact LoadWith(nb::dict constants, Load&& load) {
  auto borrowed = std::make_shared<Borrowed>();
  Artifact::LoadOptions options;
  for (const auto [key, value] : constants) {
    const std::string name = nb::cast<std::string>(key);
    Array array = Import(value, fmt::format("load: constant `{}`", name), DType::kF32);
    borrowed->capsules.push_back(std::move(array.capsule));
    options.external_constants.emplace(name, std::move(array.tensor));
  }
  auto loaded = [&] {
    const nb::gil_scoped_release no_gil;
    return load(options);
  }();
  borrowed->artifact = Unwrap(std::move(loaded), PyExc_FileNotFoundError);
  const Artifact* artifact = borrowed->artifact.get();
  return {std::shared_ptr<const Artifact>(std::move(borrowed), artifact)};
}

std::vector<SymbolInfo> Symbols(const LoadedArtifact& loaded) {
  std::vector<SymbolInfo> infos;
  for (const SymbolDescription& s : loaded.artifact->symbols()) {
    const auto stage = loaded.artifact->graph().table().symbols()[infos.size()].stage;
    infos.push_back(
        {s.display.empty() ? s.name : s.display, s.name, s.min, s.max, stage, s.enters});
  }
  return infos;
}

std::vector<PortInfo> Ports(const std::vector<PortDescription>& ports) {
  std::vector<PortInfo> infos;
  for (const PortDescription& port : ports)
    infos.push_back({port.name, Name(port.dtype), port.dims, port.scalar});
  return infos;
}

std::vector<std::string> Externals(const LoadedArtifact& loaded) {
  std::vector<std::string> names;
  for (const ir::Constant& constant : loaded.artifact->graph().constants)
    if (!constant.external.empty()) names.push_back(constant.external);
  return names;
}

nb::list MakeRandomInputs(const LoadedArtifact& loaded,
                          const std::map<std::string, int64_t>& values,
                          const std::map<std::string, std::pair<int64_t, int64_t>>& ints) {
  const Artifact& artifact = *loaded.artifact;
  std::map<std::string, cli::IntRange> ranges;
  for (const auto& [name, range] : ints) {
    if (range.first > range.second)
      Raise(PyExc_ValueError,
            fmt::format("ints: `{}` from {} to {}", name, range.first, range.second));
    ranges[name] = {range.first, range.second};
  }
  const cli::Point point(values.begin(), values.end());
  const auto live = Unwrap(cli::SymbolValues(artifact, point, "a value:"));
  nb::list inputs;
  for (const cli::HostTensor& made : Unwrap(cli::RandomInputs(artifact, live, ranges))) {
    if (artifact.inputs()[nb::len(inputs)].scalar)
      inputs.append(*static_cast<const int64_t*>(made.ref().data));
    else
      inputs.append(ExportCopy(made.ref(), /*bits=*/false));
  }
  return inputs;
}

}  // namespace

HeldBytes Hold(nb::handle object) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(view->buf),
                                         static_cast<size_t>(view->len));
  return {bytes, std::shared_ptr<const void>(view.release(), [](Py_buffer* held) {
            const nb::gil_scoped_acquire gil;
            PyBuffer_Release(held);
            delete held;
          })};
}

void BindArtifact(nb::module_& m) {
  nb::class_<SymbolInfo>(m, "Symbol")
      .def_ro("name", &SymbolInfo::name)
      .def_ro("torch_name", &SymbolInfo::torch_name)
      .def_ro("min", &SymbolInfo::min)
      .def_ro("max", &SymbolInfo::max)
      .def_ro("stage", &SymbolInfo::stage)
      .def_ro("enters", &SymbolInfo::enters)
      .def("__repr__", [](const SymbolInfo& s) {
        return fmt::format("Symbol({} in [{}, {}])", s.name, s.min, s.max);
      });
  nb::class_<PortInfo>(m, "Port")
      .def_ro("name", &PortInfo::name)
      .def_ro("dtype", &PortInfo::dtype)
      .def_ro("dims", &PortInfo::dims)
      .def_ro("is_integer", &PortInfo::is_integer)
      .def("__repr__", [](const PortInfo& p) {
        return p.is_integer
                   ? fmt::format("Port({}: int)", p.name)
                   : fmt::format("Port({}: {}[{}])", p.name, p.dtype, fmt::join(p.dims, ", "));
      });
  nb::class_<LoadedArtifact>(m, "Artifact")
      .def_static(
          "load",
          [](const std::string& path, nb::dict constants) {
            return LoadWith(constants, [&](const Artifact::LoadOptions& options) {
              return Artifact::Load(path, options);
            });
          },
          nb::arg("path"), nb::arg("constants") = nb::dict())
      .def_static(
          "from_bytes",
          [](nb::handle data, nb::dict constants) {
            const HeldBytes held = Hold(data);
            return LoadWith(constants, [&](const Artifact::LoadOptions& options) {
              return Artifact::Load(held.bytes, held.owner, options);
            });
          },
          nb::arg("data"), nb::arg("constants") = nb::dict())
      .def("random_inputs", &MakeRandomInputs, nb::arg("values"),
           nb::arg("ints") = std::map<std::string, std::pair<int64_t, int64_t>>())
      .def_prop_ro("symbols", &Symbols)
      .def_prop_ro("inputs", [](const LoadedArtifact& a) { return Ports(a.artifact->inputs()); })
      .def_prop_ro("outputs", [](const LoadedArtifact& a) { return Ports(a.artifact->outputs()); })
      .def_prop_ro("externals", &Externals)
      .def_prop_ro("graph", [](const LoadedArtifact& a) { return ir::Print(a.artifact->graph()); })
      .def_prop_ro("copied_constant_bytes",
                   [](const LoadedArtifact& a) { return a.artifact->copied_constant_bytes(); });
}

}  // namespace liveshape::python
