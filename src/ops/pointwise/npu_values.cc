#include "ops/pointwise/npu_values.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/simd/isa.h"
#include "base/observe.h"
#include "ops/pointwise/cpu_execution.h"
#include "ops/pointwise/cpu_generate.h"
#include "ops/pointwise/cpu_program.h"

namespace liveshape::npu {
namespace {

namespace pw = cpu::pw;
using pw::Step;

class Chain {
 public:
  Chain(pw::Program program, std::vector<DType> inputs)
      : program_(std::move(program)),
        inputs_(std::move(inputs)),
        memory_((pw::Execution::Bytes(program_) + 7) / 8) {}

  Status Run(const ValueCall& call) {
    call_ = &call;
    pw::Execution execution(program_, reinterpret_cast<std::byte*>(memory_.data()));
    int64_t n = 1;
    for (uint32_t d = 0; d < call.record.rank; ++d) n *= call.record.extent[d];
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kConst) execution.SetNumber(step, IsFloat(step.dtype), step.imm);
      if (step.kind == Step::Kind::kScalar)
        execution.SetNumber(step, program_.float_scalar[step.imm], call.params[step.imm]);
    }
    for (int64_t begin = 0; begin < n; begin += pw::kTile)
      if (!Part(execution, begin, std::min(pw::kTile, n - begin))) {
        AllocationPause pause;
        return InvalidArgument("integer division by zero");
      }
    return {};
  }

 private:
  bool Part(pw::Execution& execution, int64_t begin, int64_t n) {
    std::byte* const target = call_->operand[0] + begin * SizeOf(program_.dtype);
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kLoad)
        execution.SetTile(step, call_->operand[1 + step.imm] + begin * SizeOf(inputs_[step.imm]));
      if (step.kind == Step::Kind::kIota) {
        Iota(step, begin, n, execution.Register(step));
        execution.SetTile(step, execution.Register(step));
      }
      if (step.computes() && !execution.Run(step, {n}, target)) return false;
    }
    if (execution.result() != target)
      std::memcpy(target, execution.result(), n * SizeOf(program_.dtype));
    return true;
  }

  void Iota(const Step& step, int64_t begin, int64_t n, std::byte* to) {
    const ls_trace_compute& record = call_->record;
    int64_t repeat = 1;
    for (uint32_t d = static_cast<uint32_t>(step.imm) + 1; d < record.rank; ++d)
      repeat *= record.extent[d];
    const int64_t extent = record.extent[step.imm], first = record.argument[step.imm];
    pw::Generate(step.dtype, to, n,
                 [&](int64_t i) { return first + (begin + i) / repeat % extent; });
  }

  const pw::Program program_;
  const std::vector<DType> inputs_;
  std::vector<uint64_t> memory_;
  const ValueCall* call_ = nullptr;
};

}  // namespace

Result<ValueFunction> PointwiseValues(const ir::PointwiseProgram& program,
                                      std::vector<DType> inputs) {
  LS_ASSIGN_OR_RETURN(pw::Program compiled, pw::CompileProgram(program));
  auto chain = std::make_shared<Chain>(std::move(compiled), std::move(inputs));
  return ValueFunction([chain](const ValueCall& call) { return chain->Run(call); });
}

}  // namespace liveshape::npu
