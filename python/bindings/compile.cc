#include "compile/compile.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <exception>

#include "cli/compile_report.h"
#include "import/import.h"
#include "python/bindings/module.h"

namespace liveshape::python {
namespace {

using Sizes = std::map<std::string, int64_t>;
using Callback = std::optional<nb::callable>;

// Calls Python with the GIL. The compiler knows no exceptions: the first one waits here until it is done, and nothing
// is called after it.
class PythonCall {
 public:
  explicit PythonCall(const Callback& call) : call_(call) {}
  // What `ask(callable)` returns.
  template <typename Ask>
  auto operator()(Ask ask) -> decltype(ask(std::declval<nb::callable>())) {
    if (!call_ || thrown_) return {};
    const nb::gil_scoped_acquire gil;
    try {
      return ask(*call_);
    } catch (...) {
      thrown_ = std::current_exception();
    }
    return {};
  }
  void Rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  const Callback& call_;
  std::exception_ptr thrown_;
};

void ReportTo(PythonCall& progress, CompileRequest& request) {
  request.progress = [&progress](std::string_view pass, double ms) {
    progress([&](const nb::callable& call) {
      call(nb::str(pass.data(), pass.size()), ms);
      return true;
    });
  };
}

// Python keeps a constant's bytes and says under which name; None leaves it in the artifact.
void DetachTo(PythonCall& detach, CompileRequest& request) {
  request.detach = [&detach](const ir::Constant& constant) {
    return detach([&](const nb::callable& call) {
      const nb::object name =
          call(constant.name, nb::bytes(constant.data.data(), constant.data.size()));
      return name.is_none() ? std::string() : nb::cast<std::string>(name);
    });
  };
}

CompileRequest MakeRequest(const Sizes& bounds, const Sizes& mins, const Sizes& statics,
                           const std::vector<std::string>& externals, const std::string& quant) {
  CompileRequest request;
  request.bounds = bounds, request.mins = mins, request.statics = statics;
  request.externals = externals;
  request.quantise = Unwrap(cli::ParseQuant(quant));
  return request;
}

nb::object Report(const std::string& input, const std::string& output, const std::string& quant,
                  const CompileReport& report) {
  return nb::module_::import_("json").attr("loads")(cli::CompileJson(input, output, quant, report));
}

nb::object Compile(const std::string& input, const std::string& output, const Sizes& bounds,
                   const Sizes& mins, const Sizes& statics,
                   const std::vector<std::string>& externals, const std::string& quant,
                   const Callback& progress) {
  CompileRequest request = MakeRequest(bounds, mins, statics, externals, quant);
  request.input = input, request.output = output;
  PythonCall call(progress);
  ReportTo(call, request);
  Result<CompileReport> report = [&] {
    const nb::gil_scoped_release no_gil;
    return CompileFile(request);
  }();
  call.Rethrow();
  const bool missing = access(input.c_str(), F_OK) != 0;
  return Report(input, output, quant,
                Unwrap(std::move(report), missing ? PyExc_FileNotFoundError : PyExc_KeyError));
}

nb::tuple CompileInMemory(nb::handle pt2, const Sizes& bounds, const Sizes& mins,
                          const Sizes& statics, const std::vector<std::string>& externals,
                          const std::string& quant, const Callback& progress,
                          const Callback& detach) {
  CompileRequest request = MakeRequest(bounds, mins, statics, externals, quant);
  PythonCall call(progress), keep(detach);
  ReportTo(call, request);
  if (detach) DetachTo(keep, request);
  const HeldBytes held = Hold(pt2);
  CompileReport report;
  Result<std::vector<std::byte>> made = [&] {
    const nb::gil_scoped_release no_gil;
    return CompileBytes(held.bytes, held.owner, request, &report);
  }();
  call.Rethrow();
  keep.Rethrow();
  const std::vector<std::byte> bytes = Unwrap(std::move(made));
  return nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), Report("", "", quant, report));
}

}  // namespace

void BindCompile(nb::module_& m) {
  const Sizes none;
  const std::vector<std::string> nothing;
  m.def("compile", &Compile, nb::arg("input"), nb::arg("output"), nb::kw_only(),
        nb::arg("bounds") = none, nb::arg("mins") = none, nb::arg("statics") = none,
        nb::arg("externals") = nothing, nb::arg("quant") = "", nb::arg("progress") = nb::none());
  m.def("compile_bytes", &CompileInMemory, nb::arg("pt2"), nb::kw_only(), nb::arg("bounds") = none,
        nb::arg("mins") = none, nb::arg("statics") = none, nb::arg("externals") = nothing,
        nb::arg("quant") = "", nb::arg("progress") = nb::none(), nb::arg("detach") = nb::none());
  m.def("supported_targets", [] { return SupportedTargets(); });
  m.def(
      "is_supported", [](const std::string& target) { return IsSupportedTarget(target); },
      nb::arg("target"));
}

}  // namespace liveshape::python
