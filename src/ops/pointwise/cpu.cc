// The fused pointwise engine: a program runs tile by tile, all of its steps on one tile before the next,
// so a chain reads its inputs and writes its output once. Which tile an element falls into depends on the
// dims only, never on the threads.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "backends/cpu/kernel.h"
#include "backends/cpu/stream.h"
#include "base/observe.h"
#include "ops/ops.h"
#include "ops/pointwise/cpu_execution.h"
#include "ops/pointwise/cpu_gather.h"
#include "ops/pointwise/cpu_generate.h"
#include "ops/pointwise/cpu_program.h"

namespace liveshape::cpu {
namespace {

using pw::Gather;
using pw::Gathered;
using pw::Generate;
using pw::kLongTile;
using pw::kMaxRank;
using pw::kStrip;
using pw::kTile;
using pw::Place;
using pw::Program;
using pw::Source;
using pw::Space;
using pw::Step;

struct PointwisePrepared : Prepared {
  Program program;
  size_t first_scalar = 0;  // where the program's scalars begin in KernelArgs::params
};

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
        size_(static_cast<int64_t>(SizeOf(program_.dtype))),
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
      if (step.computes() && !execution_.Run(step, {n}, stream_ ? nullptr : target)) return false;
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

  // n elements of each of `rows` rows. Only of programs and inputs that Tiling finds fit for it.
  bool Rows(const Place& place, int64_t rows, int64_t n) {
    const int64_t most = program_.longest_row;
    if (n <= most) return RowsOf(place, {n, rows, space_.inner() * size_}, space_.rank - 2);
    // Parts of a long row are rows one after another.
    const int64_t parts = n / most;
    bool good = RowsOf(place, {most, parts, most * size_}, space_.rank - 1);
    if (n == parts * most) return good;
    Place rest = place;
    rest.Advance(space_, parts * most);
    return RowsOf(rest, {n - parts * most}, space_.rank - 1) && good;
  }

 private:
  // Along dim d.
  bool RowsOf(const Place& place, const pw::Execution::Rows& rows, int d) {
    bool good = true;
    for (const Step& step : program_.steps) {
      if (step.computes()) good = execution_.Run(step, rows, out_ + place.begin * size_);
      if (step.kind != Step::Kind::kLoad) continue;
      const Source& source = sources_[step.imm];
      const Gathered found = Gather(source, space_, place, rows.n, !step.whole, nullptr);
      const int64_t indices = d == space_.rank - 1 ? rows.n : 1;
      const int64_t row_step = d < 0 ? 0 : source.strides[d] * indices * source.size;
      if (found.splat)
        execution_.SetSplat(step, found.data, row_step);
      else
        execution_.SetTile(step, found.data, row_step);
    }
    return good;
  }

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
  const int64_t size_;  // of an element of the output
  pw::Execution execution_;
};

// Loads wait while a tile is streamed out: short turns.
constexpr int64_t kStreamTile = kTile / 2;
// Dearer programs wait for their arithmetic, not for memory: the turns of stores would come on top.
constexpr int kStreamWeight = 8;
// Shorter rows are cheaper to copy one after another than to end with partial vectors each.
constexpr int64_t kShortRow = 16;

// Tiles of a space. Several rows at once where the program can and no input needs a copy; else within rows where rows are
// long, so that strides and broadcasts need no copy; else straight through the rows.
struct Tiling {
  bool by_rows, within_rows;
  int64_t row;              // elements that tiles do not cross
  int64_t per_row, length;  // tiles of a row, elements of each
  int64_t rows = 1;         // of a tile
  int64_t groups = 1;       // tiles one below another, of the rows of the innermost but one dim
  int64_t count;

  Tiling(const Program& program, std::span<const Source> sources, const Space& space,
         bool streamed) {
    const bool transposed = std::any_of(sources.begin(), sources.end(), [&](const Source& source) {
      return source.transposed(space);
    });
    by_rows = !streamed && TakesRows(program, sources, space);
    int64_t most = by_rows ? kLongTile : streamed && !transposed ? kStreamTile : kTile;
    within_rows = by_rows || space.inner() >= most / 2;
    row = within_rows ? space.inner() : space.numel;
    const int64_t strip = kStrip * space.inner();
    const bool strips = transposed && !within_rows && strip <= most;
    if (strips) most = most / strip * strip;
    per_row = (row + most - 1) / most;
    length = strips ? most : std::min(most, ((row + per_row - 1) / per_row + 63) / 64 * 64);
    count = space.numel / row * per_row;
    if (!by_rows || space.rank < 2 || row > program.longest_row) return;
    const int64_t below = space.dims[space.rank - 2];
    rows = std::clamp<int64_t>(kLongTile / row, 1, below);
    groups = (below + rows - 1) / rows;
    count = space.numel / (row * below) * groups;
  }

