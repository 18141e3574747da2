#include "backends/webgpu/shader.h"

#include "backends/webgpu/bindings.h"
#include "backends/webgpu/text.h"
#include "backends/webgpu/wgsl.h"

namespace liveshape::webgpu {
namespace {

// How elements of a dtype lie in words.
struct Packing {
  const char* word;    // of the binding's array
  uint32_t per_word;   // elements; 1 also where an element is two words
  const char* at;      // the word that holds element `i`
  const char* read;    // of the element from its word {}
  const char* encode;  // of a value `v` as the low bits of a word; null: stored as it is
  uint32_t bits() const { return 32 / per_word; }
};

Packing PackingOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return {"f32", 1, "i", "{}", nullptr};
    case DType::kI32: return {"i32", 1, "i", "{}", nullptr};
    case DType::kI64: return {"vec2<u32>", 1, "i", "{}", nullptr};
    case DType::kF16:
      return {"u32", 2, "i / 2u", "unpack2x16float({} >> (16u * (i % 2u))).x",
              "pack2x16float(vec2<f32>(v, 0.0))"};
    case DType::kBF16:
      return {"u32", 2, "i / 2u", "bitcast<f32>(({} >> (16u * (i % 2u))) << 16u)", "bf16_bits(v)"};
    case DType::kI16:
      return {"u32", 2, "i / 2u", "extractBits(bitcast<i32>({}), 16u * (i % 2u), 16u)",
              "bitcast<u32>(v)"};
    case DType::kI8:
      return {"u32", 4, "i / 4u", "extractBits(bitcast<i32>({}), 8u * (i % 4u), 8u)",
              "bitcast<u32>(v)"};
    case DType::kU8:
      return {"u32", 4, "i / 4u", "i32(extractBits({}, 8u * (i % 4u), 8u))", "bitcast<u32>(v)"};
    default:
      return {"u32", 4, "i / 4u", "(extractBits({}, 8u * (i % 4u), 8u) != 0u)",
              "select(0u, 1u, v)"};
  }
}

std::string Read(const Packing& packing, const Bindings& bindings, size_t array) {
  return fmt::format(fmt::runtime(packing.read), bindings.Load(array, packing.at));
}

// A quantised constant is read by words, whatever dtype it stands for.
bool IsQuantised(const Lowering& l, plan::StorageId id) {
  const plan::Storage& storage = l.plan.storages[id];
  return storage.place == plan::Place::kConstant &&
         l.graph.constants[storage.index].encoding != ir::Encoding::kPlain;
}

const char* WordType(const Lowering& l, plan::StorageId id) {
  const plan::Storage& storage = l.plan.storages[id];
  if (storage.scratch) return "u32";
  return IsQuantised(l, id) ? "u32" : PackingOf(storage.dtype).word;
}

// A binding has one type: vectors of four words, where nothing else of the step lies in the storage, and where none
// of it would be cut off.
bool CanBeVectors(const Lowering& l, plan::StorageId id) {
  size_t uses = l.step.scratch == id ? 1 : 0;
  for (const auto* operands : {&l.step.inputs, &l.step.outputs})
    for (const plan::Operand& operand : *operands) uses += operand.storage == id ? 1 : 0;
  const plan::Storage& s = l.plan.storages[id];
  if (uses != 1 || s.place == plan::Place::kInput) return false;
  if (s.place == plan::Place::kConstant) return l.graph.constants[s.index].data.size() % 16 == 0;
  if (s.place == plan::Place::kState)
    return ir::DenseBytes(s.dtype, l.graph.states[s.index].dims).value_or(1) % 16 == 0;
  return true;
}

std::string ParamFields(std::span<const Param> params, const std::string& suffix) {
  std::string text;
  for (const Param& p : params) {
    // Two u32 rather than a vec2, which would have to be aligned to 8 bytes.
    if (p.kind == Param::Kind::kWide)
      text += fmt::format("  {0}_lo{1}: u32, {0}_hi{1}: u32,\n", p.name, suffix);
    else
      text += fmt::format("  {}{}: {},\n", p.name, suffix,
                          p.kind == Param::Kind::kFloat ? "f32" : "u32");
  }
  return text;
}

// By a call of one of its accessors: `in1` alone would be found in `in12`.
bool Reads(const Dispatch& dispatch, size_t input) {
  for (const char* format : {"in{}(", "in{}_word(", "in{}_vec4("})
    if (dispatch.body.find(fmt::format(fmt::runtime(format), input)) != std::string::npos)
      return true;
  return false;
}

