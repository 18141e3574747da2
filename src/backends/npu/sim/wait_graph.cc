#include "backends/npu/sim/wait_graph.h"

#include <algorithm>
#include <set>

namespace liveshape::npu {
namespace {

struct Frame {
  const std::string* who;
  size_t next;  // of those it waits for, to be followed
};

std::string Say(const std::vector<Frame>& frames, size_t from, const std::string* last) {
  std::string text;
  for (size_t i = from; i < frames.size(); ++i)
    text += (i == from       ? ""
             : i == from + 1 ? " waits for "
                             : ", which waits for ") +
            *frames[i].who;
  if (last != nullptr)
    text += (frames.size() == from + 1 ? " waits for " : ", which waits for ") + *last;
  return text;
}

}  // namespace

std::string WaitGraph::Cycle() const {
  std::string longest;
  size_t longest_size = 1;
  std::set<std::string> done;  // these lead to no cycle
  for (const auto& [start, unused] : waits_) {
    std::vector<Frame> stack;
    if (!done.contains(start)) stack.push_back({&start, 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const auto waits = waits_.find(*frame.who);
      if (waits == waits_.end() || frame.next == waits->second.size()) {
        if (stack.size() > longest_size) {
          longest_size = stack.size();
          longest = Say(stack, 0, nullptr);
        }
        done.insert(*frame.who);
        stack.pop_back();
        continue;
      }
      const std::string& next = waits->second[frame.next++];
      const auto seen =
          std::find_if(stack.begin(), stack.end(), [&](const Frame& f) { return *f.who == next; });
      if (seen != stack.end()) return Say(stack, static_cast<size_t>(seen - stack.begin()), &next);
      if (!done.contains(next)) stack.push_back({&next, 0});
    }
  }
  return longest;
}

}  // namespace liveshape::npu
