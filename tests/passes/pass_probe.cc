// pass_probe model.pt2 [--raw | --after PASS]: imports, runs the passes, prints the graph and counts its ops.
// --raw stops before the first pass, --after behind the last one of that name; --counts prints no graph.
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "base/memory.h"
#include "import/import.h"
#include "ir/op.h"
#include "passes/passes.h"

namespace liveshape {
namespace {

Status Probe(const std::string& path, std::string_view after, bool print) {
  LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  LS_ASSIGN_OR_RETURN(auto archive, pt2::Pt2Archive::Open(file->bytes()));
  LS_ASSIGN_OR_RETURN(ImportResult imported, ImportPt2(archive, file));
  ir::Graph& graph = *imported.graph;
  LS_RETURN_IF_ERROR(ir::Verify(graph));
  if (after != "import") {
    size_t last = 0;
    const auto pipeline = passes::Pipeline();
    for (size_t i = 0; i < pipeline.size(); ++i)
      if (after.empty() || after == pipeline[i].name) last = i + 1;
    for (size_t i = 0; i < last; ++i) {
      LS_RETURN_IF_ERROR(pipeline[i].run(graph, {}));
      Status status = ir::Verify(graph);
      if (!status.ok())
        return std::move(status).Prefixed(fmt::format("after `{}`", pipeline[i].name));
    }
  }
  if (print) std::fputs(ir::Print(graph).c_str(), stdout);
  std::map<std::string, int> counts;
  for (const ir::Node& node : graph.nodes) ++counts[node.op->name];
  fmt::print("counts\n");
  for (const auto& [name, count] : counts) fmt::print("  {} {}\n", name, count);
  return {};
}

}  // namespace
}  // namespace liveshape

int main(int argc, char** argv) {
  std::string path, after;
  bool print = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--raw")
      after = "import";
    else if (arg == "--after" && i + 1 < argc)
      after = argv[++i];
    else if (arg == "--counts")
      print = false;
    else
      path = arg;
  }
  if (path.empty()) {
    fmt::print(stderr, "usage: pass_probe model.pt2 [--raw | --after PASS] [--counts]\n");
    return 2;
  }
  if (liveshape::Status status = liveshape::Probe(path, after, print); !status.ok()) {
    fmt::print(stderr, "pass_probe: {}\n", status.message());
    return 1;
  }
  return 0;
}
