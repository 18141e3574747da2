// The metadata strings of a node that people read: where it came from.
#include <charconv>

#include "import/pt2/read.h"

namespace liveshape::pt2 {
namespace {

constexpr std::string_view kFrame = "File \"", kLine = "\", line ";

std::string_view BaseName(std::string_view path) {
  return path.substr(path.find_last_of("/\\") + 1);
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Frames of torch itself and of generated code say how a layer is written, not where the user wrote it.
bool IsTorchFrame(std::string_view path) {
  return path.starts_with("torch/") || path.starts_with("<") ||
         path.find("-packages/torch/") != path.npos;
}

}  // namespace

// `File "a.py", line 7, in forward\n    y = f(x)\n  File ...`, outermost first.
SourceLine ParseStackTrace(std::string_view trace) {
  SourceLine best;
  bool best_is_torch = true;
  while (!trace.empty()) {
    const size_t frame = trace.find(kFrame);
    if (frame == trace.npos) break;
    trace.remove_prefix(frame + kFrame.size());
    const size_t quote = trace.find(kLine);
    if (quote == trace.npos) break;
    const std::string_view path = trace.substr(0, quote);
    trace.remove_prefix(quote + kLine.size());
    SourceLine found;
    std::from_chars(trace.data(), trace.data() + trace.size(), found.line);
    const size_t newline = trace.find('\n');
    trace.remove_prefix(newline == trace.npos ? trace.size() : newline + 1);
    const std::string_view text = Trim(trace.substr(0, trace.find('\n')));
    const bool is_torch = IsTorchFrame(path);
    if (is_torch && !best_is_torch) continue;
    found.file = BaseName(path);
    if (!text.starts_with(kFrame)) found.text = text;
    best = std::move(found);
    best_is_torch = is_torch;
  }
  return best;
}

// `key,path,type;key,path,type`, innermost last. Paths are `model.layers.0` or, from dynamo, `L['self'].model`.
void ParseModuleStack(std::string_view stack, Node& node) {
  std::string_view entry = stack.substr(stack.find_last_of(';') + 1);
  const size_t first = entry.find(','), last = entry.rfind(',');
  if (first == entry.npos || first == last) return;
  std::string_view path = entry.substr(first + 1, last - first - 1), type = entry.substr(last + 1);
  if (path.starts_with("_empty_nn_module_stack")) return;
  for (std::string_view self : {"L['self']", "L__self__"})
    if (path.starts_with(self)) path.remove_prefix(self.size());
  if (path.starts_with('.')) path.remove_prefix(1);
  node.module_path = path;
  node.module_type = type;
}

}  // namespace liveshape::pt2
