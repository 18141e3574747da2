// Images made larger or smaller: by interpolation, which reads pixels by computed positions and weighs them, and by
// moving channels to pixels and back.
#include <cmath>

#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

using Operand = AtenCall::Operand;

struct Resized {
  int64_t dim;
  Expr in, out;
  double scale;  // as it was given, else 0
};

// [N, C, spatial...], and what becomes of each spatial dim. Sizes are given, or scales whose products are rounded down.
std::vector<Resized> ReadSizes(AtenCall& c, ValueId x, size_t spatial) {
  sym::Table& t = c.table();
  if (c.ok() && c.Rank(x) != static_cast<int64_t>(spatial) + 2)
    c.Fail(InvalidArgument("a {}-d resize of a tensor of rank {}", spatial, c.Rank(x)));
  const bool sized = c.Given("output_size");
  const Dims sizes = sized ? c.Sizes("output_size") : Dims();
  std::vector<double> scales = c.NumbersOr("scale_factors", {});
  for (const char* name : {"scales", "scales_h", "scales_w"})
    if (c.Given(name)) scales.push_back(c.NumberOr(name, 0));
  c.Ignore({"output_size", "scales", "scales_h", "scales_w"});
  if ((sized && sizes.size() != spatial) || (!sized && scales.size() != spatial) ||
      (!scales.empty() && scales.size() != spatial))
    c.Fail(InvalidArgument("{} sizes and {} scales for {} dims", sizes.size(), scales.size(),
                           spatial));
  std::vector<Resized> dims;
  for (size_t i = 0; c.ok() && i < spatial; ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    Resized r{dim, c.DimOf(x, dim), {}, scales.empty() ? 0 : scales[i]};
    if (!scales.empty() && !(r.scale > 0 && r.scale < 0x1p31)) {
      c.Fail(InvalidArgument("a scale of {}: must be above 0", r.scale));
    } else if (sized) {
      r.out = sizes[i];
    } else if (std::floor(r.scale) == r.scale) {
      r.out = r.in * static_cast<int64_t>(r.scale);
    } else {
      r.out = t.Make(sym::Kind::kTruncToInt, {{r.in * t.Float(r.scale)}});
    }
    if (!c.ok()) break;
    const Expr one = t.Int(1);
    c.Require(sym::And(sym::Ge(r.in, one), sym::Ge(r.out, one)),
              fmt::format("a resize of {} to {}: both must be above 0", sym::ToString(r.in),
                          sym::ToString(r.out)));
    dims.push_back(r);
  }
  return dims;
}

// numerator / denominator, rounded once to f32.
Operand Ratio(AtenCall& c, Expr numerator, Expr denominator) {
  if (numerator.is_int() && denominator.is_int())
    return c.Number(static_cast<double>(numerator.value()) /
                    static_cast<double>(denominator.value()));
  return c.Number(c.table().Make(sym::Kind::kFloatDiv, {{numerator, denominator}}));
}

// What an output place moves by in the input; torch computes with f32.
Operand Step(AtenCall& c, const Resized& r) {
  return r.scale > 0 ? c.Number(1 / r.scale) : Ratio(c, r.in, r.out);
}

Operand Do(AtenCall& c, PwOp op, Operand a, Operand b) {
  return c.Of(c.Pointwise(op, {a, b}, DType::kF32, DType::kF32));
}

// 0, 1, ... out - 1 as f32.
Operand Places(AtenCall& c, Expr out) {
  ir::PointwiseProgram p;
  p.code = {{.op = PwOp::kIota, .dtype = DType::kI64, .imm = 0},
            {.op = PwOp::kCast, .dtype = DType::kF32, .a = 0}};
  return c.Of(c.Emit(kPointwise, {}, {{"program", std::move(p)}, {"dims", Dims{out}}}));
}

// The pixels of `dim` at positions (f32, not negative) rounded down, but none behind the last.
ValueId Read(AtenCall& c, ValueId x, const Resized& r, Operand position) {
  const ValueId index = c.Binary(PwOp::kMin, c.Of(c.Cast(position.tensor, DType::kI64)),
                                 c.Number(r.in - c.table().Int(1)));
  return c.Emit(kIndex, {x, index}, {{"axes", std::vector<int64_t>{r.dim}}});
}

// `middle`: the pixel under the middle of the output's, not under its corner.
template <size_t kSpatial, bool middle>
std::vector<ValueId> Nearest(AtenCall& c) {
  ValueId x = c.Tensor(c.Given("input") ? "input" : "self");
  for (const Resized& r : ReadSizes(c, x, kSpatial)) {
    Operand at = Places(c, r.out);
    if (middle) at = Do(c, PwOp::kAdd, at, c.Number(0.5));
    x = Read(c, x, r, Do(c, PwOp::kMul, at, Step(c, r)));
  }
  return {x};
}

