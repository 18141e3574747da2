#include "backends/npu/lower/builder.h"

#include <algorithm>

#include "backends/npu/lower/fuse.h"
#include "backends/npu/lower/schedule.h"

namespace liveshape::npu {
namespace {

bool HasFloats(Expr e) {
  if (e.is_float_valued()) return true;
  for (Expr arg : e.args())
    if (HasFloats(arg)) return true;
  return e.kind() >= sym::Kind::kBitAnd;
}

Expr StorageBytes(const Lowering& l, const plan::Storage& storage) {
  sym::Table& table = l.graph.table();
  const auto dense = [&](const ir::TensorType& type) {
    return sym::Product(table, type.dims) * static_cast<int64_t>(SizeOf(type.dtype));
  };
  switch (storage.place) {
    case plan::Place::kArena: return storage.bytes;
    case plan::Place::kInput: return dense(l.graph.type(l.graph.inputs[storage.index].value));
    case plan::Place::kState: return dense(l.graph.type(l.graph.states[storage.index].value));
    case plan::Place::kConstant:
      return table.Int(
          static_cast<int64_t>(ir::StoredBytes(l.graph.constants[storage.index]).value_or(0)));
  }
  return {};
}

}  // namespace

const ir::Constant* Lowering::constant(size_t input) const {
  if (!has(input)) return nullptr;
  const plan::Storage& storage = plan.storages[step.inputs[input].storage];
  return storage.place == plan::Place::kConstant ? &graph.constants[storage.index] : nullptr;
}

KernelBuilder::KernelBuilder(const Lowering& l, std::string_view suffix)
    : l_(l), program_(std::make_shared<TileProgram>()), block_(&program_->body) {
  program_->table = std::make_unique<sym::Table>();
  program_->variant = Int(0);
  kernel_.name = l.name + std::string(suffix);
  const plan::Step& last = l.fusion ? *l.fusion->stages.back().step : l.step;
  kernel_.step = static_cast<uint32_t>(&last - l.plan.steps.data());
  if (l.when) {
    program_->body.statements.push_back({.kind = Statement::Kind::kIf, .expr = Import(l.when)});
    block_ = &program_->body.statements.back().body;
  }
}

Expr KernelBuilder::NewSymbol(std::string_view name, sym::Interval range) {
  std::string unique(name);
  for (int i = 2; table().FindSymbol(unique); ++i) unique = fmt::format("{}_{}", name, i);
  return table().Symbol({.name = std::move(unique), .lo = range.lo, .hi = range.hi});
}

Expr KernelBuilder::Import(Expr e) {
  sym::Table& graph = l_.graph.table();
  const auto declare = [&](Expr argument, std::string_view name) {
    const auto known = std::find(kernel_.shape_args.begin(), kernel_.shape_args.end(), argument);
    if (known != kernel_.shape_args.end())
      return program_->shape_args[known - kernel_.shape_args.begin()];
    kernel_.shape_args.push_back(argument);
    program_->shape_args.push_back(NewSymbol(name, graph.Bounds(argument)));
    return program_->shape_args.back();
  };
  if (HasFloats(e)) return declare(e, fmt::format("size{}", kernel_.shape_args.size()));
  for (uint32_t symbol : graph.FreeSymbols(e))
    declare(graph.SymbolAt(symbol), graph.symbols()[symbol].name);
  return table().Import(e);
}

View KernelBuilder::MakeView(const plan::Operand& operand, bool written) {
  View view{.dtype = operand.dtype};
  const int64_t element = view.element();
  const ir::Layout layout = l_.locations.Of(operand);
  for (Expr dim : l_.graph.type(operand.value).dims) view.dims.push_back(Import(dim));
  for (Expr stride : layout.strides) view.strides.push_back(Import(stride) * element);
  view.offset = Import(layout.offset) * element;
  auto& tensors = kernel_.tensors;
  const auto known = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const Tensor& t) { return t.storage == operand.storage; });
  view.tensor = static_cast<uint32_t>(known - tensors.begin());
  if (known == tensors.end())
    tensors.push_back({.storage = operand.storage,
                       .name = l_.graph.value(operand.value).name,
                       .bytes = StorageBytes(l_, l_.plan.storages[operand.storage])});
  (written ? tensors[view.tensor].written : tensors[view.tensor].read) = true;
  return view;
}

void KernelBuilder::SetVariants(uint32_t count, Expr rule) {
  kernel_.variants = count;
  program_->variant = Let("variant", rule);
}

