// The arrays that stand behind the operands of one dispatch. One storage is one array, however many operands lie in
// it, because WebGPU refuses a buffer bound twice where one is written. A storage larger than a binding is several
// arrays, cut at fixed places; which one an index means is decided in a function that only such a storage has.
//
//   Bindings bindings(memory);
//   size_t x = bindings.Add(storage, "f32");                   // the same storage gives the same array
//   bindings.Load(x, "i / 2u");                                // "buffer0[i / 2u]"
//   bindings.Store(x, "i", "v");                               // "buffer0[i] = v;"
//   bindings.Declare();                                        // var<storage> ..., and those functions
//   for (const gpu::BoundRange& range : bindings.Ranges()) ... // binding 1, 2, ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/webgpu/memory.h"

namespace liveshape::webgpu {

class Bindings {
 public:
  explicit Bindings(const DeviceMemory& memory) : memory_(memory) {}

  // `word` is the WGSL type of the array's elements: f32, i32, u32, vec2<u32>, vec4<u32>.
  size_t Add(plan::StorageId storage, std::string_view word);
  // Words of the array are changed in parts, by several invocations: see Change.
  void MakeAtomic(size_t array) { arrays_[array].atomic = true; }

  std::string Load(size_t array, std::string_view index) const;
  std::string Store(size_t array, std::string_view index, std::string_view value) const;
  // `word = (word & keep) | bits`, of an atomic array; others may change other bits of it at the same time.
  std::string Change(size_t array, std::string_view index, std::string_view keep,
                     std::string_view bits) const;

  bool mixed() const { return mixed_; }  // a storage was asked for by two types of words
  std::string Declare() const;
  std::vector<gpu::BoundRange> Ranges() const;

 private:
  struct Array {
    plan::StorageId storage;
    std::string word;
    bool atomic = false;
  };
  bool IsSplit(const Array& a) const { return memory_.Parts(a.storage).size() > 1; }
  std::string Element(size_t array, std::string_view index) const;
  std::string ByPart(size_t array, std::string_view head, std::string_view statement) const;

  const DeviceMemory& memory_;
  std::vector<Array> arrays_;
  bool mixed_ = false;
};

}  // namespace liveshape::webgpu
