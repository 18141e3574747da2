// Convolutions by live dims: with one input channel a group straight from the image, else as a product. A
// constant f32 weight comes in panels and is streamed as it lies in the file; any other is made so first.
#include <atomic>

#include "backends/cpu/simd/isa.h"
#include "ops/conv/cpu_call.h"
#include "ops/conv/cpu_pairs.h"
#include "ops/conv/cpu_winograd.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

// A task of about this many multiply-adds is worth waking a thread for: some 20 us on one core.
constexpr int64_t kTaskWork = 1 << 20;

struct ConvPrepared : Prepared {
  ops::Windows windows;
  int64_t groups = 1;
};

ConvCall CallOf(const KernelArgs& args) {
  const auto& prepared = static_cast<const ConvPrepared&>(*args.prepared);
  const View &x = args.in(0), &w = args.in(1), &y = args.out(0);
  ConvCall call;
  call.x = x.data;
  call.x_strides = x.strides;
  call.batch = x.dims[0];
  call.channels = x.dims[1] / prepared.groups;
  call.height = x.dims[2];
  call.width = x.dims[3];
  call.rows = w.dims[0];
  call.groups = prepared.groups;
  call.out_height = y.dims[2];
  call.out_width = y.dims[3];
  call.h = prepared.windows[0];
  call.w = prepared.windows[1];
  if (args.inputs.size() > 2 && args.in(2).present()) {
    call.bias = args.in(2).data;
    call.bias_stride = args.in(2).strides[0];
  }
  call.y = y.data;
  call.dtype = y.dtype;
  return call;
}

void RunDepthwise(const ConvCall& call, ThreadPool& pool, float* scratch, int64_t worker_floats) {
  const int64_t planes = call.batch * call.rows;
  const int64_t blocks = DivideUp(call.out_height, DepthwiseRows(call));
  const int64_t work = call.taps() * call.pixels() / blocks;
  const auto run = FindDepthwise();
  // Vectors are a part of the work only: the rows are laid out first.
  pool.ParallelFor(planes * blocks, DivideUp(kTaskWork / 16, std::max<int64_t>(1, work)),
                   [&](int64_t begin, int64_t end, int worker) {
                     run(call, blocks, begin, end, scratch + worker * worker_floats);
                   });
}

// Of the weight: as few as leave the same to every thread, or several tasks to each.
int64_t PartsForThreads(int64_t blocks, int64_t threads) {
  int64_t parts = 1;
  while (blocks * parts % threads != 0 && blocks * parts < 4 * threads) ++parts;
  return parts;
}

