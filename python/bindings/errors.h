// A Status as a Python exception with the same message.
//
//   auto artifact = Unwrap(Artifact::Load(path), PyExc_FileNotFoundError);
//   Check(session->Trim());
#pragma once

#include <nanobind/nanobind.h>

#include "base/status.h"

namespace liveshape::python {

namespace nb = nanobind;

[[noreturn]] inline void Raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

// `not_found`: KeyError for names, FileNotFoundError where the thing is a file.
[[noreturn]] inline void Raise(const Status& status, PyObject* not_found = PyExc_KeyError) {
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kDataLoss: Raise(PyExc_ValueError, status.message());
    case Code::kOutOfRange: Raise(PyExc_IndexError, status.message());
    case Code::kNotFound: Raise(not_found, status.message());
    case Code::kUnsupported: Raise(PyExc_NotImplementedError, status.message());
    case Code::kResourceExhausted: Raise(PyExc_MemoryError, status.message());
    default: Raise(PyExc_RuntimeError, status.message());
  }
}

inline void Check(const Status& status, PyObject* not_found = PyExc_KeyError) {
  if (!status.ok()) Raise(status, not_found);
}

template <typename T>
T Unwrap(Result<T> result, PyObject* not_found = PyExc_KeyError) {
  if (!result.ok()) Raise(result.status(), not_found);
  return *std::move(result);
}

}  // namespace liveshape::python
