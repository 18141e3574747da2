#include "executorch/delegate.h"

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "artifact/load.h"
#include "ir/graph.h"
#include "runtime/backend.h"

namespace liveshape::et {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::kTensorDimensionLimit;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Span;

// c10's codes: neither those of .pt2 nor ours.
Result<DType> FromScalarType(ScalarType type) {
  switch (type) {
    case ScalarType::Float: return DType::kF32;
    case ScalarType::Half: return DType::kF16;
    case ScalarType::BFloat16: return DType::kBF16;
    case ScalarType::Double: return DType::kF64;
    case ScalarType::Long: return DType::kI64;
    case ScalarType::Int: return DType::kI32;
    case ScalarType::Short: return DType::kI16;
    case ScalarType::Char: return DType::kI8;
    case ScalarType::Byte: return DType::kU8;
    case ScalarType::Bool: return DType::kBool;
    default: return Unsupported("dtype code {} of ExecuTorch", static_cast<int>(type));
  }
}

Status CheckType(const Tensor& tensor, DType wanted) {
  LS_ASSIGN_OR_RETURN(const DType dtype, FromScalarType(tensor.scalar_type()));
  if (dtype != wanted)
    return InvalidArgument("dtype {}, the model has {}", Name(dtype), Name(wanted));
  return {};
}

bool IsRowMajor(const Tensor& tensor) {
  const auto order = tensor.dim_order();
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] != i) return false;
  return true;
}

// Between row-major memory and that of a tensor with another dim order (channels last), which is dense too.
template <typename Copy>
void ForEachRun(const Tensor& tensor, size_t element, const Copy& copy) {
  const auto sizes = tensor.sizes();
  const auto order = tensor.dim_order();
  std::array<size_t, kTensorDimensionLimit> strides, at = {};
  size_t stride = element;
  for (size_t i = order.size(); i-- > 0; stride *= static_cast<size_t>(sizes[order[i]]))
    strides[order[i]] = stride;
  const size_t last = sizes.size() - 1, count = static_cast<size_t>(tensor.numel());
  size_t there = 0;
  for (size_t here = 0; here < count * element; here += element) {
    copy(here, there);
    there += strides[last];
    for (size_t d = last; ++at[d] == static_cast<size_t>(sizes[d]) && d > 0; --d) {
      at[d] = 0;
      there += strides[d - 1] - strides[d] * static_cast<size_t>(sizes[d]);
    }
  }
}

Status Resize(const Tensor& tensor, std::span<const int64_t> dims) {
  std::array<SizesType, kTensorDimensionLimit> sizes;
  if (dims.size() > sizes.size())
    return Unsupported("rank {}: ExecuTorch has at most {}", dims.size(), sizes.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    sizes[i] = static_cast<SizesType>(dims[i]);
    if (sizes[i] != dims[i]) return OutOfRange("size {} is beyond 32 bits", dims[i]);
  }
  // The capacity is what ExecuTorch's memory plan made of the bounds at export.
  if (executorch::runtime::resize_tensor(tensor, {sizes.data(), dims.size()}) != Error::Ok)
    return OutOfRange("live shape [{}] does not fit the memory planned at export",
                      fmt::join(dims, ", "));
  return {};
}

Result<BackendPtr> MakeBackend(const DelegateOptions& options) {
  if (options.threads < 0 || options.threads > 1024)
    return InvalidArgument("threads = {}: 0 (one per core) to 1024", options.threads);
  if (options.backend == "cpu") return MakeCpuBackend({.threads = options.threads});
  if (options.backend == "webgpu") return MakeWebGpuBackend();
  if (options.backend == "null") return MakeNullBackend();
  return Unsupported("no backend `{}`: there are cpu, webgpu and null", options.backend);
}

}  // namespace

Error Report(const Status& status) {
  if (status.ok()) return Error::Ok;
  ET_LOG(Error, "liveshape: %s", status.message().c_str());
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kOutOfRange: return Error::InvalidArgument;
    case Code::kNotFound: return Error::NotFound;
    case Code::kUnsupported: return Error::NotSupported;
    case Code::kDataLoss: return Error::InvalidProgram;
    case Code::kResourceExhausted: return Error::MemoryAllocationFailed;
    case Code::kFailedPrecondition:
    case Code::kCancelled: return Error::InvalidState;
    default: return Error::Internal;
  }
}

Result<std::map<std::string, TensorRef>> Delegate::TakeNamedData(const ir::Graph& graph,
                                                                 const NamedDataMap* named) {
  std::map<std::string, TensorRef> constants;
  for (const ir::Constant& constant : graph.constants) {
    const std::string& key = constant.external;
    if (key.empty() || constants.contains(key)) continue;
    if (named == nullptr) return NotFound("the program has no named data, `{}` is needed", key);
    auto data = named->get_data(key);
    if (!data.ok()) return NotFound("named data `{}` is not in the program", key);
    const size_t wanted = ir::StoredBytes(constant).value_or(0);
    if (data->size() < wanted)
      return DataLoss("named data `{}` has {} bytes, {} are needed", key, data->size(), wanted);
    named_data_.push_back(std::move(*data));
    void* const bytes = const_cast<void*>(named_data_.back().data());
    if (constant.packed())
      constants[key] = {DType::kU8, bytes, {static_cast<int64_t>(wanted)}};
    else
      constants[key] = {constant.dtype, bytes, constant.dims};
  }
  return constants;
}

