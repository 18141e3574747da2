// Padding with a constant: fill, then move what is kept of the input into its place. Other modes read the input again
// outside of it: boxes that are whole along the dims that are padded.
#include <cstring>

#include "backends/npu/lower/boxes.h"
#include "backends/npu/lower/map.h"
#include "backends/npu/values/element.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

// One element of `dtype`.
std::vector<std::byte> ElementOf(DType dtype, double value) {
  std::vector<std::byte> bytes(SizeOf(dtype));
  if (dtype == DType::kF64) {
    std::memcpy(bytes.data(), &value, sizeof(value));
  } else if (IsFloat(dtype)) {
    StoreFloat(dtype, bytes.data(), 0, static_cast<float>(value));
  } else {
    const int64_t integer = dtype == DType::kBool ? value != 0 : static_cast<int64_t>(value);
    std::memcpy(bytes.data(), &integer, bytes.size());  // two's complement, little-endian
  }
  return bytes;
}

Status LowerFill(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l, "_fill");
  const View y = k.Out(0);
  Map map(k, {y}, {});
  const uint32_t buffer = k.AddBuffer("value", map.BufferBytes(0));
  Code code{.name = "fill"};
  code.per_element[VectorClass::kSimple] = 1;
  const uint32_t fill = k.AddCode(
      code, [element = ElementOf(y.dtype, l.node->Float("value"))](const ValueCall& call) {
        for (int64_t i = 0; i < call.record.extent[0]; ++i)
          std::memcpy(call.operand[0] + i * static_cast<int64_t>(element.size()), element.data(),
                      element.size());
        return Status();
      });
  map.ForEachTile([&](const MapTile& tile) {
    k.Dispatch();
    k.Compute(fill, {tile.elements}, {k.At(buffer)});
    k.Store(y, k.At(buffer), tile.offset[0], tile.box[0]);
    k.BarrierTile();
  });
  return k.Finish(kernels);
}

Status LowerWhole(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  const View x = k.In(0), y = k.Out(0);
  Boxes boxes{.dims = y.dims};
  BoxOperand out{y, {}}, in{x, {}};
  for (size_t d = 0; d < y.rank(); ++d) {
    const bool padded =
        !l.node->Exprs("before")[d].is_int(0) || !l.node->Exprs("after")[d].is_int(0);
    boxes.whole.push_back(padded);
    out.dims.push_back(static_cast<int>(d));
    in.dims.push_back(static_cast<int>(d));
    if (!padded) continue;
    in.dims.back() = static_cast<int>(boxes.dims.size());
    boxes.dims.push_back(x.dims[d]);
  }
  boxes.whole.resize(boxes.dims.size(), true);
  boxes.work = k.Int(1);
  for (size_t d = 0; d < y.rank(); ++d)
    if (boxes.whole[d]) boxes.work = boxes.work * y.dims[d];
  boxes.operands = {std::move(out), std::move(in)};
  Code code{.name = "pad_" + l.node->String("mode")};
  code.per_element[VectorClass::kSimple] = 1;
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, std::move(code), std::move(values)));
  return k.Finish(kernels);
}

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  if (l.node->String("mode") != "constant") return LowerWhole(l, kernels);
  LS_RETURN_IF_ERROR(LowerFill(l, kernels));
  KernelBuilder k(l);
  View x = k.In(0), y = k.Out(0);
  const Expr zero = k.Int(0);
  for (size_t d = 0; d < x.rank(); ++d) {
    const Expr before = k.Import(l.node->Exprs("before")[d]),
               after = k.Import(l.node->Exprs("after")[d]);
    x.offset = x.offset + sym::Max(zero, zero - before) * x.strides[d];  // negative cuts off
    y.offset = y.offset + sym::Max(zero, before) * y.strides[d];
    x.dims[d] = sym::Max(zero, x.dims[d] + sym::Min(zero, before) + sym::Min(zero, after));
  }
  y.dims = x.dims;
  LowerMove(k, y, x);
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kPadNpu = {.op = &ops::kPad, .lower = Lower};

}  // namespace liveshape::npu