Expr KernelBuilder::ByVariant(std::span<const int64_t> numbers) {
  Expr e = Int(numbers[0]);
  for (size_t v = 1; v < numbers.size(); ++v)
    e = sym::Select(sym::Eq(program_->variant, Int(static_cast<int64_t>(v))), Int(numbers[v]), e);
  return e;
}

uint32_t KernelBuilder::AddBuffer(std::string name, std::vector<int64_t> bytes, uint32_t versions,
                                  Turn turn) {
  kernel_.buffers.push_back({std::move(name), std::move(bytes), versions, turn});
  return static_cast<uint32_t>(kernel_.buffers.size() - 1);
}

uint32_t KernelBuilder::AddCode(Code code, ValueFunction value, const plan::Step* of) {
  kernel_.codes.push_back(std::move(code));
  kernel_.values.push_back(std::move(value));
  kernel_.value_steps.push_back(static_cast<uint32_t>((of ? of : &l_.step) - l_.plan.steps.data()));
  return static_cast<uint32_t>(kernel_.codes.size() - 1);
}

Expr KernelBuilder::Let(std::string_view name, Expr value) {
  if (value.is_int() || value.is_symbol()) return value;
  const Expr variable = NewSymbol(name, table().Bounds(value));
  program_->lets.push_back({variable, value});
  return variable;
}

void KernelBuilder::Loop(std::string_view name, Expr count, const std::function<void(Expr)>& body) {
  if (count.is_int(1)) return body(Int(0));
  const int64_t most = table().Bounds(count).hi;
  const Expr variable =
      NewSymbol(name, {0, most == sym::Interval::kPosInf ? most : std::max<int64_t>(0, most - 1)});
  block_->statements.push_back(
      {.kind = Statement::Kind::kLoop, .variable = variable, .expr = count});
  Statement loop = std::move(block_->statements.back());
  block_->statements.pop_back();
  Block* const outer = block_;
  block_ = &loop.body;
  body(variable);
  block_ = outer;
  block_->statements.push_back(std::move(loop));
}

void KernelBuilder::Tiles(std::string_view name, Expr extent, Expr tile,
                          const std::function<void(Span)>& body) {
  Loop(name, Let(fmt::format("{}_count", name), sym::CeilDiv(extent, tile)), [&](Expr i) {
    const Expr start = Let(fmt::format("{}_start", name), i * tile);
    body({start, Let(fmt::format("{}_live", name), sym::Min(tile, extent - start))});
  });
}

void KernelBuilder::If(Expr condition, const std::function<void()>& body) {
  if (condition.is_int()) {
    if (condition.value() != 0) body();
    return;
  }
  Statement branch{.kind = Statement::Kind::kIf, .expr = condition};
  Block* const outer = block_;
  block_ = &branch.body;
  body();
  block_ = outer;
  block_->statements.push_back(std::move(branch));
}

void KernelBuilder::Move(bool store, const View& view, Place place, Expr offset,
                         std::vector<BoxDim> box, std::optional<Place> index) {
  Dma dma{.store = store,
          .tensor = view.tensor,
          .place = place,
          .offset = offset,
          .element_bytes = static_cast<uint32_t>(view.element()),
          .box = std::move(box),
          .index = index};
  block_->statements.push_back({.kind = Statement::Kind::kDma, .dma = std::move(dma)});
}

void KernelBuilder::Compute(uint32_t code, std::vector<Expr> extents, std::vector<Place> operands,
                            std::vector<Expr> arguments) {
  block_->statements.push_back(
      {.kind = Statement::Kind::kCompute,
       .compute = {code, std::move(extents), std::move(arguments), std::move(operands)}});
}

Status KernelBuilder::Finish(std::vector<Kernel>& kernels) {
  for (uint32_t v = 0; v < kernel_.variants; ++v) {
    int64_t total = 0;
    std::string sizes;
    for (Buffer& buffer : kernel_.buffers) {
      if (buffer.bytes.size() < kernel_.variants)
        buffer.bytes.resize(kernel_.variants, buffer.bytes.back());
      total += buffer.bytes[v] * buffer.versions;
      sizes += fmt::format("{}{} {} x {}", sizes.empty() ? "" : ", ", buffer.name, buffer.versions,
                           buffer.bytes[v]);
    }
    if (total > l_.target.scratchpad_bytes)
      return ResourceExhausted(
          "its tile needs {} bytes ({}), the scratchpad has {}; a smaller --tile may fit", total,
          sizes, l_.target.scratchpad_bytes);
  }
  LS_ASSIGN_OR_RETURN(kernel_.schedule, MakeSchedule(*program_, kernel_.buffers));
  kernel_.program = std::move(program_);
  kernels.push_back(std::move(kernel_));
  return {};
}

}  // namespace liveshape::npu