  int64_t elements() const { return rows * length; }

 private:
  static bool TakesRows(const Program& program, std::span<const Source> sources,
                        const Space& space) {
    if (!program.takes_rows) return false;
    if (space.rank > 1 && space.inner() < kShortRow) return false;
    for (const Step& step : program.steps) {
      if (step.kind != Step::Kind::kLoad || sources[step.imm].flat) continue;
      const int64_t stride = sources[step.imm].strides[space.rank - 1];
      if (stride != 1 && (stride != 0 || step.whole)) return false;
    }
    return true;
  }
};

// Tiles [first, last), one after another.
class TileWalk {
 public:
  TileWalk(const Tiling& tiling, const Space& space, int64_t first)
      : tiling_(tiling),
        space_(space),
        column_(first % tiling.per_row),
        group_(first / tiling.per_row % tiling.groups),
        place_(space, Begin(first / tiling.per_row / tiling.groups)) {}
  const Place& place() const { return place_; }
  // How many of the next `tiles`, side by side or one below another, are taken as one. Tiles of rows are there to be split
  // over threads; between two of them loads run dry, which made 4 MB of abs 4 % slower.
  int64_t Joined(int64_t tiles) const {
    if (!tiling_.by_rows) return 1;
    return std::min(tiles, in_columns() ? tiling_.per_row - column_ : tiling_.groups - group_);
  }
  // Elements of a row and rows of that many tiles.
  // 0: rounded up to 64, the lengths of earlier tiles have covered the row.
  int64_t size(int64_t tiles) const {
    return std::clamp<int64_t>(tiling_.row - column_ * tiling_.length, 0, tiles * tiling_.length);
  }
  int64_t rows(int64_t tiles) const {
    if (tiling_.groups == 1) return tiling_.rows;
    return std::min(tiles * tiling_.rows, space_.dims[space_.rank - 2] - group_ * tiling_.rows);
  }
  void Next(int64_t tiles) {
    const int64_t down = rows(tiles), n = size(tiles) * down;
    int64_t& at = in_columns() ? column_ : group_;
    at += tiles;
    if (at == (in_columns() ? tiling_.per_row : tiling_.groups)) at = 0;
    if (tiling_.within_rows && down == 1)
      place_.Advance(space_, n);
    else
      place_.Seek(space_, place_.begin + n);
  }

 private:
  bool in_columns() const { return tiling_.per_row > 1; }  // then there is one group
  int64_t Begin(int64_t outer) const {
    const int64_t below = tiling_.groups == 1 ? tiling_.rows : space_.dims[space_.rank - 2];
    return (outer * below + group_ * tiling_.rows) * tiling_.row +
           std::min(tiling_.row, column_ * tiling_.length);
  }

  const Tiling& tiling_;
  const Space& space_;
  int64_t column_, group_;
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
  const Tiling tiling(program, inputs, space, large);
  // About 10 us of work a claim: an addition in cache takes some 0.1 ns an element.
  const int64_t grain = std::max<int64_t>(1, 64 * kTile / tiling.elements() / program.weight);
  std::atomic<bool> divided_by_zero{false};
  args.pool.ParallelFor(tiling.count, grain, [&](int64_t begin, int64_t end, int worker) {
    Runner runner(args, prepared, sources, space, stream,
                  workers + worker * pw::Execution::Bytes(program));
    TileWalk walk(tiling, space, begin);
    for (int64_t t = begin, tiles; t < end; t += tiles, walk.Next(tiles)) {
      tiles = walk.Joined(end - t);
      const int64_t n = walk.size(tiles);
      if (n == 0) continue;
      const bool good = tiling.by_rows ? runner.Rows(walk.place(), walk.rows(tiles), n)
                                       : runner.Tile(walk.place(), n);
      if (!good) divided_by_zero.store(true);
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
