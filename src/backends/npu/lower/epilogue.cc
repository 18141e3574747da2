#include "backends/npu/lower/epilogue.h"

#include <algorithm>

#include "backends/npu/values/product_values.h"

namespace liveshape::npu {

int64_t StripRows(int64_t tile_rows, const std::function<bool(int64_t rows)>& fits) {
  int64_t rows = tile_rows;
  while (rows % 2 == 0 && (rows > tile_rows / 4 || (rows > tile_rows / 32 && !fits(rows))))
    rows /= 2;
  return rows;
}

Epilogue::Epilogue(const Lowering& l, KernelBuilder& k, std::optional<View> bias)
    : k_(k),
      bias_(std::move(bias)),
      out_(l.fusion ? k.Out(l.fusion->result()) : k.Out(0)),
      rounds_(l.step.outputs[0].dtype != DType::kF32) {
  if (l.fusion)
    for (Expr column : l.fusion->columns) columns_.push_back(k.Import(column));
  else
    columns_ = {k.Int(0)};
  Code simple{.name = "bias"};
  simple.per_element[VectorClass::kSimple] = 1;
  if (bias_) add_bias_ = k.AddCode(simple, BiasValues(bias_->dtype));
  simple.name = "round";
  const DType dtype = l.step.outputs[0].dtype;
  if (rounds_) {
    sum_element_ = static_cast<int64_t>(SizeOf(dtype));
    round_ = k.AddCode(simple, RoundValues(dtype));
  }
  for (size_t part = 0; part < columns_.size(); ++part) {
    const std::string number = part == 0 ? "" : fmt::format("{}", part);
    if (bias_) bias_held_.push_back(Hold("bias" + number, bias_->element(), Room::kVector));
    if (rounds_) rounded_.push_back(Hold("out" + number, sum_element_, Room::kTile));
  }
  if (!l.fusion) return;
  stage_element_ = sum_element_;
  for (const FusedStage& stage : l.fusion->stages)
    in_strips_ = in_strips_ || (!stage.stage.whole_rows &&
                                std::count(stage.part.begin(), stage.part.end(), kNotATile) > 0);
  if (l.fusion->product_kept) product_kept_ = k.Out(l.step.outputs[0]);
  for (size_t i = 0; i < l.fusion->stages.size(); ++i)
    AddStage(l.fusion->stages[i], i, i + 1 == l.fusion->stages.size());
}

void Epilogue::AddStage(const FusedStage& fused, size_t index, bool last) {
  Step step{
      k_.AddCode(fused.stage.code, fused.stage.values, fused.step), fused.stage.whole_rows, {}};
  whole_rows_ = whole_rows_ || step.whole_rows;
  for (size_t i = 0; i < fused.part.size(); ++i) {
    Input input{.part = fused.part[i]};
    const plan::Operand& operand = fused.step->inputs[i];
    if (input.part == kNotATile && operand.storage != plan::kNoStorage) {
      input.view = k_.In(operand);
      input.held = Hold(fmt::format("stage{}_in{}", index, i), input.view->element(),
                        step.whole_rows ? Room::kVector : Room::kStrip);
    }
    step.inputs.push_back(std::move(input));
  }
  // In place, unless elements have another size, or a store still reads what was there: of a strip the sums too, since the
  // next strip's stages would wait for this one's store.
  const plan::Operand& result = fused.step->outputs[0];
  const int64_t size = static_cast<int64_t>(SizeOf(result.dtype));
  const bool stored = steps_.empty() ? product_kept_ || in_strips_ : steps_.back().kept.has_value();
  if (size != stage_element_ || stored)
    step.out = Hold(fmt::format("stage{}", index), size, in_strips_ ? Room::kStrip : Room::kTile);
  stage_element_ = size;
  if (fused.kept && !last) step.kept = k_.Out(result);
  steps_.push_back(std::move(step));
}

size_t Epilogue::Hold(std::string name, int64_t element, Room room) {
  held_.push_back({std::move(name), element, room});
  return held_.size() - 1;
}

std::vector<View> Epilogue::Shaped() const {
  std::vector<View> views = {out_};
  if (product_kept_) views.push_back(*product_kept_);
  for (const Step& step : steps_) {
    if (step.kept) views.push_back(*step.kept);
    if (step.whole_rows) continue;
    for (const Input& input : step.inputs)
      if (input.view) views.push_back(*input.view);
  }
  return views;
}

int64_t Epilogue::Bytes(const Sizes& sizes) const {
  int64_t bytes = 0;
  for (const Held& held : held_)
    bytes += 2 * held.element *
             (held.room == Room::kTile     ? sizes.elements
              : held.room == Room::kVector ? sizes.columns
                                           : sizes.strip);
  return bytes;
}

void Epilogue::AddBuffers(const std::vector<Sizes>& by_variant) {
  for (Held& held : held_) {
    std::vector<int64_t> bytes;
    for (const Sizes& sizes : by_variant)
      bytes.push_back(held.element * (held.room == Room::kTile     ? sizes.elements
                                      : held.room == Room::kVector ? sizes.columns
                                                                   : sizes.strip));
    held.buffer = k_.AddBuffer(held.name, std::move(bytes), 2,
                               held.room == Room::kStrip ? Turn::kTile : Turn::kItem);
  }
}

void Epilogue::LoadVector(const View& view, size_t held, Expr first, Expr count) {
  k_.Load(view, k_.At(held_[held].buffer), view.offset + first * view.strides[0],
          {{count, view.strides[0], k_.Int(view.element())}});
}

void Epilogue::LoadVectors(Span columns) {
  for (size_t part = 0; part < bias_held_.size(); ++part)
    LoadVector(*bias_, bias_held_[part], columns_[part] + columns.start, columns.live);
  for (const Step& step : steps_)
    for (const Input& input : step.inputs)
      if (input.view && step.whole_rows)
        LoadVector(*input.view, input.held, columns.start, columns.live);
}

void Epilogue::StoreTile(const Tile& tile, const View& view, Place from) {
  Box box = tile.box(view);
  k_.Store(view, from, box.offset, std::move(box.dims));
}

std::vector<Place> Epilogue::Rounded(const std::vector<Place>& sums) const {
  if (!rounds_) return sums;
  std::vector<Place> places;
  for (size_t held : rounded_) places.push_back(k_.At(held_[held].buffer));
  return places;
}

void Epilogue::FinishSums(const Tile& tile, const std::vector<Place>& sums) {
  const std::vector<Expr> extents = {sym::Product(k_.table(), tile.rows), tile.columns.live};
  const std::vector<Place> rounded = Rounded(sums);
  for (size_t part = 0; part < sums.size(); ++part) {
    if (bias_) k_.Compute(add_bias_, extents, {sums[part], k_.At(held_[bias_held_[part]].buffer)});
    if (rounds_) k_.Compute(round_, extents, {rounded[part], sums[part]});
  }
  if (product_kept_) StoreTile(tile, *product_kept_, rounded[0]);
  if (!in_strips_) ComputeStages(tile, rounded);
}

void Epilogue::RunStrip(const Tile& strip, const std::vector<Place>& sums) {
  std::vector<Place> parts = Rounded(sums);
  for (Place& part : parts)
    part.offset = part.offset + strip.first_row * strip.columns.live * sum_element_;
  k_.Dispatch();
  for (const Step& step : steps_)
    for (const Input& input : step.inputs) {
      if (!input.view || step.whole_rows) continue;
      Box box = strip.box(*input.view);
      k_.Load(*input.view, k_.At(held_[input.held].buffer), box.offset, std::move(box.dims));
    }
  k_.BarrierLoads();
  ComputeStages(strip, std::move(parts));
  k_.BarrierTile();
}

void Epilogue::ComputeStages(const Tile& tile, std::vector<Place> parts) {
  std::vector<Expr> extents = tile.rows;
  extents.push_back(tile.columns.live);
  for (const Step& step : steps_) {
    const Place out = step.out ? k_.At(held_[*step.out].buffer) : parts[0];
    std::vector<Place> operands = {out};
    for (const Input& input : step.inputs) {
      if (input.part != kNotATile)
        operands.push_back(parts[static_cast<size_t>(input.part)]);
      else if (input.view)
        operands.push_back(k_.At(held_[input.held].buffer));
    }
    k_.Compute(step.code, extents, std::move(operands), extents);
    parts = {out};
    if (step.kept) StoreTile(tile, *step.kept, out);
  }
  StoreTile(tile, out_, parts[0]);
}

}  // namespace liveshape::npu
