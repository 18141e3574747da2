// The fused pointwise engine: a program runs tile by tile, all of its steps on one tile before the next,
// so a chain reads its inputs and writes its output once. Which tile an element falls into depends on the
// dims only, never on the threads.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "backends/cpu/kernel.h"
#include "backends/cpu/stream.h"
#include "backends/cpu/transpose.h"
#include "base/observe.h"
#include "ops/ops.h"
#include "ops/pointwise/cpu_execution.h"
#include "ops/pointwise/cpu_generate.h"
#include "ops/pointwise/cpu_program.h"

namespace liveshape::cpu {
namespace {

using pw::Generate;
using pw::kTile;
using pw::Program;
using pw::Step;

constexpr int kMaxRank = 32;

struct PointwisePrepared : Prepared {
  Program program;
  size_t first_scalar = 0;  // where the program's scalars begin in KernelArgs::params
};

// The output's dims with extents of 1 dropped and neighbours merged where every input allows it.
struct Space {
  int rank = 0;
  int64_t dims[kMaxRank];
  int64_t numel = 1;
  int64_t inner() const { return rank == 0 ? 1 : dims[rank - 1]; }
};

// An input over the collapsed dims.
struct Source {
  bool flat;    // dense in the output's order
  bool same;    // one element for all
  size_t size;  // of an element
  const std::byte* data;
  int64_t strides[kMaxRank];  // in elements
  // Of 4 bytes, and dense across the rows: kStrip of them are turned over at once.
  bool transposed(const Space& space) const {
    return space.rank > 1 && strides[space.rank - 1] > 1 && strides[space.rank - 2] == 1 &&
           size == sizeof(uint32_t);
  }
};
constexpr int64_t kStrip = 4;

Space Collapse(const View& out, std::span<const View> inputs, Source* sources) {
  Space space;
  for (size_t s = 0; s < inputs.size(); ++s) {
    sources[s].size = SizeOf(inputs[s].dtype);
    sources[s].data = inputs[s].data;
  }
  for (int d = 0; d < out.rank; ++d) {
    const int64_t extent = out.dims[d];
    space.numel *= extent;
    if (extent == 1) continue;
    bool merge = space.rank > 0;
    for (size_t s = 0; merge && s < inputs.size(); ++s)
      merge = sources[s].strides[space.rank - 1] == inputs[s].strides[d] * extent;
    if (!merge) space.dims[space.rank++] = 1;
    space.dims[space.rank - 1] *= extent;
    for (size_t s = 0; s < inputs.size(); ++s)
      sources[s].strides[space.rank - 1] = inputs[s].strides[d];
  }
  for (size_t s = 0; s < inputs.size(); ++s) {
    Source& source = sources[s];
    int64_t dense = 1;
    source.flat = source.same = true;
    for (int d = space.rank - 1; d >= 0; --d) {
      source.flat &= source.strides[d] == dense;
      source.same &= source.strides[d] == 0;
      dense *= space.dims[d];
    }
  }
  return space;
}

template <typename T>
void CopyRun(const std::byte* from, int64_t stride, std::byte* to, int64_t n) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  if (stride == 1) {
    std::memcpy(y, x, n * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(y, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
  }
}

void CopyRun(size_t size, const std::byte* from, int64_t stride, std::byte* to, int64_t n) {
  switch (size) {
    case 1: return CopyRun<uint8_t>(from, stride, to, n);
    case 2: return CopyRun<uint16_t>(from, stride, to, n);
    case 4: return CopyRun<uint32_t>(from, stride, to, n);
    default: return CopyRun<uint64_t>(from, stride, to, n);
  }
}

struct Gathered {
  const std::byte* data;
  bool splat = false;
};

// Where a tile begins.
struct Place {
  int64_t begin;         // in row-major order
  int64_t at[kMaxRank];  // index by dim

  Place(const Space& space, int64_t first) { Seek(space, first); }
  void Seek(const Space& space, int64_t first) {
    begin = first;
    for (int d = space.rank - 1; d >= 0; --d) {
      at[d] = first % space.dims[d];
      first /= space.dims[d];
    }
  }
  // Beyond n elements, which end in this row or with it: no division.
  void Advance(const Space& space, int64_t n) {
    begin += n;
    if (space.rank == 0) return;
    at[space.rank - 1] += n;
    for (int d = space.rank - 1; d > 0 && at[d] == space.dims[d]; --d) {
      at[d] = 0;
      ++at[d - 1];
    }
  }
};

// The n elements from `place` on, in row-major order: a pointer into the input where they lie dense, or are all one and
// `may_splat`, else a copy in `to`.
Gathered Gather(const Source& source, const Space& space, const Place& place, int64_t n,
                bool may_splat, std::byte* to) {
  const size_t size = source.size;
  if (source.flat) return {source.data + place.begin * size};
  if (source.same && may_splat) return {source.data, true};
  int64_t offset = 0;
  for (int d = 0; d < space.rank; ++d) offset += place.at[d] * source.strides[d];
  const int last = space.rank - 1;
  const int64_t inner = space.inner(), stride = last < 0 ? 0 : source.strides[last];
  int64_t column = last < 0 ? 0 : place.at[last];
  if (column + n <= inner && (stride == 1 || (stride == 0 && may_splat)))
    return {source.data + offset * size, stride == 0};
  int64_t at[kMaxRank];
  std::copy_n(place.at, space.rank, at);
  const bool transposed = source.transposed(space);
  const TransposeStripFn transpose = transposed ? FindTransposeStrip() : nullptr;
  for (int64_t done = 0;;) {
    const std::byte* const from = source.data + offset * size;
    int64_t rows = 1, run = std::min(n - done, inner - column);
    if (transposed && column == 0 && n - done >= kStrip * inner &&
        space.dims[last - 1] - at[last - 1] >= kStrip) {
      rows = kStrip, run = kStrip * inner;
      transpose(reinterpret_cast<const uint32_t*>(from), stride,
                reinterpret_cast<uint32_t*>(to + done * size), inner, inner);
    } else {
      CopyRun(size, from, stride, to + done * size, run);
    }
    if ((done += run) == n) return {to};
    offset -= column * stride;
    column = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += rows * source.strides[d];
      if ((at[d] += rows) < space.dims[d]) break;
      offset -= at[d] * source.strides[d];
      at[d] = 0;
      rows = 1;
    }
  }
}

// One worker's run over some tiles.
class Runner {
 public:
  Runner(const KernelArgs& args, const PointwisePrepared& prepared, const Source* sources,
         const Space& space, StreamFn stream, std::byte* memory)
      : args_(args),
        program_(prepared.program),
        sources_(sources),
        space_(space),
        stream_(stream),
        out_(args.out(0).data),
        size_(SizeOf(program_.dtype)),
        execution_(prepared.program, memory) {
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kConst)
        execution_.SetNumber(step, IsFloat(step.dtype), step.imm);
      if (step.kind == Step::Kind::kScalar)
        execution_.SetNumber(step, program_.float_scalar[step.imm],
                             args_.params[prepared.first_scalar + step.imm]);
    }
  }

