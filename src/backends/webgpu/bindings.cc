#include "backends/webgpu/bindings.h"

namespace liveshape::webgpu {
namespace {

uint64_t WordBytes(std::string_view word) {
  if (word == "vec4<u32>") return 16;
  return word == "vec2<u32>" ? 8 : 4;
}

}  // namespace

size_t Bindings::Add(plan::StorageId storage, std::string_view word) {
  for (size_t a = 0; a < arrays_.size(); ++a)
    if (arrays_[a].storage == storage) {
      mixed_ |= arrays_[a].word != word;
      return a;
    }
  arrays_.push_back({storage, std::string(word)});
  return arrays_.size() - 1;
}

std::string Bindings::Element(size_t array, std::string_view index) const {
  return fmt::format("buffer{}[{}]", array, index);
}

std::string Bindings::Load(size_t array, std::string_view index) const {
  if (IsSplit(arrays_[array])) return fmt::format("load_buffer{}({})", array, index);
  return arrays_[array].atomic ? fmt::format("atomicLoad(&{})", Element(array, index))
                               : Element(array, index);
}

std::string Bindings::Store(size_t array, std::string_view index, std::string_view value) const {
  if (IsSplit(arrays_[array])) return fmt::format("store_buffer{}({}, {});", array, index, value);
  return fmt::format("{} = {};", Element(array, index), value);
}

std::string Bindings::Change(size_t array, std::string_view index, std::string_view keep,
                             std::string_view bits) const {
  if (IsSplit(arrays_[array]))
    return fmt::format("change_buffer{}({}, {}, {});", array, index, keep, bits);
  return fmt::format("atomicAnd(&{0}, {1}); atomicOr(&{0}, {2});", Element(array, index), keep,
                     bits);
}

// `head { if (i < end of part 0) { statement } ... }`; {0} of the statement is the word.
std::string Bindings::ByPart(size_t array, std::string_view head,
                             std::string_view statement) const {
  const std::vector<gpu::BoundRange>& parts = memory_.Parts(arrays_[array].storage);
  const uint64_t size = WordBytes(arrays_[array].word);
  std::string text = fmt::format("fn {} {{\n", head);
  uint64_t begin = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const std::string word = fmt::format("buffer{}_{}[i - {}u]", array, k, begin);
    begin += parts[k].bytes / size;
    const std::string step = fmt::format(fmt::runtime(statement), word);
    text += k + 1 == parts.size() ? fmt::format("  {}\n", step)
                                  : fmt::format("  if (i < {}u) {{ {} }}\n", begin, step);
  }
  return text + "}\n";
}

std::string Bindings::Declare() const {
  std::string text;
  size_t binding = 1;
  for (size_t a = 0; a < arrays_.size(); ++a) {
    const Array& array = arrays_[a];
    const std::string word = array.atomic ? "atomic<u32>" : array.word;
    const size_t parts = memory_.Parts(array.storage).size();
    for (size_t k = 0; k < parts; ++k)
      text +=
          fmt::format("@group(0) @binding({}) var<storage, read_write> buffer{}{}: array<{}>;\n",
                      binding++, a, parts == 1 ? "" : fmt::format("_{}", k), word);
    if (parts == 1) continue;
    text += ByPart(a, fmt::format("load_buffer{}(i: u32) -> {}", a, array.word),
                   array.atomic ? "return atomicLoad(&{0});" : "return {0};");
    text += array.atomic
                ? ByPart(a, fmt::format("change_buffer{}(i: u32, keep: u32, bits: u32)", a),
                         "atomicAnd(&{0}, keep); atomicOr(&{0}, bits); return;")
                : ByPart(a, fmt::format("store_buffer{}(i: u32, v: {})", a, array.word),
                         "{0} = v; return;");
  }
  return text;
}

std::vector<gpu::BoundRange> Bindings::Ranges() const {
  std::vector<gpu::BoundRange> ranges;
  for (const Array& array : arrays_)
    for (const gpu::BoundRange& part : memory_.Parts(array.storage)) ranges.push_back(part);
  return ranges;
}

}  // namespace liveshape::webgpu
