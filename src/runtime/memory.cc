#include "runtime/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace liveshape {
namespace {

constexpr size_t kStateAlignment = 64;

template <typename T>
void Fill(std::byte* begin, std::byte* end, T value) {
  for (; begin + sizeof(T) <= end; begin += sizeof(T)) std::memcpy(begin, &value, sizeof(T));
}

// Values that show: NaN or 1e30 for floats, 0x7f.. for integers, 0xFF for bool (X1).
void FillPoison(std::byte* begin, std::byte* end, DType dtype, Poison kind) {
  const bool nan = kind == Poison::kNaN;
  switch (dtype) {
    case DType::kF32: return Fill(begin, end, nan ? 0x7fc00000u : std::bit_cast<uint32_t>(1e30f));
    case DType::kF64:
      return Fill(begin, end, nan ? 0x7ff8000000000000ull : std::bit_cast<uint64_t>(1e30));
    case DType::kF16:
      return Fill<uint16_t>(begin, end, nan ? 0x7e00 : 0x7bff);  // largest finite: 65504
    case DType::kBF16: return Fill<uint16_t>(begin, end, nan ? 0x7fc0 : 0x714a);  // about 1e30
    case DType::kBool: return Fill<uint8_t>(begin, end, 0xff);
    default: return Fill<uint8_t>(begin, end, 0x7f);
  }
}

}  // namespace

std::vector<uint32_t> ContextStates(const ir::Graph& graph) {
  const auto users = graph.Users();
  // True if every use of `value`, through views and in-place updates, is a bounded read by attention.
  const auto bounded = [&](const auto& self, ir::ValueId value, int depth) -> bool {
    if (depth > 32) return false;
    for (const ir::Output& output : graph.outputs)
      if (output.value == value) return false;
    for (uint32_t n : users[value]) {
      const ir::Node& node = graph.nodes[n];
      bool limited =
          node.Has("limit") || (node.inputs.size() > 4 && node.inputs[4] != ir::kNoValue);
      limited = limited && (node.inputs.size() < 4 || node.inputs[3] == ir::kNoValue);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != value) continue;
        const bool context =
            std::string_view(node.op->name) == "attention" && (i == 1 || i == 2) && limited;
        const bool follows =
            (node.op->view && i == 0) || node.op->in_place_input == static_cast<int>(i);
        if (!context && !(follows && self(self, node.outputs[0], depth + 1))) return false;
      }
    }
    return true;
  };
  std::vector<uint32_t> states;
  for (uint32_t i = 0; i < graph.states.size(); ++i)
    if (IsFloat(graph.states[i].dtype) && graph.states[i].result != graph.states[i].value &&
        bounded(bounded, graph.states[i].value, 0))
      states.push_back(i);
  return states;
}

