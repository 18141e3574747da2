#include "python/bindings/arrays.h"

#include <cstring>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace liveshape::python {
namespace {

constexpr int kCpu = 1;            // DLPack's kDLCPU
constexpr int32_t kMostRank = 64;  // as NumPy; keeps a wrong number from being believed

// The two shapes of what a capsule holds, as DLPack's ABI has them; nanobind declares only the tensor inside.
struct Managed {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  nb::dlpack::dltensor tensor;
};
constexpr uint64_t kReadOnly = 1;

using Kind = nb::dlpack::dtype_code;
struct TypeRow {
  DType dtype;
  Kind code;
  uint8_t bits;
};
constexpr TypeRow kTypes[] = {
    {DType::kF32, Kind::Float, 32},   {DType::kF16, Kind::Float, 16},
    {DType::kBF16, Kind::Bfloat, 16}, {DType::kF64, Kind::Float, 64},
    {DType::kI64, Kind::Int, 64},     {DType::kI32, Kind::Int, 32},
    {DType::kI16, Kind::Int, 16},     {DType::kI8, Kind::Int, 8},
    {DType::kU8, Kind::UInt, 8},      {DType::kBool, Kind::Bool, 8},
};

std::optional<DType> FromDlpack(nb::dlpack::dtype type, DType expected) {
  if (type.lanes != 1) return std::nullopt;
  if (expected == DType::kBF16 && static_cast<Kind>(type.code) == Kind::UInt && type.bits == 16)
    return DType::kBF16;
  for (const TypeRow& row : kTypes)
    if (row.code == static_cast<Kind>(type.code) && row.bits == type.bits) return row.dtype;
  return std::nullopt;
}

nb::dlpack::dtype ToDlpack(DType dtype, bool bits) {
  if (bits && dtype == DType::kBF16) return {static_cast<uint8_t>(Kind::UInt), 16, 1};
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return {static_cast<uint8_t>(row.code), row.bits, 1};
  nb::raise_type_error("no DLPack type for %s", Name(dtype));
}

std::string TypeName(nb::handle object) { return nb::type_name(object.type()).c_str(); }

// What the lender refuses (requires_grad, a conjugate view, a meta tensor) is a ValueError with its own words.
template <typename Call>
nb::object AskLender(const std::string& where, Call&& call) {
  try {
    return call();
  } catch (nb::python_error& error) {
    const std::string message = where + ": " + nb::str(error.value()).c_str();
    nb::raise_from(error, PyExc_ValueError, "%s", message.c_str());
  }
}

void CheckDevice(nb::handle object, const std::string& where) {
  const nb::object device =
      AskLender(where, [&] { return nb::object(object.attr("__dlpack_device__")()); });
  const int type = nb::cast<int>(device[0]);
  if (type != kCpu)
    Raise(
        PyExc_ValueError,
        fmt::format("{}: lies on a device (DLPack type {}), not in host memory: copy it to the CPU "
                    "first, as with .cpu()",
                    where, type));
}

nb::object AskCapsule(nb::handle object, const std::string& where) {
  return AskLender(where, [&]() -> nb::object {
    const nb::object method = object.attr("__dlpack__");
    try {
      return method(nb::arg("max_version") = nb::make_tuple(1, 1));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
    }
    return method();  // from before DLPack 1.0
  });
}

struct Lent {
  const nb::dlpack::dltensor* tensor = nullptr;
  bool read_only = false;
};

Lent OpenCapsule(const nb::object& capsule, const std::string& where) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* managed = static_cast<const ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->major != 1)
      Raise(PyExc_ValueError, fmt::format("{}: DLPack version {}.{}, 1.x is known", where,
                                          managed->major, managed->minor));
    return {&managed->tensor, (managed->flags & kReadOnly) != 0};
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    return {&static_cast<const Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor};
  Raise(PyExc_ValueError, where + ": __dlpack__ gave no DLPack capsule");
}

bool IsDense(const nb::dlpack::dltensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t stride = 1;
  bool dense = true;
  for (int32_t d = tensor.ndim; d-- > 0;) {
    if (tensor.shape[d] == 0) return true;
    dense = dense && (tensor.shape[d] == 1 || tensor.strides[d] == stride);
    stride *= tensor.shape[d];
  }
  return dense;
}

}  // namespace

Array Import(nb::handle object, const std::string& where, DType expected) {
  if (!nb::hasattr(object, "__dlpack__"))
    Raise(PyExc_TypeError, fmt::format("{}: a {} is no array (NumPy, torch, or anything else with "
                                       "__dlpack__)",
                                       where, TypeName(object)));
  CheckDevice(object, where);
  Array array;
  array.capsule = AskCapsule(object, where);
  const auto [lent, read_only] = OpenCapsule(array.capsule, where);
  array.read_only = read_only;
  const std::optional<DType> dtype = FromDlpack(lent->dtype, expected);
  if (!dtype)
    Raise(PyExc_ValueError,
          fmt::format("{}: an element type of {} bits (DLPack code {}) is not known", where,
                      lent->dtype.bits * lent->dtype.lanes, lent->dtype.code));
  if (lent->ndim < 0 || lent->ndim > kMostRank)
    Raise(PyExc_ValueError, fmt::format("{}: rank {}", where, lent->ndim));
  if (!IsDense(*lent))
    Raise(PyExc_ValueError,
          where + ": is not contiguous: pass x.contiguous() or np.ascontiguousarray(x)");
  array.tensor.dtype = *dtype;
  array.tensor.dims.assign(lent->shape, lent->shape + lent->ndim);
  array.tensor.data = static_cast<std::byte*>(lent->data) + lent->byte_offset;
  return array;
}

nb::object Export(const TensorRef& tensor, nb::handle owner, bool bits) {
  const std::vector<size_t> shape(tensor.dims.begin(), tensor.dims.end());
  return nb::cast(nb::ndarray<nb::array_api>(tensor.data, shape.size(), shape.data(), owner,
                                             nullptr, ToDlpack(tensor.dtype, bits), kCpu));
}

nb::object ExportCopy(const TensorRef& tensor, bool bits) {
  const size_t bytes = tensor.bytes();
  auto* memory = new std::byte[bytes];
  const nb::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  if (bytes > 0) std::memcpy(memory, tensor.data, bytes);
  TensorRef copy = tensor;
  copy.data = memory;
  return Export(copy, owner, bits);
}

bool Overlap(const TensorRef& a, const TensorRef& b) {
  const auto* first = static_cast<const std::byte*>(a.data);
  const auto* second = static_cast<const std::byte*>(b.data);
  return first < second + b.bytes() && second < first + a.bytes();
}

}  // namespace liveshape::python
