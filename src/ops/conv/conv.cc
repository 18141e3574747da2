// Convolutions over one and two dims; 1-D is 2-D with a height of 1.
#include "ops/conv/transposed.h"
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "ops/window.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 2, 3));
  LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  LS_ASSIGN_OR_RETURN(const Windows windows, ReadWindows(c.node));
  LS_ASSIGN_OR_RETURN(int64_t groups, NeedAttr<int64_t>(c, "groups"));
  const TensorType &x = c.in(0), &w = c.in(1);
  if (x.dims.size() != 4 || w.dims.size() != 2 || !x.dims[1].is_int() || !w.dims[0].is_int() ||
      !w.dims[1].is_int())
    return InvalidArgument(
        "x must be [N, C, H, W] and the weight a matrix, with fixed channels: {} and {}",
        ir::ToString(x), ir::ToString(w));
  const int64_t channels = x.dims[1].value(), taps = windows[0].size * windows[1].size;
  const int64_t rows = w.dims[0].value(), cols = w.dims[1].value();
  if (groups < 1 || rows < 1 || rows % groups != 0 || channels % groups != 0)
    return InvalidArgument("{} input and {} output channels in {} groups", channels, rows, groups);
  if (cols < 1 || cols % taps != 0 || cols / taps != channels / groups)
    return InvalidArgument(
        "{} input channels in {} groups, but the weight has {} columns for {} x {} taps", channels,
        groups, cols, windows[0].size, windows[1].size);
  if (x.dtype != w.dtype)
    return InvalidArgument("x is {}, the weight {}", Name(x.dtype), Name(w.dtype));
  if (c.has(2) && (c.in(2).dtype != x.dtype || c.in(2).dims != Dims{w.dims[0]}))
    return InvalidArgument("bias must be [{}] of {}", rows, Name(x.dtype));
  LS_ASSIGN_OR_RETURN(const Expr height,
                      InferPlaces(c, windows[0], x.dims[2], LeastExtent(windows[0])));
  LS_ASSIGN_OR_RETURN(const Expr width,
                      InferPlaces(c, windows[1], x.dims[3], LeastExtent(windows[1])));
  return std::vector<TensorType>{{x.dtype, {x.dims[0], w.dims[0], height, width}}};
}

ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  return {2 * sym::Product(c.table, out.dims) * c.in(1).dims[1], {}};
}

using PerDimInts = std::vector<int64_t>;

// Every form, once its padding is known: zeros before and after each dim.
std::vector<ValueId> Build(AtenCall& c, size_t spatial, PerDimInts before, PerDimInts after) {
  ValueId x = c.Tensor("input"), weight = c.Tensor("weight"), bias = c.OptionalTensor("bias");
  const PerDimInts stride = PerDim(c, c.IntsOr("stride", {1}), spatial);
  const PerDimInts dilation = PerDim(c, c.IntsOr("dilation", {1}), spatial);
  const int64_t groups = c.IntOr("groups", 1), rank = c.Rank(x);
  const Dims sizes = c.DimsOf(weight);
  if (sizes.size() != spatial + 2 || rank < c.Rank(weight) - 1 || rank > c.Rank(weight))
    c.Fail(InvalidArgument("an input of rank {} and a weight of rank {} for {} spatial dims", rank,
                           sizes.size(), spatial));
  for (Expr d : sizes)
    if (!d.is_int()) c.Fail(Unsupported("a weight of live size {}", sym::ToString(d)));
  if (!c.ok()) return {ir::kNoValue};

  Windows windows;
  for (size_t i = 0; i < spatial; ++i)
    windows[2 - spatial + i] = {sizes[2 + i].value(), stride[i], dilation[i], before[i], after[i]};
  ValueId images = AsImages(c, x, spatial);
  const Expr columns = sizes[1] * windows[0].size * windows[1].size;
  std::vector<ValueId> inputs = {images, c.Reshape(weight, {sizes[0], columns})};
  if (bias != ir::kNoValue) inputs.push_back(bias);
  ir::Attrs attrs = WindowAttrs(windows);
  attrs.emplace_back("groups", groups);
  ValueId y = c.Emit(kConv, std::move(inputs), std::move(attrs));
  return {FromImages(c, y, spatial, rank)};
}

template <size_t kSpatial>
std::vector<ValueId> Conv(AtenCall& c) {
  const PerDimInts padding = PerDim(c, c.IntsOr("padding", {0}), kSpatial);
  return Build(c, kSpatial, padding, padding);
}

// "valid" is no padding; "same" keeps the size, the odd element behind.
template <size_t kSpatial>
std::vector<ValueId> ConvNamedPadding(AtenCall& c) {
  const std::string padding = c.StringOr("padding", "valid");
  PerDimInts before(kSpatial), after(kSpatial);
  if (padding != "same" && padding != "valid")
    c.Fail(InvalidArgument("padding `{}`: torch has `same` and `valid`", padding));
  if (padding == "same") {
    const PerDimInts stride = PerDim(c, c.IntsOr("stride", {1}), kSpatial);
    const PerDimInts dilation = PerDim(c, c.IntsOr("dilation", {1}), kSpatial);
    const Dims& weight = c.DimsOf(c.Tensor("weight"));
    for (size_t i = 0; i < kSpatial && weight.size() == kSpatial + 2; ++i) {
      if (stride[i] != 1) c.Fail(InvalidArgument("padding `same` with a stride of {}", stride[i]));
      if (!weight[2 + i].is_int()) continue;  // Build says what is wrong
      const int64_t total = dilation[i] * (weight[2 + i].value() - 1);
      before[i] = total / 2;
      after[i] = total - total / 2;
    }
  }
  return Build(c, kSpatial, before, after);
}

template <size_t kSpatial>
std::vector<ValueId> Transposed(AtenCall& c) {
  return TransposedConv(c, kSpatial);
}

std::vector<ValueId> Convolution(AtenCall& c) {
  const bool transposed = c.BoolOr("transposed", false);
  c.Ignore({"output_padding"});  // means something only to transposed convolutions
  const int64_t rank = c.Rank(c.Tensor("weight"));
  if (rank == 3) return transposed ? Transposed<1>(c) : Conv<1>(c);
  if (rank == 4) return transposed ? Transposed<2>(c) : Conv<2>(c);
  c.Fail(Unsupported("a weight of rank {}: convolutions over 1 and 2 dims are served", rank));
  return {ir::kNoValue};
}

const AtenForm kForms[] = {
    {"aten.conv1d.default", Conv<1>},
    {"aten.conv2d.default", Conv<2>},
    {"aten.conv1d.padding", ConvNamedPadding<1>},
    {"aten.conv2d.padding", ConvNamedPadding<2>},
    {"aten.convolution.default", Convolution},
    {"aten.conv_transpose1d.default", Transposed<1>},
    {"aten.conv_transpose2d.input", Transposed<2>},
};

}  // namespace

const ir::OpDef kConv = {.name = "conv", .infer = Infer, .packed_input = 1, .cost = CostOf};
LS_DEFINE_FORMS(Conv, kForms)

}  // namespace liveshape::ops