// `in<k>(i)`, and in<k>_word(i) or in<k>_vec4(i) where the body asks for words as they lie.
void AddInput(const Lowering& l, const Dispatch& dispatch, size_t k, Bindings& bindings,
              std::string& accessors) {
  const plan::Operand& operand = l.in(k);
  const auto asks_for = [&](const char* accessor) {
    return dispatch.body.find(fmt::format("in{}_{}(", k, accessor)) != std::string::npos;
  };
  const Packing packing = PackingOf(operand.dtype);
  const bool by_vectors = asks_for("vec4"),
             vectors = by_vectors && CanBeVectors(l, operand.storage);
  const bool quantised = IsQuantised(l, operand.storage);
  const size_t array =
      bindings.Add(operand.storage, vectors ? "vec4<u32>" : WordType(l, operand.storage));
  const auto word = [&](std::string_view at) {
    if (vectors)
      return bindings.Load(array, fmt::format("({}) / 4u", at)) + fmt::format("[({}) % 4u]", at);
    const std::string loaded = bindings.Load(array, at);
    return quantised || packing.per_word > 1 ? loaded : fmt::format("bitcast<u32>({})", loaded);
  };
  if (quantised || by_vectors || asks_for("word"))
    accessors += fmt::format("fn in{}_word(i: u32) -> u32 {{ return {}; }}\n", k, word("i"));
  if (by_vectors)
    accessors += fmt::format(
        "fn in{0}_vec4(i: u32) -> vec4<u32> {{ return {1}; }}\n", k,
        vectors ? bindings.Load(array, "i")
                : fmt::format("vec4<u32>({}, {}, {}, {})", word("4u * i"), word("4u * i + 1u"),
                              word("4u * i + 2u"), word("4u * i + 3u")));
  if (quantised) return;
  const std::string read = !vectors ? Read(packing, bindings, array)
                           : packing.per_word == 1
                               ? fmt::format("bitcast<{}>({})", packing.word, word("i"))
                               : fmt::format(fmt::runtime(packing.read), word(packing.at));
  accessors +=
      fmt::format("fn in{}(i: u32) -> {} {{ return {}; }}\n", k, ValueType(operand.dtype), read);
}

void AddOutput(const Lowering& l, size_t k, Bindings& bindings, size_t array, bool atomic,
               std::string& accessors) {
  const char* type = ValueType(l.out(k).dtype);
  const Packing packing = PackingOf(l.out(k).dtype);
  if (packing.encode)
    accessors +=
        fmt::format("fn encode_out{0}(v: {1}) -> u32 {{ return {2}; }}\n", k, type, packing.encode);
  if (packing.encode && !atomic) {
    accessors += fmt::format("fn set_out{}_word(i: u32, v: u32) {{ {} }}\n", k,
                             bindings.Store(array, "i", "v"));
    return;
  }
  accessors += fmt::format("fn out{}(i: u32) -> {} {{ return {}; }}\n", k, type,
                           Read(packing, bindings, array));
  if (!atomic) {
    accessors += fmt::format("fn set_out{}(i: u32, v: {}) {{ {} }}\n", k, type,
                             bindings.Store(array, "i", "v"));
    return;
  }
  const uint32_t mask = (1u << packing.bits()) - 1;
  accessors +=
      fmt::format("fn set_out{}(i: u32, v: {}) {{\n  let shift = {}u * (i % {}u);\n  {}\n}}\n", k,
                  type, packing.bits(), packing.per_word,
                  bindings.Change(array, packing.at, fmt::format("~({}u << shift)", mask),
                                  fmt::format("(encode_out{}(v) & {}u) << shift", k, mask)));
}

}  // namespace

namespace {

// Accessors and body of one dispatch; its arrays become bindings.
Result<std::string> PartText(const Part& part, Bindings& bindings) {
  const Lowering& l = part.lowering;
  const Dispatch& dispatch = part.dispatch;
  std::vector<size_t> outputs;
  std::vector<bool> atomic;
  for (const auto* operands : {&l.step.inputs, &l.step.outputs})
    for (const plan::Operand& operand : *operands)
      if (operand.storage != plan::kNoStorage && ValueType(operand.dtype) == nullptr)
        return NoSuchType(operand.dtype);
  // An output that the body writes element by element although several lie in a word: its words are atomic, so that
  // invocations that write parts of one do not lose each other's. What else lies in that storage is read so too.
  for (size_t k = 0; k < l.step.outputs.size(); ++k) {
    outputs.push_back(bindings.Add(l.out(k).storage, WordType(l, l.out(k).storage)));
    atomic.push_back(PackingOf(l.out(k).dtype).per_word > 1 &&
                     dispatch.body.find(fmt::format("set_out{}(", k)) != std::string::npos);
    if (atomic[k]) bindings.MakeAtomic(outputs[k]);
  }
  std::string text;
  for (size_t k = 0; k < l.step.inputs.size(); ++k)
    if (l.has(k) && Reads(dispatch, k)) AddInput(l, dispatch, k, bindings, text);
  for (size_t k = 0; k < outputs.size(); ++k)
    AddOutput(l, k, bindings, outputs[k], atomic[k], text);
  if (l.step.scratch != plan::kNoStorage) {
    const size_t array = bindings.Add(l.step.scratch, "u32");
    const std::string load = bindings.Load(array, "i");
    text += fmt::format(
        "fn scratch_word(i: u32) -> u32 {{ return {0}; }}\n"
        "fn set_scratch_word(i: u32, v: u32) {{ {1} }}\n"
        "fn scratch(i: u32) -> f32 {{ return bitcast<f32>({0}); }}\n"
        "fn set_scratch(i: u32, v: f32) {{ {2} }}\n",
        load, bindings.Store(array, "i", "v"), bindings.Store(array, "i", "bitcast<u32>(v)"));
  }
  if (!dispatch.failure.empty()) text += "fn fail() { atomicMax(&failed[0], p.step_number); }\n";
  return text + dispatch.body;
}

// What the parts of a shader are called from: each has the workgroups from its `first_group` on.
std::string Choose(size_t parts) {
  std::string text =
      std::string(kSmallEntry) + kEntryArguments + "  let group = group_index(wid, nwg);\n";
  for (size_t i = 0; i < parts; ++i) {
    if (i + 1 < parts) text += fmt::format("  if (group < p.first_group_{}) {{\n", i + 1);
    text += fmt::format("    main_{}(wid, nwg, lane);\n", i);
    if (i + 1 < parts) text += "    return;\n  }\n";
  }
  return text + "}\n";
}

}  // namespace

