#include "ops/pointwise/npu_values.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/simd/isa.h"
#include "base/observe.h"
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
        pointers_(program_.values),
        registers_((program_.registers * program_.register_bytes + 7) / 8) {}

  Status Run(const ValueCall& call) {
    isa_ = static_cast<int>(cpu::ActiveIsa());
    call_ = &call;
    int64_t n = 1;
    for (uint32_t d = 0; d < call.record.rank; ++d) n *= call.record.extent[d];
    for (const Step& step : program_.steps)
      if (step.uniform()) Fill(step);
    for (int64_t begin = 0; begin < n; begin += pw::kTile)
      if (!Part(begin, std::min(pw::kTile, n - begin))) {
        AllocationPause pause;
        return InvalidArgument("integer division by zero");
      }
    return {};
  }

 private:
  std::byte* Register(const Step& step) {
    return reinterpret_cast<std::byte*>(registers_.data()) + step.reg * program_.register_bytes;
  }

  void Round(const Step& step, std::byte* tile, int64_t n) {
    if (step.round[isa_]) step.round[isa_]({tile, nullptr, nullptr, tile, n});
  }

  void Fill(const Step& step) {
    std::byte* to = Register(step);
    const bool constant = step.kind == Step::Kind::kConst;
    pw::GenerateNumber(step.dtype, constant ? IsFloat(step.dtype) : program_.float_scalar[step.imm],
                       constant ? step.imm : call_->params[step.imm], to, pw::kTile);
    Round(step, to, pw::kTile);
    pointers_[step.value] = to;
  }

  bool Part(int64_t begin, int64_t n) {
    std::byte* const target = call_->operand[0] + begin * SizeOf(program_.dtype);
    for (const Step& step : program_.steps) {
      std::byte* to = step.uniform() ? nullptr : Register(step);
      switch (step.kind) {
        case Step::Kind::kConst:
        case Step::Kind::kScalar: continue;
        case Step::Kind::kLoad: {
          const DType dtype = inputs_[step.imm];
          const std::byte* from = call_->operand[1 + step.imm] + begin * SizeOf(dtype);
          if (pw::IsHalf(dtype))
            program_.widen[dtype == DType::kBF16][isa_]({from, nullptr, nullptr, to, n});
          pointers_[step.value] = pw::IsHalf(dtype) ? to : from;
          continue;
        }
        case Step::Kind::kIota: Iota(step, begin, n, to); break;
        case Step::Kind::kCompute: {
          if (program_.result_in_place && step.value == program_.result) to = target;
          if (!step.fn[isa_]({pointers_[step.a], step.operands > 1 ? pointers_[step.b] : nullptr,
                              step.operands > 2 ? pointers_[step.c] : nullptr, to, n}))
            return false;
        }
      }
      Round(step, to, n);
      pointers_[step.value] = to;
    }
    const std::byte* result = pointers_[program_.result];
    if (pw::IsHalf(program_.dtype))
      program_.narrow[isa_]({result, nullptr, nullptr, target, n});
    else if (result != target)
      std::memcpy(target, result, n * SizeOf(program_.dtype));
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
  std::vector<const std::byte*> pointers_;  // of each value's tile
  std::vector<uint64_t> registers_;
  const ValueCall* call_ = nullptr;
  int isa_ = 0;
};

}  // namespace

Result<ValueFunction> PointwiseValues(const ir::PointwiseProgram& program,
                                      std::vector<DType> inputs) {
  LS_ASSIGN_OR_RETURN(pw::Program compiled, pw::CompileProgram(program));
  auto chain = std::make_shared<Chain>(std::move(compiled), std::move(inputs));
  return ValueFunction([chain](const ValueCall& call) { return chain->Run(call); });
}

}  // namespace liveshape::npu