void RunProduct(ConvCall call, ThreadPool& pool, float* scratch) {
  if (call.is_pointwise() && call.x_strides[2] == call.width * call.x_strides[3]) {
    call.width = call.out_width = call.pixels();  // one long row
    call.height = call.out_height = 1;
  }
  // Blocks of pixels: some rows, or a part of one, or several images.
  const int64_t width = call.out_width, height = call.out_height;
  // Small images go to threads by themselves: each lays out its own, where parts of the weight would have all laid out by
  // each.
  const int64_t shared = DivideUp(call.batch, static_cast<int64_t>(pool.size()));
  const int64_t at_once = std::min(BlockImages(call.batch, call.pixels()),
                                   std::max(shared, DivideUp(kPatchPixels / 4, call.pixels())));
  const int64_t image_blocks = DivideUp(call.batch, at_once), images = image_blocks * call.groups;
  const int64_t few = pool.size() == 1 ? 1 : DivideUp(8 * pool.size(), images);  // for each thread
  const int64_t block_pixels =
      std::clamp(height * width / few, kPatchPixels, PatchPixels(call.depth()));
  const int64_t across = width > block_pixels / 2 ? std::clamp(few, DivideUp(width, kPatchPixels),
                                                               DivideUp(width, kPatchPixels / 3))
                                                  : 1;
  const int64_t most_rows = BlockRows(height, width, block_pixels);
  const int64_t down = DivideUp(height, most_rows);
  // A few blocks for several threads: as large as one another. Pixels that see only some of the image are fewer, since
  // its lines come whole: what the next block sees is fetched into L2 beside this one (1 x 1 by two: 3 to 4 %, Zen 5).
  const int64_t whole_rows = down < few ? DivideUp(height, down) : most_rows;
  const int64_t block_rows = call.taps() == 1 ? DivideUp(whole_rows, call.w.stride) : whole_rows;
  const int64_t blocks_down = DivideUp(height, block_rows), blocks = across * blocks_down;
  const auto column_at = [&](int64_t i) {  // whole vectors, but for the last
    return i == across ? width : width * i / across / kVectorPixels * kVectorPixels;
  };
  // Rows of the weight in one task: as many as leave the same to every thread, or several tasks to each, since the image
  // is laid out anew for each.
  const int64_t group_rows = call.group_rows(), placed = images * blocks;
  const int64_t wanted = PartsForThreads(placed, pool.size());
  const int64_t rows = std::clamp<int64_t>(DivideUp(group_rows, wanted), 64, kTaskRows) / 16 * 16;
  const int64_t row_blocks = DivideUp(group_rows, rows);
  const int64_t work = std::max<int64_t>(
      1, at_once * call.pixels() / blocks * std::min(rows, group_rows) * call.depth());
  const int64_t worker_floats =
      ProductScratch(call.h, call.w, at_once, block_rows, BlockColumns(width, block_pixels),
                     call.depth(), group_rows, call.dtype)
          .total();
  const auto run = FindProduct();
  pool.ParallelFor(images * row_blocks * blocks, DivideUp(kTaskWork / 4, work),
                   [&](int64_t begin, int64_t end, int worker) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t x = i % across, y = i / across % blocks_down;
                       const int64_t row_block = i / blocks % row_blocks;
                       const int64_t group = i / blocks / row_blocks % call.groups;
                       const int64_t first = group * group_rows + row_block * rows;
                       const int64_t block = i / blocks / row_blocks / call.groups;
                       const int64_t image = call.batch * block / image_blocks;
                       run(call, {.image = image,
                                  .images = call.batch * (block + 1) / image_blocks - image,
                                  .top = block_rows * y,
                                  .bottom = std::min(height, block_rows * (y + 1)),
                                  .left = column_at(x),
                                  .right = column_at(x + 1),
                                  .row_begin = first,
                                  .row_end = std::min(first + rows, (group + 1) * group_rows),
                                  .scratch = scratch + worker * worker_floats});
                     }
                   });
}

// False: the image is not all finite, or the ISA has no such kernel.
bool RunPairs(const ConvCall& call, ThreadPool& pool, float* scratch, int64_t worker_floats) {
  const PairsFns run = FindPairs();
  if (run.block == nullptr) return false;
  const int64_t terms = call.channels * call.h.size;
  for (int64_t panel = 0; panel < DivideUp(call.rows, 16); ++panel)
    run.weight(call, panel, scratch);
  float* const workers = scratch + Pairs::WeightFloats(call.rows, terms);
  const int64_t down = DivideUp(call.out_height, Pairs::kBlockRows);
  const int64_t work =
      std::max<int64_t>(1, Pairs::kBlockRows * call.out_width * 2 * terms * RoundUp16(call.rows));
  std::atomic<bool> finite = true;
  pool.ParallelFor(call.batch * down, DivideUp(kTaskWork / 4, work),
                   [&](int64_t begin, int64_t end, int worker) {
                     for (int64_t i = begin; i < end && finite.load(std::memory_order_relaxed);
                          ++i) {
                       const int64_t block = i % down;
                       if (!run.block(call, {.image = i / down,
                                             .top = call.out_height * block / down,
                                             .bottom = call.out_height * (block + 1) / down,
                                             .weight = scratch,
                                             .scratch = workers + worker * worker_floats}))
                         finite.store(false, std::memory_order_relaxed);
                     }
                   });
  return finite;
}