Status SessionMemory::Reserve(const ir::Graph& graph, const plan::Plan& plan) {
  LS_ASSIGN_OR_RETURN(arena_, Reservation::Make(plan.arena_bytes));
  size_t total = 0;
  for (const ir::State& state : graph.states) {
    size_t bytes = SizeOf(state.dtype);
    for (int64_t d : state.dims) bytes *= static_cast<size_t>(d);
    state_offset_.push_back(total);
    state_size_.push_back(bytes);
    state_zero_.push_back(std::all_of(state.initial.begin(), state.initial.end(),
                                      [](std::byte b) { return b == std::byte{0}; }));
    total = (total + bytes + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
  }
  LS_ASSIGN_OR_RETURN(states_, Reservation::Make(total));
  // Addresses only: no page is touched unless an input comes unaligned.
  size_t staged = 0;
  for (const ir::Input& input : graph.inputs) {
    staging_offset_.push_back(staged);
    if (input.value == ir::kNoValue) continue;
    const ir::TensorType& type = graph.type(input.value);
    const int64_t most = graph.table().Bounds(sym::Product(graph.table(), type.dims)).hi;
    constexpr int64_t kMost = int64_t{1} << 40;
    if (most > 0 && most < kMost)
      staged += (static_cast<size_t>(most) * SizeOf(type.dtype) + 63) / 64 * 64;
  }
  staging_offset_.push_back(staged);
  LS_ASSIGN_OR_RETURN(staging_, Reservation::Make(staged));
  for (const plan::Storage& s : plan.storages) {
    std::byte* base = nullptr;
    if (s.place == plan::Place::kArena) base = arena_.data() + s.offset;
    if (s.place == plan::Place::kState) base = state(s.index);
    if (s.place == plan::Place::kConstant)
      base = const_cast<std::byte*>(graph.constants[s.index].data.data());
    bases_.push_back(base);
  }
  fixed_ = bases_;
  ResetStates(graph);
  return {};
}

int64_t SessionMemory::FirstMoved(std::span<std::byte* const> bases) const {
  for (size_t i = 0; i < fixed_.size(); ++i)
    if (fixed_[i] != nullptr && bases[i] != fixed_[i]) return static_cast<int64_t>(i);
  return -1;
}

Result<std::byte*> SessionMemory::Borrow(size_t input, const TensorRef& tensor) {
  auto* data = static_cast<std::byte*>(tensor.data);
  if (IsAligned(data, tensor.dtype)) return data;
  const size_t bytes = tensor.bytes();
  if (bytes > staging_offset_[input + 1] - staging_offset_[input])
    return InvalidArgument(
        "run: input {} is not aligned to its elements and has no finite bound to copy it within; "
        "align it to {} bytes",
        input, SizeOf(tensor.dtype));
  std::memcpy(staging_.data() + staging_offset_[input], data, bytes);
  return staging_.data() + staging_offset_[input];
}

void SessionMemory::ResetStates(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const auto& initial = graph.states[i].initial;
    // Zeros need no pages: a cache of many tokens costs nothing until it is written.
    if (state_zero_[i]) {
      states_.Release(state_offset_[i], state_offset_[i] + state_size_[i]);
      // The pages at both ends are shared with neighbours, so Release leaves them.
      constexpr size_t kPage = 4096;
      const size_t edge = std::min(kPage, state_size_[i]);
      std::memset(state(i), 0, edge);
      std::memset(state(i) + state_size_[i] - edge, 0, edge);
    } else {
      std::memcpy(state(i), initial.data(), std::min(initial.size(), state_size_[i]));
    }
  }
}

void SessionMemory::Poison(const plan::Plan& plan, std::span<const int64_t> block,
                           liveshape::Poison kind) {
  // Before a run every byte of the arena is dead: each slot's tail is poisoned first, and its live part
  // too, since a kernel must write all of what it is asked for.
  for (size_t i = 0; i < plan.storages.size(); ++i) {
    const plan::Storage& s = plan.storages[i];
    if (s.place != plan::Place::kArena) continue;
    FillPoison(bases_[i], bases_[i] + s.capacity, s.scratch ? DType::kF32 : s.dtype, kind);
  }
}

void SessionMemory::PoisonStates(const ir::Graph& graph, std::span<const uint32_t> states,
                                 liveshape::Poison kind) {
  for (uint32_t i : states)
    FillPoison(state(i), state(i) + state_bytes(i), graph.states[i].dtype, kind);
}

void SessionMemory::Trim(const plan::Plan& plan, std::span<const int64_t> block) {
  std::vector<std::pair<size_t, size_t>> live;
  for (const plan::PlannedOutput& output : plan.outputs) {
    if (output.operand.storage == plan::kNoStorage) continue;
    const plan::Storage& s = plan.storages[output.operand.storage];
    live.push_back(
        {s.offset, s.offset + static_cast<size_t>(std::max<int64_t>(0, block[s.bytes_at]))});
  }
  std::sort(live.begin(), live.end());
  size_t end = 0;
  for (const auto& [from, to] : live) {
    if (from > end) arena_.Release(end, from);
    end = std::max(end, to);
  }
  arena_.Release(end, arena_.size());
}

}  // namespace liveshape
