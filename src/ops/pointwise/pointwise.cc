#include "ops/ops.h"
#include "ops/pointwise/table.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

// Operands and immediates are checked by ir::Verify; here, that each instruction is defined on its dtypes.
Types Infer(const InferContext& c) {
  LS_ASSIGN_OR_RETURN(Dims dims, NeedAttr<Dims>(c, "dims"));
  const ir::Attr* attr = c.node.Find("program");
  const auto* program = attr ? std::get_if<ir::PointwiseProgram>(attr) : nullptr;
  if (program == nullptr) return InvalidArgument("attribute `program` is missing");
  LS_RETURN_IF_ERROR(CheckProgram(*program));
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return InvalidArgument("input {} is missing", i);
    LS_RETURN_IF_ERROR(c.RequireEqual(c.in(i).dims, dims, [&] {
      return fmt::format("input {} is {}, the output {}", i, ir::ToString(c.in(i)),
                         ir::ToString(ir::Attr(dims)));
    }));
  }
  return std::vector<TensorType>{{program->code.back().dtype, std::move(dims)}};
}

}  // namespace

const ir::OpDef kPointwise = {.name = "pointwise", .infer = Infer};

}  // namespace liveshape::ops