// False: the image is not all finite.
bool RunWinograd(const ConvCall& call, ThreadPool& pool, float* scratch, int64_t worker_floats) {
  const WinogradFns run = FindWinograd();
  const Winograd winograd(call.h, call.w);
  const int64_t panels = DivideUp(call.rows, 16),
                panel_points = winograd.PanelPoints(call.channels);
  pool.ParallelFor(panels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) run.weight(call, p, scratch + p * panel_points);
  });
  float* const workers = scratch + winograd.WeightFloats(call.rows, call.channels);
  const int64_t columns = winograd.TileColumns(call.out_width);
  const int64_t rows = winograd.TileRows(call.batch, call.out_height);
  const int64_t most =
      winograd.BlockTiles(call.channels, ActiveIsa() == Isa::kAvx512 ? Winograd::kMostBlockFloats
                                                                     : Winograd::kBlockFloats);
  const int64_t across = DivideUp(columns, most), most_rows = std::max<int64_t>(1, most / columns);
  // As many rows for every thread, in blocks that are like one another, or all but the last as large as can be: what leaves
  // fewer vectors partly empty.
  const int64_t shares = std::min<int64_t>(rows, pool.size()), share = DivideUp(rows, shares);
  const int64_t share_blocks = DivideUp(share, most_rows), even = DivideUp(share, share_blocks);
  const auto vectors = [&](int64_t block_rows) {
    const auto of = [&](int64_t rows) { return DivideUp(rows * columns, kVectorPixels); };
    return share / block_rows * of(block_rows) + of(share % block_rows);
  };
  const int64_t block_rows = vectors(most_rows) < vectors(even) ? most_rows : even;
  const auto row_at = [&](int64_t y) {
    const int64_t i = y / share_blocks, begin = rows * i / shares;
    return std::min(begin + y % share_blocks * block_rows, rows * (i + 1) / shares);
  };
  const int64_t down = shares * share_blocks, blocks = across * down;
  // As in RunProduct: points of the image are made anew for each part of the panels.
  const int64_t parts =
      std::clamp<int64_t>(PartsForThreads(blocks, pool.size()), 1, DivideUp(panels, 4));
  std::atomic<bool> finite = true;
  pool.ParallelFor(blocks * parts, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end && finite.load(std::memory_order_relaxed); ++i) {
      const int64_t x = i % across, y = i / across % down, part = i / blocks;
      const int64_t top = row_at(y), bottom = y + 1 == down ? rows : row_at(y + 1);
      if (top == bottom) continue;
      if (!run.block(call, {.begin = top,
                            .end = bottom,
                            .left = columns * x / across,
                            .right = columns * (x + 1) / across,
                            .panel_begin = panels * part / parts,
                            .panel_end = panels * (part + 1) / parts,
                            .weight = scratch,
                            .scratch = workers + worker * worker_floats}))
        finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite;
}

// The points of the weight have to be made, whatever the image: about 200 multiply-adds for each 3 x 3 of it.
bool WinogradPays(const ConvCall& call) {
  const Winograd winograd(call.h, call.w);
  const int64_t tiles =
      winograd.TileRows(call.batch, call.out_height) * winograd.TileColumns(call.out_width);
  return winograd.products() * tiles + 200 * winograd.parts() <
         call.taps() * call.batch * call.pixels();
}

bool IsDepthwise(int64_t group_channels) { return group_channels == 1; }

int64_t PanelFloats(int64_t rows, int64_t depth) { return RoundUp16(rows) * depth; }
int64_t DepthwiseScratch(const ConvCall& call) {
  return RoundUp16(2 * call.taps() +
                   std::max(kDepthwiseFloats, call.h.span() * ImageLine(call.w, call.out_width)));
}

// Blocks of tiles, or of pixels where these go the plain way.
template <typename Int>
Int WinogradWorkerFloats(const ops::Window& h, const ops::Window& w, Int batch, Int height,
                         Int width, int64_t channels, int64_t rows) {
  const Winograd winograd(h, w);
  const Int tile_rows = winograd.TileRows(batch, height);
  return RoundUp16(
      Larger(winograd.WorkerFloats(tile_rows * winograd.TileColumns(width), tile_rows, channels),
             PlannedProductFloats(h, w, batch, height, width, channels * h.size * w.size, rows,
                                  DType::kF32)));
}

// Blocks of pairs, or of pixels where these go the plain way.
template <typename Int>
Int PairsWorkerFloats(const ops::Window& h, const ops::Window& w, Int batch, Int height, Int width,
                      int64_t channels, int64_t rows) {
  return RoundUp16(Larger(Pairs::WorkerFloats(h, channels, width),
                          PlannedProductFloats(h, w, batch, height, width,
                                               channels * h.size * w.size, rows, DType::kF32)));
}