Result<Shader> MakeShader(std::span<const Part> parts, const DeviceMemory& memory) {
  Shader shader;
  Bindings bindings(memory);
  std::string text, fields;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Dispatch& dispatch = parts[i].dispatch;
    LS_ASSIGN_OR_RETURN(std::string part, PartText(parts[i], bindings));
    std::string suffix;
    if (parts.size() > 1) {
      suffix = fmt::format("_{}", i);
      part = AsFunction(std::move(part), suffix);
      if (i > 0) {
        shader.params.push_back({.name = "first_group" + suffix, .expr = shader.groups});
        fields += "  first_group" + suffix + ": u32,\n";
      }
      part += fmt::format(
          "fn group_index{0}(wid: vec3<u32>, nwg: vec3<u32>) -> u32 {{ return group_index(wid, "
          "nwg){1}; }}\n",
          suffix, i ? " - p.first_group" + suffix : "");
    }
    text += part;
    fields += ParamFields(dispatch.params, suffix);
    shader.params.insert(shader.params.end(), dispatch.params.begin(), dispatch.params.end());
    shader.groups = i ? shader.groups + dispatch.groups : dispatch.groups;
    shader.fails |= !dispatch.failure.empty();
  }
  if (parts.size() > 1) text += Choose(parts.size());
  if (bindings.mixed()) return Unsupported("one storage as words and as vectors of them");
  shader.ranges = bindings.Ranges();
  if (shader.fails) shader.ranges.push_back(memory.error_word());
  const gpu::Limits& limits = parts[0].lowering.limits;
  if (shader.ranges.size() > limits.storage_buffers)
    return Unsupported(
        "{} buffers in one dispatch, this device binds {} (tensors above {} bytes take several)",
        shader.ranges.size(), limits.storage_buffers, limits.binding_bytes);
  shader.wgsl =
      fmt::format("struct Params {{\n{}}}\n@group(0) @binding(0) var<uniform> p: Params;\n",
                  fields.empty() ? "  unused: u32,\n" : fields);
  shader.wgsl += bindings.Declare();
  if (shader.fails)
    shader.wgsl +=
        fmt::format("@group(0) @binding({}) var<storage, read_write> failed: array<atomic<u32>>;\n",
                    shader.ranges.size());
  shader.wgsl += wgsl::kPrelude;
  if (text.find("i64_") != std::string::npos) shader.wgsl += wgsl::kI64;
  if (text.find("row_") != std::string::npos) shader.wgsl += wgsl::kRows;
  if (text.find("math_") != std::string::npos) shader.wgsl += wgsl::kMath;
  shader.wgsl += text;
  return shader;
}

bool CanLieBeside(const Part& a, const Part& b, const DeviceMemory& memory) {
  for (const Part* part : {&a, &b})
    if (part->dispatch.body.find(kSmallEntry) == std::string::npos ||
        part->dispatch.body.find("var<workgroup>") != std::string::npos)
      return false;
  const auto meet = [&](plan::StorageId x, plan::StorageId y) {
    if (x == plan::kNoStorage || y == plan::kNoStorage) return false;
    for (const gpu::BoundRange& r : memory.Parts(x))
      for (const gpu::BoundRange& s : memory.Parts(y))
        if (r.buffer == s.buffer && r.offset < s.offset + s.bytes && s.offset < r.offset + r.bytes)
          return true;
    return false;
  };
  const auto touched = [](const plan::Step& step, bool written_only) {
    std::vector<plan::StorageId> storages{step.scratch};
    for (const plan::Operand& out : step.outputs) storages.push_back(out.storage);
    if (!written_only)
      for (const plan::Operand& in : step.inputs) storages.push_back(in.storage);
    return storages;
  };
  for (const auto& [writer, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (plan::StorageId w : touched(writer->lowering.step, true))
      for (plan::StorageId o : touched(other->lowering.step, false))
        if (meet(w, o)) return false;
  return true;
}

}  // namespace liveshape::webgpu
