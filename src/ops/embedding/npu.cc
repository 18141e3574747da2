// Rows of a weight, gathered by the DMA. Of a quantised one, scales and words of the rows are gathered and made floats
// by the vector unit.
#include "backends/npu/lower/indexed.h"
#include "backends/npu/values/element.h"
#include "base/observe.h"
#include "ops/linear/quantised.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

constexpr int64_t kEntries = 256;  // ids of a tile

// Extents [ids]: addresses of scales, addresses of words, ids; arguments: rows, bytes of a panel.
ValueFunction BlockAddresses(DType ids) {
  return [ids](const ValueCall& call) -> Status {
    const int64_t rows = call.record.argument[0], panel = call.record.argument[1];
    for (int64_t i = 0; i < call.record.extent[0]; ++i) {
      const int64_t id = ids == DType::kI64 ? call.as<int64_t>(2)[i] : call.as<int32_t>(2)[i];
      if (id < 0 || id >= rows) {
        AllocationPause pause;
        return OutOfRange("id {} is outside the embedding's {} rows", id, rows);
      }
      const int64_t block = id / ops::kPanelRows * panel, lane = id % ops::kPanelRows;
      call.as<int64_t>(0)[i] = block + lane * 2;
      call.as<int64_t>(1)[i] = block + ops::kPanelRows * 2 + lane * 4;
    }
    return {};
  };
}

// Extents [ids, columns]: rows, scales [ids, groups], words [ids, groups, words of a group].
template <int bits>
ValueFunction DequantisedRows(DType dtype) {
  using Block = ops::QuantBlock<bits>;
  return [dtype](const ValueCall& call) {
    const int64_t ids = call.record.extent[0], cols = call.record.extent[1];
    const int64_t groups = ops::QuantGroups(cols);
    for (int64_t i = 0; i < ids; ++i)
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t group = i * groups + c / ops::kQuantGroup, k = c % ops::kQuantGroup;
        const uint32_t word = call.as<uint32_t>(2)[group * Block::kWords + k / Block::kPerWord];
        const int q = static_cast<int>(word >> (k % Block::kPerWord * bits) & ((1u << bits) - 1)) -
                      Block::kZero;
        StoreFloat(dtype, call.operand[0], i * cols + c,
                   static_cast<float>(q) * F32FromF16(call.as<uint16_t>(1)[group]));
      }
    return Status();
  };
}

template <int bits>
Status LowerQuantised(KernelBuilder& k) {
  using Block = ops::QuantBlock<bits>;
  const View weight = k.In(0), y = k.Out(0);
  View ids = k.In(1), halves = weight, words = weight;
  halves.dtype = DType::kF16;
  words.dtype = DType::kI32;
  const int64_t cols = weight.dims[1].value(), groups = ops::QuantGroups(cols);
  const int64_t panel = groups * static_cast<int64_t>(sizeof(Block));
  const uint32_t id_buffer = k.AddBuffer("ids", kEntries * ids.element());
  const uint32_t scale_at = k.AddBuffer("scale_at", kEntries * 8, 1);
  const uint32_t word_at = k.AddBuffer("word_at", kEntries * 8, 1);
  const uint32_t scales = k.AddBuffer("scales", kEntries * groups * 2);
  const uint32_t codes = k.AddBuffer("words", kEntries * groups * Block::kWords * 4);
  const uint32_t rows = k.AddBuffer("rows", kEntries * cols * y.element());
  Code address{.name = "address"};
  address.per_element[VectorClass::kSimple] =
      16;  // compare, shift, mask, multiply and add, in 64 bits
  address.outputs = 2;
  const uint32_t addresses = k.AddCode(address, BlockAddresses(ids.dtype));
  Code code{.name = "dequantise"};
  code.per_element[VectorClass::kSimple] = 3;
  const uint32_t dequantise = k.AddCode(code, DequantisedRows<bits>(y.dtype));

  // Ids of every dim but the last one at a time.
  const std::function<void(size_t, Expr, Expr)> nest = [&](size_t d, Expr id_at, Expr y_at) {
    if (d + 1 < ids.rank()) {
      k.Loop(fmt::format("e{}", d), ids.dims[d], [&](Expr i) {
        nest(d + 1, k.Let("id_at", id_at + i * ids.strides[d]),
             k.Let("y_at", y_at + i * y.strides[d]));
      });
      return;
    }
    const bool scalar = ids.rank() == 0;
    k.Tiles("e", scalar ? k.Int(1) : ids.dims[d], k.Int(kEntries), [&](Span e) {
      const Expr id_stride = scalar ? k.Int(0) : ids.strides[d];
      const Expr row_stride = scalar ? k.Int(0) : y.strides[d];
      const Expr one = k.Int(1), block = k.Int(sizeof(Block));
      k.Item();
      k.Dispatch();
      k.Load(ids, k.At(id_buffer), id_at + e.start * id_stride,
             {{e.live, id_stride, k.Int(ids.element())}});
      k.BarrierLoads();
      k.Compute(addresses, {e.live}, {k.At(scale_at), k.At(word_at), k.At(id_buffer)},
                {weight.dims[0], k.Int(panel)});
      k.Load(halves, k.At(scales), weight.offset,
             {{e.live, one, k.Int(groups * 2)}, {k.Int(groups), block, k.Int(2)}}, k.At(scale_at));
      k.Load(words, k.At(codes), weight.offset,
             {{e.live, one, k.Int(groups * Block::kWords * 4)},
              {k.Int(groups), block, k.Int(Block::kWords * 4)},
              {k.Int(Block::kWords), k.Int(ops::kPanelRows * 4), k.Int(4)}},
             k.At(word_at));
      k.BarrierLoads();
      k.Compute(dequantise, {e.live, k.Int(cols)}, {k.At(rows), k.At(scales), k.At(codes)});
      k.Store(y, k.At(rows), y_at + e.start * row_stride,
              {{e.live, row_stride, k.Int(cols * y.element())},
               {k.Int(cols), y.strides.back(), k.Int(y.element())}});
      k.BarrierTile();
    });
  };
  nest(0, ids.offset, y.offset);
  return {};
}

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  const ir::Constant* weight = l.constant(0);
  KernelBuilder k(l);
  if (weight && weight->encoding == ir::Encoding::kQ8SymG32) {
    LS_RETURN_IF_ERROR(LowerQuantised<8>(k));
  } else if (weight && weight->encoding == ir::Encoding::kQ4SymG32) {
    LS_RETURN_IF_ERROR(LowerQuantised<4>(k));
  } else {
    const IndexedMove move{.x = k.In(0),
                           .indices = {k.In(1)},
                           .axes = {0},
                           .outer = {},
                           .inner = {1},
                           .dense = k.Out(0),
                           .wrap = false,
                           .panels = weight && weight->packed()};
    LS_RETURN_IF_ERROR(LowerIndexed(k, move));
  }
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kEmbeddingNpu = {.op = &ops::kEmbedding, .lower = Lower};

}  // namespace liveshape::npu
