// Every pixel of the input adds the whole kernel to the output, `stride` apart: a convolution by the kernel turned
// round, of the input with stride - 1 zeros between pixels. Those zeros are multiplied as well: it costs stride^dims
// of what a kernel of its own would.
#include "ops/conv/transposed.h"

#include <algorithm>

#include "ops/index/index.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace liveshape::ops {
namespace {

// `stride` - 1 zeros behind each element of dim.
ValueId Spread(AtenCall& c, ValueId x, int64_t dim, int64_t stride) {
  if (!c.ok() || stride == 1) return x;
  Dims wide = c.DimsOf(x);
  Expr& size = wide[static_cast<size_t>(dim)];
  size = size * stride;
  x = c.Unsqueeze(x, dim + 1);
  Dims before(c.DimsOf(x).size(), c.table().Int(0)), after = before;
  after[static_cast<size_t>(dim) + 1] = c.table().Int(stride - 1);
  x = c.Emit(kPad, {x},
             {{"before", std::move(before)},
              {"after", std::move(after)},
              {"mode", std::string("constant")},
              {"value", 0.0}});
  return c.Reshape(x, std::move(wide));
}

}  // namespace

std::vector<ValueId> TransposedConv(AtenCall& c, size_t spatial) {
  ValueId x = c.Tensor("input"), weight = c.Tensor("weight"), bias = c.OptionalTensor("bias");
  const auto list = [&](const char* name, int64_t otherwise) {
    return PerDim(c, c.IntsOr(name, {otherwise}), spatial);
  };
  const auto stride = list("stride", 1), padding = list("padding", 0),
             dilation = list("dilation", 1);
  const auto further = list("output_padding", 0);
  const int64_t groups = c.IntOr("groups", 1), rank = c.Rank(x);
  const Dims sizes = c.DimsOf(weight);  // [C, O / groups, kernel...]
  if (sizes.size() != spatial + 2 || rank < c.Rank(weight) - 1 || rank > c.Rank(weight))
    c.Fail(InvalidArgument("an input of rank {} and a weight of rank {} for {} spatial dims", rank,
                           sizes.size(), spatial));
  for (Expr d : sizes)
    if (!d.is_int()) c.Fail(Unsupported("a weight of live size {}", sym::ToString(d)));
  if (!c.ok()) return {ir::kNoValue};
  const int64_t channels = sizes[0].value();
  if (groups < 1 || channels % groups != 0)
    c.Fail(InvalidArgument("{} input channels in {} groups", channels, groups));
  constexpr int64_t kMost = 1 << 20;  // as ReadWindows has it: no sum or product of two overflows
  for (size_t i = 0; i < spatial; ++i)
    if (stride[i] < 1 || stride[i] > kMost || dilation[i] < 1 || dilation[i] > kMost ||
        padding[i] < 0 || padding[i] > kMost || sizes[2 + i].value() > kMost || further[i] < 0 ||
        further[i] >= std::max(stride[i], dilation[i]))
      c.Fail(
          InvalidArgument("stride {}, dilation {}, padding {}, output_padding {}: the first two "
                          "must be above 0, the last less than one "
                          "of them",
                          stride[i], dilation[i], padding[i], further[i]));
  if (!c.ok()) return {ir::kNoValue};

  ValueId images = AsImages(c, x, spatial);
  Windows windows;
  for (size_t i = 0; i < spatial; ++i) {
    const auto dim = static_cast<int64_t>(4 - spatial + i);
    Window& w = windows[2 - spatial + i];
    w = {sizes[2 + i].value(), 1, dilation[i], 0, 0};
    // Zeros around the pixels; those behind the last are there already. Fewer than none cuts pixels off.
    const int64_t around = w.span() - 1 - padding[i];
    const int64_t behind = around + further[i] - (stride[i] - 1);
    c.Require(sym::Ge(c.DimOf(images, dim), c.table().Int(1)),
              "a transposed convolution of no pixels");
    images = Spread(c, images, dim, stride[i]);
    const int64_t cut = std::max<int64_t>(0, -around), cut_behind = std::max<int64_t>(0, -behind);
    images = c.Slice(images, dim, c.table().Int(cut), c.DimOf(images, dim) - (cut + cut_behind));
    w.before = std::max<int64_t>(0, around);
    w.after = std::max<int64_t>(0, behind);
  }
  // The weight as a convolution has it, [O, C / groups, kernel...], then turned round: what is computed of a constant
  // last is what is folded, and packed.
  sym::Table& t = c.table();
  const Expr each = t.Int(channels / groups), rows = sizes[1] * groups;
  Dims grouped = {t.Int(groups), each, sizes[1]}, turned = {rows, each};
  for (size_t i = 2; i < sizes.size(); ++i) {
    grouped.push_back(sizes[i]);
    turned.push_back(sizes[i]);
  }
  weight = c.Reshape(c.Transpose(c.Reshape(weight, std::move(grouped)), 1, 2), std::move(turned));
  for (size_t i = 0; i < spatial; ++i) weight = Backwards(c, weight, static_cast<int64_t>(2 + i));
  weight = c.Reshape(weight, {rows, each * (windows[0].size * windows[1].size)});
  std::vector<ValueId> inputs = {images, weight};
  if (bias != ir::kNoValue) inputs.push_back(bias);
  ir::Attrs attrs = WindowAttrs(windows);
  attrs.emplace_back("groups", groups);
  return {FromImages(c, c.Emit(kConv, std::move(inputs), std::move(attrs)), spatial, rank)};
}

}  // namespace liveshape::ops