Status Run(const KernelArgs& args) {
  ConvCall call = CallOf(args);
  if (args.out(0).numel() <= 0) return {};
  float* scratch = reinterpret_cast<float*>(args.scratch);
  const View& weight = args.in(1);
  if (weight.dtype == DType::kF32 && weight.layout == ir::ConstantLayout::kPanel16) {
    call.panels = weight.as<const float>();
  } else {
    const auto pack = FindPackWeight();
    args.pool.ParallelFor(DivideUp(call.rows, 16), DivideUp(16384, call.depth() * 16),
                          [&](int64_t begin, int64_t end, int) {
                            for (int64_t p = begin; p < end; ++p)
                              pack(weight, p, scratch + p * 16 * call.depth());
                          });
    call.panels = scratch;
    scratch += PanelFloats(call.rows, call.depth());
  }
  if (Winograd::Has(call.h, call.w, call.groups, call.channels, call.rows, call.dtype) &&
      WinogradPays(call) &&
      RunWinograd(call, args.pool, scratch,
                  WinogradWorkerFloats(call.h, call.w, call.batch, call.out_height, call.out_width,
                                       call.channels, call.rows)))
    return {};
  if (Pairs::Has(call.h, call.w, call.groups, call.channels, call.rows, call.dtype) &&
      call.out_width >= Pairs::kLeastWidth &&
      RunPairs(call, args.pool, scratch,
               PairsWorkerFloats(call.h, call.w, call.batch, call.out_height, call.out_width,
                                 call.channels, call.rows)))
    return {};
  if (IsDepthwise(call.channels))
    RunDepthwise(call, args.pool, scratch, DepthwiseScratch(call));
  else
    RunProduct(call, args.pool, scratch);
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = graph.type(node.outputs[0]).dtype;
  if (dtype == DType::kF64) return Unsupported("conv of {} on the CPU", Name(dtype));
  auto prepared = std::make_unique<ConvPrepared>();
  LS_ASSIGN_OR_RETURN(prepared->windows, ops::ReadWindows(node));
  prepared->groups = node.Int("groups");
  return std::unique_ptr<Prepared>(std::move(prepared));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  sym::Table& table = graph.table();
  const ir::TensorType &y = graph.type(node.outputs[0]), &w = graph.type(node.inputs[1]);
  const auto windows = ops::ReadWindows(node);
  if (!windows.ok()) return {};  // Prepare says so
  const int64_t rows = w.dims[0].value(), depth = w.dims[1].value();
  const ir::Value& weight = graph.value(node.inputs[1]);
  const bool streamed = w.dtype == DType::kF32 && weight.origin == ir::Origin::kConstant &&
                        graph.constants[weight.index].layout == ir::ConstantLayout::kPanel16;
  const int64_t packed = streamed ? 0 : PanelFloats(rows, depth);
  const ops::Window &high = (*windows)[0], &wide = (*windows)[1];
  sym::Expr worker;
  int64_t shared = packed;
  if (const int64_t channels = depth / (high.size * wide.size);
      Winograd::Has(high, wide, node.Int("groups"), channels, rows, y.dtype)) {
    worker = WinogradWorkerFloats(high, wide, y.dims[0], y.dims[2], y.dims[3], channels, rows);
    shared += Winograd(high, wide).WeightFloats(rows, channels);
  } else if (Pairs::Has(high, wide, node.Int("groups"), channels, rows, y.dtype)) {
    worker = PairsWorkerFloats(high, wide, y.dims[0], y.dims[2], y.dims[3], channels, rows);
    shared += Pairs::WeightFloats(rows, channels * high.size);
  } else if (IsDepthwise(channels)) {
    worker = sym::Max(table.Int(kDepthwiseFloats), ImageLine(wide, y.dims[3]) * high.span()) +
             (2 * high.size * wide.size + 16);
  } else {
    worker = PlannedProductFloats(high, wide, y.dims[0], y.dims[2], y.dims[3], depth,
                                  rows / node.Int("groups"), y.dtype);
  }
  return (worker * threads + shared) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

extern const CpuKernel kConvKernel = {
    .op = &ops::kConv, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
