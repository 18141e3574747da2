// One tile program for any pointwise chain: load what it reads, compute, store. What the chain costs is the sum over
// its instructions.
#include "backends/npu/lower/map.h"
#include "ops/ops.h"
#include "ops/pointwise/npu_values.h"

namespace liveshape::npu {
namespace {

using ir::PwOp;

// Vector operations that an instruction takes, where that is not one simple one. Of the others: exp and division
// make a sigmoid; a remainder is a division, a rounding, a product and a difference.
struct Work {
  PwOp op;
  float simple, divide, transcendental;
};

constexpr Work kWork[] = {
    // clang-format off: one line an op
    {PwOp::kLoad, 0, 0, 0},
    {PwOp::kConst, 0, 0, 0},
    {PwOp::kScalar, 0, 0, 0},
    {PwOp::kDiv, 0, 1, 0},
    {PwOp::kFloorDiv, 1, 1, 0},
    {PwOp::kTruncDiv, 1, 1, 0},
    {PwOp::kRemainder, 3, 1, 0},
    {PwOp::kFmod, 3, 1, 0},
    {PwOp::kPow, 1, 0, 2},
    {PwOp::kSqrt, 0, 1, 0},
    {PwOp::kRsqrt, 0, 2, 0},
    {PwOp::kReciprocal, 0, 1, 0},
    {PwOp::kExp, 0, 0, 1},
    {PwOp::kExp2, 0, 0, 1},
    {PwOp::kExpm1, 1, 0, 1},
    {PwOp::kLog, 0, 0, 1},
    {PwOp::kLog2, 0, 0, 1},
    {PwOp::kLog1p, 1, 0, 1},
    {PwOp::kLog10, 1, 0, 1},
    {PwOp::kSin, 0, 0, 1},
    {PwOp::kCos, 0, 0, 1},
    {PwOp::kTan, 0, 1, 2},
    {PwOp::kAsin, 0, 0, 1},
    {PwOp::kAcos, 0, 0, 1},
    {PwOp::kAtan, 0, 0, 1},
    {PwOp::kSinh, 3, 1, 1},
    {PwOp::kCosh, 3, 1, 1},
    {PwOp::kAtan2, 2, 1, 1},
    {PwOp::kTanh, 0, 0, 1},
    {PwOp::kErf, 0, 0, 1},
    {PwOp::kSigmoid, 2, 1, 1},
    {PwOp::kSilu, 3, 1, 1},
    {PwOp::kGelu, 4, 0, 1},
    {PwOp::kGeluTanh, 7, 0, 1},
    // clang-format on
};

Work WorkOf(PwOp op) {
  for (const Work& work : kWork)
    if (work.op == op) return work;
  return {op, 1, 0, 0};
}

Code MakeCode(const ir::PointwiseProgram& program) {
  Code code{.name = "pointwise"};
  for (const ir::PwInstr& instr : program.code) {
    const Work work = WorkOf(instr.op);
    // Lanes are 32 bits wide.
    const DType operand =
        ir::OperandCount(instr.op) > 0 ? program.code[instr.a].dtype : instr.dtype;
    const float words = SizeOf(operand) > 4 || SizeOf(instr.dtype) > 4 ? 2 : 1;
    code.per_element[VectorClass::kSimple] += words * work.simple;
    code.per_element[VectorClass::kDivide] += words * work.divide;
    code.per_element[VectorClass::kTranscendental] += words * work.transcendental;
  }
  if (program.code.size() == 2) code.name = ir::Name(program.code.back().op);
  if (program.code.size() == 3 && program.code[1].op == PwOp::kLoad)
    code.name = ir::Name(program.code.back().op);
  return code;
}

bool HasIota(const ir::PointwiseProgram& program) {
  for (const ir::PwInstr& instr : program.code)
    if (instr.op == PwOp::kIota) return true;
  return false;
}

Result<ValueFunction> ValuesOf(const Lowering& l) {
  std::vector<DType> dtypes;
  for (const plan::Operand& input : l.step.inputs) dtypes.push_back(input.dtype);
  return PointwiseValues(l.node->Program(), std::move(dtypes));
}

// A tile does not know where along the dims it lies.
Result<std::optional<Stage>> StageOf(const Lowering& l) {
  if (HasIota(l.node->Program())) return std::optional<Stage>();
  LS_ASSIGN_OR_RETURN(ValueFunction values, ValuesOf(l));
  return std::optional(Stage{MakeCode(l.node->Program()), std::move(values)});
}

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  const ir::PointwiseProgram& program = l.node->Program();
  const bool iota = HasIota(program);
  LS_ASSIGN_OR_RETURN(ValueFunction values, ValuesOf(l));
  if (l.step.inputs.size() + 1 > LS_TRACE_MAX_OPERANDS)
    return Unsupported("a chain of {} inputs: at most {} are served", l.step.inputs.size(),
                       LS_TRACE_MAX_OPERANDS - 1);
  KernelBuilder k(l);
  std::vector<View> operands;
  for (size_t i = 0; i < l.step.inputs.size(); ++i) operands.push_back(k.In(i));
  operands.insert(operands.begin(), k.Out(0));
  operands = CommonDims(k, std::move(operands));
  if (iota && operands[0].rank() > LS_TRACE_MAX_RANK)
    return Unsupported("indices along a dim of rank {}: at most {} is served", operands[0].rank(),
                       LS_TRACE_MAX_RANK);
  Map map(k, operands, {.merge = !iota});
  const uint32_t code = k.AddCode(MakeCode(program), std::move(values));
  std::vector<Place> places;
  for (size_t i = 0; i < operands.size(); ++i)
    places.push_back(
        k.At(k.AddBuffer(i == 0 ? "out" : fmt::format("in{}", i - 1), map.BufferBytes(i))));
  map.ForEachTile([&](const MapTile& tile) {
    k.Dispatch();
    for (size_t i = 1; i < operands.size(); ++i)
      k.Load(operands[i], places[i], tile.offset[i], tile.box[i]);
    k.BarrierLoads();
    // Indices are of dims: where a chain asks for them, tiles are boxes and say where they begin.
    if (iota)
      k.Compute(code, tile.live, places, tile.start);
    else
      k.Compute(code, {tile.elements}, places);
    k.Store(operands[0], places[0], tile.offset[0], tile.box[0]);
    k.BarrierTile();
  });
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kPointwiseNpu = {.op = &ops::kPointwise, .lower = Lower, .stage = StageOf};

}  // namespace liveshape::npu
