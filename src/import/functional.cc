#include "import/functional.h"

namespace liveshape::import {

TensorId TensorStore::AddBase(ir::ValueId value) {
  const TensorId id = static_cast<TensorId>(tensors_.size());
  bases_.push_back({value});
  tensors_.push_back({static_cast<uint32_t>(bases_.size() - 1), id, value, 0, {}});
  return id;
}

TensorId TensorStore::AddView(TensorId parent, ir::ValueId value, Replay replay) {
  const uint32_t base = tensors_[parent].base;
  tensors_.push_back({base, parent, value, bases_[base].version, std::move(replay)});
  return static_cast<TensorId>(tensors_.size() - 1);
}

Result<ir::ValueId> TensorStore::Read(TensorId id) {
  const Base& base = bases_[tensors_[id].base];
  if (tensors_[id].parent == id) return base.value;
  if (tensors_[id].version != base.version) {
    LS_ASSIGN_OR_RETURN(ir::ValueId parent, Read(tensors_[id].parent));
    LS_ASSIGN_OR_RETURN(ir::ValueId value, tensors_[id].replay(parent));
    tensors_[id].value = value;
    tensors_[id].version = base.version;
  }
  return tensors_[id].value;
}

Status TensorStore::Write(ops::AtenCall& call, TensorId id, ir::ValueId source) {
  LS_ASSIGN_OR_RETURN(ir::ValueId view, Read(id));
  Base& base = bases_[tensors_[id].base];
  if (view == base.value)
    base.value = call.Expand(call.Cast(source, call.TypeOf(view)), call.DimsOf(view));
  else
    base.value = ops::WriteThroughView(call, base.value, view, source);
  ++base.version;
  return call.status();
}

std::optional<ir::Layout> TensorStore::LayoutInBase(ir::ValueId value, TensorId parent) const {
  return ir::LayoutInBase(graph_, graph_.Producers(), bases_[tensors_[parent].base].value, value);
}

}  // namespace liveshape::import