  bool Tile(const Place& place, int64_t n) {
    std::byte* const target = out_ + place.begin * size_;
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::kLoad) Load(step, place, n);
      if (step.kind == Step::Kind::kIota) Iota(step, place.begin, n);
      if (step.computes() && !execution_.Run(step, n, stream_ ? nullptr : target)) return false;
    }
    const std::byte* const result = execution_.result();
    const size_t bytes = n * size_;
    if (stream_) {
      stream_(result, target, bytes);
    } else if (result != target) {
      std::memcpy(target, result, bytes);
    }
    return true;
  }

 private:
  void Load(const Step& step, const Place& place, int64_t n) {
    const Source& source = sources_[step.imm];
    const Gathered found = Gather(source, space_, place, n, !step.whole, execution_.Register(step));
    if (found.splat)
      execution_.SetSplat(step, found.data);
    else
      execution_.SetTile(step, found.data);
  }

  void Iota(const Step& step, int64_t begin, int64_t n) {
    const View& out = args_.out(0);
    int64_t repeat = 1;
    for (int d = static_cast<int>(step.imm) + 1; d < out.rank; ++d) repeat *= out.dims[d];
    const int64_t extent = out.dims[step.imm];
    int64_t index = begin / repeat % extent, left = repeat - begin % repeat;
    std::byte* to = execution_.Register(step);
    const bool splat = left >= n && !step.whole;
    Generate(step.dtype, to, splat ? 1 : n, [&](int64_t) {
      const int64_t now = index;
      if (--left == 0) {
        left = repeat;
        if (++index == extent) index = 0;
      }
      return now;
    });
    if (splat)
      execution_.SetSplat(step, to);
    else
      execution_.SetTile(step, to);
  }

  const KernelArgs& args_;
  const Program& program_;
  const Source* sources_;
  const Space& space_;
  const StreamFn stream_;  // null: the result is left in the caches
  std::byte* const out_;
  const size_t size_;  // of an element of the output
  pw::Execution execution_;
};

// One function or chain from its inputs to the output, nothing kept between: tiles need not fit registers, and what a tile
// costs apart from its elements (some 20 ns, as much as an addition of 500) is paid less often.
constexpr int64_t kDirectTile = 16 * kTile;
// Loads wait while a tile is streamed out: short turns.
constexpr int64_t kStreamTile = kTile / 2;
// Dearer programs wait for their arithmetic, not for memory: the turns of stores would come on top.
constexpr int kStreamWeight = 8;
int64_t MostOfATile(const Program& program, std::span<const Source> sources) {
  bool direct = program.direct;
  for (const Source& source : sources) direct = direct && (source.flat || source.same);
  return direct ? kDirectTile : kTile;
}

