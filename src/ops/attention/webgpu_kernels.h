// The two shaders of attention, as text after what webgpu.cc writes for both: sizes, q, k, v, masks, where results go.
//
//   AddVectorReads(l, sizes, d);               // query_vector, key_vector, value_vector
//   d.body += RowKernel(l, sizes);             // few rows of queries: one a workgroup, the context perhaps split
//   d.body += TileKernel(l, sizes);            // many: 64 a workgroup
#pragma once

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

struct AttentionSizes {
  int64_t depth, width;  // of a query and a key; of a value
};

// `fn key_vector(at, i) -> vec4<u32>`: elements from PER * i on of the key that begins at `at`, zeros beyond its end;
// `fn key_row(b, g, t) -> u32`: where it begins. The same for queries and values.
void AddVectorReads(const Lowering& l, const AttentionSizes& sizes, Dispatch& d);

int64_t RowKeys(DType dtype);  // that a workgroup of RowKernel takes at a time
std::string RowKernel(const Lowering& l, const AttentionSizes& sizes);

inline constexpr int64_t kTileRows = 64;
bool ServesTiles(const AttentionSizes& sizes);
std::string TileKernel(const Lowering& l, const AttentionSizes& sizes);

}  // namespace liveshape::webgpu
