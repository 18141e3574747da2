#include "backends/npu/lower/epilogue.h"

#include "backends/npu/values/product_values.h"

namespace liveshape::npu {

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
  int64_t element = static_cast<int64_t>(SizeOf(dtype));
  if (rounds_) round_ = k.AddCode(simple, RoundValues(dtype));
  for (size_t part = 0; part < columns_.size(); ++part) {
    const std::string number = part == 0 ? "" : fmt::format("{}", part);
    if (bias_) bias_held_.push_back(Hold("bias" + number, bias_->element(), true, 2));
    if (rounds_) rounded_.push_back(Hold("out" + number, element, false, 2));
  }
  if (!l.fusion) return;
  if (l.fusion->product_kept) product_kept_ = k.Out(l.step.outputs[0]);
  for (size_t i = 0; i < l.fusion->stages.size(); ++i)
    AddStage(l.fusion->stages[i], element, i, i + 1 == l.fusion->stages.size());
}

void Epilogue::AddStage(const FusedStage& fused, int64_t& element, size_t index, bool last) {
  Step step{
      k_.AddCode(fused.stage.code, fused.stage.values, fused.step), fused.stage.whole_rows, {}};
  whole_rows_ = whole_rows_ || step.whole_rows;
  for (size_t i = 0; i < fused.part.size(); ++i) {
    Input input{.part = fused.part[i]};
    const plan::Operand& operand = fused.step->inputs[i];
    if (input.part == kNotATile && operand.storage != plan::kNoStorage) {
      input.view = k_.In(operand);
      // Loaded in the last step of an item, when the item before has long been stored: one version.
      input.held =
          Hold(fmt::format("stage{}_in{}", index, i), input.view->element(), step.whole_rows, 1);
    }
    step.inputs.push_back(std::move(input));
  }
  const plan::Operand& result = fused.step->outputs[0];
  const int64_t size = static_cast<int64_t>(SizeOf(result.dtype));
  if (size != element) step.out = Hold(fmt::format("stage{}", index), size, false, 2);
  element = size;
  if (fused.kept && !last) step.kept = k_.Out(result);
  steps_.push_back(std::move(step));
}

size_t Epilogue::Hold(std::string name, int64_t element, bool vector, uint32_t versions) {
  held_.push_back({std::move(name), element, vector, versions});
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

int64_t Epilogue::Bytes(int64_t elements, int64_t columns) const {
  int64_t bytes = 0;
  for (const Held& held : held_)
    bytes += (held.vector ? columns : elements) * held.element * held.versions;
  return bytes;
}

void Epilogue::AddBuffers(const std::vector<int64_t>& elements,
                          const std::vector<int64_t>& columns) {
  for (Held& held : held_) {
    std::vector<int64_t> bytes = held.vector ? columns : elements;
    for (int64_t& each : bytes) each *= held.element;
    held.buffer = k_.AddBuffer(held.name, std::move(bytes), held.versions, Turn::kItem);
  }
}

void Epilogue::LoadVector(const View& view, size_t held, Expr first, Expr count) {
  k_.Load(view, k_.At(held_[held].buffer), view.offset + first * view.strides[0],
          {{count, view.strides[0], k_.Int(view.element())}});
}

void Epilogue::Load(const Tile& tile) {
  for (size_t part = 0; part < bias_held_.size(); ++part)
    LoadVector(*bias_, bias_held_[part], columns_[part] + tile.columns.start, tile.columns.live);
  for (const Step& step : steps_)
    for (const Input& input : step.inputs) {
      if (!input.view) continue;
      if (step.whole_rows) {
        LoadVector(*input.view, input.held, tile.columns.start, tile.columns.live);
      } else {
        Box box = tile.box(*input.view);
        k_.Load(*input.view, k_.At(held_[input.held].buffer), box.offset, std::move(box.dims));
      }
    }
}

void Epilogue::StoreTile(const Tile& tile, const View& view, Place from) {
  Box box = tile.box(view);
  k_.Store(view, from, box.offset, std::move(box.dims));
}

void Epilogue::FinishTile(const Tile& tile, const std::vector<Place>& sums) {
  const std::vector<Expr> extents = {tile.rows, tile.columns.live};
  std::vector<Place> parts = sums;
  for (size_t part = 0; part < parts.size(); ++part) {
    if (bias_) k_.Compute(add_bias_, extents, {parts[part], k_.At(held_[bias_held_[part]].buffer)});
    if (!rounds_) continue;
    const Place rounded = k_.At(held_[rounded_[part]].buffer);
    k_.Compute(round_, extents, {rounded, parts[part]});
    parts[part] = rounded;
  }
  if (product_kept_) StoreTile(tile, *product_kept_, parts[0]);
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