// Tiles of a space: within rows where rows are long, so that strides and broadcasts need no copy; else
// straight through the rows.
struct Tiling {
  bool within_rows;
  int64_t per_row, length, row, count;
  Tiling(const Space& space, bool transposed, int64_t most) {
    within_rows = space.inner() >= most / 2;
    row = within_rows ? space.inner() : space.numel;
    const int64_t strip = kStrip * space.inner();
    const bool strips = transposed && !within_rows && strip <= most;
    if (strips) most = most / strip * strip;
    per_row = (row + most - 1) / most;
    length = strips ? most : std::min(most, ((row + per_row - 1) / per_row + 63) / 64 * 64);
    count = space.numel / row * per_row;
  }
};

// Tiles [first, last), one after another.
class TileWalk {
 public:
  TileWalk(const Tiling& tiling, const Space& space, int64_t first)
      : tiling_(tiling),
        space_(space),
        column_(first % tiling.per_row),
        place_(space, first / tiling.per_row * tiling.row +
                          std::min(tiling.row, column_ * tiling.length)) {}
  const Place& place() const { return place_; }
  // 0: rounded up to 64, the lengths of earlier tiles have covered the row.
  int64_t size() const {
    return std::clamp<int64_t>(tiling_.row - column_ * tiling_.length, 0, tiling_.length);
  }
  void Next() {
    const int64_t n = size();
    if (++column_ == tiling_.per_row) column_ = 0;
    if (tiling_.within_rows)
      place_.Advance(space_, n);
    else
      place_.Seek(space_, place_.begin + n);
  }

 private:
  const Tiling& tiling_;
  const Space& space_;
  int64_t column_;  // of tiles
  Place place_;
};

size_t SourceBytes(size_t inputs) { return (inputs * sizeof(Source) + 63) / 64 * 64; }

Status Run(const KernelArgs& args) {
  const auto& prepared = static_cast<const PointwisePrepared&>(*args.prepared);
  const Program& program = prepared.program;
  if (args.out(0).numel() == 0) return {};
  Source* sources = reinterpret_cast<Source*>(args.scratch);
  std::byte* workers = args.scratch + SourceBytes(args.inputs.size());
  const Space space = Collapse(args.out(0), args.inputs, sources);
  const std::span<const Source> inputs(sources, args.inputs.size());
  size_t bytes = space.numel * SizeOf(program.dtype);
  for (const Source& source : inputs) bytes += source.flat ? space.numel * source.size : 0;
  const bool large = bytes >= kStreamBytes && program.weight <= kStreamWeight;
  const StreamFn stream = large ? FindStream() : nullptr;
  const bool transposed = std::any_of(inputs.begin(), inputs.end(),
                                      [&](const Source& s) { return s.transposed(space); });
  const int64_t most = large && !transposed ? kStreamTile : MostOfATile(program, inputs);
  const Tiling tiling(space, transposed, most);
  // About 10 us of work a claim: an addition in cache takes some 0.1 ns an element.
  const int64_t grain = std::max<int64_t>(1, 64 * kTile / most / program.weight);
  std::atomic<bool> divided_by_zero{false};
  args.pool.ParallelFor(tiling.count, grain, [&](int64_t begin, int64_t end, int worker) {
    Runner runner(args, prepared, sources, space, stream,
                  workers + worker * pw::Execution::Bytes(program));
    TileWalk walk(tiling, space, begin);
    for (int64_t t = begin; t < end; ++t, walk.Next()) {
      const int64_t n = walk.size();
      if (n > 0 && !runner.Tile(walk.place(), n)) divided_by_zero.store(true);
    }
    if (large) FlushStreams();
  });
  if (divided_by_zero) {
    AllocationPause pause;
    return InvalidArgument("integer division by zero");
  }
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  auto prepared = std::make_unique<PointwisePrepared>();
  LS_ASSIGN_OR_RETURN(prepared->program, pw::CompileProgram(node.Program()));
  const size_t rank = graph.type(node.outputs[0]).dims.size();
  if (rank > kMaxRank)
    return Unsupported("pointwise of rank {}: at most {} is served", rank, kMaxRank);
  for (const auto& [name, attr] : node.attrs) {
    if (name == "program") break;
    if (const auto* exprs = std::get_if<std::vector<ir::Expr>>(&attr))
      prepared->first_scalar += exprs->size();
  }
  return std::unique_ptr<Prepared>(std::move(prepared));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  const Result<Program> program = pw::CompileProgram(node.Program());
  const size_t worker = program.ok() ? pw::Execution::Bytes(*program) : 0;
  return graph.table().Int(SourceBytes(node.inputs.size()) + threads * worker);
}

}  // namespace

extern const CpuKernel kPointwiseKernel = {
    .op = &ops::kPointwise, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
