// In-place programs made functional. Every tensor name is a view of some *base*; a write through any
// view makes a new version of the base, and a name read afterwards is rebuilt from that version.
//
//   TensorId cache = store.AddBase(state_value);
//   TensorId row = store.AddView(cache, replay);            // replay: value of base -> value of the view
//   store.Write(call, row, new_row);                        // cache is now view_write(cache, new_row)
//   store.Read(call, cache);                                // ... and this reads the new version
#pragma once

#include <functional>
#include <vector>

#include "ops/aten.h"

namespace liveshape::import {

using TensorId = uint32_t;

class TensorStore {
 public:
  explicit TensorStore(ir::Graph& graph) : graph_(graph) {}

  TensorId AddBase(ir::ValueId value);
  // Makes the view's value from its parent's value; called again after the base was written to.
  using Replay = std::function<Result<ir::ValueId>(ir::ValueId parent)>;
  TensorId AddView(TensorId parent, ir::ValueId value, Replay replay);

  Result<ir::ValueId> Read(TensorId tensor);
  // `source` (cast and broadcast as copy_ does) becomes the tensor's contents.
  Status Write(ops::AtenCall& call, TensorId tensor, ir::ValueId source);

  uint32_t BaseOf(TensorId tensor) const { return tensors_[tensor].base; }
  ir::ValueId Current(uint32_t base) const { return bases_[base].value; }
  // Where `value` lies in its base if it is reached by views that strides can express, so that a write
  // through it is a write to the base; none if it is a tensor of its own.
  std::optional<ir::Layout> LayoutInBase(ir::ValueId value, TensorId parent) const;

 private:
  struct Base {
    ir::ValueId value;
    uint32_t version = 0;
  };
  struct Tensor {
    uint32_t base;
    TensorId parent;  // itself for a base
    ir::ValueId value;
    uint32_t version;
    Replay replay;
  };
  ir::Graph& graph_;
  std::vector<Base> bases_;
  std::vector<Tensor> tensors_;
};

}  // namespace liveshape::import
