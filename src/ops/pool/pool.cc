// Pools with a fixed window, and pools whose windows divide the input evenly.
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "ops/window.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(const Windows windows, ReadWindows(c.node));
  LS_ASSIGN_OR_RETURN(const std::string kind, NeedAttr<std::string>(c, "kind"));
  LS_ASSIGN_OR_RETURN(const int64_t ceil, NeedAttr<int64_t>(c, "ceil"));
  LS_ASSIGN_OR_RETURN(const int64_t count_padding, NeedAttr<int64_t>(c, "count_padding"));
  LS_ASSIGN_OR_RETURN(const int64_t divisor, NeedAttr<int64_t>(c, "divisor"));
  const TensorType& x = c.in(0);
  if (x.dims.size() != 4) return InvalidArgument("x must be [N, C, H, W], is {}", ir::ToString(x));
  if (kind != "max" && kind != "mean") return InvalidArgument("unknown pool `{}`", kind);
  if (x.dtype == DType::kBool) return InvalidArgument("a pool of bool");
  if (kind == "mean") LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  if (ceil < 0 || ceil > 1 || count_padding < 0 || count_padding > 1 || divisor < 0)
    return InvalidArgument("ceil = {}, count_padding = {}, divisor = {}", ceil, count_padding,
                           divisor);
  Dims dims = x.dims;
  for (size_t i = 0; i < 2; ++i) {
    const Window& w = windows[i];
    // As torch has it: without dilation every window then sees an element of x.
    if (w.before != w.after || 2 * w.before > w.size)
      return InvalidArgument("padding {}, {} of a window of {}: at most half of it, on both sides",
                             w.before, w.after, w.size);
    // Nor does torch pool an image without pixels, whatever its padding.
    const int64_t least = std::max<int64_t>(1, LeastExtent(w, ceil != 0));
    LS_ASSIGN_OR_RETURN(dims[2 + i], InferPlaces(c, w, x.dims[2 + i], least, ceil != 0));
  }
  return std::vector<TensorType>{{x.dtype, std::move(dims)}};
}

Types InferAdaptive(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  LS_ASSIGN_OR_RETURN(const Dims sizes, NeedAttr<std::vector<Expr>>(c, "sizes"));
  const TensorType& x = c.in(0);
  if (x.dims.size() != 4 || sizes.size() != 2)
    return InvalidArgument("x must be [N, C, H, W] with two sizes, is {} with {}", ir::ToString(x),
                           sizes.size());
  for (size_t i = 0; i < 2; ++i) {
    LS_RETURN_IF_ERROR(c.Require(sym::Ge(x.dims[2 + i], c.table.Int(1)), [&] {
      return fmt::format("a mean over nothing: x is {}", ir::ToString(x));
    }));
  }
  return std::vector<TensorType>{{x.dtype, {x.dims[0], x.dims[1], sizes[0], sizes[1]}}};
}

bool CheckPoolRank(AtenCall& c, int64_t rank, size_t spatial) {
  const int64_t least = static_cast<int64_t>(spatial) + 1;
  if (rank < least || rank > least + 1)
    c.Fail(InvalidArgument("a {}-d pool of a tensor of rank {}", spatial, rank));
  return c.ok();
}

std::vector<ValueId> Build(AtenCall& c, const char* kind, size_t spatial) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  const auto kernel = PerDim(c, c.IntsOr("kernel_size", {}), spatial);
  const auto stride = c.IntsOr("stride", {});  // none: windows side by side
  const auto steps = stride.empty() ? kernel : PerDim(c, stride, spatial);
  const auto padding = PerDim(c, c.IntsOr("padding", {0}), spatial);
  const auto dilation = PerDim(c, c.IntsOr("dilation", {1}), spatial);
  const bool ceil = c.BoolOr("ceil_mode", false), count = c.BoolOr("count_include_pad", true);
  const int64_t divisor = c.IntOr("divisor_override", 0);
  if (c.Given("divisor_override") && divisor < 1)
    c.Fail(InvalidArgument("divisor_override = {}: must be above 0", divisor));
  if (!CheckPoolRank(c, rank, spatial)) return {ir::kNoValue};
  Windows windows;
  for (size_t i = 0; i < spatial; ++i)
    windows[2 - spatial + i] = {kernel[i], steps[i], dilation[i], padding[i], padding[i]};
  ValueId images = AsImages(c, x, spatial);
  ir::Attrs attrs = WindowAttrs(windows);
  attrs.emplace_back("kind", std::string(kind));
  attrs.emplace_back("ceil", int64_t{ceil});
  attrs.emplace_back("count_padding", int64_t{count});
  attrs.emplace_back("divisor", divisor);
  ValueId y = c.Emit(kPool, {images}, std::move(attrs));
  return {FromImages(c, y, spatial, rank)};
}

template <size_t kSpatial>
std::vector<ValueId> MaxPool(AtenCall& c) {
  return Build(c, "max", kSpatial);
}
template <size_t kSpatial>
std::vector<ValueId> MeanPool(AtenCall& c) {
  return Build(c, "mean", kSpatial);
}

// The indices are for training; a graph that reads them is refused where it does.
template <size_t kSpatial>
std::vector<ValueId> MaxPoolWithIndices(AtenCall& c) {
  return {Build(c, "max", kSpatial)[0], ir::kNoValue};
}

template <size_t kSpatial>
std::vector<ValueId> Adaptive(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  Dims sizes = c.Sizes("output_size");
  if (!CheckPoolRank(c, rank, kSpatial)) return {ir::kNoValue};
  if (sizes.size() != kSpatial)
    c.Fail(InvalidArgument("{} output sizes for {} dims", sizes.size(), kSpatial));
  if (kSpatial == 1) sizes.insert(sizes.begin(), c.table().Int(1));
  ValueId images = AsImages(c, x, kSpatial);
  if (!c.ok()) return {ir::kNoValue};
  ValueId y;
  if (sizes[0].is_int(1) && sizes[1].is_int(1))
    y = c.Emit(kReduce, {images},
               {{"kind", std::string("mean")},
                {"dims", std::vector<int64_t>{2, 3}},
                {"keepdim", int64_t{1}}});
  else
    y = c.Emit(kAdaptiveMean, {images}, {{"sizes", std::move(sizes)}});
  return {FromImages(c, y, kSpatial, rank)};
}

const AtenForm kForms[] = {
    {"aten.max_pool1d.default", MaxPool<1>},
    {"aten.max_pool2d.default", MaxPool<2>},
    {"aten.max_pool1d_with_indices.default", MaxPoolWithIndices<1>},
    {"aten.max_pool2d_with_indices.default", MaxPoolWithIndices<2>},
    {"aten.avg_pool1d.default", MeanPool<1>},
    {"aten.avg_pool2d.default", MeanPool<2>},
    {"aten.adaptive_avg_pool1d.default", Adaptive<1>},
    {"aten.adaptive_avg_pool2d.default", Adaptive<2>},
    {"aten._adaptive_avg_pool2d.default", Adaptive<2>},
};

}  // namespace

const ir::OpDef kPool = {.name = "pool", .infer = Infer};
const ir::OpDef kAdaptiveMean = {.name = "adaptive_mean", .infer = InferAdaptive};
LS_DEFINE_FORMS(Pool, kForms)

}  // namespace liveshape::ops