// Dim by dim, the last first, as torch does; halves are computed in f32 and rounded once.
template <size_t kSpatial>
std::vector<ValueId> Linear(AtenCall& c) {
  const ValueId x = c.Tensor(c.Given("input") ? "input" : "self");
  const bool corners = c.BoolOr("align_corners", false);
  std::vector<Resized> dims = ReadSizes(c, x, kSpatial);
  if (c.ok() && (!IsFloat(c.TypeOf(x)) || c.TypeOf(x) == DType::kF64))
    c.Fail(Unsupported("linear interpolation of {}", Name(c.TypeOf(x))));
  if (!c.ok()) return {x};
  sym::Table& t = c.table();
  Operand y = c.Of(c.Cast(x, DType::kF32));
  for (size_t i = kSpatial; i-- > 0 && c.ok();) {
    const Resized& r = dims[i];
    Operand at = Places(c, r.out);
    if (corners) {  // of one pixel, the first
      at = Do(c, PwOp::kMul, at, Ratio(c, r.in - t.Int(1), sym::Max(r.out - t.Int(1), t.Int(1))));
    } else {
      at = Do(c, PwOp::kMul, Do(c, PwOp::kAdd, at, c.Number(0.5)), Step(c, r));
      at = Do(c, PwOp::kMax, Do(c, PwOp::kSub, at, c.Number(0.5)), c.Number(0.0));
    }
    const Operand first = c.Of(c.Unary(PwOp::kFloor, at.tensor));
    const Operand second = Do(c, PwOp::kAdd, first, c.Number(1.0));
    // [out] to [out, 1, ...]: along dim.
    Dims along(kSpatial - i, t.Int(1));
    along[0] = r.out;
    const auto weight = [&](Operand w) { return c.Of(c.Reshape(w.tensor, along)); };
    const Operand share = weight(Do(c, PwOp::kSub, at, first));
    const Operand rest = Do(c, PwOp::kSub, c.Number(1.0), share);
    const ValueId source = y.tensor;
    y = Do(c, PwOp::kAdd, Do(c, PwOp::kMul, c.Of(Read(c, source, r, first)), rest),
           Do(c, PwOp::kMul, c.Of(Read(c, source, r, second)), share));
  }
  return {c.Cast(y.tensor, c.TypeOf(x))};
}

// [..., C r r, H, W] to [..., C, H r, W r], or back.
template <bool back>
std::vector<ValueId> PixelShuffle(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t r = c.Int(back ? "downscale_factor" : "upscale_factor");
  const auto lead = static_cast<size_t>(std::max<int64_t>(0, c.Rank(x) - 3));
  if (c.ok() && (c.Rank(x) < 3 || r < 1 || r > 1 << 15))
    c.Fail(InvalidArgument("a tensor of rank {} by a factor of {}", c.Rank(x), r));
  if (!c.ok()) return {x};
  const Dims& dims = c.DimsOf(x);
  const Expr channels = dims[lead], height = dims[lead + 1], width = dims[lead + 2];
  const Expr factor = c.table().Int(r);
  const auto over = [&](Expr size, int64_t by) {
    c.Require(sym::Eq(sym::Mod(size, c.table().Int(by)), c.table().Int(0)),
              fmt::format("{} is not a multiple of {}", sym::ToString(size), by));
    return sym::FloorDiv(size, c.table().Int(by));
  };
  Dims split(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(lead)), merged = split;
  std::vector<int64_t> order;
  if (back) {
    for (Expr d : {channels, over(height, r), factor, over(width, r), factor}) split.push_back(d);
    for (Expr d : {channels * (r * r), over(height, r), over(width, r)}) merged.push_back(d);
    order = {0, 2, 4, 1, 3};
  } else {
    for (Expr d : {over(channels, r * r), factor, factor, height, width}) split.push_back(d);
    for (Expr d : {over(channels, r * r), height * r, width * r}) merged.push_back(d);
    order = {0, 3, 1, 4, 2};
  }
  std::vector<int64_t> perm;
  for (size_t i = 0; i < lead; ++i) perm.push_back(static_cast<int64_t>(i));
  for (int64_t d : order) perm.push_back(static_cast<int64_t>(lead) + d);
  x = c.Reshape(x, std::move(split));
  return {c.ok() ? c.Reshape(c.Permute(x, std::move(perm)), std::move(merged)) : x};
}

const AtenForm kForms[] = {
    {"aten.upsample_nearest1d.default", Nearest<1, false>},
    {"aten.upsample_nearest1d.vec", Nearest<1, false>},
    {"aten.upsample_nearest2d.default", Nearest<2, false>},
    {"aten.upsample_nearest2d.vec", Nearest<2, false>},
    {"aten._upsample_nearest_exact1d.default", Nearest<1, true>},
    {"aten._upsample_nearest_exact1d.vec", Nearest<1, true>},
    {"aten._upsample_nearest_exact2d.default", Nearest<2, true>},
    {"aten._upsample_nearest_exact2d.vec", Nearest<2, true>},
    {"aten.upsample_linear1d.default", Linear<1>},
    {"aten.upsample_linear1d.vec", Linear<1>},
    {"aten.upsample_bilinear2d.default", Linear<2>},
    {"aten.upsample_bilinear2d.vec", Linear<2>},
    {"aten.pixel_shuffle.default", PixelShuffle<false>},
    {"aten.pixel_unshuffle.default", PixelShuffle<true>},
};

}  // namespace

LS_DEFINE_FORMS(Resize, kForms)

}  // namespace liveshape::ops