Result<std::unique_ptr<Delegate>> Delegate::Create(std::span<const std::byte> blob,
                                                   const NamedDataMap* named,
                                                   const DelegateOptions& options, bool* copied) {
  auto delegate = std::make_unique<Delegate>();
  artifact::LoadInfo info;
  LS_ASSIGN_OR_RETURN(const auto needed, artifact::LoadGraph(blob, nullptr, &info));
  LS_ASSIGN_OR_RETURN(auto constants, delegate->TakeNamedData(*needed, named));
  LS_ASSIGN_OR_RETURN(delegate->artifact_,
                      Artifact::Load(blob, nullptr, {.external_constants = std::move(constants)}));
  LS_ASSIGN_OR_RETURN(BackendPtr backend, MakeBackend(options));
  LS_ASSIGN_OR_RETURN(delegate->session_, Session::Create(delegate->artifact_, std::move(backend)));
  *copied = info.constant_bytes == 0 || info.copied_constant_bytes > 0;

  const Artifact& artifact = *delegate->artifact_;
  const ir::Graph& graph = artifact.graph();
  for (const PortDescription& port : artifact.inputs())
    delegate->inputs_.push_back({port.dtype, nullptr, std::vector<int64_t>(port.dims.size())});
  delegate->integers_.resize(delegate->inputs_.size());
  delegate->reordered_.resize(delegate->inputs_.size());
  delegate->given_.resize(artifact.outputs().size());
  for (size_t i = 0; i < artifact.outputs().size(); ++i) {
    const PortDescription& port = artifact.outputs()[i];
    // The partitioner leaves sizes that others read outside.
    if (port.scalar) return Unsupported("output {} `{}` is an integer", i, port.name);
    delegate->outputs_.push_back({port.dtype, nullptr, std::vector<int64_t>(port.dims.size())});
    sym::Stage stage = 0;
    for (const ir::Expr dim : graph.type(graph.outputs[i].value).dims)
      stage = std::max(stage, graph.table().StageOf(dim));
    delegate->late_.push_back(stage > 0);
  }
  return delegate;
}

Status Delegate::ReadInput(size_t i, const EValue& value) {
  TensorRef& input = inputs_[i];
  if (artifact_->inputs()[i].scalar) {
    if (!value.isInt()) return InvalidArgument("not an integer (tag {})", uint32_t(value.tag));
    integers_[i] = value.toInt();
    input.data = &integers_[i];
    return {};
  }
  if (!value.isTensor()) return InvalidArgument("not a tensor (tag {})", uint32_t(value.tag));
  const Tensor& tensor = value.toTensor();
  LS_RETURN_IF_ERROR(CheckType(tensor, input.dtype));
  // A rank that differs is refused by the bind, which names the input's dims.
  input.dims.assign(tensor.sizes().begin(), tensor.sizes().end());
  input.data = const_cast<void*>(tensor.const_data_ptr());
  if (!IsRowMajor(tensor)) {
    const auto* from = static_cast<const std::byte*>(tensor.const_data_ptr());
    const size_t element = SizeOf(input.dtype);
    reordered_[i].resize(tensor.nbytes());
    ForEachRun(tensor, element, [&](size_t here, size_t there) {
      std::memcpy(&reordered_[i][here], from + there, element);
    });
    input.data = reordered_[i].data();
  }
  return {};
}

Status Delegate::PrepareOutput(size_t i, EValue& value) {
  const TensorRef& live = session_->output(i);
  if (!value.isTensor()) return InvalidArgument("not a tensor (tag {})", uint32_t(value.tag));
  Tensor& tensor = value.toTensor();
  LS_RETURN_IF_ERROR(CheckType(tensor, live.dtype));
  LS_RETURN_IF_ERROR(Resize(tensor, live.dims));
  if (tensor.mutable_data_ptr() == nullptr && live.bytes() > 0)
    return FailedPrecondition("it has no memory: give it some before executing");
  outputs_[i].data = IsRowMajor(tensor) ? tensor.mutable_data_ptr() : nullptr;
  return {};
}

void Delegate::CopyOutput(size_t i, const Tensor& tensor) {
  const TensorRef& made = session_->output(i);
  const auto* from = static_cast<const std::byte*>(made.data);
  auto* to = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const size_t element = SizeOf(made.dtype);
  if (made.bytes() == 0) return;
  if (IsRowMajor(tensor))
    std::memcpy(to, from, made.bytes());
  else
    ForEachRun(tensor, element,
               [&](size_t here, size_t there) { std::memcpy(to + there, from + here, element); });
}

Status Delegate::Run(Span<EValue*> args) {
  if (args.size() != inputs_.size() + outputs_.size())
    return InvalidArgument("{} arguments given, the artifact has {} inputs and {} outputs",
                           args.size(), inputs_.size(), outputs_.size());
  if (session_->needs_reset())
    return FailedPrecondition(
        "an earlier run failed after it had begun to change states: load the Method again");
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (Status s = ReadInput(i, *args[i]); !s.ok())
      return std::move(s).Prefixed(fmt::format("input {} `{}`", i, artifact_->inputs()[i].name));
  LS_RETURN_IF_ERROR(session_->Bind(inputs_));

  const auto prepare = [&](size_t i) {
    Status s = PrepareOutput(i, *args[inputs_.size() + i]);
    return s.ok() ? Status() : std::move(s).Prefixed(fmt::format("output {}", i));
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].data = nullptr;
    if (!late_[i]) LS_RETURN_IF_ERROR(prepare(i));
    given_[i] = outputs_[i].data != nullptr;
  }
  LS_RETURN_IF_ERROR(session_->Run(inputs_, outputs_));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (given_[i]) continue;
    if (late_[i]) LS_RETURN_IF_ERROR(prepare(i));
    CopyOutput(i, args[inputs_.size() + i]->toTensor());
  }
  return {};
}

Error Delegate::Execute(Span<EValue*> args) { return Report(Run(args)); }

}  // namespace liveshape::et
