// One delegated part of one loaded Method: an artifact, a session on it with its own states, and the tensors of a
// call, made once. Knows ExecuTorch's values; backend.cc knows its registry.
//
//   auto delegate = Delegate::Create(blob, {.threads = 2});
//   if (!delegate.ok()) return Report(delegate.status());
//   Error error = (*delegate)->Execute(args);        // inputs then outputs, in the order of the sub-program
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/span.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "liveshape/liveshape.h"

namespace liveshape::et {

struct DelegateOptions {
  int threads = 0;  // 0: one per core
  std::string backend = "cpu";
};

// ExecuTorch's code for ours; the message goes to its log.
executorch::runtime::Error Report(const Status& status);

class Delegate {
 public:
  // `blob` is an artifact at any alignment. It must outlive the delegate unless *copied says that nothing of it is
  // read again. Constants that it names but does not hold are in `named`, which several Methods share.
  static Result<std::unique_ptr<Delegate>> Create(std::span<const std::byte> blob,
                                                  const executorch::runtime::NamedDataMap* named,
                                                  const DelegateOptions& options, bool* copied);

  // Inputs are read at their live sizes. Outputs are resized to theirs and written in place; one whose size only the
  // data tells, or whose dim order is not row-major, is computed in session memory and copied. On failure states are as before, or every later call is
  // refused (InvalidState) until the Method is loaded again.
  executorch::runtime::Error Execute(executorch::runtime::Span<executorch::runtime::EValue*> args);

 private:
  Result<std::map<std::string, TensorRef>> TakeNamedData(
      const ir::Graph& graph, const executorch::runtime::NamedDataMap* named);
  Status ReadInput(size_t i, const executorch::runtime::EValue& value);
  Status PrepareOutput(size_t i, executorch::runtime::EValue& value);  // resize, and where to write
  void CopyOutput(size_t i, const executorch::aten::Tensor& tensor);   // out of session memory
  Status Run(executorch::runtime::Span<executorch::runtime::EValue*> args);

  // Before what reads them: freed last.
  std::vector<executorch::runtime::FreeableBuffer> named_data_;
  std::shared_ptr<const Artifact> artifact_;
  std::unique_ptr<Session> session_;
  std::vector<TensorRef> inputs_, outputs_;
  std::vector<int64_t> integers_;                  // of inputs that are integers
  std::vector<std::vector<std::byte>> reordered_;  // inputs of another dim order, made row-major
  std::vector<bool> given_;                        // outputs that this run writes in place
  std::vector<bool> late_;                         // outputs whose size is known only after the run
};

}  // namespace liveshape::et
