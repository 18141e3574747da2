// Tensors across the border, through DLPack and without a copy.
//
//   Array x = Import(object, "run: input 0 `x`", DType::kF32);    // borrowed from numpy, torch, ...
//   session->Run({&x.tensor, 1});
//   return Export(session->output(0), owner);                      // an object with __dlpack__ that keeps owner
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "liveshape/liveshape.h"
#include "python/bindings/errors.h"

namespace liveshape::python {

struct Array {
  TensorRef tensor;
  nb::object capsule;  // its destructor gives the memory back to whoever lent it
  bool read_only = false;
};

// `where` begins every message. NumPy has no bfloat16: its bits travel as uint16, which is taken where
// `expected` is bf16. The array may have any alignment, but must be dense, row-major and on the CPU.
Array Import(nb::handle object, const std::string& where, DType expected);

// A view of `tensor`, which lives as long as `owner`; `bits`: bf16 as uint16, for NumPy.
nb::object Export(const TensorRef& tensor, nb::handle owner, bool bits);

// The same with memory of its own.
nb::object ExportCopy(const TensorRef& tensor, bool bits);

bool Overlap(const TensorRef& a, const TensorRef& b);

}  // namespace liveshape::python
